#pragma once
// Order: what a program guarantees to have ended before what starts, in every run that holds both.
//
// Instances outside a run are switched off and guarantee nothing, so a guarantee between two
// batches must hold in the shortest run that has both: the batches from one to the other. Longer
// runs only add instances, hence guarantees.
//
// Nothing is unrolled. A lane is a sequence that repeats each body, so what is known of it is one
// instance: all before it has ended, and it has started or ended. A wait carries that from the
// waiter's lane to the producer's, alike in every body in which both are in the run.

#include <compare>
#include <cstdint>
#include <limits>
#include <map>
#include <vector>

#include "core/program/program.h"

namespace tandem::verification {

/// The batch that the instance of `id` in body 0 works on.
std::int64_t batch_of(const Program& program, InstructionId id);

class Order {
 public:
  /// REQUIRES: `program` outlives this; its order is topological.
  explicit Order(const Program& program);

  /// `first` has ended before the instance of `then` starts that works `batches_later` (maybe
  /// negative) batches later. Exact, but for long chains of instructions that hold no lane, and
  /// that one of two has ended: what it does not see it denies.
  bool before(InstructionId first, InstructionId then, std::int64_t batches_later = 0);

 private:
  /// Issued in this order: body after body.
  struct Instance {
    std::int64_t body = std::numeric_limits<std::int64_t>::min();
    InstructionId id{};
    friend auto operator<=>(const Instance&, const Instance&) = default;
  };
  /// How far back waits in a row lead: `lag` bodies. All instances on the way are in a run of n
  /// batches if the first of them is of a body from `first` to before n + `past_last`.
  struct Reach {
    std::int64_t first = 0, past_last = 0, lag = 0;
    friend bool operator==(const Reach&, const Reach&) = default;
  };
  /// As `at` starts, `known` has ended (on another lane).
  struct Step {
    InstructionId at{}, known{};
  };
  /// All that one lane's waits of one reach tell of another lane. Both columns of steps ascend: who
  /// stands behind on a lane knows what those before it know.
  struct Link {
    LaneId to{};
    Reach reach;
    std::vector<Step> steps{};
  };
  struct Proof {
    LaneId lane{};
    Instance instance;
  };
  static constexpr int kMostInChain = 5;

  bool has_lane(InstructionId id) const { return (*program_)[id].lane_count > 0; }
  LaneId first_lane(InstructionId id) const { return program_->lanes((*program_)[id]).front(); }
  bool share_a_lane(InstructionId one, InstructionId other) const;
  bool in_run(const Reach& reach, std::int64_t body) const {
    return reach.first <= body && body < batches_ + reach.past_last;
  }
  Reach own_reach(InstructionId id) const;
  Reach longer(const Reach& reach, const Wait& wait) const;
  template <class Visit>
  void each_producer(InstructionId waiter, const Reach& reach, int length,
                     const Visit& visit) const;
  void add_step(LaneId from, InstructionId at, LaneId to, InstructionId known, const Reach& reach);
  void find_proofs(Instance target);
  bool reach(LaneId lane, Instance instance);
  bool search(Instance then);
  Instance follow(const Link& link, Instance from) const;

  const Program* program_;
  Table<LaneId, std::vector<Link>> links_;
  std::map<InstructionId, std::vector<Wait>> followers_;  // who waits for one without a lane

  // The question being asked.
  std::int64_t batches_ = 0;       // of the run
  Instance target_;                // that should have ended …
  std::vector<Proof> proofs_;      // … as it has if one of these is known of its lane
  Table<LaneId, Instance> known_;  // of each lane, so far
  std::vector<LaneId> reached_;    // whose links are to be followed, in turn
};

}  // namespace tandem::verification
