// count_slots(): how many slots of a ring are enough. A use may take the slot of an earlier one
// only if that one's release is *known* to have ended when the use begins. What is known travels
// like a vector clock: along lanes, and along waits from device to device, as positions on compute
// and collective lanes. Only the lanes of a device and of its peers are tracked, which is exact for
// neighbours and at worst counts a slot too many.

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "core/check.h"
#include "core/memory.h"

namespace tandem {

namespace {

using Position = std::int64_t;
constexpr Position kNothing = std::numeric_limits<Position>::min() / 4;
constexpr std::int32_t kAbsent = -1;

bool tracked(const Lane& lane) {
  return lane.kind == LaneKind::compute || lane.kind == LaneKind::collective;
}

/// Which lanes each device tracks, and how to carry what one device knows to another.
class KnowledgeSpace {
 public:
  explicit KnowledgeSpace(const Program& program) : places_(program.placement().devices) {
    Table<DeviceId, std::vector<bool>> peer(program.placement().devices,
                                            std::vector<bool>(program.placement().devices, false));
    for (const DeviceId device : ids(peer)) peer[device][index(device)] = true;
    for (const CostKey& key : program.cost_keys()) {
      peer[key.source][index(key.target)] = peer[key.target][index(key.source)] = true;
    }
    for (const Instruction& instruction : program.instructions()) {
      if (!is_collective(instruction.op.kind)) continue;
      for (const LaneId a : program.lanes(instruction)) {
        for (const LaneId b : program.lanes(instruction)) {
          peer[program.lanes()[a].device][index(program.lanes()[b].device)] = true;
        }
      }
    }
    for (const DeviceId device : ids(peer)) {
      places_[device].assign(program.lanes().size(), kAbsent);
      std::int32_t next = 0;
      for (const LaneId lane : ids(program.lanes())) {
        if (!tracked(program.lanes()[lane])) continue;
        if (!peer[device][index(program.lanes()[lane].device)]) continue;
        places_[device][index(lane)] = next++;
        lanes_[device].push_back(lane);
      }
    }
  }

  const std::vector<LaneId>& lanes_of(DeviceId device) const { return lanes_.at(device); }
  /// Where `device` keeps what it knows of `lane`, or kAbsent.
  std::int32_t place(DeviceId device, LaneId lane) const { return places_[device][index(lane)]; }

 private:
  Table<DeviceId, std::vector<std::int32_t>> places_;
  std::map<DeviceId, std::vector<LaneId>> lanes_;
};

/// What is known, in the space of `device`.
struct Knowledge {
  DeviceId device{};
  std::vector<Position> upto;
};

void learn(const KnowledgeSpace& space, Knowledge& into, const Knowledge& from) {
  if (from.upto.empty()) return;
  if (into.device == from.device) {
    for (std::size_t i = 0; i < into.upto.size(); ++i)
      into.upto[i] = std::max(into.upto[i], from.upto[i]);
    return;
  }
  const std::vector<LaneId>& theirs = space.lanes_of(from.device);
  for (std::size_t i = 0; i < theirs.size(); ++i) {
    const std::int32_t place = space.place(into.device, theirs[i]);
    if (place == kAbsent) continue;
    Position& mine = into.upto[static_cast<std::size_t>(place)];
    mine = std::max(mine, from.upto[i]);
  }
}

/// The instruction that ends a use, found by the stage and residue it works on.
struct Release {
  LaneId lane{};
  Position place = 0;       // on its lane, within a body
  std::int32_t offset = 0;  // microbatch offset of the releasing instruction
};

class SlotCounter {
 public:
  explicit SlotCounter(const Program& program)
      : program_(program),
        placement_(program.placement()),
        space_(program),
        sequence_(program),
        m_(program.microbatches()),
        counts_(placement_.stages()),
        oldest_(placement_.stages()),
        below_(placement_.stages()),
        above_(placement_.stages()) {
    for (const Placement::Edge& edge : placement_.edges) {
      below_[edge.from].push_back(edge.to);
      above_[edge.to].push_back(edge.from);
    }
    index_program();
  }

  SlotCounts count() {
    count_versions();
    // Beyond the ramp every body adds the same, and near the end less is known again: what a
    // switched-off forward would have told its neighbours. Short runs have both ends at once.
    const std::int64_t steady = program_.ramp() + program_.depth() + 2;
    for (const std::int64_t batches :
         {std::int64_t{1}, std::int64_t{2}, 2 * program_.ramp() + steady})
      run(batches);
    return counts_;
  }

 private:
  void run(std::int64_t batches) {
    Table<LaneId, Knowledge> lane_knows(program_.lanes().size());
    std::vector<std::vector<Knowledge>> done(program_.depth(),
                                             std::vector<Knowledge>(program_.size()));
    for (std::array<std::int64_t, kSlotKinds>& oldest : oldest_) oldest.fill(0);
    for (std::int64_t body = -program_.ramp(); body < batches; ++body) {
      const std::int64_t step = body + program_.ramp();
      std::vector<Knowledge>& row = done[static_cast<std::size_t>(step) % done.size()];
      for (const InstructionId id : program_.order()) {
        const std::int64_t microbatch = body * m_ + program_[id].op.microbatch;
        if (microbatch < 0 || microbatch >= batches * m_) continue;
        Knowledge knows = before(id, step, lane_knows, done);
        acquire(id, body, knows);
        finish(id, body, knows, lane_knows);
        if (program_.awaited(id)) row[index(id)] = std::move(knows);
      }
    }
  }

  void index_program() {
    const std::size_t cells = placement_.stages() * static_cast<std::size_t>(m_);
    forward_.resize(cells);
    input_gradient_.resize(cells);
    weight_gradient_.resize(cells);
    lane_length_.assign(program_.lanes().size(), 0);
    place_.assign(program_.size(), 0);
    first_gradient_.assign(program_.size(), false);
    updates_.resize(placement_.stages());
    recomputes_.assign(placement_.stages(), false);
    for (const InstructionId id : program_.order()) {
      const Instruction& instruction = program_[id];
      const Op& op = instruction.op;
      if (instruction.lane_count == 0 || is_transfer(op.kind)) continue;
      const LaneId lane = program_.lanes(instruction).front();
      place_[index(id)] = lane_length_[index(lane)];
      for (const LaneId each : program_.lanes(instruction)) ++lane_length_[index(each)];
      const Release release{lane, place_[index(id)], op.microbatch};
      if (op.kind == OpKind::recompute) recomputes_[index(op.stage)] = true;
      if (op.kind == OpKind::update)
        updates_[op.stage].push_back({id, op.microbatch % program_.microbatches(), release});
      for (std::int32_t i = 0; is_compute(op.kind) && i < op.span; ++i) {
        const std::size_t cell = at(op.stage, (op.microbatch - i) % m_);
        const Release here{lane, place_[index(id)], op.microbatch - i};
        if (op.kind == OpKind::forward) forward_[cell] = here;
        if (makes_input_gradient(op.kind)) input_gradient_[cell] = here;
        if (makes_weight_gradient(op.kind)) weight_gradient_[cell] = here;
      }
    }
    for (auto& updates : updates_) {
      std::sort(updates.begin(), updates.end(),
                [](const Update& a, const Update& b) { return a.residue < b.residue; });
    }
    mark_first_gradients();
  }

  /// The first weight gradient of each update acquires its gradient slot.
  void mark_first_gradients() {
    Table<StageId, std::vector<std::int64_t>> last_started(placement_.stages());
    for (const StageId stage : ids(updates_))
      last_started[stage].assign(updates_[stage].size(), -1);
    for (const InstructionId id : program_.order()) {
      const Op& op = program_[id].op;
      if (!makes_weight_gradient(op.kind)) continue;
      const std::size_t update = update_of(op.stage, op.microbatch % m_);
      std::int64_t& started = last_started[op.stage][update];
      if (started < 0) first_gradient_[index(id)] = true;
      started = 1;
    }
  }

  /// As many as are ever in use, the newest with them: a run may pause after any batch, and go on
  /// with what its microbatches in flight would have read.
  void count_versions() {
    for (const StageId stage : ids(counts_)) counts_[stage][SlotKind::weights] = 1;
    for (const Instruction& instruction : program_.instructions()) {
      if (!reads_weights(instruction.op.kind)) continue;
      std::int32_t& count = counts_[instruction.op.stage][SlotKind::weights];
      count = std::max(count, 1 + instruction.op.staleness);
    }
  }

  std::size_t at(StageId stage, std::int64_t residue) const {
    return index(stage) * static_cast<std::size_t>(m_) + static_cast<std::size_t>(residue);
  }
  std::size_t update_of(StageId stage, std::int64_t residue) const {
    const std::vector<Update>& updates = updates_[stage];
    const auto covering =
        std::lower_bound(updates.begin(), updates.end(), residue,
                         [](const Update& update, std::int64_t r) { return update.residue < r; });
    return static_cast<std::size_t>(covering - updates.begin());
  }

  /// What is known when an instruction starts: its lanes' predecessors and its waits.
  Knowledge before(InstructionId id, std::int64_t step, const Table<LaneId, Knowledge>& lane_knows,
                   const std::vector<std::vector<Knowledge>>& done) const {
    const Instruction& instruction = program_[id];
    Knowledge knows;
    knows.device = program_.cost_keys()[instruction.cost].source;
    knows.upto.assign(space_.lanes_of(knows.device).size(), kNothing);
    for (const LaneId lane : program_.lanes(instruction)) learn(space_, knows, lane_knows[lane]);
    for (const Wait& wait : program_.waits(instruction)) {
      if (step < wait.lag) continue;
      learn(space_, knows,
            done[static_cast<std::size_t>(step - wait.lag) % done.size()][index(wait.producer)]);
    }
    return knows;
  }

  void finish(InstructionId id, std::int64_t body, Knowledge& knows,
              Table<LaneId, Knowledge>& lane_knows) {
    for (const LaneId lane : program_.lanes(program_[id])) {
      const std::int32_t place = space_.place(knows.device, lane);
      // A collective stands at different places of its lanes, and releases nothing: its update
      // does.
      if (place != kAbsent && !is_collective(program_[id].op.kind)) {
        knows.upto[static_cast<std::size_t>(place)] =
            body * lane_length_[index(lane)] + place_[index(id)];
      }
    }
    for (const LaneId lane : program_.lanes(program_[id])) lane_knows[lane] = knows;
  }

  bool ended(const Knowledge& knows, const Release& release, std::int64_t microbatch) const {
    const std::int32_t place = space_.place(knows.device, release.lane);
    if (place == kAbsent) return false;
    const std::int64_t body = (microbatch - release.offset) / m_;
    return knows.upto[static_cast<std::size_t>(place)] >=
           body * lane_length_[index(release.lane)] + release.place;
  }

  void acquire(InstructionId id, std::int64_t body, const Knowledge& knows) {
    const Op& op = program_[id].op;
    const std::int64_t microbatch = body * m_ + op.microbatch;
    const StageId stage = op.stage;
    if (op.kind == OpKind::forward) {
      if (!recomputes_[index(stage)]) use(SlotKind::stash, stage, microbatch, knows);
      if (!below_[stage].empty()) use(SlotKind::output, stage, microbatch, knows);
    } else if (op.kind == OpKind::recompute) {
      use(SlotKind::stash, stage, microbatch, knows);
    } else if (op.kind == OpKind::send_activation) {
      use(SlotKind::input, receiver(id, below_[stage], microbatch), microbatch, knows);
    } else if (op.kind == OpKind::send_gradient) {
      use(SlotKind::output_gradient, receiver(id, above_[stage], microbatch), microbatch, knows);
    }
    if (makes_input_gradient(op.kind) && !above_[stage].empty()) {
      use(SlotKind::input_gradient, stage, microbatch, knows);
    }
    if (op.kind == OpKind::backward_input) use(SlotKind::kept_gradients, stage, microbatch, knows);
    if (first_gradient_[index(id)]) use_gradient(stage, microbatch, knows);
  }

  /// The stage on the transfer's target device that takes the microbatch.
  StageId receiver(InstructionId id, const std::vector<StageId>& candidates,
                   std::int64_t microbatch) const {
    const DeviceId target = program_.cost_keys()[program_[id].cost].target;
    for (const StageId stage : candidates) {
      if (placement_.device[stage] == target && processes(stage, microbatch)) return stage;
    }
    TANDEM_CHECK(false, index(target), microbatch);
    return StageId{};
  }

  bool processes(StageId stage, std::int64_t microbatch) const {
    return forward_[at(stage, microbatch % m_)].has_value();
  }

  /// Whether the slot that `stage` used for `microbatch` is known to be free again.
  bool released(SlotKind kind, StageId stage, std::int64_t microbatch,
                const Knowledge& knows) const {
    const std::int64_t residue = microbatch % m_;
    if (kind == SlotKind::output || kind == SlotKind::input_gradient) {
      const bool down = kind == SlotKind::output;
      for (const StageId consumer : down ? below_[stage] : above_[stage]) {
        if (!processes(consumer, microbatch)) continue;
        const bool local = placement_.device[consumer] == placement_.device[stage];
        const auto& by = local ? weight_gradient_ : down ? forward_ : input_gradient_;
        if (!ended(knows, *by[at(consumer, residue)], microbatch)) return false;
      }
      if (!down) return true;
    }
    return ended(knows, *weight_gradient_[at(stage, residue)], microbatch);
  }

  /// The use of `microbatch` begins: its ring must be long enough to reach back only to slots known
  /// to be free.
  void use(SlotKind kind, StageId stage, std::int64_t microbatch, const Knowledge& knows) {
    std::int64_t& oldest =
        oldest_[stage][index(kind)];  // first microbatch whose release is not known
    while (oldest < microbatch &&
           (!processes(stage, oldest) || released(kind, stage, oldest, knows))) {
      ++oldest;
    }
    require(kind, stage, sequence_(stage, microbatch) - sequence_(stage, oldest));
  }

  void use_gradient(StageId stage, std::int64_t microbatch, const Knowledge& knows) {
    const std::vector<Update>& updates = updates_[stage];
    const auto count = static_cast<std::int64_t>(updates.size());
    const std::int64_t now =
        microbatch / m_ * count + static_cast<std::int64_t>(update_of(stage, microbatch % m_));
    std::int64_t& oldest = oldest_[stage][index(SlotKind::gradients)];  // counts updates here
    while (oldest < now) {
      const Update& update = updates[static_cast<std::size_t>(oldest % count)];
      if (!ended(knows, update.release, oldest / count * m_ + update.residue)) break;
      ++oldest;
    }
    require(SlotKind::gradients, stage, now - oldest);
  }

  void require(SlotKind kind, StageId stage, std::int64_t back) {
    std::int32_t& count = counts_[stage][kind];
    count = std::max(count, static_cast<std::int32_t>(back + 1));
  }

  struct Update {
    InstructionId id{};
    std::int32_t residue = 0;
    Release release;
  };

  const Program& program_;
  const Placement& placement_;
  const KnowledgeSpace space_;
  const MicrobatchSequence sequence_;
  const std::int64_t m_;
  SlotCounts counts_;
  Table<StageId, std::array<std::int64_t, kSlotKinds>> oldest_;
  Table<StageId, std::vector<StageId>> below_, above_;
  std::vector<std::optional<Release>> forward_, input_gradient_, weight_gradient_;
  std::vector<Position> lane_length_, place_;
  std::vector<bool> first_gradient_, recomputes_;
  Table<StageId, std::vector<Update>> updates_;
};

}  // namespace

SlotCounts count_slots(const Program& program) { return SlotCounter(program).count(); }

}  // namespace tandem
