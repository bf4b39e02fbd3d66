#include "simulator/replay/recorded_order.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.h"

namespace tandem {

namespace {

/// Of a stage's forwards, input gradients, or weight gradients apart from them.
struct Count {
  OpKind kind;
  std::size_t stage;
  std::vector<std::int64_t> numbers{};  // the recorder's, in time order
  std::vector<std::int32_t> halves{};   // microbatches of input gradients that are half a backward
  std::int32_t done = 0;
};

class OrderReader {
 public:
  OrderReader(const RecordedPass& pass, const Placement& placement)
      : pass_(pass), placement_(placement), stages_(placement.replicas()) {
    for (const OpKind kind : {OpKind::forward, OpKind::backward, OpKind::backward_weight}) {
      for (std::size_t stage = 0; stage < stages_; ++stage) counts_.push_back({kind, stage});
    }
    for (const DeviceId device : ids(pass.devices))
      order_.replicas.push_back(placement.replicas_on(device));
    order_.work.resize(pass.devices.size());
    order_.forwards.resize(pass.devices.size());
    order_.backwards.resize(pass.devices.size());
  }

  RecordedOrder read() {
    number_microbatches();
    for (const DeviceId device : ids(pass_.devices)) {
      for (const RecordedOp& op : pass_.devices[device]) {
        if (!is_transfer(op.kind)) add_work(device, op);
      }
    }
    check_halves();
    make_schedule();
    return std::move(order_);
  }

 private:
  [[noreturn]] void reject(const std::string& reason) const {
    throw InputError(fmt::format("step {}, replica {}: {}", pass_.step, pass_.replica, reason));
  }

  Count& count_of(DeviceId device, const RecordedOp& op) {
    const std::size_t stage = index(order_.replicas[index(device)][op.chunk]);
    const std::size_t kind = op.kind == OpKind::forward           ? 0
                             : op.kind != OpKind::backward_weight ? 1
                                                                  : 2;
    return counts_[kind * stages_ + stage];
  }

  void number_microbatches() {
    for (const DeviceId device : ids(pass_.devices)) {
      for (const RecordedOp& op : pass_.devices[device]) {
        if (!is_transfer(op.kind)) count_of(device, op).numbers.push_back(op.microbatch);
      }
    }
    std::vector<std::int64_t> known = counts_.front().numbers;
    if (known.empty() || known.size() > std::numeric_limits<std::uint16_t>::max())
      reject(fmt::format("stage 0 has {} forwards", known.size()));
    order_.microbatches = static_cast<std::int32_t>(known.size());
    std::ranges::sort(known);
    bool same = known.front() >= 0 && std::adjacent_find(known.begin(), known.end()) == known.end();
    for (std::size_t i = 0; i < 2 * stages_; ++i) {
      std::vector<std::int64_t> numbers = counts_[i].numbers;
      if (numbers.size() != known.size()) {
        reject(fmt::format("stage {} has {} {}s, stage 0 has {} forwards", counts_[i].stage,
                           numbers.size(), name(counts_[i].kind), known.size()));
      }
      std::ranges::sort(numbers);
      same = same && numbers == known;
    }
    if (same) order_.numbers = std::move(known);
  }

  void add_work(DeviceId device, const RecordedOp& op) {
    Count& count = count_of(device, op);
    const std::int32_t in_order = count.done++;
    std::int32_t microbatch = in_order;
    if (!order_.numbers.empty()) {
      const std::vector<std::int64_t>& known = order_.numbers;
      const auto found = std::ranges::lower_bound(known, op.microbatch);
      if (found == known.end() || *found != op.microbatch)
        reject(fmt::format("microbatch {} has no forward", op.microbatch));
      microbatch = static_cast<std::int32_t>(found - known.begin());
    } else if (op.kind == OpKind::backward_weight) {
      const std::vector<std::int32_t>& halves = counts_[stages_ + count.stage].halves;
      if (static_cast<std::size_t>(in_order) >= halves.size()) reject_halves(count.stage);
      microbatch = halves[static_cast<std::size_t>(in_order)];
    }
    if (op.kind == OpKind::backward_input) count.halves.push_back(microbatch);
    order_.work[index(device)].push_back({op.kind, count.stage, microbatch});
    if (op.kind == OpKind::backward_weight) return;
    RecordedExtent& extent =
        (op.kind == OpKind::forward ? order_.forwards : order_.backwards)[index(device)];
    extent.last_start = std::max(extent.last_start, op.start);
    extent.first_end = std::min(extent.first_end, op.end);
  }

  [[noreturn]] void reject_halves(std::size_t stage) const {
    reject(
        fmt::format("stage {} has a weight gradient without an input gradient before it", stage));
  }

  /// Each input gradient has its weight gradient. That it comes first is for lowering to see.
  void check_halves() const {
    std::vector<std::vector<std::int32_t>> weights(stages_);
    for (const std::vector<RecordedWork>& works : order_.work) {
      for (const RecordedWork& work : works) {
        if (work.kind == OpKind::backward_weight) weights[work.stage].push_back(work.microbatch);
      }
    }
    for (std::size_t stage = 0; stage < stages_; ++stage) {
      std::vector<std::int32_t> halves = counts_[stages_ + stage].halves;
      std::ranges::sort(halves);
      std::ranges::sort(weights[stage]);
      if (halves == weights[stage]) continue;
      if (weights[stage].size() > halves.size()) reject_halves(stage);
      reject(fmt::format("stage {} has input gradients without their weight gradients", stage));
    }
  }

  void make_schedule() {
    Schedule& schedule = order_.schedule;
    schedule.name = fmt::format("step {}, replica {}", pass_.step, pass_.replica);
    schedule.microbatches = order_.microbatches;
    schedule.placement = placement_;
    schedule.order.resize(pass_.devices.size());
    for (const DeviceId device : ids(pass_.devices)) {
      for (const RecordedWork& work : order_.work[index(device)]) {
        schedule.order[device].push_back({.kind = work.kind,
                                          .replica = id_at<ReplicaId>(work.stage),
                                          .microbatch = work.microbatch});
      }
    }
    for (const ReplicaId replica : ids(placement_.device)) {
      schedule.order[placement_.device[replica]].push_back(
          {.kind = OpKind::update,
           .replica = replica,
           .microbatch = order_.microbatches - 1,
           .span = static_cast<std::uint16_t>(order_.microbatches)});
    }
  }

  const RecordedPass& pass_;
  const Placement& placement_;
  const std::size_t stages_;
  std::vector<Count> counts_;  // of all stages, kind by kind
  RecordedOrder order_;
};

}  // namespace

RecordedOrder order_of(const RecordedPass& pass, const Placement& placement) {
  return OrderReader(pass, placement).read();
}

}  // namespace tandem
