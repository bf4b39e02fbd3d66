#include "tests/support/meaning.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "core/check.h"

namespace tandem::testing {
namespace {

constexpr DeviceId kNowhere{0xffff};

class Unrolled {
 public:
  Unrolled(const Schedule& schedule, const Program& program, TransferLanes lanes,
           const CostModel& model, std::int64_t batches)
      : schedule_(schedule),
        placement_(schedule.placement),
        m_(schedule.microbatches),
        lanes_(lanes),
        model_(model),
        end_(batches * m_) {
    for (const InstructionId id : program.order()) {
      const Op& op = program[id].op;
      place_in_program_[{op.kind, op.stage, op.microbatch}] = index(id);
    }
    for (const auto& order : schedule.order) {
      for (const Op& op : order) normed_ = normed_ || op.kind == OpKind::reduce_norm;
    }
    add_ops(batches);
    for (const auto& [key, op] : ops_) add_dependencies(key, op);
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

  static OpKey key_of(OpKind kind, StageId stage, std::int64_t microbatch) {
    return {kind, stage, microbatch, kNowhere};
  }
  std::vector<StageId> participants(OpKind kind, StageId stage) const {
    const PartId part = placement_.part[stage];
    if (kind == OpKind::reduce_gradient) return placement_.replicas_of(part);
    std::vector<StageId> all;
    for (const StageId each : ids(placement_.part)) {
      if (kind == OpKind::reduce_norm) all.push_back(each);
    }
    if (kind == OpKind::reduce_norm) return all;
    for (const PartId tied : placement_.tied_with(part)) {
      for (const StageId each : placement_.replicas_of(tied)) all.push_back(each);
    }
    std::sort(all.begin(), all.end());
    return all;
  }
  /// A sum is one op of all its participants, named by the first.
  OpKey key_of(const Op& op, std::int64_t microbatch) const {
    if (!is_collective(op.kind)) return key_of(op.kind, op.stage, microbatch);
    return key_of(op.kind, participants(op.kind, op.stage).front(), microbatch);
  }

  void add_node(const OpKey& key, DeviceId source, DeviceId target) {
    CostKey cost;
    cost.kind = std::get<OpKind>(key);
    cost.stage = std::get<StageId>(key);
    cost.source = source;
    cost.target = target;
    if (cost.kind == OpKind::reduce_gradient) cost.width = schedule_.width;
    price_[key] = model_(cost);
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
        for (const Op& op : schedule_.order[device]) {
          const std::int64_t microbatch = body * m_ + op.microbatch;
          if (microbatch < 0 || microbatch >= end_) continue;
          const OpKey key = key_of(op, microbatch);
          const DeviceId home = placement_.device[std::get<StageId>(key)];
          add_node(key, home, home);
          ops_[key] = {op, body};
          if (op.kind == OpKind::update) updates_[op.stage].insert(microbatch);
          if (is_collective(op.kind)) continue;
          if (!first) after_[key].push_back(before);
          before = key;
          first = false;
          order_.emplace_back(device, key);
        }
      }
    }
  }

  /// The op that works on (stage, microbatch) and is one of `kinds`, if the run has it.
  const OpKey* find(std::initializer_list<OpKind> kinds, StageId stage, std::int64_t microbatch) {
    for (const OpKind kind : kinds) {
      const auto found = ops_.find(key_of(kind, stage, microbatch));
      if (found != ops_.end()) return &found->first;
    }
    return nullptr;
  }

  void need(const OpKey& consumer, const OpKey& producer) { after_[consumer].push_back(producer); }

  /// Data made by `producer` reaches `consumer`, over a link where their devices differ.
  void carry(OpKind kind, const OpKey& producer, const OpKey& consumer) {
    const StageId from = std::get<StageId>(producer), to = std::get<StageId>(consumer);
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
    const auto [kind, stage, microbatch, nowhere] = key;
    if (kind == forward) {
      for (const Placement::Edge& edge : placement_.edges) {
        if (edge.to != stage) continue;
        if (const OpKey* above = find({forward}, edge.from, microbatch)) {
          carry(send_activation, *above, key);
        }
      }
      const std::set<std::int64_t>& updates = updates_[stage];
      auto version = updates.lower_bound(microbatch);
      for (int back = 0; back <= where.op.staleness; ++back) {
        if (version == updates.begin()) return;
        --version;
      }
      need(key, key_of(update, stage, *version));
    } else if (kind == recompute) {
      need(key, *find({forward}, stage, microbatch));
    } else if (kind == backward_weight) {
      need(key, *find({backward_input}, stage, microbatch));
    } else if (kind == backward || kind == backward_input) {
      need(key, *find({recompute, forward}, stage, microbatch));
      for (const Placement::Edge& edge : placement_.edges) {
        if (edge.from != stage) continue;
        if (const OpKey* below = find({backward, backward_input}, edge.to, microbatch)) {
          carry(send_gradient, *below, key);
        }
      }
    } else {
      add_gradient_dependencies(key, where);
    }
  }

  void add_gradient_dependencies(const OpKey& key, const Where& where) {
    using enum OpKind;
    const auto [kind, stage, microbatch, nowhere] = key;
    const std::vector<StageId> stages =
        kind == update ? std::vector{stage} : participants(kind, stage);
    for (const StageId each : stages) {
      const bool reduced = schedule_.width > 1 || participants(reduce_gradient, each).size() > 1;
      if (kind == update && normed_) {
        need(key, key_of(reduce_norm, StageId{}, microbatch));
        continue;
      }
      if ((kind == update || kind == reduce_norm) &&
          (reduced || !placement_.tied_with(placement_.part[each]).empty())) {
        const OpKind sum = reduced ? reduce_gradient : reduce_tied;
        need(key, key_of(sum, participants(sum, each).front(), microbatch));
        continue;
      }
      const std::vector<StageId> tied = participants(reduce_tied, each);
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

  /// Transfers of a link go in the order of their makers; sums go one after another on each of
  /// their devices.
  void chain_sums() {
    std::map<std::tuple<OpKind, DeviceId, DeviceId>, OpKey> last_on_link;
    for (const auto& [device, producer] : order_) {
      for (const OpKey& transfer : transfer_after_[producer]) {
        if (lanes_ == TransferLanes::ideal) continue;
        const auto [kind, stage, microbatch, target] = transfer;
        const auto [last, fresh] = last_on_link.try_emplace({kind, device, target}, transfer);
        if (fresh) continue;
        need(transfer, last->second);
        last->second = transfer;
      }
    }
    std::map<std::pair<std::int64_t, std::size_t>, OpKey> sums;
    for (const auto& [key, where] : ops_) {
      const auto [kind, stage, microbatch, nowhere] = key;
      if (!is_collective(kind)) continue;
      const std::size_t place =
          place_in_program_.at({kind, stage, static_cast<std::int32_t>(where.op.microbatch)});
      sums[{where.body, place}] = key;
    }
    std::map<DeviceId, OpKey> last;
    for (const auto& [place, key] : sums) {
      const auto [kind, stage, microbatch, nowhere] = key;
      std::set<DeviceId> devices;
      for (const StageId each : participants(kind, stage)) {
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
  bool normed_ = false;
  std::map<std::tuple<OpKind, StageId, std::int32_t>, std::size_t> place_in_program_;
  std::map<OpKey, Where> ops_;
  std::map<OpKey, Duration> price_;
  std::map<OpKey, std::vector<OpKey>> after_, transfer_after_;
  std::vector<std::pair<DeviceId, OpKey>> order_;
  std::map<StageId, std::set<std::int64_t>> updates_;
};

}  // namespace

std::map<OpKey, Times> times_by_meaning(const Schedule& schedule, const Program& program,
                                        TransferLanes lanes, const CostModel& model,
                                        std::int64_t batches) {
  return Unrolled(schedule, program, lanes, model, batches).solve();
}

std::map<OpKey, Times> times_of(const Program& program, const Timeline& timeline) {
  std::map<OpKey, Times> times;
  for (const Span& span : timeline.spans) {
    const Instruction& instruction = program[span.instruction];
    const Op& op = instruction.op;
    const DeviceId target =
        is_transfer(op.kind) ? program.cost_keys()[instruction.cost].target : kNowhere;
    times[{op.kind, op.stage, span.body * program.microbatches() + op.microbatch, target}] = {
        span.start, span.end};
  }
  return times;
}

}  // namespace tandem::testing
