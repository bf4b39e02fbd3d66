// A program must wait only for what stands earlier in its order. Where it doesn't, devices may wait
// for one another for ever: the cycle is among waits within one body and the order of lanes.

#include <algorithm>
#include <span>
#include <string>
#include <vector>

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
    std::vector<InstructionId> last(program_.lanes().size(), kNoInstruction);
    first_predecessor_.reserve(program_.size() + 1);
    for (const InstructionId id : program_.order()) {
      first_predecessor_.push_back(predecessors_.size());
      for (const LaneId lane : program_.lanes(program_[id])) {
        if (exists(last[index(lane)])) predecessors_.push_back(last[index(lane)]);
        last[index(lane)] = id;
      }
    }
    first_predecessor_.push_back(predecessors_.size());
  }

  template <class Visit>
  void each_step(InstructionId from, Visit visit) const {
    for (const Wait& wait : program_.waits(program_[from])) {
      if (wait.lag == 0) visit(Step{wait.producer, false});
    }
    for (std::size_t i = first_predecessor_[index(from)]; i < first_predecessor_[index(from) + 1];
         ++i) {
      visit(Step{predecessors_[i], true});
    }
  }

  /// The shortest way from `waiter` over `producer` back to `waiter`, each step with where it
  /// leads; empty: none.
  std::vector<Step> way_back(InstructionId waiter, InstructionId producer) const {
    struct Visited {
      InstructionId from = kNoInstruction;
      bool by_lane = false, seen = false;
    };
    std::vector<Visited> visited(program_.size());
    std::vector<InstructionId> queue{producer};
    visited[index(producer)] = {waiter, false, true};
    for (std::size_t i = 0; i < queue.size() && !(waiter == producer); ++i) {
      bool found = false;
      each_step(queue[i], [&](Step step) {
        Visited& next = visited[index(step.to)];
        if (next.seen) return;
        next = {queue[i], step.by_lane, true};
        queue.push_back(step.to);
        found = found || step.to == waiter;
      });
      if (found) break;
    }
    if (!visited[index(waiter)].seen) return {};
    std::vector<Step> steps;
    InstructionId at = waiter;
    do {
      steps.push_back({at, visited[index(at)].by_lane});
      at = visited[index(at)].from;
    } while (at != waiter);
    std::reverse(steps.begin(), steps.end());
    return steps;
  }

  std::string device_of(InstructionId id) const {
    const auto lanes = program_.lanes(program_[id]);
    const DeviceId device = lanes.empty() ? program_.placement().device[program_[id].op.stage]
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
  std::vector<std::size_t> first_predecessor_;
  std::vector<InstructionId> predecessors_;
};

}  // namespace

bool check_order(const Program& program, Report& report) {
  return CycleFinder(program, report).check();
}

}  // namespace tandem::verification
