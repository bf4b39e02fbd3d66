#pragma once
// Order: what a program guarantees to have ended before what starts, in every run that holds both.
//
// Instances outside a run are switched off and guarantee nothing, so a guarantee between two
// batches must hold in the shortest run that has both: the batches from one to the other. Longer
// runs only add instances, hence guarantees.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/program.h"

namespace tandem::verification {

/// The instances of a few batches, unrolled, as positions on lanes; and, from lane to lane, what
/// the waits of everything up to a position make sure of ("stairs": both columns ascend).
class Window {
 public:
  /// REQUIRES: the program's order is topological. `batch_of`: the batch of each instruction's
  /// instance in body 0.
  Window(const Program& program, std::span<const std::int32_t> batch_of, std::int32_t batches);

  /// `first` of batch `first_batch` has ended before `then` of batch `then_batch` starts. Exact,
  /// but for a chain of two waits through transfers that hold no lane, which it does not see.
  bool before(InstructionId first, std::int32_t first_batch, InstructionId then,
              std::int32_t then_batch);

 private:
  struct Place {
    std::uint32_t lane = 0;
    std::int32_t position = 0;
  };
  struct Stair {
    std::uint32_t link = 0;
    std::int32_t position = 0, reached = 0;
  };
  struct Link {
    std::uint32_t from = 0, to = 0, id = 0;
    std::int32_t reached = -1;
    std::uint32_t first = 0, last = 0;  // into stairs_, once sorted
  };
  struct Target {
    std::uint32_t node = 0;  // nothing before it can follow it
    std::vector<Place> places;
  };

  std::size_t instance(InstructionId id, std::int32_t batch) const {
    return index(id) * static_cast<std::size_t>(batches_) + static_cast<std::size_t>(batch);
  }
  std::span<const Place> places(InstructionId id, std::int32_t batch) const;
  template <class Visit>
  void each_wait(InstructionId id, std::int32_t batch, Visit visit) const;
  std::vector<std::uint64_t> instances_in_order() const;
  void add_node(InstructionId id, std::int32_t batch, std::uint32_t node);
  void add_stair(Place from, Place to);
  void sort_stairs();
  static bool ended(Place last, const Target& target);
  bool reach(Place place, const Target& target, const Link* by);
  std::int32_t follow(const Link& link, std::int32_t position) const;
  bool climb_as_before(const Target& target) const;
  bool climb(const Target& target);
  void remember_way(std::uint32_t lane);
  void forget();

  const Program* program_;
  std::span<const std::int32_t> batch_of_;
  std::int32_t batches_;
  std::vector<std::uint32_t> first_place_;  // of each instruction's first instance
  std::vector<Place> places_;
  std::vector<std::uint32_t> node_of_;  // of each instance: its place in the order of all
  std::vector<std::vector<std::uint32_t>> on_lane_;  // nodes
  std::vector<std::vector<Link>> links_;             // out of each lane
  std::vector<Stair> stairs_;
  std::vector<std::vector<Place>> ended_before_;  // of instances without a lane: what they wait for
  std::vector<std::vector<std::uint32_t>> followers_;  // … and the instances that wait for them
  std::vector<std::uint32_t> laneless_;                // of each instance: its row in the two above
  std::uint32_t link_count_ = 0;
  std::vector<std::int32_t> frontier_;   // of each lane: the last position known to have ended
  std::vector<const Link*> reached_by_;  // of each such lane: from another lane, or not
  std::vector<std::uint32_t> touched_, pending_;
  // The way that answered the last question. The next one is mostly the same, a microbatch on.
  std::uint32_t way_start_ = 0;
  std::vector<const Link*> way_;
  std::vector<bool> is_pending_;
};

class Order {
 public:
  Order(const Program& program, std::span<const std::int32_t> batch_of);

  /// `first` has ended before the instance of `then` starts that works `batches_later` (maybe
  /// negative) batches later.
  bool before(InstructionId first, InstructionId then, std::int64_t batches_later = 0);

 private:
  enum class Answer : std::uint8_t { yes, no, unknown };
  /// An instruction's lanes at hand: most have one or two.
  struct Seat {
    std::int32_t batch = 0;
    LaneId one = kNoLane, other = kNoLane;
    bool more = false;  // than two
  };
  static constexpr LaneId kNoLane{0xffffU};

  Answer by_lane(InstructionId first, InstructionId then, std::int64_t batches_later) const;
  bool share_a_lane(InstructionId first, InstructionId then) const;
  bool by_wait(InstructionId first, InstructionId then, std::int64_t batches_later) const;

  const Program* program_;
  std::span<const std::int32_t> batch_of_;
  std::int64_t most_batches_;
  std::vector<Seat> seats_;
  std::vector<std::unique_ptr<Window>> windows_;  // by batches − 1
};

}  // namespace tandem::verification
