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

#include <algorithm>
#include <compare>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <map>
#include <vector>

#include "core/program/program.h"

namespace tandem::verification {

/// The batch that the instance of `id` in body 0 works on.
inline std::int64_t batch_of(const Program& program, InstructionId id) {
  return program[id].op.microbatch / program.microbatches();
}

class Order {
 public:
  /// REQUIRES: `program` outlives this; its order is topological.
  explicit Order(const Program& program)
      : program_(&program), links_(program.lanes().size()), known_(program.lanes().size()) {
    for (const InstructionId id : program.order()) {
      for (const Wait& wait : program.waits(program[id])) {
        if (!has_lane(wait.producer)) followers_[wait.producer].push_back({id, wait.lag});
      }
      if (!has_lane(id)) continue;
      // What is known of an instruction on one of its lanes is known on all of them: a ring.
      const auto lanes = program.lanes(program[id]);
      for (std::size_t i = 0; i < lanes.size(); ++i)
        add_step(lanes[i], id, lanes[(i + 1) % lanes.size()], id, own_reach(id));
      each_producer(id, own_reach(id), 1, [&](InstructionId producer, const Reach& reach) {
        if (has_lane(producer)) add_step(lanes.front(), id, first_lane(producer), producer, reach);
      });
    }
  }

  /// `first` has ended before the instance of `then` starts that works `batches_later` (maybe
  /// negative) batches later. Exact, but for long chains of instructions that hold no lane, and
  /// that one of two has ended: what it does not see it denies.
  bool before(InstructionId first, InstructionId then, std::int64_t batches_later = 0) {
    batches_ = std::abs(batches_later) + 1;
    target_ = {std::max<std::int64_t>(0, -batches_later) - batch_of(*program_, first), first};
    const Instance start{std::max<std::int64_t>(0, batches_later) - batch_of(*program_, then),
                         then};
    if (start <= target_) return false;
    if (share_a_lane(first, then)) return true;
    for (const Wait& wait : program_->waits((*program_)[then])) {
      if (wait.producer == first && start.body - wait.lag == target_.body) return true;
    }
    find_proofs(target_);
    const bool found = search(start);
    for (const LaneId lane : reached_) known_[lane] = {};
    reached_.clear();
    return found;
  }

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
  bool share_a_lane(InstructionId one, InstructionId other) const {
    const auto lanes = program_->lanes((*program_)[one]);
    return std::ranges::any_of(program_->lanes((*program_)[other]), [&](LaneId lane) {
      return std::ranges::find(lanes, lane) != lanes.end();
    });
  }
  bool in_run(const Reach& reach, std::int64_t body) const {
    return reach.first <= body && body < batches_ + reach.past_last;
  }
  Reach own_reach(InstructionId id) const {
    const std::int64_t batch = batch_of(*program_, id);
    return {-batch, -batch, 0};
  }
  /// `reach` and a wait at its end.
  Reach longer(const Reach& reach, const Wait& wait) const {
    const std::int64_t lag = reach.lag + wait.lag;
    const std::int64_t batch = batch_of(*program_, wait.producer);
    return {std::max(reach.first, lag - batch), std::min(reach.past_last, lag - batch), lag};
  }
  /// Visits all that `waiter` waits for; where that holds no lane, then what it waits for in turn.
  template <class Visit>
  void each_producer(InstructionId waiter, const Reach& reach, int length,
                     const Visit& visit) const {
    for (const Wait& wait : program_->waits((*program_)[waiter])) {
      const Reach all = longer(reach, wait);
      visit(wait.producer, all);
      if (!has_lane(wait.producer) && length < kMostInChain)
        each_producer(wait.producer, all, length + 1, visit);
    }
  }
  void add_step(LaneId from, InstructionId at, LaneId to, InstructionId known, const Reach& reach) {
    if (from == to) return;  // a lane is in order anyhow
    std::vector<Link>& links = links_[from];
    auto link = std::ranges::find_if(
        links, [&](const Link& one) { return one.to == to && one.reach == reach; });
    if (link == links.end()) {
      links.push_back({to, reach, {{at, known}}});
    } else {
      link->steps.push_back({at, std::max(known, link->steps.back().known)});
    }
  }
  /// An instance is known on its lanes; of one that holds none it can be told when something starts
  /// that waits for it.
  void find_proofs(Instance target) {
    proofs_.clear();
    const auto add = [&](Instance proof) {
      for (const LaneId lane : program_->lanes((*program_)[proof.id]))
        proofs_.push_back({lane, proof});
    };
    add(target);
    if (has_lane(target.id)) return;
    for (const Wait& follower : followers_[target.id]) {
      const Instance instance{target.body + follower.lag, follower.producer};
      if (in_run(own_reach(instance.id), instance.body)) add(instance);
    }
  }
  /// Notes what is known of a lane; true: that proves it.
  bool reach(LaneId lane, Instance instance) {
    if (instance < target_ || instance <= known_[lane]) return false;
    known_[lane] = instance;
    reached_.push_back(lane);
    return std::ranges::any_of(proofs_, [&](const Proof& proof) {
      return proof.lane == lane && proof.instance <= instance;
    });
  }
  /// From what is known as `then` starts to all that follows from it.
  bool search(Instance then) {
    for (const LaneId lane : program_->lanes((*program_)[then.id])) {
      if (reach(lane, then)) return true;
    }
    bool found = false;
    if (!has_lane(then.id)) {
      each_producer(then.id, own_reach(then.id), 1, [&](InstructionId producer, const Reach& by) {
        if (found || !in_run(by, then.body)) return;
        if (has_lane(producer)) found = reach(first_lane(producer), {then.body - by.lag, producer});
      });
    }
    for (std::size_t i = 0; i < reached_.size() && !found; ++i) {
      const LaneId from = reached_[i];
      for (const Link& link : links_[from])
        found = found || reach(link.to, follow(link, known_[from]));
    }
    return found;
  }
  /// What the link tells of the other lane where `from` is known of its own; nothing: Instance{}.
  Instance follow(const Link& link, Instance from) const {
    const std::vector<Step>& steps = link.steps;
    auto past = std::ranges::upper_bound(steps, from.id, {}, &Step::at);
    const std::int64_t last_body = batches_ + link.reach.past_last - 1;
    if (from.body > last_body) {
      from.body = last_body;
      past = steps.end();
    } else if (past == steps.begin()) {
      --from.body;
      past = steps.end();
    }
    if (from.body < link.reach.first) return {};
    return {from.body - link.reach.lag, (past - 1)->known};
  }

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
