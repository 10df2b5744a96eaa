#include "core/error.h"

namespace sgtrain::core {
namespace {

std::string compose(std::string_view what, std::string_view where, std::string_view fix) {
  std::string text;
  if (!where.empty()) text.append(where).append(": ");
  text.append(what);
  if (!fix.empty()) text.append("\n  -> ").append(fix);
  return text;
}

}  // namespace

Error::Error(ExitCode code, std::string_view what, std::string_view where, std::string_view fix)
    : std::runtime_error(compose(what, where, fix)), code_(code) {}

Interrupted::Interrupted(int signal, std::string_view what)
    : Error(static_cast<ExitCode>(static_cast<int>(ExitCode::kSignalBase) + signal), what, {}, {}) {
}

}  // namespace sgtrain::core
