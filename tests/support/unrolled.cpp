#include "tests/support/unrolled.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "core/base/check.h"

namespace tandem::testing {

Unrolled::Unrolled(const Program& program, std::int64_t batches) {
  const std::int64_t m = program.microbatches();
  std::map<std::pair<std::int64_t, InstructionId>, std::size_t> node_of;
  for (std::int64_t body = -program.ramp(); body < batches; ++body) {
    for (const InstructionId id : program.order()) {
      const std::int64_t microbatch = body * m + program[id].op.microbatch;
      if (microbatch < 0 || microbatch >= batches * m) continue;
      node_of[{body, id}] = nodes_.size();
      nodes_.push_back({id, body, microbatch, {}});
    }
  }
  std::map<LaneId, std::size_t> last;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    Node& node = nodes_[i];
    for (const LaneId lane : program.lanes(program[node.id])) {
      if (last.count(lane) > 0) node.follows.push_back(last[lane]);
      last[lane] = i;
    }
    for (const Wait& wait : program.waits(program[node.id])) {
      const auto found = node_of.find({node.body - wait.lag, wait.producer});
      if (found != node_of.end()) node.follows.push_back(found->second);
    }
    for (const std::size_t before : node.follows) ordered_ = ordered_ && before < i;
  }
  if (!ordered_) return;
  ancestors_.assign(nodes_.size(), std::vector<std::uint64_t>(nodes_.size() / 64 + 1));
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    for (const std::size_t before : nodes_[i].follows) {
      ancestors_[i][before / 64] |= std::uint64_t{1} << (before % 64);
      for (std::size_t word = 0; word <= before / 64; ++word) {
        ancestors_[i][word] |= ancestors_[before][word];
      }
    }
  }
}

std::vector<Span> longest_path(const Program& program, const CostTable& costs,
                               std::int64_t batches) {
  const Unrolled run(program, batches);
  TANDEM_CHECK(run.ordered());
  std::vector<Span> spans;
  for (const Unrolled::Node& node : run.nodes()) {
    Duration start{};
    for (const std::size_t before : node.follows) start = std::max(start, spans[before].end);
    spans.push_back({node.id, node.body, start, start + costs[program[node.id].cost]});
  }
  return spans;
}

namespace {

constexpr std::size_t kNone = static_cast<std::size_t>(-1);

/// The requirements of one run, one after the other, with absolute microbatches and no assumption
/// of repetition.
class Requirements {
 public:
  Requirements(const Program& program, const SlotCounts& slots, std::int64_t batches)
      : program_(program),
        placement_(program.placement()),
        slots_(slots),
        microbatches_(batches * program.microbatches()),
        run_(program, batches) {
    if (run_.ordered()) read();
  }

  /// The slots of one ring are enough.
  bool holds(ReplicaId replica, SlotKind kind, std::int32_t count) {
    slots_[replica][kind] = count;
    faults_.clear();
    holds_versions(kind) ? check_versions(replica, kind) : check_ring(replica, kind);
    return std::none_of(faults_.begin(), faults_.end(), [&](const std::string& fault) {
      return fault.starts_with("slot") || fault == kOverwritten;
    });
  }

  /// Whether no forward of the stage runs while a microbatch that is run again holds a stash.
  bool can_borrow(ReplicaId replica) {
    for (std::int64_t k = 0; k < microbatches_; ++k) {
      const std::size_t taken = find(Work::recompute, replica, k),
                        freed = last_gradient(replica, k);
      if (taken == kNone || freed == kNone) continue;
      for (std::int64_t other = 0; other < microbatches_; ++other) {
        const std::size_t forward = find(Work::forward, replica, other);
        if (forward == kNone) continue;
        if (!run_.before(forward, taken) && !run_.before(freed, forward)) return false;
      }
    }
    return true;
  }

  std::vector<std::string> check() {
    if (!run_.ordered()) return {"out of order"};
    check_units();
    for (const ReplicaId replica : ids(placement_.device)) check_updates(replica);
    for (std::int64_t k = 0; k < microbatches_; ++k) check_microbatch(k);
    for (const ReplicaId replica : ids(placement_.device)) {
      check_rollbacks(replica);
      check_recomputations(replica);
      for (std::size_t row = 0; row < kSlotKinds; ++row) {
        const auto kind = static_cast<SlotKind>(row);
        holds_versions(kind) ? check_versions(replica, kind) : check_ring(replica, kind);
      }
    }
    check_strays();
    return faults_;
  }

 private:
  static constexpr const char* kOverwritten = "order: weights are overwritten after they are read";
  enum class Work { forward, recompute, input, weight, evict, load };
  struct Update {
    std::int64_t first, last;
    std::size_t node;
    std::size_t validate = kNone;
  };
  struct Transfer {
    std::size_t node;
    bool used = false;
  };

  const Op& op(std::size_t node) const { return program_[run_.nodes()[node].id].op; }

  template <class... Args>
  void fault(fmt::format_string<Args...> format, Args&&... args) {
    faults_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  void read() {
    for (std::size_t i = 0; i < run_.nodes().size(); ++i) {
      const Instruction& instruction = program_[run_.nodes()[i].id];
      const Op& one = instruction.op;
      const std::int64_t last = run_.nodes()[i].microbatch, first = last - one.span + 1;
      if (one.kind == OpKind::update) updates_[one.replica].push_back({first, last, i});
      if (is_collective(one.kind)) reduces_.push_back({first, last, i});
      for (std::int64_t k = first; k <= last; ++k) {
        if (one.kind == OpKind::evict) enter(Work::evict, one.replica, k, i);
        if (one.kind == OpKind::load) enter(Work::load, one.replica, k, i);
        if (is_transfer(one.kind) && !moves_stash(one.kind)) {
          const DeviceId to = program_.cost_keys()[instruction.cost].target;
          transfers_[{one.kind, one.replica, to, k}].push_back({i});
        }
        if (one.kind == OpKind::forward) enter(Work::forward, one.replica, k, i);
        if (one.kind == OpKind::recompute) enter(Work::recompute, one.replica, k, i);
        if (makes_input_gradient(one.kind)) enter(Work::input, one.replica, k, i);
        if (makes_weight_gradient(one.kind)) enter(Work::weight, one.replica, k, i);
      }
    }
    for (auto& [replica, list] : updates_) {
      std::sort(list.begin(), list.end(), [](auto& a, auto& b) { return a.last < b.last; });
    }
    for (std::size_t i = 0; i < run_.nodes().size(); ++i) {
      if (op(i).kind == OpKind::validate) read_validate(i);
    }
  }

  void read_validate(std::size_t node) {
    const std::int64_t last = run_.nodes()[node].microbatch;
    auto& list = updates_[op(node).replica];
    const auto of = std::find_if(list.begin(), list.end(), [&](const Update& update) {
      return update.last == last && update.first == last - op(node).span + 1;
    });
    if (of == list.end()) return fault("stray: validate of {}", last);
    if (of->validate != kNone) return fault("twice: validate of {}", last);
    of->validate = node;
  }

  bool priced(OpKind kind) const {
    return std::ranges::any_of(program_.cost_keys(),
                               [kind](const CostKey& key) { return key.kind == kind; });
  }

  void enter(Work work, ReplicaId replica, std::int64_t k, std::size_t node) {
    if (!work_.emplace(std::tuple(work, replica, k), node).second) fault("twice: work on {}", k);
  }

  std::size_t find(Work work, ReplicaId replica, std::int64_t k) const {
    const auto found = work_.find({work, replica, k});
    return found == work_.end() ? kNone : found->second;
  }

  /// Neighbours on a lane of one group are one unit; of each instruction the unit's first.
  std::vector<InstructionId> find_units() const {
    std::vector<InstructionId> first;
    std::map<LaneId, InstructionId> last;
    for (const InstructionId id : program_.order()) {
      first.push_back(id);
      for (const LaneId lane : program_.lanes(program_[id])) {
        const auto before = last.find(lane);
        if (before != last.end() && program_[id].op.group != 0 &&
            program_[before->second].op.group == program_[id].op.group) {
          first.back() = first[index(before->second)];
        }
        last[lane] = id;
      }
    }
    return first;
  }

  void check_units() {
    const std::vector<InstructionId> first = find_units();
    std::map<std::pair<std::int64_t, InstructionId>, std::vector<std::size_t>> members;
    for (std::size_t i = 0; i < run_.nodes().size(); ++i) {
      members[{run_.nodes()[i].body, first[index(run_.nodes()[i].id)]}].push_back(i);
    }
    std::map<InstructionId, std::set<OpKind>> kinds;
    for (const InstructionId id : program_.order())
      kinds[first[index(id)]].insert(program_[id].op.kind);
    for (const InstructionId id : program_.order()) {
      const bool alone = std::count(first.begin(), first.end(), first[index(id)]) == 1;
      const Op &op = program_[id].op, &other = program_[first[index(id)]].op;
      const bool alike = kinds[first[index(id)]].size() == 1;
      if (program_.cost_keys()[program_[id].cost].overlapped == alike) fault("price: of a unit");
      const std::int32_t m = program_.microbatches();
      if (!alone && (!is_compute(op.kind) || op.microbatch / m != other.microbatch / m)) {
        fault("unit: of what can't be one");
      }
    }
    for (const auto& [unit, nodes] : members) {
      for (const std::size_t node : nodes) unit_of_[node] = {nodes.front(), nodes.back()};
    }
  }

  void need(std::size_t first, std::size_t then, const char* why) {
    if (first == kNone || then == kNone || first == then) return;
    if (const auto unit = unit_of_.find(first), other = unit_of_.find(then);
        unit != unit_of_.end() && other != unit_of_.end() && unit->second != other->second) {
      first = unit->second.second;
      then = other->second.first;
    }
    if (!run_.before(first, then)) fault("order: {}", why);
  }

  /// The transfer from one stage to another that the receiver's op waits for, or any.
  std::size_t transfer(OpKind kind, ReplicaId from, ReplicaId to, std::int64_t k) {
    const auto key = std::tuple(kind, from, placement_.device[to], k);
    const auto known = taken_.find({kind, from, to, k});
    if (known != taken_.end()) return known->second;
    const Work next = kind == OpKind::send_activation ? Work::forward : Work::input;
    Transfer* best = nullptr;
    for (Transfer& one : transfers_[key]) {
      if (one.used) continue;
      const std::size_t then = find(next, to, k);
      const bool waited = then != kNone && std::count(run_.nodes()[then].follows.begin(),
                                                      run_.nodes()[then].follows.end(), one.node);
      if (best == nullptr || waited) best = &one;
    }
    if (best == nullptr) {
      fault("missing: transfer of {}", k);
      return kNone;
    }
    best->used = true;
    return taken_[{kind, from, to, k}] = best->node;
  }

  void check_microbatch(std::int64_t k) {
    for (std::size_t stage = 0; stage < placement_.stages(); ++stage) {
      std::size_t processing = 0;
      for (const ReplicaId replica : placement_.replicas_of(id_at<StageId>(stage))) {
        const std::size_t forward = find(Work::forward, replica, k);
        const std::size_t again = find(Work::recompute, replica, k);
        const std::size_t input = find(Work::input, replica, k);
        const std::size_t weight = find(Work::weight, replica, k);
        processing += forward != kNone;
        if ((forward == kNone) != (input == kNone) || (forward == kNone) != (weight == kNone) ||
            (forward == kNone && again != kNone)) {
          fault("missing: work on {}", k);
        }
        need(forward, again, "recompute after forward");
        need(forward, input, "backward after forward");
        need(again, input, "backward after recompute");
        need(input, weight, "weight gradient after backward");
        if (k % program_.slices() > 0) {
          need(find(Work::forward, replica, k - 1), forward, "forward after the slice before");
          need(input, find(Work::input, replica, k - 1), "backward after the slice behind");
        }
        const std::size_t evict = find(Work::evict, replica, k),
                          load = find(Work::load, replica, k);
        if ((evict == kNone) != (load == kNone)) fault("missing: half of an eviction of {}", k);
        if (evict != kNone && (forward == kNone || again != kNone)) fault("no stash to evict");
        need(forward, evict, "evict after forward");
        need(evict, load, "load after evict");
        need(load, input, "backward after load");
      }
      if (processing != 1) fault("missing: forward of {}", k);
    }
    for (const Placement::Edge& edge : placement_.edges) check_edge(edge, k);
  }

  void check_edge(const Placement::Edge& edge, std::int64_t k) {
    const bool here = find(Work::forward, edge.from, k) != kNone;
    const bool there = find(Work::forward, edge.to, k) != kNone;
    if (!here || !there) return;
    std::size_t down = find(Work::forward, edge.from, k), up = find(Work::input, edge.to, k);
    if (placement_.device[edge.from] != placement_.device[edge.to]) {
      const std::size_t activation = transfer(OpKind::send_activation, edge.from, edge.to, k);
      const std::size_t gradient = transfer(OpKind::send_gradient, edge.to, edge.from, k);
      need(down, activation, "send after forward");
      need(up, gradient, "send after backward");
      down = activation;
      up = gradient;
    }
    need(down, find(Work::forward, edge.to, k), "forward after its input");
    need(up, find(Work::input, edge.from, k), "backward after its gradient");
  }

  void check_updates(ReplicaId replica) {
    std::int64_t next = 0;
    std::size_t before = kNone;
    const StageId stage = placement_.stage[replica];
    for (const Update& update : updates_[replica]) {
      if (update.first != next) fault("missing: update for {}", next);
      next = update.last + 1;
      need(before, update.node, "updates one after the other");
      before = update.node;
      const bool tied = placement_.tied_with(stage).size() > 1;
      const bool replicated = placement_.replicas_of(stage).size() > 1 || width() > 1;
      check_reduce(replica, update, OpKind::reduce_tied, tied);
      check_reduce(replica, update, OpKind::reduce_gradient, replicated);
      check_norm(replica, update);
      if (priced(OpKind::validate) && update.validate == kNone) fault("missing: validate");
      need(update.node, update.validate, "validate after update");
      for (std::int64_t k = update.first; k <= update.last; ++k) {
        need(find(Work::weight, replica, k), update.node, "update after gradient");
      }
    }
    if (next != microbatches_) fault("missing: update for {}", next);
  }

  /// Where norms have a price every update waits for one, of gradients that are summed already; or
  /// its validate does.
  void check_norm(ReplicaId replica, const Update& update) {
    const bool wanted = priced(OpKind::reduce_norm) || priced(OpKind::validate);
    std::size_t found = 0;
    for (const Update& norm : reduces_) {
      if (op(norm.node).kind != OpKind::reduce_norm) continue;
      if (norm.last != update.last || norm.first != update.first) continue;
      ++found;
      need(norm.node, update.validate == kNone ? update.node : update.validate,
           "update or validate after norm");
      for (std::int64_t k = update.first; k <= update.last; ++k) {
        need(find(Work::weight, replica, k), norm.node, "norm after gradient");
      }
      for (const Update& sum : reduces_) {
        if (op(sum.node).kind == OpKind::reduce_norm || sum.last != norm.last) continue;
        need(sum.node, norm.node, "norm after sum");
      }
    }
    if (found != (wanted ? 1 : 0)) fault("missing, or twice: norm for {}", update.last);
  }

  std::uint16_t width() const {
    std::uint16_t width = 1;
    for (const CostKey& key : program_.cost_keys()) width = std::max(width, key.width);
    return width;
  }

  /// For tied stages only that the stage's device takes part: enough for the placements tried,
  /// where it tells.
  void check_reduce(ReplicaId replica, const Update& update, OpKind kind, bool wanted) {
    std::size_t found = 0;
    for (const Update& reduce : reduces_) {
      if (op(reduce.node).kind != kind || reduce.last != update.last) continue;
      if (reduce.first != update.first) continue;
      const StageId of = placement_.stage[op(reduce.node).replica],
                    stage = placement_.stage[replica];
      const auto tied = placement_.tied_with(stage);
      if (kind == OpKind::reduce_gradient && of != stage) continue;
      if (kind == OpKind::reduce_tied && !std::count(tied.begin(), tied.end(), of)) continue;
      const auto lanes = program_.lanes(program_[run_.nodes()[reduce.node].id]);
      if (std::none_of(lanes.begin(), lanes.end(), [&](LaneId lane) {
            return program_.lanes()[lane].device == placement_.device[replica];
          })) {
        continue;
      }
      ++found;
      need(reduce.node, update.node, "update after sum");
      for (std::int64_t k = update.first; k <= update.last; ++k) {
        need(find(Work::weight, replica, k), reduce.node, "sum after gradient");
      }
    }
    if (wanted && found == 0) fault("missing: sum for {}", update.last);
    // Two replicas on one device make two tied sums there.
    if (found > placement_.replicas_on(placement_.device[replica]).size()) fault("twice: sum");
  }

  static bool holds_versions(SlotKind kind) {
    return kind == SlotKind::weights || kind == SlotKind::forward_weights ||
           kind == SlotKind::backward_weights;
  }

  /// The plane of a version: predicted or corrected where the stage says so, or the weights.
  SlotKind read_by(Work work, ReplicaId replica) const {
    const Reading of = program_.reading(replica);
    const bool backward = work == Work::input;
    if (backward && of.corrects()) return SlotKind::backward_weights;
    if (backward && of.backward_horizon != of.forward_horizon)
      return of.backward_horizon > 0 ? SlotKind::backward_weights : SlotKind::weights;
    return of.forward_horizon > 0 ? SlotKind::forward_weights : SlotKind::weights;
  }

  /// Whether a forward takes what its microbatch read on stage 0, a fault if that is another.
  bool entered(Work work, ReplicaId replica, std::int64_t k, std::int64_t version) {
    if (program_.version_rule() != VersionRule::vertical || work == Work::input) return false;
    if (placement_.stage[replica] == StageId{}) return false;
    for (const ReplicaId first : placement_.replicas_of(StageId{})) {
      const std::size_t forward = find(Work::forward, first, k);
      if (forward == kNone) continue;
      const std::vector<Update>& updates = updates_[first];
      const auto own = std::ranges::find_if(updates, [k](auto& each) { return each.last >= k; });
      if (own - updates.begin() - op(forward).staleness != version)
        fault("version: not that of the first stage");
    }
    return true;
  }

  void check_versions(ReplicaId replica, SlotKind kind) {
    const std::vector<Update>& updates = updates_[replica];
    const std::int64_t slots = slots_[replica][kind];
    for (std::int64_t k = 0; k < microbatches_; ++k) {
      std::int64_t covering = 0;
      while (covering < std::ssize(updates) && updates[static_cast<std::size_t>(covering)].last < k)
        ++covering;
      std::set<std::int64_t> staleness;
      for (const Work work : {Work::forward, Work::recompute, Work::input}) {
        const std::size_t reader = find(work, replica, k);
        if (reader == kNone) continue;
        staleness.insert(op(reader).staleness);
        if (read_by(work, replica) != kind) continue;
        const std::int64_t version = std::max<std::int64_t>(covering - op(reader).staleness, 0);
        // A run may pause after any batch, its updates done, and go on.
        if (slots <= op(reader).staleness) faults_.emplace_back(kOverwritten);
        if (version > 0 && version <= std::ssize(updates)) {
          need(updates[static_cast<std::size_t>(version - 1)].node, reader, "version is made");
        }
        const bool shares = program_.reading(replica).shares_prediction && work == Work::forward;
        const std::int64_t first =
            covering == 0 ? 0 : updates[static_cast<std::size_t>(covering - 1)].last + 1;
        if (shares && k != first) {
          if (op(find(Work::forward, replica, first)).staleness != op(reader).staleness)
            fault("version: {} reads another than {}", k, first);
        } else if (entered(work, replica, k, covering - op(reader).staleness)) {
          // By stage 0, which reads its newest.
        } else if (mixes_versions(program_.version_rule()) && version < std::ssize(updates)) {
          need(reader, updates[static_cast<std::size_t>(version)].node,
               "nothing newer is made before it is read");
        }
        // Update number u writes version u + 1, where version u + 1 − slots was.
        const std::int64_t writer = version + slots - 1;
        if (writer >= 0 && writer < std::ssize(updates)) {
          need(reader, updates[static_cast<std::size_t>(writer)].node, kOverwritten + 7);
        }
      }
      if (staleness.size() > 1 && !mixes_versions(program_.version_rule()))
        fault("version: different");
    }
    if (kind != SlotKind::weights) return;
    // Update number u read version u, which a validate may need until it has ended.
    for (std::int64_t u = 0; u < std::ssize(updates); ++u) {
      const std::size_t validate = updates[static_cast<std::size_t>(u)].validate;
      const std::int64_t writer = u + slots - 1;
      if (validate == kNone || writer < 0 || writer >= std::ssize(updates)) continue;
      need(validate, updates[static_cast<std::size_t>(writer)].node, kOverwritten + 7);
    }
  }

  /// What settles the version that a forward reads, or kNone.
  std::size_t validate_before(ReplicaId replica, std::int64_t k) {
    const std::vector<Update>& updates = updates_[replica];
    const auto covering = std::ranges::find_if(updates, [k](auto& each) { return each.last >= k; });
    const std::size_t forward = find(Work::forward, replica, k);
    if (forward == kNone) return kNone;
    const std::int64_t version = covering - updates.begin() - op(forward).staleness;
    return version > 0 ? updates[static_cast<std::size_t>(version - 1)].validate : kNone;
  }

  bool ahead(ReplicaId replica, std::int64_t k) {
    const std::size_t validate = validate_before(replica, k);
    return validate != kNone && run_.before(find(Work::forward, replica, k), validate);
  }

  /// A rollback does forwards again, no more; each after those that feed it.
  void check_rollbacks(ReplicaId replica) {
    for (std::int64_t k = 0; k < microbatches_; ++k) {
      const std::size_t validate = validate_before(replica, k);
      for (const Work work : {Work::recompute, Work::input, Work::weight}) {
        need(validate, find(work, replica, k), "validate before what is not done again");
      }
      if (!ahead(replica, k)) {
        need(validate, find(Work::forward, replica, k), "forward on one side of its validate");
        continue;
      }
      for (const auto& [other, updates] : updates_) {
        if (placement_.device[other] != placement_.device[replica]) continue;
        for (const Update& update : updates) {
          if (update.validate == kNone) continue;
          const bool same =
              run_.nodes()[update.validate].microbatch == run_.nodes()[validate].microbatch;
          if (same)
            need(find(Work::forward, replica, k), update.validate, "forwards, then validates");
        }
      }
      for (const Placement::Edge& edge : placement_.edges) {
        if (edge.to != replica || find(Work::forward, edge.from, k) == kNone) continue;
        if (!ahead(edge.from, k)) fault("rollback: {} is fed by what is validated", k);
      }
    }
    for (const auto& [other, updates] : updates_) {
      if (placement_.device[other] != placement_.device[replica]) continue;
      if (placement_.stage[other] <= placement_.stage[replica]) continue;
      for (std::size_t u = 0; u < std::min(updates.size(), updates_[replica].size()); ++u) {
        need(updates_[replica][u].validate, updates[u].validate, "validates in the model's order");
      }
    }
  }

  std::size_t last_gradient(ReplicaId replica, std::int64_t k) const {
    const std::size_t input = find(Work::input, replica, k),
                      weight = find(Work::weight, replica, k);
    if (input == kNone || weight == kNone) return std::min(input, weight);
    return std::max(input, weight);
  }

  struct Use {
    std::vector<std::size_t> acquires, releases;
  };

  /// Whether the gradient of the input takes the place of the one that a transfer brought.
  bool gradient_in_output(ReplicaId replica, std::int64_t k) {
    const std::size_t input = find(Work::input, replica, k);
    if (input == kNone || input != find(Work::weight, replica, k)) return false;
    return std::any_of(placement_.edges.begin(), placement_.edges.end(),
                       [&](const Placement::Edge& edge) {
                         return edge.from == replica && find(Work::forward, edge.to, k) != kNone &&
                                placement_.device[edge.to] != placement_.device[replica];
                       });
  }

  /// What a stage makes for `others`, or receives from them.
  Use use_of_edges(ReplicaId replica, std::int64_t k, bool outgoing, bool made, OpKind carrier) {
    Use use;
    for (const Placement::Edge& edge : placement_.edges) {
      if ((outgoing ? edge.from : edge.to) != replica) continue;
      const ReplicaId other = outgoing ? edge.to : edge.from;
      if (find(Work::forward, other, k) == kNone) continue;
      const bool apart = placement_.device[other] != placement_.device[replica];
      const std::size_t moved = !apart ? kNone
                                : made ? transfer(carrier, replica, other, k)
                                       : transfer(carrier, other, replica, k);
      if (made) {
        use.releases.push_back(apart ? moved : last_gradient(other, k));
        if (outgoing) use.releases.push_back(last_gradient(replica, k));
        use.acquires = {find(outgoing ? Work::forward : Work::input, replica, k)};
      } else if (apart) {
        use.acquires.push_back(moved);
        use.releases = {last_gradient(replica, k)};
      }
    }
    return use;
  }

  Use use_of(ReplicaId replica, SlotKind kind, std::int64_t k) {
    switch (kind) {
      case SlotKind::stash: {
        const std::size_t again = find(Work::recompute, replica, k);
        return {{again != kNone ? again : find(Work::forward, replica, k)},
                {last_gradient(replica, k)}};
      }
      case SlotKind::context: {
        const bool again = program_.slices() > 1 && find(Work::recompute, replica, k) != kNone;
        if (!again) return {};
        return {{find(Work::forward, replica, k)}, {find(Work::input, replica, k)}};
      }
      case SlotKind::hosted_stash:
        return {{find(Work::evict, replica, k)}, {find(Work::load, replica, k)}};
      case SlotKind::input:
        return use_of_edges(replica, k, false, false, OpKind::send_activation);
      case SlotKind::output: {
        Use use = use_of_edges(replica, k, true, true, OpKind::send_activation);
        if (gradient_in_output(replica, k)) {
          const Use gradient = use_of_edges(replica, k, false, true, OpKind::send_gradient);
          use.releases.insert(use.releases.end(), gradient.releases.begin(),
                              gradient.releases.end());
        }
        return use;
      }
      case SlotKind::input_gradient:
        if (gradient_in_output(replica, k)) return {};
        return use_of_edges(replica, k, false, true, OpKind::send_gradient);
      case SlotKind::kept_gradients: {
        const std::size_t first = find(Work::input, replica, k),
                          last = find(Work::weight, replica, k);
        if (first == last) return {};
        return {{first}, {last}};
      }
      default:
        return {};
    }
  }

  /// Of the eviction buffer: from forward to evict, from load to the end, as they begin.
  std::vector<Use> uses_of_eviction_buffer(ReplicaId replica) {
    std::vector<Use> uses;
    for (std::int64_t k = 0; k < microbatches_; ++k) {
      const std::size_t evict = find(Work::evict, replica, k), load = find(Work::load, replica, k);
      if (evict != kNone) uses.push_back({{find(Work::forward, replica, k)}, {evict}});
      if (load != kNone) uses.push_back({{load}, {last_gradient(replica, k)}});
    }
    std::sort(uses.begin(), uses.end(),
              [](const Use& a, const Use& b) { return a.acquires < b.acquires; });
    return uses;
  }

  void check_ring(ReplicaId replica, SlotKind kind) {
    std::vector<Use> uses;
    if (kind == SlotKind::eviction_buffer) {
      uses = uses_of_eviction_buffer(replica);
    } else if (kind == SlotKind::gradients) {
      for (const Update& update : updates_[replica]) {
        Use use{{}, {update.validate == kNone ? update.node : update.validate}};
        for (std::int64_t k = update.first; k <= update.last; ++k) {
          if (find(Work::weight, replica, k) != kNone)
            use.acquires.push_back(find(Work::weight, replica, k));
        }
        uses.push_back(use);
      }
    } else if (kind == SlotKind::context_gradient) {
      const std::int64_t slices = program_.slices();
      for (std::int64_t k = slices - 1; slices > 1 && k < microbatches_; k += slices) {
        if (find(Work::input, replica, k) == kNone) continue;
        uses.push_back(
            {{find(Work::input, replica, k)}, {find(Work::input, replica, k - slices + 1)}});
      }
      std::ranges::sort(uses, {}, &Use::acquires);
    } else {
      for (std::int64_t k = 0; k < microbatches_; ++k) {
        const bool evicted = find(Work::evict, replica, k) != kNone;
        if (evicted ? kind == SlotKind::stash : kind == SlotKind::hosted_stash) continue;
        if (find(Work::forward, replica, k) != kNone) uses.push_back(use_of(replica, kind, k));
      }
    }
    const std::int64_t count = slots_[replica][kind];
    if (kind == SlotKind::stash || kind == SlotKind::context)
      return check_pool(replica, kind, uses, count);
    for (std::int64_t q = 0; q < std::ssize(uses); ++q) {
      const Use& use = uses[static_cast<std::size_t>(q)];
      if (count < 1 && !use.acquires.empty()) fault("slot: {} {}", index(replica), name(kind));
      if (count < 1 || q < count) continue;
      for (const std::size_t then : use.acquires) {
        for (const std::size_t first : uses[static_cast<std::size_t>(q - count)].releases) {
          if (first == kNone || then == kNone) continue;
          if (first == then || !run_.before(first, then)) {
            fault("slot: {} {}", index(replica), name(kind));
          }
        }
      }
    }
  }

  /// Of uses of any free slot of so many: those that may not have ended as one begins.
  void check_pool(ReplicaId replica, SlotKind kind, std::vector<Use> uses, std::int64_t count) {
    std::erase_if(uses, [](const Use& use) { return use.acquires.empty(); });
    for (const Use& use : uses) {
      std::int64_t held = 0;
      for (const Use& other : uses) {
        const std::size_t then = use.acquires[0], first = other.acquires[0],
                          last = other.releases[0];
        const bool begun = first == then || run_.before(first, then);
        held += begun && (last == kNone || !run_.before(last, then)) ? 1 : 0;
      }
      if (held > count) fault("slot: {} {}", index(replica), name(kind));
    }
  }

  /// A stage that runs forwards again has no stash of them, so that each needs its recomputation;
  /// and each borrows a slot that no recomputed microbatch may hold meanwhile.
  void check_recomputations(ReplicaId replica) {
    std::vector<std::int64_t> again, once;
    for (std::int64_t k = 0; k < microbatches_; ++k) {
      if (find(Work::forward, replica, k) == kNone) continue;
      (find(Work::recompute, replica, k) != kNone ? again : once).push_back(k);
    }
    if (!again.empty() && !once.empty()) fault("missing: recomputation of {}", once.front());
    if (!slots_[replica].forwards_in_workspace && !can_borrow(replica)) fault("slot: borrowed");
  }

  void check_strays() {
    for (const auto& [key, list] : transfers_) {
      for (const Transfer& one : list) {
        if (!one.used) fault("twice: transfer of {}", std::get<3>(key));
      }
    }
  }

  const Program& program_;
  const Placement& placement_;
  SlotCounts slots_;
  std::int64_t microbatches_;
  Unrolled run_;
  std::vector<std::string> faults_;
  std::map<std::size_t, std::pair<std::size_t, std::size_t>> unit_of_;  // its first and last node
  std::map<std::tuple<Work, ReplicaId, std::int64_t>, std::size_t> work_;
  std::map<std::tuple<OpKind, ReplicaId, DeviceId, std::int64_t>, std::vector<Transfer>> transfers_;
  std::map<std::tuple<OpKind, ReplicaId, ReplicaId, std::int64_t>, std::size_t> taken_;
  std::map<ReplicaId, std::vector<Update>> updates_;
  std::vector<Update> reduces_;
};

}  // namespace

std::vector<std::string> faults(const Program& program, const SlotCounts& slots,
                                std::int64_t batches) {
  return Requirements(program, slots, batches).check();
}

SlotCounts least_slots(const Program& program, std::int64_t batches) {
  SlotCounts slots(program.placement().replicas());
  std::vector<Requirements> runs;
  for (std::int64_t run = 1; run <= batches; ++run) runs.emplace_back(program, slots, run);
  for (const ReplicaId replica : ids(slots)) {
    for (std::size_t row = 0; row < kSlotKinds; ++row) {
      const auto kind = static_cast<SlotKind>(row);
      std::int32_t& count = slots[replica][kind];
      if (kind == SlotKind::weights) count = 1;
      const auto all_hold = [&] {
        return std::all_of(runs.begin(), runs.end(),
                           [&](Requirements& run) { return run.holds(replica, kind, count); });
      };
      while (!all_hold()) ++count;
    }
    slots[replica].keeps_drift = program.reading(replica).delay > 0.0;
    slots[replica].forwards_in_workspace = std::ranges::any_of(
        runs, [replica](Requirements& run) { return !run.can_borrow(replica); });
  }
  return slots;
}

}  // namespace tandem::testing
