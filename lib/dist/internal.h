// Shared by the files of dist/ only.
#pragma once

#include <string>

namespace sgtrain::dist {

// Between our launcher and its workers: numbers of inherited file descriptors.
inline constexpr const char* kListenFdVariable = "SGTRAIN_LISTEN_FD";  // rank 0: the store's socket
inline constexpr const char* kStatusFdVariable = "SGTRAIN_STATUS_FD";  // see report_peer_failure()

/// 127.x.y.z, ::1, localhost.
bool is_loopback(const std::string& address);

struct World;
/// NCCL's watchdog thread throws at a time-out, which nothing can catch: from now on such an error
/// ends the process with its message and exit code 1 instead of an abort.
void name_uncaught_errors(const World& world);

}  // namespace sgtrain::dist
