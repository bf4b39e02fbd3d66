#include "executor/ranks/fault.h"

#include <array>
#include <charconv>
#include <csignal>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "core/base/error.h"

namespace tandem {

namespace {
constexpr std::array<std::pair<std::string_view, FaultKind>, 6> kFaults{{
    {"drop:frame=", FaultKind::drop},
    {"delay:frame=", FaultKind::delay},
    {"duplicate:frame=", FaultKind::duplicate},
    {"corrupt:frame=", FaultKind::corrupt},
    {"stall:frame=", FaultKind::stall},
    {"kill:op=", FaultKind::kill},
}};
}  // namespace

Fault parse_fault(std::string_view text) {
  for (const auto& [prefix, kind] : kFaults) {
    if (!text.starts_with(prefix)) continue;
    const std::string_view number = text.substr(prefix.size());
    Fault fault{.kind = kind};
    const auto [end, error] =
        std::from_chars(number.data(), number.data() + number.size(), fault.at);
    if (error == std::errc() && end == number.data() + number.size() && fault.at >= 0) return fault;
  }
  throw InputError(fmt::format(
      "fault \"{}\": one of drop, delay, duplicate, corrupt, stall with :frame=N, or kill:op=N",
      text));
}

void FaultInjector::at_op() {
  if (fault_.kind == FaultKind::kill && ops_.fetch_add(1) == fault_.at) ::kill(::getpid(), SIGKILL);
}

}  // namespace tandem
