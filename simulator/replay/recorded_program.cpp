#include "simulator/replay/recorded_program.h"

#include <algorithm>
#include <compare>
#include <functional>
#include <limits>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

#include "core/lower/lower.h"
#include "simulator/engine/simulated_machine.h"
#include "simulator/replay/common_clock.h"
#include "simulator/replay/recorded_order.h"

namespace tandem {

std::string_view name(RecordedTransfers transfers) {
  static constexpr std::string_view kNames[] = {"blocking", "overlapped", "none"};
  return kNames[index(transfers)];
}

RecordedTransfers seen_transfers(const Recording& recording) {
  if (recording.own_streams) return RecordedTransfers::overlapped;
  constexpr Duration kJitter = std::chrono::microseconds(50);
  std::size_t beside = 0, transfers = 0;
  for (const RecordedPass& pass : recording.passes) {
    for (const std::vector<RecordedOp>& ops : pass.devices) {
      // By ascending ends: the next computation is the one that a transfer may end in.
      const RecordedOp* next = nullptr;
      for (auto op = ops.rbegin(); op != ops.rend(); ++op) {
        if (!is_transfer(op->kind)) {
          next = &*op;
          continue;
        }
        ++transfers;
        const bool computes =
            next != nullptr && next->start + kJitter < op->end && op->end + kJitter < next->end;
        beside += computes ? 1u : 0u;
      }
    }
  }
  return 4 * beside > transfers ? RecordedTransfers::overlapped : RecordedTransfers::blocking;
}

namespace {

using Number = std::uint32_t;  // of an instruction
constexpr Number kNone = std::numeric_limits<Number>::max();

/// A wait of blocking transfers.
struct BlockingWait {
  Number consumer = 0, producer = 0;
  friend auto operator<=>(const BlockingWait&, const BlockingWait&) = default;
};

class RecordedProgramBuilder {
 public:
  RecordedProgramBuilder(const RecordedPass& pass, const Placement& placement)
      : pass_(pass),
        devices_(pass.devices.size()),
        stages_(placement.replicas()),
        order_(order_of(pass, placement)) {}

  RecordedProgram build(const ReplayModel& model) {
    RecordedTransfers wanted = model.transfers;
    const Program lowered = lower(order_.schedule, TransferLanes::ideal);
    index_instructions(lowered);
    std::vector<std::vector<SeenOp>> seen = match();
    align_clocks(seen, lowered.size(), wanted == RecordedTransfers::blocking);
    measure_phase(seen);
    if (!complete_) wanted = RecordedTransfers::none;
    std::vector<BlockingWait> extra;
    std::optional<std::vector<Number>> order;
    if (wanted == RecordedTransfers::blocking) {
      order = find_waits(seen, extra) ? topological(lowered, extra) : std::nullopt;
      if (!order) wanted = RecordedTransfers::overlapped;
    }
    if (!order) {
      extra.clear();
      order = topological(lowered, extra);
    }
    std::vector<Number> place(order->size());  // of each, in the order
    for (Number i = 0; i < order->size(); ++i) place[(*order)[i]] = i;
    RecordedProgram recorded{.schedule = order_.schedule,
                             .program = reordered(lowered, *order, place, extra),
                             .costs = CostTable(lowered.size()),
                             .transfers = wanted,
                             .measured = {.clock = Clock::measured, .spans = {}},
                             .start = start_,
                             .length = end_ - start_};
    const bool pauses = model.pauses && wanted == RecordedTransfers::blocking;
    for (const std::vector<SeenOp>& ops : seen) add_times(ops, place, pauses, recorded);
    std::vector<Span>& spans = recorded.measured.spans;
    std::ranges::sort(spans, {},
                      [](const Span& span) { return std::tie(span.start, span.instruction); });
    return recorded;
  }

 private:
  const std::vector<RecordedOp>& ops_of(std::size_t device) const {
    return pass_.devices[id_at<DeviceId>(device)];
  }

  std::size_t cell(const RecordedWork& work) const {
    return (index(work.kind) * stages_ + work.stage) *
               static_cast<std::size_t>(order_.microbatches) +
           static_cast<std::size_t>(work.microbatch);
  }

  void index_instructions(const Program& program) {
    number_.assign(kOpKinds * stages_ * static_cast<std::size_t>(order_.microbatches), kNone);
    for (const InstructionId id : program.order()) {
      const Op& op = program[id].op;
      if (makes_version(op.kind)) continue;
      number_[cell({op.kind, index(op.replica), op.microbatch})] = static_cast<Number>(index(id));
    }
  }

  /// Whose transfer an end at this stage is of. What comes from below was sent one stage further
  /// on, what comes from above one before. kNone: nobody's.
  Number transfer_at(OpKind kind, bool receives, std::size_t stage, std::int32_t microbatch) const {
    const bool down = traits(kind).flow == Flow::along_edges;
    const std::size_t sender = !receives ? stage : down ? stage - 1 : stage + 1;
    return sender < stages_ ? number_[cell({kind, sender, microbatch})] : kNone;
  }

  /// The transfers at one kind of end of a device, in the order of its computations: kNone where
  /// there is none, as at the first and the last stage.
  std::vector<Number> ends(std::size_t device, OpKind kind, bool receives) const {
    std::vector<Number> found;
    for (const RecordedWork& work : order_.work[device]) {
      if (traits(work.kind).carried_by != kind) continue;
      found.push_back(transfer_at(kind, receives, work.stage, work.microbatch));
    }
    return found;
  }

  /// A receive that ends after the last op that could need it began, or a send that ends before the
  /// first that could have made it does: nothing was sent, if there are more ends than transfers.
  /// All are of one clock.
  bool is_idle(std::size_t device, const RecordedOp& transfer) const {
    constexpr Duration kJitter = std::chrono::microseconds(50);
    const bool down = traits(transfer.kind).flow == Flow::along_edges;
    const RecordedExtent& extent = (down ? order_.forwards : order_.backwards)[device];
    return transfer.receives ? transfer.end > extent.last_start + kJitter
                             : transfer.end < extent.first_end - kJitter;
  }

  /// What each device did, by ascending ends, each op with its instruction. Transfers are told by
  /// their numbers, or by their order; then ends may also be recorded of those that the pipeline's
  /// first and last stage don't have, all of them or all but the first.
  std::vector<std::vector<SeenOp>> match() {
    std::vector<std::vector<SeenOp>> seen(devices_);
    for (std::size_t device = 0; device < devices_; ++device) {
      std::size_t next_work = 0;
      EndsInOrder in_order[4];
      for (std::size_t end = 0; end < 4; ++end) in_order[end] = ends_in_order(device, end);
      for (const RecordedOp& op : ops_of(device)) {
        SeenOp one{.transfer = is_transfer(op.kind),
                   .receives = op.receives,
                   .start = op.start,
                   .end = op.end};
        if (one.transfer) {
          EndsInOrder& order = in_order[end_of(op)];
          if (std::ranges::find(order.idle, &op) != order.idle.end()) continue;
          if (order.next >= order.transfers.size()) continue;
          one.instruction = order.transfers[order.next++];
          if (one.instruction == kNone) continue;
        } else {
          one.instruction = number_[cell(order_.work[device][next_work++])];
        }
        seen[device].push_back(one);
      }
    }
    return seen;
  }

  /// The transfers of one kind of end of a device as they were recorded.
  struct EndsInOrder {
    std::vector<Number> transfers;
    std::vector<const RecordedOp*> idle = {};  // that are of none of them
    std::size_t next = 0;
  };

  /// The ends beyond those that there can be, `waiting` of which some may be of no transfer: of the
  /// idle ones the last receives, or the first sends.
  std::vector<const RecordedOp*> surplus(std::size_t device, std::size_t end,
                                         const std::vector<Number>& waiting) const {
    std::vector<const RecordedOp*> idle;
    std::size_t recorded = 0;
    for (const RecordedOp& op : ops_of(device)) {
      if (!is_transfer(op.kind) || end_of(op) != end) continue;
      ++recorded;
      if (is_idle(device, op)) idle.push_back(&op);
    }
    const auto none = static_cast<std::size_t>(std::ranges::count(waiting, kNone));
    std::size_t possible = waiting.size();
    if (recorded + 1 == possible && waiting.front() == kNone) possible = recorded;
    if (recorded < possible) possible -= none;
    const std::size_t most = recorded > possible ? recorded - possible : 0;
    if (idle.size() > most) {
      const auto kept = static_cast<std::ptrdiff_t>(idle.size() - most);
      const bool receives = end % 2 == 1;
      idle.erase(receives ? idle.begin() : idle.end() - kept,
                 receives ? idle.begin() + kept : idle.end());
    }
    return idle;
  }

  static std::size_t end_of(const RecordedOp& transfer) {
    return (transfer.kind == OpKind::send_activation ? 0u : 2u) + (transfer.receives ? 1u : 0u);
  }

  EndsInOrder ends_in_order(std::size_t device, std::size_t end) {
    const OpKind kind = end < 2 ? OpKind::send_activation : OpKind::send_gradient;
    const bool receives = end % 2 == 1;
    EndsInOrder order{ends(device, kind, receives)};
    std::vector<Number>& waiting = order.transfers;
    order.idle = surplus(device, end, waiting);
    std::vector<Number> numbered;
    std::size_t recorded = 0;
    for (const RecordedOp& op : ops_of(device)) {
      if (!is_transfer(op.kind) || end_of(op) != end) continue;
      if (std::ranges::find(order.idle, &op) != order.idle.end()) continue;
      ++recorded;
      const std::vector<std::int64_t>& known = order_.numbers;
      const auto found = std::ranges::lower_bound(known, op.microbatch);
      if (found == known.end() || *found != op.microbatch) continue;
      numbered.push_back(transfer_at(kind, receives, index(order_.replicas[device][op.chunk]),
                                     static_cast<std::int32_t>(found - known.begin())));
    }
    if (recorded + 1 == waiting.size() && waiting.front() == kNone) waiting.erase(waiting.begin());
    if (recorded != waiting.size()) std::erase(waiting, kNone);
    complete_ = complete_ && recorded == waiting.size();
    if (complete_ && recorded > 0 && numbered.size() == recorded) {
      std::vector<Number> told = numbered;
      std::ranges::sort(told);
      std::ranges::sort(waiting);
      complete_ = told == waiting;
      waiting = std::move(numbered);
    }
    return order;
  }

  void measure_phase(const std::vector<std::vector<SeenOp>>& seen) {
    for (const std::vector<SeenOp>& ops : seen) {
      for (const SeenOp& op : ops) {
        if (op.transfer) continue;
        start_ = std::min(start_, op.start);
        end_ = std::max(end_, op.end);
      }
    }
  }

  /// Each transfer waits for all that both its devices did before it, and all that they do
  /// next waits for it; false: more of them are begun together than any system begins.
  static bool find_waits(const std::vector<std::vector<SeenOp>>& seen,
                         std::vector<BlockingWait>& waits) {
    constexpr std::size_t kMost = 64;
    for (const std::vector<SeenOp>& ops : seen) {
      std::vector<Number> before, group;
      const SeenOp* last = nullptr;
      for (const SeenOp& op : ops) {
        const bool joins =
            last != nullptr && last->transfer && op.transfer && begun_together(*last, op);
        if (!joins) before = std::exchange(group, {});
        for (const Number number : before) waits.push_back({op.instruction, number});
        group.push_back(op.instruction);
        if (group.size() > kMost) return false;
        last = &op;
      }
    }
    std::ranges::sort(waits);
    return true;
  }

  /// The instructions in an order that keeps waits and lanes, near to the program's own. Empty:
  /// there is none.
  static std::optional<std::vector<Number>> topological(const Program& program,
                                                        const std::vector<BlockingWait>& extra) {
    std::vector<std::vector<Number>> after(program.size());
    std::vector<Number> pending(program.size(), 0), last(program.lanes().size(), kNone);
    const auto add = [&](std::size_t producer, std::size_t consumer) {
      after[producer].push_back(static_cast<Number>(consumer));
      ++pending[consumer];
    };
    for (const InstructionId id : program.order()) {
      for (const Wait& wait : program.waits(program[id])) {
        if (wait.lag == 0) add(index(wait.producer), index(id));
      }
      for (const LaneId lane : program.lanes(program[id])) {
        if (last[index(lane)] != kNone) add(last[index(lane)], index(id));
        last[index(lane)] = static_cast<Number>(index(id));
      }
    }
    for (const BlockingWait& wait : extra) add(wait.producer, wait.consumer);
    std::priority_queue<Number, std::vector<Number>, std::greater<>> ready;
    for (Number i = 0; i < pending.size(); ++i) {
      if (pending[i] == 0) ready.push(i);
    }
    std::vector<Number> order;
    while (!ready.empty()) {
      order.push_back(ready.top());
      ready.pop();
      for (const Number next : after[order.back()]) {
        if (--pending[next] == 0) ready.push(next);
      }
    }
    return order.size() == program.size() ? std::optional(std::move(order)) : std::nullopt;
  }

  /// The program in this order, with more waits, ascending, and a price for each instruction.
  static Program reordered(const Program& program, const std::vector<Number>& order,
                           const std::vector<Number>& place,
                           const std::vector<BlockingWait>& extra) {
    ProgramParts parts;
    parts.schedule = program.schedule();
    parts.microbatches = program.microbatches();
    parts.placement = program.placement();
    parts.lanes = program.lanes();
    for (const Number number : order) {
      Instruction instruction = program[id_at<InstructionId>(number)];
      const auto lanes = program.lanes(instruction);
      const auto waits = program.waits(instruction);
      instruction.first_lane = static_cast<std::uint32_t>(parts.lane_pool.size());
      parts.lane_pool.insert(parts.lane_pool.end(), lanes.begin(), lanes.end());
      instruction.first_wait = static_cast<std::uint32_t>(parts.wait_pool.size());
      const auto wait_for = [&](std::size_t producer, std::uint32_t lag) {
        parts.wait_pool.push_back({id_at<InstructionId>(place[producer]), lag});
      };
      for (const Wait& wait : waits) wait_for(index(wait.producer), wait.lag);
      for (auto wait = std::ranges::lower_bound(extra, BlockingWait{number, 0});
           wait != extra.end() && wait->consumer == number; ++wait)
        wait_for(wait->producer, 0);
      instruction.wait_count =
          static_cast<std::uint16_t>(parts.wait_pool.size() - instruction.first_wait);
      const CostKey key = program.cost_keys()[instruction.cost];
      instruction.cost = parts.cost_keys.push_back(key);
      parts.instructions.push_back(instruction);
    }
    return Program(std::move(parts));
  }

  void add_times(const std::vector<SeenOp>& ops, const std::vector<Number>& place, bool pauses,
                 RecordedProgram& recorded) const {
    std::optional<Duration> before;  // the end of what the device did last
    for (const SeenOp& op : ops) {
      Duration begun = op.start;
      if (pauses && op.transfer) begun = op.ready;
      if (pauses && !op.transfer && before) begun = std::min(*before, begun);
      before = op.end;
      if (op.transfer && !op.receives) continue;
      const Number number = place[op.instruction];
      if (!op.transfer || recorded.transfers != RecordedTransfers::none)
        recorded.costs[id_at<CostId>(number)] = op.end - begun;
      // A rank whose clock is behind would begin before the pass does.
      recorded.measured.spans.push_back({id_at<InstructionId>(number), 0,
                                         std::max(Duration{}, op.start - start_),
                                         std::max(Duration{}, op.end - start_)});
    }
  }

  const RecordedPass& pass_;
  const std::size_t devices_, stages_;
  const RecordedOrder order_;
  std::vector<Number> number_;  // by cell()
  bool complete_ = true;        // all transfers were recorded, at both ends
  Duration start_ = Duration::max(), end_ = Duration::min();
};

}  // namespace

RecordedProgram recorded_program(const RecordedPass& pass, const Placement& placement,
                                 const ReplayModel& model) {
  return RecordedProgramBuilder(pass, placement).build(model);
}

Duration replayed_length(const Program& program, const CostTable& costs, Timeline* recorder) {
  return last_end(run_simulated(program, costs, 1, recorder));
}

}  // namespace tandem
