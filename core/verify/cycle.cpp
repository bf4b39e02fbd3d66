// A program must wait only for what stands earlier in its order. Where it doesn't, devices may wait
// for one another for ever: the cycle is among waits within one body and the order of lanes.

#include "core/verify/checkers.h"

namespace tandem::verification {

namespace {

/// One step back: from an instruction to what must have ended before it starts.
struct Step {
  InstructionId to = kNoInstruction;
  bool by_lane = false;
};

class CycleFinder {
 public:
  CycleFinder(const Program& program, Report& report) : program_(program), report_(report) {}

  bool check() {
    bool in_order = true;
    for (const InstructionId id : program_.order()) {
      for (const Wait& wait : program_.waits(program_[id])) {
        if (wait.lag > 0 || wait.producer < id) continue;
        if (in_order) read_lanes();
        in_order = false;
        backward_waits_.push_back({id, wait.producer});
      }
    }
    if (in_order) return true;
    bool any_cycle = false;
    std::vector<bool> explained(program_.size(), false);
    for (const auto& [waiter, producer] : backward_waits_) {
      if (explained[index(waiter)]) {
        any_cycle = true;
        continue;
      }
      const std::vector<Step> cycle = way_back(waiter, producer);
      if (cycle.empty()) continue;
      any_cycle = true;
      for (const Step& step : cycle) explained[index(step.to)] = true;
      report_.add(ViolationKind::deadlock, waiter, "{}", explain(cycle));
      if (++cycles_ == kMostCycles) break;
    }
    if (!any_cycle) report_disorder();
    return false;
  }

 private:
  static constexpr int kMostCycles = 4;
  struct BackwardWait {
    InstructionId waiter, producer;
  };

  void read_lanes() {
    Table<LaneId, InstructionId> last(program_.lanes().size(), kNoInstruction);
    lane_predecessors_.resize(program_.size());
    for (const InstructionId id : program_.order()) {
      for (const LaneId lane : program_.lanes(program_[id])) {
        if (exists(last[lane])) lane_predecessors_[id].push_back(last[lane]);
        last[lane] = id;
      }
    }
  }

  std::vector<Step> steps_from(InstructionId id) const {
    std::vector<Step> steps;
    for (const Wait& wait : program_.waits(program_[id])) {
      if (wait.lag == 0) steps.push_back({wait.producer, false});
    }
    for (const InstructionId before : lane_predecessors_[id]) steps.push_back({before, true});
    return steps;
  }

  /// The shortest way from `waiter` over `producer` back to `waiter`, each step with where it
  /// leads; empty: none.
  std::vector<Step> way_back(InstructionId waiter, InstructionId producer) const {
    struct Arrival {
      InstructionId from = kNoInstruction;
      bool by_lane = false;
    };
    Table<InstructionId, Arrival> arrivals(program_.size());
    std::vector<InstructionId> queue{producer};
    arrivals[producer] = {waiter, false};
    for (std::size_t i = 0; i < queue.size() && !exists(arrivals[waiter].from); ++i) {
      for (const Step step : steps_from(queue[i])) {
        if (exists(arrivals[step.to].from)) continue;
        arrivals[step.to] = {queue[i], step.by_lane};
        queue.push_back(step.to);
      }
    }
    if (!exists(arrivals[waiter].from)) return {};
    std::vector<Step> steps;
    InstructionId at = waiter;
    do {
      steps.push_back({at, arrivals[at].by_lane});
      at = arrivals[at].from;
    } while (at != waiter);
    std::reverse(steps.begin(), steps.end());
    return steps;
  }

  std::string device_of(InstructionId id) const {
    const auto lanes = program_.lanes(program_[id]);
    const DeviceId device = lanes.empty() ? program_.placement().device[program_[id].op.replica]
                                          : program_.lanes()[lanes.front()].device;
    return fmt::format("device {}", index(device));
  }

  /// A line for each wait of an op that computes; transfers on the way are named within the line.
  std::string explain(const std::vector<Step>& cycle) const {
    std::string text;
    std::size_t waits = 0;
    InstructionId from = cycle.back().to;
    for (std::size_t i = 0; i < cycle.size(); ++i) {
      if (cycle[i].by_lane) {
        const bool more = i + 1 < cycle.size() && cycle[i + 1].by_lane;
        if (!more)
          text += fmt::format(", which {} issues after {}", device_of(cycle[i].to),
                              describe(program_, cycle[i].to));
      } else if (i > 0 && is_transfer(program_[from].op.kind) && !cycle[i - 1].by_lane) {
        text += fmt::format(", which waits for {}", describe(program_, cycle[i].to));
      } else {
        ++waits;
        text += fmt::format("\n  {}: {} waits for {}", device_of(from), describe(program_, from),
                            describe(program_, cycle[i].to));
      }
      from = cycle[i].to;
    }
    return fmt::format("a cycle of {} wait{}:{}", waits, waits == 1 ? "" : "s", text);
  }

  void report_disorder() {
    for (const auto& [waiter, producer] : backward_waits_) {
      report_.add(ViolationKind::malformed, waiter, "{} stands before {}, which it waits for",
                  at_instruction(program_, waiter), at_instruction(program_, producer));
    }
  }

  const Program& program_;
  Report& report_;
  int cycles_ = 0;
  std::vector<BackwardWait> backward_waits_;
  Table<InstructionId, std::vector<InstructionId>> lane_predecessors_;
};

}  // namespace

bool check_order(const Program& program, Report& report) {
  return CycleFinder(program, report).check();
}

}  // namespace tandem::verification
