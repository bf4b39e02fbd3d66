// count_slots() by simulated time: whatever the prices, no slot of a ring is taken before the use
// that held it has ended, and of a pool no more are taken than there are. Written from the
// definitions of the slot kinds; shares nothing with the counter's reasoning about what is known.

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "core/memory/memory.h"
#include "core/program/versions.h"
#include "simulator/engine/simulated_machine.h"
#include "tests/support/meaning.h"
#include "tests/support/pipelines.h"

namespace tandem::testing {
namespace {

/// When each use of a ring began and ended, in the order of the ring.
struct Ring {
  std::map<std::int64_t, Times> uses;

  void take(std::int64_t use, Duration start, Duration end) {
    const auto [found, fresh] = uses.try_emplace(use, Times{start, end});
    if (fresh) return;
    found->second = {std::min(found->second.start, start), std::max(found->second.end, end)};
  }
  bool holds_with(std::int64_t count, SlotKind kind) const {
    if (kind == SlotKind::stash || kind == SlotKind::context) return most_at_once() <= count;
    for (const auto& [use, times] : uses) {
      const auto next = uses.find(use + count);
      if (next != uses.end() && next->second.start < times.end) return false;
    }
    return true;
  }
  std::int64_t most_at_once() const {
    std::vector<std::pair<Duration, int>> changes;  // at a time, what ends comes first
    for (const auto& [use, times] : uses) {
      changes.emplace_back(times.start, 1);
      changes.emplace_back(times.end, -1);
    }
    std::ranges::sort(changes);
    std::int64_t held = 0, most = 0;
    for (const auto& [time, change] : changes) most = std::max(most, held += change);
    return most;
  }
};

using Rings = Table<ReplicaId, std::array<Ring, kSlotKinds>>;

class UsesOfSlots {
 public:
  UsesOfSlots(const Program& program, const Timeline& timeline)
      : program_(program),
        placement_(program.placement()),
        sequence_(program),
        versions_(program),
        rings_(placement_.replicas()),
        turns_(placement_.replicas()),
        context_(placement_.replicas()) {
    for (const Span& span : timeline.spans) {
      const Instruction& instruction = program[span.instruction];
      const Op& op = instruction.op;
      const std::int64_t microbatch = span.body * program.microbatches() + op.microbatch;
      auto& done = done_[{op.kind, op.replica}];
      const std::int64_t covers = op.kind == OpKind::backward_weight ? op.span : 1;
      for (std::int64_t i = 0; i < covers; ++i) done[microbatch - i] = {span.start, span.end};
      if (is_transfer(op.kind)) {
        target_[{op.kind, op.replica, microbatch}] = program.cost_keys()[instruction.cost].target;
      }
    }
    for (const Span& span : timeline.spans) add(span);
    for (const ReplicaId replica : ids(turns_)) {
      std::ranges::sort(turns_[replica], {},
                        [](const Times& of) { return std::pair(of.start, of.end); });
      for (const Times& of : turns_[replica]) {
        Ring& one = ring(replica, SlotKind::eviction_buffer);
        one.take(std::ssize(one.uses), of.start, of.end);
      }
      std::ranges::sort(context_[replica], {}, &Times::start);
      for (const Times& of : context_[replica]) {
        Ring& one = ring(replica, SlotKind::context_gradient);
        one.take(std::ssize(one.uses), of.start, of.end);
      }
    }
  }

  const Rings& rings() const { return rings_; }

 private:
  std::optional<Times> find(OpKind kind, ReplicaId replica, std::int64_t microbatch) const {
    const auto ops = done_.find({kind, replica});
    if (ops == done_.end()) return std::nullopt;
    const auto found = ops->second.find(microbatch);
    if (found == ops->second.end()) return std::nullopt;
    return found->second;
  }

  Ring& ring(ReplicaId replica, SlotKind kind) { return rings_[replica][index(kind)]; }

  void add(const Span& span) {
    using enum OpKind;
    const Op& op = program_[span.instruction].op;
    const ReplicaId replica = op.replica;
    const std::int64_t microbatch = span.body * program_.microbatches() + op.microbatch;
    if (op.kind == forward) {
      const Times last = *last_gradient(replica, microbatch);
      const auto again = find(recompute, replica, microbatch);
      if (const auto leaves = find(evict, replica, microbatch)) {
        const Times back = *find(load, replica, microbatch);
        turns_[replica].push_back({span.start, leaves->end});
        turns_[replica].push_back({back.start, last.end});
        ring(replica, SlotKind::hosted_stash)
            .take(sequence_.among_evicted(replica, microbatch), leaves->start, back.end);
      } else {
        ring(replica, SlotKind::stash)
            .take(microbatch, again ? again->start : span.start, last.end);
      }
      if (again && program_.slices() > 1) {
        const auto whole = find(backward, replica, microbatch);
        const Times back = whole ? *whole : *find(backward_input, replica, microbatch);
        ring(replica, SlotKind::context).take(microbatch, span.start, back.end);
      }
      add_made(OpKind::send_activation, SlotKind::output, replica, microbatch, span.start);
    } else if (is_transfer(op.kind) && !moves_stash(op.kind)) {
      add_received(span, microbatch);
    }
    if (makes_input_gradient(op.kind)) {
      const bool over_gradient =
          op.kind == OpKind::backward && find_gradient_for(replica, microbatch).has_value();
      add_made(OpKind::send_gradient, over_gradient ? SlotKind::output : SlotKind::input_gradient,
               replica, microbatch, span.start);
    }
    const std::int32_t slices = program_.slices();
    if (makes_input_gradient(op.kind) && slices > 1 && program_.slice_of(op) == slices - 1) {
      context_[replica].push_back(
          {span.start, find(op.kind, replica, microbatch - slices + 1)->end});
    }
    if (op.kind == backward_input) {
      ring(replica, SlotKind::kept_gradients)
          .take(sequence_(replica, microbatch), span.start,
                last_gradient(replica, microbatch)->end);
    }
    if (makes_weight_gradient(op.kind)) {
      const std::int64_t update_number = versions_.covering_update(replica, microbatch);
      ring(replica, SlotKind::gradients)
          .take(update_number, span.start, update_after(replica, microbatch));
    }
    if (reads_weights(op.kind) || op.kind == update) {
      // A version is written by the update that makes it and read until its last reader ends.
      const std::int64_t version = *versions_({span.instruction, span.body, microbatch});
      for (const SlotKind plane : planes_of(op))
        ring(replica, plane).take(version, span.start, span.end);
    }
  }

  /// The planes of a version that an op writes or reads.
  std::vector<SlotKind> planes_of(const Op& op) const {
    const Reading reading = program_.reading(op.replica);
    const bool backward = makes_input_gradient(op.kind);
    const double horizon = backward ? reading.backward_horizon : reading.forward_horizon;
    const bool apart = backward && (reading.delay > 0 || horizon != reading.forward_horizon);
    const bool has_apart =
        reading.delay > 0 ||
        (reading.backward_horizon > 0 && reading.backward_horizon != reading.forward_horizon);
    if (op.kind == OpKind::update) {
      std::vector<SlotKind> made{SlotKind::weights};
      if (reading.forward_horizon > 0) made.push_back(SlotKind::forward_weights);
      if (has_apart) made.push_back(SlotKind::backward_weights);
      return made;
    }
    if (apart) return {has_apart ? SlotKind::backward_weights : SlotKind::weights};
    return {horizon > 0 ? SlotKind::forward_weights : SlotKind::weights};
  }

  std::optional<Times> last_gradient(ReplicaId replica, std::int64_t microbatch) const {
    const auto whole = find(OpKind::backward, replica, microbatch);
    return whole ? whole : find(OpKind::backward_weight, replica, microbatch);
  }

  Duration update_after(ReplicaId replica, std::int64_t microbatch) const {
    const auto& updates = done_.at({OpKind::update, replica});
    return updates.lower_bound(microbatch)->second.end;
  }

  /// The transfer of the gradient that a stage's output gets.
  std::optional<Times> find_gradient_for(ReplicaId replica, std::int64_t microbatch) const {
    for (const Placement::Edge& edge : placement_.edges) {
      if (edge.from != replica) continue;
      if (const auto sent = find(OpKind::send_gradient, edge.to, microbatch)) return sent;
    }
    return std::nullopt;
  }

  /// What a stage makes for its neighbours: until it is sent, or a neighbour on this device is
  /// done.
  void add_made(OpKind sender, SlotKind kind, ReplicaId replica, std::int64_t microbatch,
                Duration start) {
    const bool down = sender == OpKind::send_activation;
    std::optional<Duration> end;
    const auto send = find(sender, replica, microbatch);
    if (send) end = send->end;
    for (const Placement::Edge& edge : placement_.edges) {
      if ((down ? edge.from : edge.to) != replica) continue;
      const ReplicaId other = down ? edge.to : edge.from;
      if (placement_.device[other] != placement_.device[replica]) continue;
      const auto last = last_gradient(other, microbatch);
      if (last) end = std::max(end.value_or(last->end), last->end);
    }
    if (end) ring(replica, kind).take(sequence_(replica, microbatch), start, *end);
  }

  void add_received(const Span& span, std::int64_t microbatch) {
    const Op& op = program_[span.instruction].op;
    const bool down = op.kind == OpKind::send_activation;
    const DeviceId target = target_.at({op.kind, op.replica, microbatch});
    for (const Placement::Edge& edge : placement_.edges) {
      if ((down ? edge.from : edge.to) != op.replica) continue;
      const ReplicaId receiver = down ? edge.to : edge.from;
      const auto last = last_gradient(receiver, microbatch);
      if (!last || placement_.device[receiver] != target) continue;
      ring(receiver, down ? SlotKind::input : SlotKind::output)
          .take(sequence_(receiver, microbatch), span.start, last->end);
    }
  }

  const Program& program_;
  const Placement& placement_;
  const MicrobatchSequence sequence_;
  const WeightVersions versions_;
  std::map<std::pair<OpKind, ReplicaId>, std::map<std::int64_t, Times>> done_;
  std::map<std::tuple<OpKind, ReplicaId, std::int64_t>, DeviceId> target_;
  Rings rings_;
  Table<ReplicaId, std::vector<Times>> turns_;    // with the slot of what is evicted
  Table<ReplicaId, std::vector<Times>> context_;  // with gradients of keys and values
};

Rings rings_of(const Program& program, const CostTable& costs, std::int64_t batches) {
  Timeline timeline;
  SimulatedMachine machine(program, costs, &timeline);
  run(program, program.order(), batches, machine);
  return UsesOfSlots(program, timeline).rings();
}

class EverySchedulesSlots : public ::testing::TestWithParam<std::string> {};

TEST_P(EverySchedulesSlots, AreNeverTakenBeforeTheyAreFree) {
  for (const Pipeline& wanted : every_pipeline(GetParam(), {1, 2, 4, 5}, {2, 4, 6})) {
    for (const TransferLanes lanes : {TransferLanes::shared, TransferLanes::ideal}) {
      const Program program = program_of(wanted, lanes);
      const SlotCounts slots = count_slots(program);
      for (const Spread spread : {Spread::wide, Spread::tiny}) {
        const Rings rings = rings_of(program, random_costs(program, 11, spread), 5);
        for (const ReplicaId replica : ids(rings)) {
          for (std::size_t kind = 0; kind < kSlotKinds; ++kind) {
            const Ring& ring = rings[replica][kind];
            if (ring.uses.empty()) continue;
            const std::int32_t count = slots[replica][static_cast<SlotKind>(kind)];
            EXPECT_TRUE(ring.holds_with(count, static_cast<SlotKind>(kind)))
                << wanted.name() << " stage " << index(replica) << " "
                << name(static_cast<SlotKind>(kind)) << " with " << count;
          }
        }
      }
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Schedules, EverySchedulesSlots, ::testing::ValuesIn(schedule_names()),
                         test_name);

/// Some prices take each slot: with one less of any of these kinds a use would begin too early.
class SlotsAreNeeded : public ::testing::TestWithParam<std::string> {};

TEST_P(SlotsAreNeeded, AtSomePrices) {
  for (const int p : {2, 3, 4}) {
    const Pipeline wanted = pipeline(GetParam(), p, 6);
    const Program program = program_of(wanted);
    const SlotCounts slots = count_slots(program);
    Table<ReplicaId, std::array<bool, kSlotKinds>> needed(slots.size());
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
      const Rings rings = rings_of(program, random_costs(program, seed, Spread::wide), 4);
      for (const ReplicaId replica : ids(rings)) {
        for (std::size_t kind = 0; kind < kSlotKinds; ++kind) {
          const std::int32_t count = slots[replica].counts[kind];
          if (!rings[replica][kind].uses.empty() &&
              !rings[replica][kind].holds_with(count - 1, static_cast<SlotKind>(kind))) {
            needed[replica][kind] = true;
          }
        }
      }
    }
    for (const ReplicaId replica : ids(needed)) {
      for (const SlotKind kind : {SlotKind::weights, SlotKind::stash}) {
        if (slots[replica][kind] < 2) continue;
        EXPECT_TRUE(needed[replica][index(kind)])
            << wanted.name() << " stage " << index(replica) << " " << name(kind);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Schedules, SlotsAreNeeded, ::testing::Values("gpipe", "1f1b", "2bw"),
                         test_name);

}  // namespace
}  // namespace tandem::testing
