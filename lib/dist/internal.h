// Shared by the files of dist/ only.
#pragma once

namespace sgtrain::dist {

// Between our launcher and its workers: numbers of inherited file descriptors.
inline constexpr const char* kListenFdVariable = "SGTRAIN_LISTEN_FD";  // rank 0: the store's socket
inline constexpr const char* kStatusFdVariable = "SGTRAIN_STATUS_FD";  // see report_peer_failure()

}  // namespace sgtrain::dist
