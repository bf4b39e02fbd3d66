// count_slots(): how many slots of a ring are enough. A use may take the slot of an earlier one
// only if that one's release is *known* to have ended when the use begins. What is known travels
// like a vector clock: along lanes, and along waits from device to device, as positions on compute
// and collective lanes. Only the lanes of a device and of its peers are tracked, which is exact for
// neighbours and at worst counts a slot too many.

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/memory/memory.h"
#include "core/memory/slot_knowledge.h"

namespace tandem {

namespace {

using slots::counted_by_knowledge;
using slots::kAbsent;
using slots::kNothing;
using slots::KnowledgeSpace;
using slots::Position;
using slots::Turn;

/// The instruction that ends a use, found by the stage and residue it works on.
struct Release {
  LaneId lane{};
  bool exists = false;
  std::int32_t batch = 0;  // of its microbatch in body 0
  Position place = 0;      // on its lane, within a body
};

class SlotCounter {
 public:
  explicit SlotCounter(const Program& program)
      : program_(program),
        placement_(program.placement()),
        space_(program),
        sequence_(program),
        m_(program.microbatches()),
        counts_(placement_.replicas()),
        below_(placement_.replicas()),
        above_(placement_.replicas()) {
    for (const Placement::Edge& edge : placement_.edges) {
      below_[edge.from].push_back(edge.to);
      above_[edge.to].push_back(edge.from);
    }
    index_program();
    lay_out_rows();
  }

  /// Bodies are alike but for the ramp and, near the end, for what a switched-off forward would
  /// have told its neighbours. So the long run ends once a body has changed nothing but the count
  /// of bodies: any longer one would go on like it and end like this. Short runs have both ends at
  /// once; they part from the long one where they end.
  SlotCounts count() {
    count_versions();
    for (const ReplicaId replica : forwards_in_workspace(program_))
      counts_[replica].forwards_in_workspace = true;
    count_pooled(program_, counts_);
    const auto context = context_gradients(program_);
    for (const ReplicaId replica : ids(context))
      counts_[replica][SlotKind::context_gradient] = context[replica];
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
      alike = body >= 0 && same_but_later(before, state, body) ? alike + 1 : 0;
      if (alike >= std::max<std::int64_t>(1, program_.depth() - 1))
        batches = std::min(batches, body + 1 + ramp);
    }
    return counts_;
  }

 private:
  static constexpr std::size_t kNoRow = std::numeric_limits<std::size_t>::max();

  /// What the next body finds known, but for completions.
  struct Known {
    std::vector<Position> lanes;     // a row a lane: what its last instruction knew as it ended
    Table<LaneId, DeviceId> knower;  // in whose space
    Table<ReplicaId, std::array<Turn, kSlotKinds>> oldest;  // use whose release is not known
  };
  struct State {
    Known known;
    std::vector<Position> done;  // a ring of bodies: rows of what is awaited
  };

  State start() const {
    State state;
    state.known.lanes.assign(lane_row_.back(), kNothing);
    for (const Lane& lane : program_.lanes()) state.known.knower.push_back(lane.device);
    state.known.oldest.resize(placement_.replicas());
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
    Position* const rows = rows_of(state, body);
    for (const InstructionId id : program_.order()) {
      const Instruction& instruction = program_[id];
      const Turn now = turn(body, instruction.op.microbatch);
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
      acquire(state, id, now);
      finish(state, id, body);
      if (row_[index(id)] != kNoRow)
        std::copy_n(knows, space_.width(device), rows + row_[index(id)]);
    }
  }

  Turn turn(std::int64_t body, std::int32_t offset) const {
    if (offset < m_) return {body, offset};
    return {body + offset / m_, offset % m_};
  }
  std::int64_t number(const Turn& microbatch) const {
    return microbatch.batch * m_ + microbatch.residue;
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
      if (has_row[index(id)]) row_[index(id)] = std::exchange(body_size_, body_size_ + own);
    }
    lane_row_.assign(1, 0);
    for (const std::size_t one : width) lane_row_.push_back(lane_row_.back() + one);
  }

  /// All is known of one body more than a body before. Of completions only those of `body` and of
  /// the body before it are compared.
  bool same_but_later(const Known& before, State& state, std::int64_t body) const {
    if (before.knower != state.known.knower) return false;
    const auto later = [&](DeviceId device, const Position* was, const Position* is) {
      for (const LaneId lane : space_.lanes_of(device)) {
        const Position by = *was == kNothing ? 0 : lane_length_[index(lane)];
        if (*was++ + by != *is++) return false;
      }
      return true;
    };
    for (const LaneId lane : ids(program_.lanes())) {
      const std::size_t row = lane_row_[index(lane)];
      if (!later(before.knower[lane], before.lanes.data() + row, state.known.lanes.data() + row))
        return false;
    }
    for (const ReplicaId replica : ids(before.oldest)) {
      for (std::size_t kind = 0; kind < kSlotKinds; ++kind) {
        const auto [batch, residue] = before.oldest[replica][kind];
        const bool used =
            counted_by_knowledge(static_cast<SlotKind>(kind)) && counts_[replica].counts[kind] > 0;
        if (used && state.known.oldest[replica][kind] != Turn{batch + 1, residue}) return false;
      }
    }
    if (program_.depth() == 1) return true;
    const Position *const was = rows_of(state, body - 1), *const is = rows_of(state, body);
    for (const InstructionId id : program_.order()) {
      const std::size_t row = row_[index(id)];
      if (row != kNoRow && !later(device_of(id), was + row, is + row)) return false;
    }
    return true;
  }

  void index_program() {
    const std::size_t cells = placement_.replicas() * static_cast<std::size_t>(m_);
    for (auto* table : {&forward_, &input_gradient_, &weight_gradient_}) table->resize(cells);
    lane_length_.assign(program_.lanes().size(), 0);
    place_.assign(program_.size(), 0);
    first_gradient_.assign(program_.size(), false);
    updates_.resize(placement_.replicas());
    for (const InstructionId id : program_.order()) {
      const Instruction& instruction = program_[id];
      const Op& op = instruction.op;
      if (instruction.lane_count == 0 || is_transfer(op.kind)) continue;
      const LaneId lane = program_.lanes(instruction).front();
      place_[index(id)] = lane_length_[index(lane)];
      for (const LaneId each : program_.lanes(instruction)) ++lane_length_[index(each)];
      const Turn last = turn(0, op.microbatch);
      const Release here{lane, true, static_cast<std::int32_t>(last.batch), place_[index(id)]};
      if (op.kind == OpKind::update) updates_[op.replica].push_back({last.residue, here});
      if (op.kind == OpKind::validate && !updates_[op.replica].empty())
        updates_[op.replica].back().release = here;  // may need the gradients once more
      for (std::int32_t i = 0; is_compute(op.kind) && i < op.span; ++i) {
        const std::size_t cell = at(op.replica, last.residue - i);
        if (op.kind == OpKind::forward) forward_[cell] = here;
        if (makes_input_gradient(op.kind)) input_gradient_[cell] = here;
        if (makes_weight_gradient(op.kind)) weight_gradient_[cell] = here;
      }
    }
    for (auto& updates : updates_) std::ranges::sort(updates, {}, &Update::residue);
    mark_first_gradients();
  }

  /// The first weight gradient of each update acquires its gradient slot.
  void mark_first_gradients() {
    Table<ReplicaId, std::vector<std::int64_t>> last_started(placement_.replicas());
    for (const ReplicaId replica : ids(updates_))
      last_started[replica].assign(updates_[replica].size(), -1);
    for (const InstructionId id : program_.order()) {
      const Op& op = program_[id].op;
      if (!makes_weight_gradient(op.kind)) continue;
      const std::size_t update = update_of(op.replica, turn(0, op.microbatch).residue);
      if (std::exchange(last_started[op.replica][update], 1) < 0) first_gradient_[index(id)] = true;
    }
  }

  /// Where what reads weights finds them.
  SlotKind slot_read_by(const Op& op) const {
    const Reading reading = program_.reading(op.replica);
    if (makes_input_gradient(op.kind) && !reading.reads_alike())
      return reading.has_backward_plane() ? SlotKind::backward_weights : SlotKind::weights;
    return reading.predicts_forward() ? SlotKind::forward_weights : SlotKind::weights;
  }

  /// As many as are ever in use, the newest with them: a run may pause after any batch, and go on
  /// with what its microbatches in flight would have read.
  void count_versions() {
    for (const ReplicaId replica : ids(counts_)) {
      require(SlotKind::weights, replica, 0);
      counts_[replica].keeps_drift = program_.reading(replica).corrects();
    }
    for (const Instruction& instruction : program_.instructions()) {
      const Op& op = instruction.op;
      if (reads_weights(op.kind)) require(slot_read_by(op), op.replica, op.staleness);
      if (op.kind == OpKind::validate) require(SlotKind::weights, op.replica, 1);
    }
  }

  std::size_t at(ReplicaId replica, std::int64_t residue) const {
    return index(replica) * static_cast<std::size_t>(m_) + static_cast<std::size_t>(residue);
  }
  std::size_t update_of(ReplicaId replica, std::int64_t residue) const {
    const std::vector<Update>& updates = updates_[replica];
    const auto covering = std::ranges::lower_bound(updates, residue, {}, &Update::residue);
    return static_cast<std::size_t>(covering - updates.begin());
  }

  void finish(State& state, InstructionId id, std::int64_t body) {
    const DeviceId device = device_of(id);
    for (const LaneId lane : program_.lanes(program_[id])) {
      const std::int32_t place = space_.place(device, lane);
      // A collective stands at different places of its lanes, and releases nothing: its update
      // does.
      if (place != kAbsent && !is_collective(program_[id].op.kind)) {
        knows_[static_cast<std::size_t>(place)] =
            body * lane_length_[index(lane)] + place_[index(id)];
      }
    }
    for (const LaneId lane : program_.lanes(program_[id])) {
      state.known.knower[lane] = device;
      std::copy_n(knows_.data(), space_.width(device),
                  state.known.lanes.data() + lane_row_[index(lane)]);
    }
  }

  /// What ends a use, in `batch`, is known to `device` to have ended.
  bool ended(DeviceId device, const Release& release, std::int64_t batch) const {
    const std::int32_t place = space_.place(device, release.lane);
    if (place == kAbsent || program_.forwards_alone()) return false;
    return knows_[static_cast<std::size_t>(place)] >=
           (batch - release.batch) * lane_length_[index(release.lane)] + release.place;
  }

  void acquire(State& state, InstructionId id, const Turn& now) {
    const Op& op = program_[id].op;
    const ReplicaId replica = op.replica;
    const auto use = [&](SlotKind kind, ReplicaId of) {
      take(kind, of, now, device_of(id), state.known.oldest[of][index(kind)]);
    };
    if (op.kind == OpKind::forward) {
      // By its meaning; verify() asks whether it may be.
      if (sequence_.evicts(replica, now.residue)) counts_[replica][SlotKind::eviction_buffer] = 1;
      // Not until its transfer's end: the gradient comes back to it, which proves that end without
      // an event.
      if (!below_[replica].empty()) use(SlotKind::output, replica);
    } else if (op.kind == OpKind::evict) {
      take_hosted(replica, now, device_of(id),
                  state.known.oldest[replica][index(SlotKind::hosted_stash)]);
    } else if (op.kind == OpKind::send_activation) {
      use(SlotKind::input, receiver(id, below_[replica], now.residue));
    }
    if (makes_input_gradient(op.kind) && takes_input_gradient(replica, now.residue))
      use(SlotKind::input_gradient, replica);
    if (op.kind == OpKind::backward_input) use(SlotKind::kept_gradients, replica);
    if (first_gradient_[index(id)]) {
      const auto number = static_cast<std::int32_t>(update_of(replica, now.residue));
      take_gradient(replica, {now.batch, number}, device_of(id),
                    state.known.oldest[replica][index(SlotKind::gradients)]);
    }
  }

  /// The stage on the transfer's target device that takes the microbatch.
  ReplicaId receiver(InstructionId id, const std::vector<ReplicaId>& candidates,
                     std::int32_t residue) const {
    const DeviceId target = program_.cost_keys()[program_[id].cost].target;
    for (const ReplicaId replica : candidates) {
      if (placement_.device[replica] == target && processes(replica, residue)) return replica;
    }
    TANDEM_CHECK(false, index(target), residue);
    return ReplicaId{};
  }

  bool processes(ReplicaId replica, std::int32_t residue) const {
    return forward_[at(replica, residue)].exists;
  }
  bool takes_input_gradient(ReplicaId replica, std::int32_t residue) const {
    return !above_[replica].empty() && !sequence_.makes_gradient_in_output(replica, residue);
  }
  bool takes(SlotKind kind, ReplicaId replica, std::int32_t residue) const {
    return processes(replica, residue) &&
           (kind != SlotKind::input_gradient || takes_input_gradient(replica, residue));
  }

  /// Whether the slot that `replica` used for a microbatch is known to `device` to be free again.
  bool released(SlotKind kind, ReplicaId replica, const Turn& microbatch, DeviceId device) const {
    const auto consumed = [&](const std::vector<ReplicaId>& consumers,
                              const std::vector<Release>& elsewhere) {
      return std::ranges::all_of(consumers, [&](ReplicaId consumer) {
        if (!processes(consumer, microbatch.residue)) return true;
        const bool local = placement_.device[consumer] == placement_.device[replica];
        const auto& by = local ? weight_gradient_ : elsewhere;
        return ended(device, by[at(consumer, microbatch.residue)], microbatch.batch);
      });
    };
    if (kind == SlotKind::input_gradient) return consumed(above_[replica], input_gradient_);
    if (kind == SlotKind::output) {
      if (!consumed(below_[replica], forward_)) return false;
      if (sequence_.makes_gradient_in_output(replica, microbatch.residue) &&
          !consumed(above_[replica], input_gradient_))
        return false;
    }
    return ended(device, weight_gradient_[at(replica, microbatch.residue)], microbatch.batch);
  }

  /// A use begins, for the microbatch `now`: its ring must be long enough to reach back only to
  /// slots known to be free. `oldest`: the first microbatch whose release was not known.
  void take(SlotKind kind, ReplicaId replica, const Turn& now, DeviceId device, Turn& oldest) {
    while (oldest < now &&
           (!takes(kind, replica, oldest.residue) || released(kind, replica, oldest, device))) {
      oldest.advance(m_);
    }
    require(kind, replica, sequence_(replica, number(now)) - sequence_(replica, number(oldest)));
  }

  /// The same of the stashes that are evicted.
  void take_hosted(ReplicaId replica, const Turn& now, DeviceId device, Turn& oldest) {
    const auto free = [&] {
      const std::size_t cell = at(replica, oldest.residue);
      if (!forward_[cell].exists || !sequence_.evicts(replica, oldest.residue)) return true;
      // The gradient that follows shows that the load has ended: it may hold no lane.
      return ended(device, input_gradient_[cell], oldest.batch);
    };
    while (oldest < now && free()) oldest.advance(m_);
    require(SlotKind::hosted_stash, replica,
            sequence_.among_evicted(replica, number(now)) -
                sequence_.among_evicted(replica, number(oldest)));
  }

  void take_gradient(ReplicaId replica, const Turn& now, DeviceId device, Turn& oldest) {
    const std::vector<Update>& updates = updates_[replica];
    const auto count = static_cast<std::int32_t>(updates.size());
    while (oldest < now &&
           ended(device, updates[static_cast<std::size_t>(oldest.residue)].release, oldest.batch)) {
      oldest.advance(count);
    }
    require(SlotKind::gradients, replica,
            (now.batch - oldest.batch) * count + now.residue - oldest.residue);
  }

  void require(SlotKind kind, ReplicaId replica, std::int64_t back) {
    std::int32_t& count = counts_[replica][kind];
    count = std::max(count, static_cast<std::int32_t>(back + 1));
  }

  struct Update {
    std::int32_t residue = 0;
    Release release;
  };

  const Program& program_;
  const Placement& placement_;
  KnowledgeSpace space_;
  const MicrobatchSequence sequence_;
  const std::int32_t m_;
  SlotCounts counts_;
  Table<ReplicaId, std::vector<ReplicaId>> below_, above_;
  std::vector<Release> forward_, input_gradient_, weight_gradient_;
  std::vector<Position> lane_length_, place_;
  std::vector<bool> first_gradient_;
  Table<ReplicaId, std::vector<Update>> updates_;
  std::vector<std::size_t> lane_row_, row_;
  std::size_t body_size_ = 0;    // of the rows of all that is awaited
  std::vector<Position> knows_;  // of the instruction at hand
};

}  // namespace

SlotCounts count_slots(const Program& program) { return SlotCounter(program).count(); }

}  // namespace tandem
