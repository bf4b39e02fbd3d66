#pragma once
// What the checkers of verify() share: the list of violations, and names for people.

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/verify/verify.h"

namespace tandem::verification {

inline constexpr std::size_t kViolationKinds = 9;

/// Collects violations; of one kind at most kMostOfAKind, so that a hopeless program is answered in
/// a page.
class Report {
 public:
  static constexpr std::size_t kMostOfAKind = 16;

  template <class... Args>
  void add(ViolationKind kind, InstructionId culprit, fmt::format_string<Args...> format,
           Args&&... args) {
    if (found_[index(kind)]++ >= kMostOfAKind) return;
    violations_.push_back({kind, culprit, fmt::format(format, std::forward<Args>(args)...)});
  }
  bool empty() const { return violations_.empty(); }
  std::vector<Violation> take() { return std::move(violations_); }

 private:
  static constexpr std::size_t index(ViolationKind kind) { return static_cast<std::size_t>(kind); }

  std::vector<Violation> violations_;
  std::array<std::size_t, kViolationKinds> found_{};
};

/// "1 batch", "3 batches".
inline std::string batches(std::int64_t count) {
  return fmt::format("{} {}", count, count == 1 ? "batch" : "batches");
}

/// "stage 2 (device 1)".
inline std::string at_replica(const Program& program, ReplicaId replica) {
  return fmt::format("stage {} (device {})", index(replica),
                     index(program.placement().device[replica]));
}

/// "b3 (stage 2, microbatch 3, device 1)"; a transfer or a collective already names its devices.
inline std::string at_instruction(const Program& program, InstructionId id) {
  const Op& op = program[id].op;
  if (is_transfer(op.kind)) return describe(program, id);
  return fmt::format("{} (stage {}, microbatch {}, device {})", describe(program, id),
                     tandem::index(op.replica), op.microbatch % program.microbatches(),
                     tandem::index(program.placement().device[op.replica]));
}

}  // namespace tandem::verification
