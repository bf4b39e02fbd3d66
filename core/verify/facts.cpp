#include "core/verify/facts.h"

#include <set>
#include <string_view>

#include "core/base/units.h"

namespace tandem::verification {

namespace {

std::string_view name(Work work) {
  static constexpr std::array<std::string_view, kWorks> kNames{
      "forward", "input gradient", "weight gradient", "recomputation", "eviction", "load"};
  return kNames[static_cast<std::size_t>(work)];
}

}  // namespace

bool Link::joins(ReplicaId one, ReplicaId other) const {
  return std::ranges::find(edges, Placement::Edge{one, other}) != edges.end();
}

Facts::Facts(const Program& program, Report& report) : program_(program) {
  for (const CostKey& key : program.cost_keys()) {
    width_ = std::max(width_, key.width);
    has_norm_ = has_norm_ || key.kind == OpKind::reduce_norm;
    has_post_validation_ = has_post_validation_ || key.kind == OpKind::validate;
  }
  read_placement();
  read_groups(report);
  read_updates();
  for (const InstructionId id : program.order()) read_work(id, report);
  // These look at whose forward took a microbatch, and at updates.
  for (const InstructionId id : program.order()) {
    const OpKind kind = program[id].op.kind;
    if (moves_stash(kind)) {
      read_move(id, report);
    } else if (is_transfer(kind)) {
      read_transfer(id, report);
    }
    if (is_collective(kind) || kind == OpKind::validate) read_service(id, report);
  }
}

void Facts::read_placement() {
  const std::size_t stages = placement().stages();
  const auto m = static_cast<std::size_t>(microbatches());
  replicas_.resize(stages);
  for (const ReplicaId replica : replicas()) replicas_[stage(replica)].push_back(replica);
  std::array<InstructionId, kWorks> nobody;
  nobody.fill(kNoInstruction);
  for (std::size_t p = 0; p < stages; ++p) work_.push_back({m, nobody});
  std::vector<Placement::Edge> edges = placement().edges;
  std::sort(edges.begin(), edges.end());
  for (const Placement::Edge& edge : edges) {
    const StageId from = stage(edge.from), to = stage(edge.to);
    const auto same = std::ranges::find_if(
        links_, [&](const Link& link) { return link.from == from && link.to == to; });
    if (same != links_.end()) {
      same->edges.push_back(edge);
    } else {
      const std::vector<InstructionId> none(m, kNoInstruction);
      links_.push_back({from, to, {edge}, none, none});
    }
  }
}

void Facts::read_groups(Report& report) {
  for (const InstructionId id : program_.order()) groups_.push_back({id, id});
  Table<LaneId, InstructionId> last(program_.lanes().size(), kNoInstruction);
  for (const InstructionId id : program_.order()) {
    const Op& op = program_[id].op;
    for (const LaneId lane : program_.lanes(program_[id])) {
      const InstructionId before = std::exchange(last[lane], id);
      if (op.group == 0 || !exists(before) || program_[before].op.group != op.group) continue;
      if (!is_compute(op.kind) || !is_compute(program_[before].op.kind) ||
          batch_of(program_, id) != batch_of(program_, before)) {
        report.add(ViolationKind::malformed, id,
                   "{}: one unit with {}, which works on another batch or does not compute",
                   at_instruction(program_, id), at_instruction(program_, before));
        continue;
      }
      groups_[id].first = groups_[before].first;
    }
  }
  for (const InstructionId id : program_.order()) {
    const InstructionId first = groups_[id].first;
    groups_[first].last = id;
    if (program_[id].op.kind != program_[first].op.kind) groups_[first].mixed = true;
  }
  for (Group& group : groups_) group.last = groups_[group.first].last;
}

void Facts::read_updates() {
  updates_.resize(placement().replicas());
  for (const InstructionId id : program_.order()) {
    const Op& op = program_[id].op;
    if (op.kind != OpKind::update) continue;
    updates_[op.replica].push_back(
        {.id = id, .first = residue(id) - op.span + 1, .last = residue(id)});
  }
  for (auto& updates : updates_) std::ranges::stable_sort(updates, {}, &UpdateFact::last);
}

void Facts::read_work(InstructionId id, Report& report) {
  const Op& op = program_[id].op;
  for (std::int32_t r = residue(id) - op.span + 1; r <= residue(id); ++r) {
    if (op.kind == OpKind::forward) enter(Work::forward, id, r, report);
    if (op.kind == OpKind::recompute) enter(Work::recompute, id, r, report);
    if (makes_input_gradient(op.kind)) enter(Work::input_gradient, id, r, report);
    if (makes_weight_gradient(op.kind)) enter(Work::weight_gradient, id, r, report);
  }
}

void Facts::enter(Work work, InstructionId id, std::int32_t residue, Report& report) {
  const StageId stage = this->stage(program_[id].op.replica);
  InstructionId& place =
      work_[stage][static_cast<std::size_t>(residue)][static_cast<std::size_t>(work)];
  if (!exists(place)) {
    place = id;
    return;
  }
  report.add(ViolationKind::duplicate_op, id, "{}: the {} of microbatch {} is also made by {}",
             at_instruction(program_, id), name(work), residue, at_instruction(program_, place));
}

void Facts::read_move(InstructionId id, Report& report) {
  const Op& op = program_[id].op;
  const std::int32_t r = residue(id);
  if (op.span == 1 && replica_of(stage(op.replica), r) == op.replica)
    return enter(op.kind == OpKind::evict ? Work::evict : Work::load, id, r, report);
  report.add(ViolationKind::malformed, id,
             "{} of {}: there is no stash of microbatch {}, or of more than one",
             describe(program_, id), at_replica(program_, op.replica), r);
}

ReplicaId Facts::replica_of(StageId stage, std::int32_t residue) const {
  const InstructionId forward = find(Work::forward, stage, residue);
  return exists(forward) ? program_[forward].op.replica : kNoReplica;
}

InstructionId Facts::last_gradient(StageId stage, std::int32_t residue) const {
  const InstructionId input = find(Work::input_gradient, stage, residue);
  const InstructionId weight = find(Work::weight_gradient, stage, residue);
  if (!exists(input) || !exists(weight)) return exists(input) ? input : weight;
  // Of a later batch in one body: of an earlier body.
  const auto when = [&](InstructionId id) { return std::pair(-batch_of(program_, id), id); };
  return when(input) < when(weight) ? weight : input;
}

std::int32_t Facts::update_covering(ReplicaId replica, std::int32_t residue) const {
  const auto& updates = updates_[replica];
  const auto found = std::ranges::lower_bound(updates, residue, {}, &UpdateFact::last);
  if (found == updates.end() || found->first > residue) return -1;
  return static_cast<std::int32_t>(found - updates.begin());
}

std::pair<const UpdateFact&, std::int64_t> Facts::numbered_update(ReplicaId replica,
                                                                  std::int64_t number) const {
  const auto& updates = updates_[replica];
  const auto per_batch = static_cast<std::int64_t>(updates.size());
  const std::int64_t batches_later = floor_div(number, per_batch);
  return {updates[static_cast<std::size_t>(number - batches_later * per_batch)], batches_later};
}

bool Facts::waits_for(InstructionId waiter, InstructionId producer) const {
  if (!exists(waiter)) return false;
  return std::ranges::any_of(program_.waits(program_[waiter]),
                             [&](const Wait& wait) { return wait.producer == producer; });
}

/// The place of a transfer among the links of its stage. Where several edges lead to one device,
/// the consumer that waits for the transfer tells them apart.
InstructionId* Facts::free_transfer(InstructionId id, std::int32_t r) {
  const Instruction& instruction = program_[id];
  const bool forwards = instruction.op.kind == OpKind::send_activation;
  const DeviceId target = program_.cost_keys()[instruction.cost].target;
  InstructionId* first_free = nullptr;
  for (Link& link : links_) {
    const StageId sending = forwards ? link.from : link.to;
    if (sending != stage(instruction.op.replica)) continue;
    const StageId receiving = forwards ? link.to : link.from;
    const ReplicaId from = replica_of(link.from, r), to = replica_of(link.to, r);
    if (from == kNoReplica || to == kNoReplica || !link.joins(from, to)) continue;
    const ReplicaId sender = forwards ? from : to, receiver = forwards ? to : from;
    if (sender != instruction.op.replica || device(receiver) != target) continue;
    if (device(sender) == target) continue;
    InstructionId& place =
        (forwards ? link.activation : link.gradient)[static_cast<std::size_t>(r)];
    if (exists(place)) continue;
    if (first_free == nullptr) first_free = &place;
    const Work next = forwards ? Work::forward : Work::input_gradient;
    if (waits_for(find(next, receiving, r), id)) return &place;
  }
  return first_free;
}

void Facts::read_transfer(InstructionId id, Report& report) {
  const Op& op = program_[id].op;
  for (std::int32_t r = residue(id) - op.span + 1; r <= residue(id); ++r) {
    if (InstructionId* place = free_transfer(id, r)) {
      *place = id;
    } else {
      report.add(ViolationKind::duplicate_op, id,
                 "{} of {}: no edge needs it for microbatch {}, or one has it twice",
                 describe(program_, id), at_replica(program_, op.replica), r);
    }
  }
}

/// One replica of each tied stage, chosen so that their devices are the instruction's.
std::vector<ReplicaId> Facts::tied_participants(InstructionId id) const {
  const ReplicaId own = program_[id].op.replica;
  std::set<DeviceId> wanted;
  for (const LaneId lane : program_.lanes(program_[id]))
    wanted.insert(program_.lanes()[lane].device);
  constexpr std::size_t kMostChoices = 4096;
  std::vector<std::vector<ReplicaId>> choices{{}};
  for (const StageId tied : placement().tied_with(stage(own))) {
    std::vector<std::vector<ReplicaId>> longer;
    for (const auto& chosen : choices) {
      for (const ReplicaId replica : replicas_[tied]) {
        if (tied == stage(own) ? replica != own : replica < own) continue;
        if (!wanted.contains(device(replica)) || longer.size() == kMostChoices) continue;
        longer.push_back(chosen);
        longer.back().push_back(replica);
      }
    }
    choices = std::move(longer);
  }
  for (auto& chosen : choices) {
    std::set<DeviceId> devices;
    for (const ReplicaId replica : chosen) devices.insert(device(replica));
    std::sort(chosen.begin(), chosen.end());
    if (chosen.size() > 1 && devices == wanted) return chosen;
  }
  return {};
}

std::vector<ReplicaId> Facts::participants(InstructionId id) const {
  const Op& op = program_[id].op;
  if (op.kind == OpKind::validate) return {op.replica};
  if (op.kind == OpKind::reduce_tied) return tied_participants(id);
  if (op.kind == OpKind::reduce_norm) {
    std::vector<ReplicaId> all;
    for (const ReplicaId replica : replicas()) all.push_back(replica);
    return op.replica == ReplicaId{} ? all : std::vector<ReplicaId>{};
  }
  const std::vector<ReplicaId>& replicas = replicas_[stage(op.replica)];
  return replicas.front() == op.replica ? replicas : std::vector<ReplicaId>{};
}

/// The update of `replica` that covers the same microbatches as `id`; null, and reported, if none
/// does.
UpdateFact* Facts::update_like(ReplicaId replica, InstructionId id, Report& report) {
  const std::int32_t covering = update_covering(replica, residue(id)), span = program_[id].op.span;
  if (covering >= 0) {
    UpdateFact& update = updates_[replica][static_cast<std::size_t>(covering)];
    if (update.last == residue(id) && update.first == residue(id) - span + 1) return &update;
  }
  report.add(ViolationKind::malformed, id, "{}: no update of {} covers just its {} microbatches",
             at_instruction(program_, id), at_replica(program_, replica), span);
  return nullptr;
}

/// Collectives and validations serve an update, each stage's once.
void Facts::read_service(InstructionId id, Report& report) {
  const Op& op = program_[id].op;
  const std::vector<ReplicaId> replicas = participants(id);
  if (replicas.empty()) {
    report.add(ViolationKind::malformed, id, "{}: its stage and lanes name no set of participants",
               at_instruction(program_, id));
  }
  for (const ReplicaId replica : replicas) {
    UpdateFact* update = update_like(replica, id, report);
    if (update == nullptr) continue;
    InstructionId& place = op.kind == OpKind::validate      ? update->validate
                           : op.kind == OpKind::reduce_tied ? update->reduce_tied
                           : op.kind == OpKind::reduce_norm ? update->reduce_norm
                                                            : update->reduce_gradient;
    if (exists(place)) {
      report.add(ViolationKind::duplicate_op, id, "{}: {} already takes part in {}",
                 at_instruction(program_, id), at_replica(program_, replica),
                 at_instruction(program_, place));
    } else {
      place = id;
    }
  }
}

}  // namespace tandem::verification
