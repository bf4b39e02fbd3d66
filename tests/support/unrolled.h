#pragma once
// The plain truth about small programs: a run unrolled to a graph of instances, without any of the
// cleverness that it is the oracle of. Quadratic in memory: for hundreds of instances.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/memory/memory.h"
#include "core/program/cost.h"
#include "core/program/program.h"
#include "core/program/timeline.h"

namespace tandem::testing {

/// A run of `batches` batches: each active instance with what it directly follows, that is, its
/// predecessors on its lanes and what it waits for.
class Unrolled {
 public:
  Unrolled(const Program& program, std::int64_t batches);

  struct Node {
    InstructionId id{};
    std::int64_t body = 0;
    std::int64_t microbatch = 0;  // of the run
    std::vector<std::size_t> follows;
  };

  /// In the order of issue: bodies ascending, within a body the program's order.
  const std::vector<Node>& nodes() const { return nodes_; }
  /// Every instance follows only instances issued before it. Without it there are no answers below.
  bool ordered() const { return ordered_; }
  /// `first` has ended before `then` starts, whatever the times.
  bool before(std::size_t first, std::size_t then) const {
    return (ancestors_[then][first / 64] >> (first % 64) & 1U) != 0;
  }

 private:
  std::vector<Node> nodes_;
  bool ordered_ = true;
  std::vector<std::vector<std::uint64_t>> ancestors_;  // a bit an instance
};

/// When each instance of a run starts and ends if each starts as soon as all it follows have ended;
/// in the order of issue. REQUIRES: the program's order is topological.
std::vector<Span> longest_path(const Program& program, const CostTable& costs,
                               std::int64_t batches);

/// Everything that a run of `batches` batches needs and does not get: ops, transfers, order,
/// versions, slots. Written from the definitions, instance by instance; one line each. Slots as
/// `slots` says.
std::vector<std::string> faults(const Program& program, const SlotCounts& slots,
                                std::int64_t batches);

/// The fewest slots with which runs of 1 to `batches` batches have no fault. REQUIRES: there are
/// such.
SlotCounts least_slots(const Program& program, std::int64_t batches);

}  // namespace tandem::testing
