#pragma once
// Faults on purpose: what tests ask a rank to do wrong, to see that it is found and named.

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

namespace tandem {

enum class FaultKind : std::uint8_t { none, drop, delay, duplicate, corrupt, stall, kill };

/// "corrupt:frame=17": the 17th frame that this rank sends, counted over its channels;
/// "kill:op=40": before its 40th op. Throws InputError.
struct Fault {
  FaultKind kind = FaultKind::drop;
  std::int64_t at = 0;
};
Fault parse_fault(std::string_view text);

/// Counts, from any thread, what a rank does, and says when it is to do that wrong.
class FaultInjector {
 public:
  explicit FaultInjector(Fault fault) : fault_(fault) {}

  /// Of the frame that is about to be sent.
  FaultKind at_frame() {
    if (fault_.kind == FaultKind::kill) return FaultKind::none;
    return frames_.fetch_add(1) == fault_.at ? fault_.kind : FaultKind::none;
  }
  /// Ends the process as SIGKILL does, if it is time.
  void at_op();

 private:
  const Fault fault_;
  std::atomic<std::int64_t> frames_{0}, ops_{0};
};

}  // namespace tandem
