// count_slots(): how many slots of a ring are enough. A use may take the slot of an earlier one
// only if that one's release is *known* to have ended when the use begins. What is known travels
// like a vector clock: along lanes, and along waits from device to device, as positions on compute
// and collective lanes. Only the lanes of a device and of its peers are tracked, which is exact for
// neighbours and at worst counts a slot too many.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "core/memory/memory.h"
#include "core/memory/slot_knowledge.h"
#include "core/memory/slot_rings.h"
#include "core/memory/slot_uses.h"
#include "core/memory/steady_slots.h"
#include "core/program/steady_part.h"

namespace tandem {

namespace {

using slots::Advance;
using slots::kAbsent;
using slots::kNothing;
using slots::KnowledgeSpace;
using slots::OldestUses;
using slots::Position;
using slots::SlotRings;
using slots::SlotUses;
using slots::SteadyUses;
using slots::Turn;

class SlotCounter {
 public:
  SlotCounter(const Program& program, const SteadyPart& steady)
      : program_(program),
        space_(program),
        uses_(program),
        rings_(program, space_, uses_),
        a_body_(slots::advance_of_body(program, uses_)) {
    steady_ = slots::steady_uses(program, uses_, steady);
    lay_out_rows();
  }

  /// Bodies are alike but for the ramp and, near the end, for what a switched-off forward would
  /// have told its neighbours. So the long run ends once a body has changed nothing but the count
  /// of bodies: any longer one would go on like it and end like this. Short runs have both ends at
  /// once; they part from the long one where they end.
  SlotCounts count() {
    const std::int64_t ramp = program_.ramp();
    std::int64_t batches = 3 * ramp + program_.depth() + 2, alike = 0;
    if (program_.forwards_alone()) batches = 1;
    State state = start();
    for (std::int64_t body = -ramp; body < batches; ++body) {
      for (const std::int64_t few : {1, 2}) {
        if (ramp > 0 && body == few - ramp) run(state, body, few);
      }
      const Known before = state.known;
      run_body(state, body, batches);
      alike = body >= 0 && body_goes_on(before, state, body) ? alike + 1 : 0;
      if (alike >= std::max<std::int64_t>(1, program_.depth() - 1))
        batches = std::min(batches, body + 1 + ramp);
    }
    return rings_.counts();
  }

 private:
  static constexpr std::size_t kNoRow = std::numeric_limits<std::size_t>::max();

  /// What the next instruction finds known, but for completions.
  struct Known {
    std::vector<Position> lanes;     // a row a lane: what its last instruction knew as it ended
    Table<LaneId, DeviceId> knower;  // in whose space
    OldestUses oldest;
  };
  struct State {
    Known known;
    std::vector<Position> done;  // a ring of bodies: rows of what is awaited
  };

  State start() const {
    State state;
    state.known.lanes.assign(lane_row_.back(), kNothing);
    for (const Lane& lane : program_.lanes()) state.known.knower.push_back(lane.device);
    state.known.oldest.resize(program_.placement().replicas());
    state.done.assign(program_.depth() * body_size_, kNothing);
    return state;
  }

  Position* rows_of(State& state, std::int64_t body) const {
    const auto step = static_cast<std::size_t>(body + program_.ramp());
    return state.done.data() + step % program_.depth() * body_size_;
  }

  /// The rest of a run, on its own.
  void run(State state, std::int64_t body, std::int64_t batches) {
    for (; body < batches; ++body) run_body(state, body, batches);
  }

  void run_body(State& state, std::int64_t body, std::int64_t batches) {
    // Before batch 0 what is steady is switched off.
    const std::size_t at = steady_ && body >= 0 ? run_steady_part(state, body, batches) : 0;
    run_between(state, body, batches, at, program_.size());
  }

  /// Runs a body until the end of its steady part draws near, and leaves out the periods that
  /// would go on as those before them did. Returns the first instruction that did not run.
  std::size_t run_steady_part(State& state, std::int64_t body, std::int64_t batches) {
    const SteadyPart& part = steady_->part;
    run_between(state, body, batches, 0, part.first);
    std::size_t alike = 0, at = part.first;  // periods whose completions went on as before
    while (at < steady_->resume) {
      const Known before = state.known;
      run_between(state, body, batches, at, at + part.length);
      alike = at > part.first && completions_go_on(state, body, at) ? alike + 1 : 0;
      at += part.length;
      const std::size_t reach = part.reach * part.length;
      if (alike < part.reach || at < steady_->from + reach || at + reach > steady_->resume)
        continue;
      if (goes_on(before, state.known, steady_->period) && uses_go_on(before, body)) {
        leave_out(state, body, at);
        return steady_->resume;
      }
    }
    return at;
  }

  void run_between(State& state, std::int64_t body, std::int64_t batches, std::size_t from,
                   std::size_t to) {
    Position* const rows = rows_of(state, body);
    for (std::size_t at = from; at < to; ++at) {
      const auto id = id_at<InstructionId>(at);
      const Instruction& instruction = program_[id];
      const Turn now = uses_.turn(body, instruction.op.microbatch);
      if (now.batch < 0 || now.batch >= batches) continue;
      const DeviceId device = device_of(id);
      Position* const knows = knows_.data();
      std::fill_n(knows, space_.width(device), kNothing);
      for (const LaneId lane : program_.lanes(instruction)) {
        space_.learn(device, knows, state.known.knower[lane],
                     state.known.lanes.data() + lane_row_[index(lane)]);
      }
      for (const Wait& wait : program_.waits(instruction)) {
        if (body + program_.ramp() < wait.lag) continue;
        const Position* ended = wait.lag == 0 ? rows : rows_of(state, body - wait.lag);
        space_.learn(device, knows, device_of(wait.producer), ended + row_[index(wait.producer)]);
      }
      rings_.begin(state.known.oldest, id, now, knows);
      finish(state, id, body);
      if (row_[index(id)] != kNoRow)
        std::copy_n(knows, space_.width(device), rows + row_[index(id)]);
    }
  }

  DeviceId device_of(InstructionId id) const {
    return program_.cost_keys()[program_[id].cost].source;
  }

  /// Where rows begin: of each lane, wide enough for all on it, and of each awaited instruction.
  void lay_out_rows() {
    std::vector<std::size_t> width;
    for (const Lane& lane : program_.lanes()) width.push_back(space_.width(lane.device));
    row_.assign(program_.size(), kNoRow);
    const std::vector<bool> has_row = awaited(program_);
    for (const InstructionId id : program_.order()) {
      const std::size_t own = space_.width(device_of(id));
      knows_.resize(std::max(knows_.size(), own));
      for (const LaneId lane : program_.lanes(program_[id]))
        width[index(lane)] = std::max(width[index(lane)], own);
      if (has_row[index(id)]) {
        const std::size_t ring = steady_ ? steady_->ring_behind(index(id)) : 0;
        row_[index(id)] =
            ring > 0 ? row_[index(id) - ring] : std::exchange(body_size_, body_size_ + own);
      }
      for (const Wait& wait : program_.waits(program_[id])) {
        if (wait.lag > 0) awaited_later_.push_back(wait.producer);
      }
    }
    lane_row_.assign(1, 0);
    for (const std::size_t one : width) lane_row_.push_back(lane_row_.back() + one);
  }

  // ---- Nothing has changed but how far the run is ----

  bool row_goes_on(DeviceId device, const Position* was, const Position* is,
                   const Advance& by) const {
    for (const LaneId lane : space_.lanes_of(device)) {
      const Position more = *was == kNothing ? 0 : by.lanes[lane];
      if (*was++ + more != *is++) return false;
    }
    return true;
  }

  bool goes_on(const Known& was, const Known& is, const Advance& by) const {
    if (was.knower != is.knower) return false;
    for (const LaneId lane : by.on) {
      const std::size_t row = lane_row_[index(lane)];
      if (!row_goes_on(was.knower[lane], was.lanes.data() + row, is.lanes.data() + row, by))
        return false;
    }
    for (const ReplicaId replica : ids(was.oldest)) {
      for (const SlotKind kind : rings_.kinds_of(replica)) {
        const Turn& before = was.oldest[replica][index(kind)];
        if (is.oldest[replica][index(kind)] != later(before, kind, by, 1)) return false;
      }
    }
    return true;
  }

  Turn later(const Turn& turn, SlotKind kind, const Advance& by, std::int64_t times) const {
    if (kind == SlotKind::gradients) return {turn.batch + times * by.batches, turn.residue};
    const std::int64_t number = uses_.number(turn) + times * by.microbatches;
    return uses_.turn_of(number);
  }

  /// Of completions those that later bodies wait for, of `body` and of the body before it.
  bool body_goes_on(const Known& before, State& state, std::int64_t body) const {
    if (!goes_on(before, state.known, a_body_)) return false;
    if (program_.depth() == 1) return true;
    const Position *const was = rows_of(state, body - 1), *const is = rows_of(state, body);
    return std::ranges::all_of(awaited_later_, [&](InstructionId id) {
      const std::size_t row = row_[index(id)];
      return row_goes_on(device_of(id), was + row, is + row, a_body_);
    });
  }

  /// Of the steady part's period from `at` on, and the one before it.
  bool completions_go_on(State& state, std::int64_t body, std::size_t at) const {
    const Position* const rows = rows_of(state, body);
    const std::size_t length = steady_->part.length;
    for (std::size_t i = at; i < at + length; ++i) {
      if (row_[i] == kNoRow) continue;
      if (!row_goes_on(device_of(id_at<InstructionId>(i)), rows + row_[i - length], rows + row_[i],
                       steady_->period))
        return false;
    }
    return true;
  }

  /// From the oldest use on that is looked at, those that end in the steady part do so regularly.
  bool uses_go_on(const Known& before, std::int64_t body) const {
    for (const ReplicaId replica : ids(before.oldest)) {
      Turn oldest{body, program_.microbatches()};
      for (const SlotKind kind : rings_.kinds_of(replica)) {
        if (kind != SlotKind::gradients)
          oldest = std::min(oldest, before.oldest[replica][index(kind)]);
      }
      if (oldest.batch < body || oldest.residue < steady_->regular_from) return false;
    }
    return true;
  }

  /// As if all periods from `at` on had run.
  void leave_out(State& state, std::int64_t body, std::size_t at) const {
    const SteadyPart& part = steady_->part;
    const std::size_t skipped = steady_->resume - at;
    const auto times = static_cast<std::int64_t>(skipped / part.length);
    const auto move = [&](DeviceId device, const Position* from, Position* to) {
      for (const LaneId lane : space_.lanes_of(device)) {
        const Position more = *from == kNothing ? 0 : times * steady_->period.lanes[lane];
        *to++ = *from++ + more;
      }
    };
    for (const LaneId lane : steady_->period.on) {
      Position* const row = state.known.lanes.data() + lane_row_[index(lane)];
      move(state.known.knower[lane], row, row);
    }
    for (const ReplicaId replica : ids(state.known.oldest)) {
      for (const SlotKind kind : rings_.kinds_of(replica)) {
        Turn& oldest = state.known.oldest[replica][index(kind)];
        oldest = later(oldest, kind, steady_->period, times);
      }
    }
    Position* const rows = rows_of(state, body);
    const std::vector<Position> ended(rows, rows + body_size_);
    for (std::size_t to = steady_->resume - part.reach * part.length; to < steady_->resume; ++to) {
      if (row_[to] == kNoRow) continue;
      move(device_of(id_at<InstructionId>(to)), ended.data() + row_[to - skipped], rows + row_[to]);
    }
  }

  void finish(State& state, InstructionId id, std::int64_t body) {
    const DeviceId device = device_of(id);
    for (const LaneId lane : program_.lanes(program_[id])) {
      const std::int32_t place = space_.place(device, lane);
      // A collective stands at different places of its lanes, and releases nothing: its update
      // does.
      if (place != kAbsent && !is_collective(program_[id].op.kind)) {
        knows_[static_cast<std::size_t>(place)] = body * uses_.lane_length(lane) + uses_.place(id);
      }
    }
    for (const LaneId lane : program_.lanes(program_[id])) {
      state.known.knower[lane] = device;
      std::copy_n(knows_.data(), space_.width(device),
                  state.known.lanes.data() + lane_row_[index(lane)]);
    }
  }

  const Program& program_;
  KnowledgeSpace space_;
  const SlotUses uses_;
  SlotRings rings_;
  const Advance a_body_;
  std::optional<SteadyUses> steady_;
  std::vector<InstructionId> awaited_later_;  // by later bodies
  std::vector<std::size_t> lane_row_, row_;
  std::size_t body_size_ = 0;    // of the rows of all that is awaited
  std::vector<Position> knows_;  // of the instruction at hand
};

}  // namespace

SlotCounts slots::count(const Program& program, const SteadyPart& steady) {
  return SlotCounter(program, steady).count();
}

SlotCounts count_slots(const Program& program) {
  return slots::count(program, steady_part(program));
}

}  // namespace tandem
