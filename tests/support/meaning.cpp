#include "tests/support/meaning.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "core/base/check.h"

namespace tandem::testing {
namespace {

constexpr DeviceId kNowhere{0xffff};

class UnrolledSchedule {
 public:
  UnrolledSchedule(const Schedule& schedule, const Program& program, TransferLanes lanes,
                   const CostModel& model, std::int64_t batches)
      : schedule_(schedule),
        placement_(schedule.placement),
        m_(schedule.microbatches),
        lanes_(lanes),
        model_(model),
        end_(batches * m_) {
    for (const InstructionId id : program.order()) {
      const Op& op = program[id].op;
      place_in_program_[{op.kind, op.replica, op.microbatch}] = index(id);
    }
    for (const auto& order : schedule.order) {
      for (const Op& op : order) {
        normed_ = normed_ || op.kind == OpKind::reduce_norm;
        validated_ = validated_ || op.kind == OpKind::validate;
      }
    }
    add_ops(batches);
    for (const auto& [key, op] : ops_) add_dependencies(key, op);
    take_turns();
    chain_sums();
  }

  std::map<OpKey, Times> solve() {
    std::map<OpKey, Times> times;
    for (const auto& [key, price] : price_) visit(key, times);
    return times;
  }

 private:
  struct Where {
    Op op;
    std::int64_t body = 0;
  };

  static OpKey key_of(OpKind kind, ReplicaId replica, std::int64_t microbatch) {
    return {kind, replica, microbatch, kNowhere};
  }
  std::vector<ReplicaId> participants(OpKind kind, ReplicaId replica) const {
    const StageId stage = placement_.stage[replica];
    if (kind == OpKind::reduce_gradient) return placement_.replicas_of(stage);
    std::vector<ReplicaId> all;
    for (const ReplicaId each : ids(placement_.stage)) {
      if (kind == OpKind::reduce_norm) all.push_back(each);
    }
    if (kind == OpKind::reduce_norm) return all;
    // Each copy of the model sums for itself: the j-th replica of each tied stage.
    const std::vector<ReplicaId> own = placement_.replicas_of(stage);
    const auto copy =
        static_cast<std::size_t>(std::find(own.begin(), own.end(), replica) - own.begin());
    for (const StageId tied : placement_.tied_with(stage)) {
      all.push_back(placement_.replicas_of(tied).at(copy));
    }
    std::sort(all.begin(), all.end());
    return all;
  }
  /// A sum is one op of all its participants, named by the first.
  OpKey key_of(const Op& op, std::int64_t microbatch) const {
    if (!is_collective(op.kind)) return key_of(op.kind, op.replica, microbatch);
    return key_of(op.kind, participants(op.kind, op.replica).front(), microbatch);
  }

  void add_node(const OpKey& key, DeviceId source, DeviceId target, std::uint16_t span = 1,
                bool overlapped = false) {
    CostKey cost;
    cost.kind = std::get<OpKind>(key);
    if (cost.kind == OpKind::backward_weight) cost.span = span;
    cost.overlapped = overlapped;
    cost.replica = std::get<ReplicaId>(key);
    cost.source = source;
    cost.target = target;
    if (cost.kind == OpKind::reduce_gradient) cost.width = schedule_.width;
    if (is_compute(cost.kind) || is_transfer(cost.kind))
      cost.slice = static_cast<std::uint16_t>(std::get<std::int64_t>(key) % schedule_.slices);
    price_[key] = model_(cost);
  }

  /// Members of a group stand side by side in their device's order.
  static bool in_mixed_group(const std::vector<Op>& order, std::size_t place) {
    if (order[place].group == 0) return false;
    const auto others = [&](auto from, auto to) {
      for (; from != to && from->group == order[place].group; ++from) {
        if (from->kind != order[place].kind) return true;
      }
      return false;
    };
    const auto back = static_cast<std::ptrdiff_t>(order.size() - place);
    const auto ahead = static_cast<std::ptrdiff_t>(place);
    return others(order.begin() + ahead, order.end()) ||
           others(order.rbegin() + back, order.rend());
  }

  void add_ops(std::int64_t batches) {
    std::int64_t ramp = 0;
    for (const auto& order : schedule_.order) {
      for (const Op& op : order) ramp = std::max<std::int64_t>(ramp, op.microbatch / m_);
    }
    for (const DeviceId device : ids(schedule_.order)) {
      OpKey before{};
      bool first = true;
      for (std::int64_t body = -ramp; body < batches; ++body) {
        const std::vector<Op>& order = schedule_.order[device];
        for (std::size_t i = 0; i < order.size(); ++i) {
          const Op& op = order[i];
          const std::int64_t microbatch = body * m_ + op.microbatch;
          if (microbatch < 0 || microbatch >= end_) continue;
          const OpKey key = key_of(op, microbatch);
          const DeviceId home = placement_.device[std::get<ReplicaId>(key)];
          const DeviceId target = moves_stash(op.kind) ? placement_.partner[home] : home;
          add_node(key, home, target, op.span, in_mixed_group(order, i));
          ops_[key] = {op, body};
          const bool joins = i > 0 && op.group != 0 && order[i - 1].group == op.group;
          note_group(key, joins ? &before : nullptr);
          if (op.kind == OpKind::update) updates_[op.replica].insert(microbatch);
          if (!is_collective(op.kind)) in_turn_.push_back(key);
          if (!on_compute_lane(op.kind)) continue;
          if (!first) after_[key].push_back(before);
          before = key;
          first = false;
          order_.emplace_back(device, key);
        }
      }
    }
  }

  /// The op that works on (stage, microbatch) and is one of `kinds`, if the run has it.
  const OpKey* find(std::initializer_list<OpKind> kinds, ReplicaId replica,
                    std::int64_t microbatch) {
    for (const OpKind kind : kinds) {
      const auto found = ops_.find(key_of(kind, replica, microbatch));
      if (found != ops_.end()) return &found->first;
    }
    return nullptr;
  }

  void note_group(const OpKey& key, const OpKey* before) {
    first_of_group_[key] = before == nullptr ? key : first_of_group_.at(*before);
    last_of_group_[first_of_group_.at(key)] = key;
  }

  /// Between groups all of one comes before all of the other.
  void need(OpKey consumer, OpKey producer) {
    const auto one = first_of_group_.find(consumer), other = first_of_group_.find(producer);
    const bool same = one != first_of_group_.end() && other != first_of_group_.end() &&
                      one->second == other->second;
    if (!same && one != first_of_group_.end()) consumer = one->second;
    if (!same && other != first_of_group_.end()) producer = last_of_group_.at(other->second);
    after_[consumer].push_back(producer);
  }

  /// Data made by `producer` reaches `consumer`, over a link where their devices differ.
  void carry(OpKind kind, const OpKey& producer, const OpKey& consumer) {
    const ReplicaId from = std::get<ReplicaId>(producer), to = std::get<ReplicaId>(consumer);
    const DeviceId source = placement_.device[from], target = placement_.device[to];
    if (source == target) return need(consumer, producer);
    const OpKey transfer{kind, from, std::get<std::int64_t>(producer), target};
    add_node(transfer, source, target);
    need(transfer, producer);
    need(consumer, transfer);
    transfer_after_[producer].push_back(transfer);
  }

  void add_dependencies(const OpKey& key, const Where& where) {
    using enum OpKind;
    const auto [kind, replica, microbatch, nowhere] = key;
    if (kind == forward) {
      for (const Placement::Edge& edge : placement_.edges) {
        if (edge.to != replica) continue;
        if (const OpKey* above = find({forward}, edge.from, microbatch)) {
          carry(send_activation, *above, key);
        }
      }
      const std::set<std::int64_t>& updates = updates_[replica];
      auto version = updates.lower_bound(microbatch);
      for (int back = 0; back <= where.op.staleness; ++back) {
        if (version == updates.begin()) return;
        --version;
      }
      need(key, key_of(update, replica, *version));
    } else if (kind == evict) {
      need(key, *find({forward}, replica, microbatch));
    } else if (kind == load) {
      need(key, *find({evict}, replica, microbatch));
    } else if (kind == recompute) {
      need(key, *find({forward}, replica, microbatch));
    } else if (kind == backward_weight) {
      for (std::int64_t i = 0; i < where.op.span; ++i) {
        need(key, *find({backward_input}, replica, microbatch - i));
      }
    } else if (kind == backward || kind == backward_input) {
      need(key, *find({load, recompute, forward}, replica, microbatch));
      for (const Placement::Edge& edge : placement_.edges) {
        if (edge.from != replica) continue;
        if (const OpKey* below = find({backward, backward_input}, edge.to, microbatch)) {
          carry(send_gradient, *below, key);
        }
      }
    } else if (kind == validate) {
      need(key, key_of(update, replica, microbatch));
      need(key, key_of(reduce_norm, ReplicaId{}, microbatch));
    } else {
      add_gradient_dependencies(key, where);
    }
  }

  void add_gradient_dependencies(const OpKey& key, const Where& where) {
    using enum OpKind;
    const auto [kind, replica, microbatch, nowhere] = key;
    const std::vector<ReplicaId> replicas =
        kind == update ? std::vector{replica} : participants(kind, replica);
    for (const ReplicaId each : replicas) {
      const bool reduced = schedule_.width > 1 || participants(reduce_gradient, each).size() > 1;
      if (kind == update && normed_ && !validated_) {
        need(key, key_of(reduce_norm, ReplicaId{}, microbatch));
        continue;
      }
      if ((kind == update || kind == reduce_norm) &&
          (reduced || !placement_.tied_with(placement_.stage[each]).empty())) {
        const OpKind sum = reduced ? reduce_gradient : reduce_tied;
        need(key, key_of(sum, participants(sum, each).front(), microbatch));
        continue;
      }
      const std::vector<ReplicaId> tied = participants(reduce_tied, each);
      if (kind == reduce_gradient && !tied.empty()) {
        need(key, key_of(reduce_tied, tied.front(), microbatch));
        continue;
      }
      for (std::int64_t i = 0; i < where.op.span; ++i) {
        if (const OpKey* made = find({backward, backward_weight}, each, microbatch - i))
          need(key, *made);
      }
    }
  }

  /// Microbatches that are evicted have one slot at home, from their forward to their eviction and
  /// from their load to their gradient: nobody takes it before who had it last has left it.
  void take_turns() {
    using enum OpKind;
    std::map<ReplicaId, OpKey> leaves;
    for (const OpKey& key : in_turn_) {
      const auto [kind, replica, microbatch, nowhere] = key;
      const OpKey* evicted = find({evict}, replica, microbatch);
      if (evicted == nullptr || (kind != forward && kind != load)) continue;
      if (leaves.contains(replica)) need(key, leaves[replica]);
      leaves[replica] =
          kind == forward ? *evicted : *find({backward, backward_weight}, replica, microbatch);
    }
  }

  /// Transfers of a link go in the order of their makers; sums go one after another on each of
  /// their devices.
  void chain_sums() {
    std::map<std::tuple<OpKind, DeviceId, DeviceId>, OpKey> last_on_link;
    for (const auto& [device, producer] : order_) {
      for (const OpKey& transfer : transfer_after_[producer]) {
        if (lanes_ == TransferLanes::ideal) continue;
        const auto [kind, replica, microbatch, target] = transfer;
        const auto [last, fresh] = last_on_link.try_emplace({kind, device, target}, transfer);
        if (fresh) continue;
        need(transfer, last->second);
        last->second = transfer;
      }
    }
    std::map<std::pair<std::int64_t, std::size_t>, OpKey> sums;
    for (const auto& [key, where] : ops_) {
      const auto [kind, replica, microbatch, nowhere] = key;
      if (!is_collective(kind)) continue;
      const std::size_t place =
          place_in_program_.at({kind, replica, static_cast<std::int32_t>(where.op.microbatch)});
      sums[{where.body, place}] = key;
    }
    std::map<DeviceId, OpKey> last;
    for (const auto& [place, key] : sums) {
      const auto [kind, replica, microbatch, nowhere] = key;
      std::set<DeviceId> devices;
      for (const ReplicaId each : participants(kind, replica)) {
        devices.insert(placement_.device[each]);
      }
      for (const DeviceId device : devices) {
        if (last.contains(device)) need(key, last[device]);
        last[device] = key;
      }
    }
  }

  /// Depth first with a stack of its own: paths are as long as the run.
  void visit(const OpKey& root, std::map<OpKey, Times>& times) {
    std::vector<std::pair<OpKey, bool>> stack{{root, false}};
    while (!stack.empty()) {
      const auto [key, expanded] = stack.back();
      stack.pop_back();
      if (times.contains(key)) continue;
      if (!expanded) {
        stack.emplace_back(key, true);
        for (const OpKey& before : after_[key]) {
          if (!times.contains(before)) stack.emplace_back(before, false);
        }
        continue;
      }
      Times mine;
      for (const OpKey& before : after_[key]) {
        TANDEM_CHECK(times.contains(before));
        mine.start = std::max(mine.start, times[before].end);
      }
      mine.end = mine.start + price_.at(key);
      times[key] = mine;
    }
  }

  const Schedule& schedule_;
  const Placement& placement_;
  const std::int64_t m_;
  const TransferLanes lanes_;
  const CostModel& model_;
  const std::int64_t end_;
  bool normed_ = false, validated_ = false;
  std::map<std::tuple<OpKind, ReplicaId, std::int32_t>, std::size_t> place_in_program_;
  std::map<OpKey, Where> ops_;
  std::map<OpKey, OpKey> first_of_group_, last_of_group_;  // the latter of the first
  std::map<OpKey, Duration> price_;
  std::map<OpKey, std::vector<OpKey>> after_, transfer_after_;
  std::vector<std::pair<DeviceId, OpKey>> order_;  // on compute lanes
  std::vector<OpKey> in_turn_;                     // all ops as the devices are told, but for sums
  std::map<ReplicaId, std::set<std::int64_t>> updates_;
};

}  // namespace

std::map<OpKey, Times> times_by_meaning(const Schedule& schedule, const Program& program,
                                        TransferLanes lanes, const CostModel& model,
                                        std::int64_t batches) {
  return UnrolledSchedule(schedule, program, lanes, model, batches).solve();
}

std::map<OpKey, Times> times_of(const Program& program, const Timeline& timeline) {
  std::map<OpKey, Times> times;
  for (const Span& span : timeline.spans) {
    const Instruction& instruction = program[span.instruction];
    const Op& op = instruction.op;
    const DeviceId target = is_transfer(op.kind) && !moves_stash(op.kind)
                                ? program.cost_keys()[instruction.cost].target
                                : kNowhere;
    times[{op.kind, op.replica, span.body * program.microbatches() + op.microbatch, target}] = {
        span.start, span.end};
  }
  return times;
}

}  // namespace tandem::testing
