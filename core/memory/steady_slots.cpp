#include "core/memory/steady_slots.h"

#include <algorithm>
#include <initializer_list>

namespace tandem::slots {

namespace {

void add(const Program& program, const Instruction& instruction, Advance& advance) {
  for (const LaneId lane : program.lanes(instruction)) {
    advance.on.push_back(lane);
    if (!is_transfer(instruction.op.kind)) ++advance.lanes[lane];
  }
}

void sort_lanes(Advance& advance) {
  std::ranges::sort(advance.on);
  const auto again = std::ranges::unique(advance.on);
  advance.on.erase(again.begin(), again.end());
}

/// The end of what others than the part wait for, and of what begins an update's gradients.
std::size_t end_of_others(const Program& program, const SlotUses& uses, const SteadyPart& part,
                          std::size_t resume) {
  std::size_t end = 0;
  const auto look_at = [&](std::size_t from, std::size_t to) {
    for (std::size_t at = from; at < to; ++at) {
      for (const Wait& wait : program.waits(program.instructions()[at])) {
        const std::size_t producer = index(wait.producer);
        const bool near = wait.lag == 0 && at < part.end();
        if (!near && producer < resume) end = std::max(end, producer + 1);
      }
    }
  };
  look_at(0, part.first + part.length);  // waits of other periods are alike
  look_at(part.end(), program.size());
  for (std::size_t at = end; at < resume; ++at) {
    if (uses.is_first_gradient(id_at<InstructionId>(at))) end = at + 1;
  }
  return end;
}

/// Finds SteadyUses::regular_from.
class Regularity {
 public:
  Regularity(const Program& program, const SlotUses& uses, const SteadyUses& steady)
      : program_(program), uses_(uses), steady_(steady), reached_(program.lanes().size()) {
    for (std::size_t at = 0; at < steady.part.first; ++at) {
      const Instruction& instruction = program.instructions()[at];
      if (is_transfer(instruction.op.kind)) continue;
      for (const LaneId lane : program.lanes(instruction)) ++reached_[lane];
    }
    const std::size_t periods = (steady.resume - steady.part.first) / steady.part.length;
    for (const LaneId lane : steady.period.on)
      reached_[lane] += static_cast<Position>(periods) * steady.period.lanes[lane];
  }

  std::int32_t from() const {
    std::int32_t from = 0;
    for (const ReplicaId replica : ids(program_.placement().device)) {
      std::int32_t residue = program_.microbatches() - steady_.part.shift;
      while (residue > from && is_regular(replica, residue - 1)) --residue;
      from = residue;
    }
    return from;
  }

 private:
  bool is_regular(ReplicaId replica, std::int32_t residue) const {
    const std::int32_t later = residue + steady_.part.shift;
    if (uses_.processes(replica, residue) != uses_.processes(replica, later) ||
        uses_.takes_input_gradient(replica, residue) != uses_.takes_input_gradient(replica, later))
      return false;
    return std::ranges::all_of(
        std::initializer_list<ReleaseOf>{&SlotUses::forward, &SlotUses::input_gradient,
                                         &SlotUses::weight_gradient},
        [&](ReleaseOf of) {
          return is_regular((uses_.*of)(replica, residue), (uses_.*of)(replica, later));
        });
  }
  bool is_regular(const Release& here, const Release& later) const {
    if (!here.exists || !later.exists) return here.exists == later.exists;
    if (here.lane != later.lane) return false;
    const Position length = uses_.lane_length(here.lane), reached = reached_[here.lane];
    const Position place = here.place - here.batch * length;
    const Position then = later.place - later.batch * length;
    return then == place + steady_.period.lanes[here.lane] || (place >= reached && then >= reached);
  }

  const Program& program_;
  const SlotUses& uses_;
  const SteadyUses& steady_;
  Table<LaneId, Position> reached_;  // before SteadyUses::resume
};

}  // namespace

Advance advance_of_body(const Program& program, const SlotUses& uses) {
  Advance body{.lanes = Table<LaneId, Position>(program.lanes().size()),
               .on = {},
               .microbatches = program.microbatches(),
               .batches = 1};
  for (const LaneId lane : ids(program.lanes())) {
    body.lanes[lane] = uses.lane_length(lane);
    body.on.push_back(lane);
  }
  return body;
}

std::optional<SteadyUses> steady_uses(const Program& program, const SlotUses& uses,
                                      const SteadyPart& part) {
  // Before the first that is left out: one to be alike, and as far as waits go back; after the
  // last, that far twice.
  if (part.periods < 3 * part.reach + 3) return std::nullopt;
  const bool evicts = std::ranges::any_of(program.cost_keys(),
                                          [](const CostKey& key) { return moves_stash(key.kind); });
  if (evicts) return std::nullopt;
  SteadyUses steady{.part = part,
                    .period = {.lanes = Table<LaneId, Position>(program.lanes().size()),
                               .on = {},
                               .microbatches = part.shift}};
  for (std::size_t at = part.first; at < part.first + part.length; ++at) {
    const Instruction& instruction = program.instructions()[at];
    const OpKind kind = instruction.op.kind;
    if (!is_compute(kind) && !is_transfer(kind)) return std::nullopt;
    add(program, instruction, steady.period);
  }
  sort_lanes(steady.period);
  steady.resume = part.end() - part.reach * part.length;
  steady.from = part.first;
  const std::size_t others = end_of_others(program, uses, part, steady.resume);
  while (steady.from < others) steady.from += part.length;
  if (steady.from >= steady.resume) return std::nullopt;
  steady.regular_from = Regularity(program, uses, steady).from();
  return steady;
}

}  // namespace tandem::slots
