#include "core/verify/facts.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace tandem::verification {

namespace {

/// Tables far larger than the program would only say at length that nearly everything is missing.
constexpr std::size_t kSmallTables = std::size_t{1} << 22;

std::string_view name(Work work) {
  static constexpr std::array<std::string_view, kWorks> kNames{"forward", "input gradient",
                                                               "weight gradient", "recomputation"};
  return kNames[static_cast<std::size_t>(work)];
}

}  // namespace

Facts::Facts(const Order& order, Report& report)
    : program_(&order.program()),
      order_(&order),
      m_(order.program().microbatches()),
      parts_(order.program().placement().parts()) {
  const Program& program = *program_;
  for (const CostKey& key : program.cost_keys()) {
    width_ = std::max(width_, key.width);
    has_norm_ = has_norm_ || key.kind == OpKind::reduce_norm;
    has_validation_ = has_validation_ || key.kind == OpKind::validate;
  }
  read_placement();
  const std::size_t rows = parts_ * static_cast<std::size_t>(m_);
  if (rows > std::max(program.size(), kSmallTables)) {
    hopeless_ = true;
    report.add(ViolationKind::missing_op, InstructionId{},
               "{} parts and {} microbatches need a forward and a backward each, but the program "
               "has only {} instructions",
               parts_, m_, program.size());
    return;
  }
  read_groups(report);
  read_work(report);
  for (Link& link : links_) {
    link.activation.resize(static_cast<std::size_t>(m_));
    link.gradient.resize(static_cast<std::size_t>(m_));
  }
  for (const InstructionId id : program.order()) {
    const OpKind kind = program[id].op.kind;
    if (moves_stash(kind)) {
      read_move(id, report);
    } else if (is_transfer(kind)) {
      read_transfer(id, report);
    }
    if (is_collective(kind)) read_collective(id, report);
    if (kind == OpKind::validate) read_validation(id, report);
  }
}

void Facts::read_placement() {
  replicas_.resize(parts_);
  for (const StageId stage : ids(placement().part)) replicas_[part(stage)].push_back(stage);
  links_from_.resize(parts_);
  links_to_.resize(parts_);
  std::vector<Placement::Edge> edges = placement().edges;
  std::sort(edges.begin(), edges.end());
  for (const Placement::Edge& edge : edges) {
    const PartId from = part(edge.from), to = part(edge.to);
    const auto& known = links_from_[from];
    const auto same =
        std::find_if(known.begin(), known.end(), [&](std::size_t i) { return links_[i].to == to; });
    if (same != known.end()) {
      links_[*same].edges.push_back(edge);
      continue;
    }
    links_from_[from].push_back(links_.size());
    links_to_[to].push_back(links_.size());
    links_.push_back({from, to, {edge}, {}, {}});
  }
  updates_.resize(placement().stages());
}

void Facts::read_groups(Report& report) {
  const auto grouped = [](const Instruction& one) { return one.op.group != 0; };
  if (std::ranges::none_of(program_->instructions(), grouped)) return;
  Table<LaneId, InstructionId> last(program_->lanes().size(), kNoInstruction);
  for (const InstructionId id : program_->order()) {
    const Op& op = (*program_)[id].op;
    for (const LaneId lane : program_->lanes((*program_)[id])) {
      const InstructionId before = std::exchange(last[lane], id);
      if (op.group == 0 || !exists(before) || (*program_)[before].op.group != op.group) continue;
      if (groups_.empty()) {
        for (const InstructionId each : program_->order()) groups_.push_back({each, each});
      }
      const Op& other = (*program_)[before].op;
      if (!is_compute(op.kind) || !is_compute(other.kind) ||
          order_->batch(id) != order_->batch(before)) {
        report.add(ViolationKind::malformed, id,
                   "{}: one unit with {}, which works on another batch or does not compute",
                   at_instruction(*program_, id), at_instruction(*program_, before));
        continue;
      }
      groups_[index(id)].first = groups_[index(before)].first;
    }
  }
  for (const InstructionId id : program_->order()) {
    if (!groups_.empty()) groups_[index(groups_[index(id)].first)].last = id;
  }
  for (Group& group : groups_) group.last = groups_[index(group.first)].last;
}

void Facts::enter(Work work, InstructionId id, std::int32_t residue, Report& report) {
  const Op& op = (*program_)[id].op;
  WorkFact& place = work_[row(part(op.stage), residue)][static_cast<std::size_t>(work)];
  if (!exists(place.id)) {
    place = {order_->seated(id), op.stage, op.staleness};
    return;
  }
  report.add(ViolationKind::duplicate_op, id, "{}: the {} of microbatch {} is also made by {}",
             at_instruction(*program_, id), name(work), residue,
             at_instruction(*program_, place.id));
}

void Facts::read_work(Report& report) {
  work_.resize(parts_ * static_cast<std::size_t>(m_));
  only_ = Table<PartId, StageId>(parts_, kNoStage);
  for (const InstructionId id : program_->order()) {
    const Op& op = (*program_)[id].op;
    if (op.kind == OpKind::update) {
      updates_[op.stage].push_back(
          {.id = order_->seated(id), .first = residue(id) - op.span + 1, .last = residue(id)});
    }
    if (!is_compute(op.kind)) continue;
    for (std::int32_t r = residue(id) - op.span + 1; r <= residue(id); ++r) {
      if (op.kind == OpKind::forward) enter(Work::forward, id, r, report);
      if (op.kind == OpKind::recompute) enter(Work::recompute, id, r, report);
      if (makes_input_gradient(op.kind)) enter(Work::input_gradient, id, r, report);
      if (makes_weight_gradient(op.kind)) enter(Work::weight_gradient, id, r, report);
    }
  }
  for (const PartId part : ids(replicas_)) {
    if (replicas_[part].size() != 1) continue;
    const auto first = work_.begin() + static_cast<std::ptrdiff_t>(row(part, 0));
    const bool all = std::all_of(first, first + m_, [](const auto& of) {
      return of[static_cast<std::size_t>(Work::forward)].stage != kNoStage;
    });
    if (all) only_[part] = replicas_[part].front();
  }
  for (auto& list : updates_) {
    std::sort(list.begin(), list.end(), [](const UpdateFact& a, const UpdateFact& b) {
      return std::pair(a.last, a.id.id) < std::pair(b.last, b.id.id);
    });
  }
}

Seated Facts::later(Seated one, Seated other) const {
  const auto when = [&](InstructionId id) { return std::pair(-order_->batch(id), id); };
  return when(one) < when(other) ? other : one;
}

std::int32_t Facts::search_covering(StageId stage, std::int32_t residue) const {
  const auto& list = updates_[stage];
  const auto found =
      std::lower_bound(list.begin(), list.end(), residue,
                       [](const UpdateFact& update, std::int32_t r) { return update.last < r; });
  if (found == list.end() || found->first > residue) return -1;
  return static_cast<std::int32_t>(found - list.begin());
}

bool Facts::waited_for_by(InstructionId producer, InstructionId waiter) const {
  if (!exists(waiter)) return false;
  const auto waits = program_->waits((*program_)[waiter]);
  return std::any_of(waits.begin(), waits.end(),
                     [&](const Wait& wait) { return wait.producer == producer; });
}

/// The place of a transfer among the links of its stage. Where several edges lead to one device,
/// the consumer that waits for the transfer tells them apart.
Seated* Facts::free_transfer(InstructionId id, std::int32_t r) {
  const Instruction& instruction = (*program_)[id];
  const bool forwards = instruction.op.kind == OpKind::send_activation;
  const DeviceId target = program_->cost_keys()[instruction.cost].target;
  const auto& candidates = (forwards ? links_from_ : links_to_)[part(instruction.op.stage)];
  Seated* first_free = nullptr;
  for (const std::size_t i : candidates) {
    Link& link = links_[i];
    const StageId from = stage_of(link.from, r), to = stage_of(link.to, r);
    if (from == kNoStage || to == kNoStage || !link.joins(from, to)) continue;
    const StageId sender = forwards ? from : to, receiver = forwards ? to : from;
    if (sender != instruction.op.stage || device(receiver) != target) continue;
    if (device(sender) == target) continue;
    Seated& place = (forwards ? link.activation : link.gradient)[static_cast<std::size_t>(r)];
    const Work next = forwards ? Work::forward : Work::input_gradient;
    if (exists(place)) continue;
    if (candidates.size() == 1 || waited_for_by(id, find(next, part(receiver), r))) return &place;
    if (first_free == nullptr) first_free = &place;
  }
  return first_free;
}

void Facts::read_transfer(InstructionId id, Report& report) {
  const Op& op = (*program_)[id].op;
  for (std::int32_t r = residue(id) - op.span + 1; r <= residue(id); ++r) {
    if (Seated* place = free_transfer(id, r)) {
      *place = order_->seated(id);
    } else {
      report.add(ViolationKind::duplicate_op, id,
                 "{} of {}: no edge needs it for microbatch {}, or one has it twice",
                 describe(*program_, id), at_stage(*program_, op.stage), r);
    }
  }
}

void Facts::read_move(InstructionId id, Report& report) {
  const Op& op = (*program_)[id].op;
  const std::int32_t r = residue(id);
  if (op.span != 1 || stage_of(part(op.stage), r) != op.stage) {
    report.add(ViolationKind::malformed, id,
               "{} of {}: there is no stash of microbatch {}, or of more than one",
               describe(*program_, id), at_stage(*program_, op.stage), r);
    return;
  }
  if (evictions_.empty()) evictions_.resize(parts_ * static_cast<std::size_t>(m_));
  Eviction& eviction = evictions_[row(part(op.stage), r)];
  Seated& place = op.kind == OpKind::evict ? eviction.evict : eviction.load;
  if (!exists(place)) {
    place = order_->seated(id);
    return;
  }
  report.add(ViolationKind::duplicate_op, id, "{} of {}: microbatch {} is moved by {} already",
             describe(*program_, id), at_stage(*program_, op.stage), r, describe(*program_, place));
}

/// One replica of each tied part, chosen so that their devices are the instruction's.
std::vector<StageId> Facts::tied_participants(InstructionId id) const {
  const Instruction& instruction = (*program_)[id];
  std::vector<DeviceId> wanted;
  for (const LaneId lane : program_->lanes(instruction)) {
    wanted.push_back(program_->lanes()[lane].device);
  }
  std::sort(wanted.begin(), wanted.end());
  wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());

  std::vector<std::vector<StageId>> found{{}};
  constexpr std::size_t kMostChoices = 4096;
  for (const PartId tied : placement().tied_with(part(instruction.op.stage))) {
    std::vector<std::vector<StageId>> longer;
    for (const auto& chosen : found) {
      for (const StageId stage : replicas_[tied]) {
        const bool own = tied == part(instruction.op.stage);
        if (own ? stage != instruction.op.stage : stage < instruction.op.stage) continue;
        if (!std::binary_search(wanted.begin(), wanted.end(), device(stage))) continue;
        if (longer.size() == kMostChoices) break;
        longer.push_back(chosen);
        longer.back().push_back(stage);
      }
    }
    found = std::move(longer);
  }
  for (auto& chosen : found) {
    std::vector<DeviceId> devices;
    for (const StageId stage : chosen) devices.push_back(device(stage));
    std::sort(devices.begin(), devices.end());
    devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
    std::sort(chosen.begin(), chosen.end());
    if (chosen.size() > 1 && devices == wanted) return chosen;
  }
  return {};
}

std::vector<StageId> Facts::participants(InstructionId id) const {
  const Op& op = (*program_)[id].op;
  if (op.kind == OpKind::reduce_tied) return tied_participants(id);
  if (op.kind == OpKind::reduce_norm) {
    std::vector<StageId> all;
    for (const StageId stage : ids(placement().device)) all.push_back(stage);
    return op.stage == StageId{} ? all : std::vector<StageId>{};
  }
  const std::vector<StageId>& stages = replicas_[part(op.stage)];
  return stages.front() == op.stage ? stages : std::vector<StageId>{};
}

/// The update of `stage` that covers the same microbatches as `id`; null, and reported, if none
/// does.
UpdateFact* Facts::update_like(StageId stage, InstructionId id, Report& report) {
  const std::int32_t covering = update_covering(stage, residue(id)), span = (*program_)[id].op.span;
  if (covering >= 0) {
    UpdateFact& update = updates_[stage][static_cast<std::size_t>(covering)];
    if (update.last == residue(id) && update.first == residue(id) - span + 1) return &update;
  }
  report.add(ViolationKind::malformed, id, "{}: no update of {} covers just its {} microbatches",
             at_instruction(*program_, id), at_stage(*program_, stage), span);
  return nullptr;
}

void Facts::read_validation(InstructionId id, Report& report) {
  UpdateFact* update = update_like((*program_)[id].op.stage, id, report);
  if (update == nullptr) return;
  if (exists(update->validate)) {
    report.add(ViolationKind::duplicate_op, id, "{}: {} is validated by {} already",
               at_instruction(*program_, id), at_instruction(*program_, update->id),
               at_instruction(*program_, update->validate));
  } else {
    update->validate = order_->seated(id);
  }
}

void Facts::read_collective(InstructionId id, Report& report) {
  const Op& op = (*program_)[id].op;
  const std::vector<StageId> stages = participants(id);
  if (stages.empty()) {
    report.add(ViolationKind::malformed, id, "{}: its stage and lanes name no set of participants",
               at_instruction(*program_, id));
  }
  for (const StageId stage : stages) {
    UpdateFact* update = update_like(stage, id, report);
    if (update == nullptr) continue;
    Seated& place = op.kind == OpKind::reduce_tied   ? update->reduce_tied
                    : op.kind == OpKind::reduce_norm ? update->reduce_norm
                                                     : update->reduce_gradient;
    if (exists(place)) {
      report.add(ViolationKind::duplicate_op, id, "{}: {} already takes part in {}",
                 at_instruction(*program_, id), at_stage(*program_, stage),
                 at_instruction(*program_, place));
    } else {
      place = order_->seated(id);
    }
  }
}

}  // namespace tandem::verification
