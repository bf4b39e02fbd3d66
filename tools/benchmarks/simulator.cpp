// Rates of the simulator and of what makes its programs, against a flat longest path.

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/base/check.h"
#include "core/lower/lower.h"
#include "core/verify/verify.h"
#include "simulator/compiled/steady_state.h"
#include "simulator/cost/stage_costs.h"
#include "simulator/simulate.h"
#include "tools/benchmarks/benchmark.h"
#include "tools/benchmarks/simgrid.h"
#include "tools/cli/memory_limit.h"

namespace tandem::benchmarks {

namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr const char* kReference = "flat longest path";

struct Pipeline {
  std::string_view schedule;
  std::uint16_t devices;
  std::int32_t microbatches;
};

Schedule schedule_of(const Pipeline& pipeline) {
  return make_schedule(find_schedule(pipeline.schedule),
                       {.devices = pipeline.devices, .microbatches = pipeline.microbatches});
}

const PeerTimes kTimes{.forward = milliseconds(1),
                       .backward = milliseconds(2),
                       .update = microseconds(50),
                       .transfer = microseconds(100)};

CostTable price_of(const Program& program) {
  StageTimes times;
  times.forward = times.recompute = kTimes.forward;
  times.backward = kTimes.backward;
  times.backward_input = times.backward_weight = kTimes.backward / 2;
  times.update = kTimes.update;
  const Placement& placement = program.placement();
  return price(program,
               cost_model(placement, uniform_costs(placement.stages(), times, kTimes.transfer)));
}

void run_whole_path(const Pipeline& pipeline) {
  const Program program = lower(schedule_of(pipeline));
  keep(simulate(program, price_of(program), {}));
}

/// Eight tables, value by value side by side.
std::vector<std::int64_t> side_by_side(const std::vector<std::int64_t>& costs) {
  std::vector<std::int64_t> all;
  for (const std::int64_t cost : costs) {
    for (std::size_t k = 0; k < CompiledProgram::kTables; ++k)
      all.push_back(cost + static_cast<std::int64_t>(k));
  }
  return all;
}

/// The reference of the rates: a bare longest path over a flat layout of two predecessors a step,
/// in topological order, in the simulator's own arithmetic (integer nanoseconds, prices from a
/// table). It knows no lanes, no microbatches and no batches, and so is the practical limit of any
/// evaluator.
class FlatReference {
 public:
  /// One body of `program` alone, all its instances on. REQUIRES: no instruction has more than two
  /// distinct predecessors in its body (checked, aborts): a linear pipeline without sums.
  FlatReference(const Program& program, const CostTable& costs) : end_(program.size() + 1, 0) {
    for (const Duration cost : costs) costs_.push_back(cost.count());
    steps_.reserve(program.size());
    Table<LaneId, std::uint32_t> last(program.lanes().size(), 0);
    for (const Instruction& instruction : program.instructions()) {
      std::array<std::uint32_t, 2> before{0, 0};
      const auto add = [&](std::uint32_t step) {
        if (step == 0 || step == before[0] || step == before[1]) return;
        TANDEM_CHECK(before[1] == 0, steps_.size());
        before[before[0] == 0 ? 0 : 1] = step;
      };
      for (const LaneId lane : program.lanes(instruction)) add(last[lane]);
      for (const Wait& wait : program.waits(instruction)) {
        if (wait.lag == 0) add(static_cast<std::uint32_t>(index(wait.producer)) + 1);
      }
      steps_.push_back({before[0], before[1], static_cast<std::uint32_t>(index(instruction.cost))});
      for (const LaneId lane : program.lanes(instruction))
        last[lane] = static_cast<std::uint32_t>(steps_.size());
    }
  }

  /// The latest end of any step.
  std::int64_t longest_path() {
    std::int64_t longest = 0;
    std::int64_t* const end = end_.data();
    const std::int64_t* const costs = costs_.data();
    std::size_t at = 0;
    for (const Step& step : steps_) {
      const std::int64_t ends = std::max(end[step.first], end[step.second]) + costs[step.cost];
      end[++at] = ends;
      longest = std::max(longest, ends);
    }
    return longest;
  }

 private:
  struct Step {
    std::uint32_t first = 0, second = 0, cost = 0;  // 0 is the start; step i stands at i + 1
  };
  std::vector<Step> steps_;
  std::vector<std::int64_t> costs_, end_;
};

struct TimedWork {
  const char* what;
  std::function<void()> run;
  double times = 1.0;             // the body's instructions, evaluated so often
  std::optional<double> floor{};  // of the ratio to the reference …
  bool absolute = false;          // … or of the rate itself
};

Section section_of(std::string title, std::size_t size, int repetitions,
                   const std::vector<TimedWork>& measured) {
  std::vector<std::function<void()>> functions;
  for (const TimedWork& one : measured) functions.push_back(one.run);
  const std::vector<double> seconds = best_processor_seconds(repetitions, functions);
  Section section{std::move(title), {}};
  for (std::size_t i = 0; i < measured.size(); ++i) {
    const double rate = static_cast<double>(size) * measured[i].times / seconds[i];
    section.rows.push_back({.what = measured[i].what,
                            .value = rate / 1e6,
                            .unit = "M instructions/s",
                            .of = i == 0 || measured[i].absolute ? "" : kReference,
                            .ratio = rate * seconds[0] / static_cast<double>(size),
                            .floor = measured[i].floor});
  }
  return section;
}

Section rates(const Pipeline& pipeline, int repetitions) {
  const Schedule schedule = schedule_of(pipeline);
  const Program program = lower(schedule);
  const CostTable costs = price_of(program);
  const SlotCounts slots = count_slots(program);
  const CompiledProgram compiled(program);
  const std::vector<std::int64_t> prices = compiled.costs(costs),
                                  many_prices = side_by_side(prices);
  std::vector<std::int64_t> values(compiled.values(), 0), exposed(compiled.devices(), 0);
  std::vector<std::int64_t> many(compiled.values() * CompiledProgram::kTables, 0);
  const std::array<std::uint64_t, CompiledProgram::kTables> streams{1, 2, 3, 4, 5, 6, 7, 8};
  const noise::Jitter jitter(0.05);
  FlatReference reference(program, costs);
  return section_of(
      fmt::format("{}, {} devices, {} microbatches: {} instructions a body", pipeline.schedule,
                  pipeline.devices, pipeline.microbatches, program.size()),
      program.size(), repetitions,
      {{kReference, [&] { keep(reference.longest_path()); }},
       {"a pass over a body", [&] { compiled.run_body(values, prices); }, 1.0, 0.5},
       {"the same, with each device's exposed time",
        [&] { compiled.run_body(values, prices, exposed); }},
       {"a pass with 8 cost tables, each counted", [&] { compiled.run_bodies(many, many_prices); },
        static_cast<double>(CompiledProgram::kTables), 1000.0, true},
       {"the same, each op's time drawn",
        [&] { compiled.run_bodies(many, many_prices, streams, jitter); },
        static_cast<double>(CompiledProgram::kTables), 1000.0, true},
       {"run() and SimulatedMachine, 1 batch", [&] { keep(run_simulated(program, costs, 1)); }},
       {"name to result with steady state", [&] { run_whole_path(pipeline); }, 1.0, 0.015},
       {"  make the schedule", [&] { keep(schedule_of(pipeline)); }},
       {"  lower()", [&] { keep(lower(schedule)); }},
       {"  price and simulate()", [&] { keep(simulate(program, price_of(program), {})); }},
       {"    of it, compile the program", [&] { keep(CompiledProgram(program)); }},
       {"count_slots()", [&] { keep(count_slots(program)); }},
       {"verify(), slots given", [&] { keep(verify(program, slots)); }, 1.0, 0.5, true}});
}

/// The makespan must be SimGrid's, and SimGrid's must be another at another price: else two
/// different things would be timed.
void check_against_peer(const Schedule& schedule, Duration makespan, const PeerRun& peer) {
  const auto same = [&](const PeerRun& run) {
    return std::abs(run.makespan_s - to_seconds(makespan)) < 1e-6 * run.makespan_s;
  };
  PeerTimes slower = kTimes;
  slower.backward += microseconds(1);
  TANDEM_CHECK(same(peer), peer.makespan_s, to_seconds(makespan));
  TANDEM_CHECK(!same(*run_simgrid(schedule, slower)), to_seconds(makespan));
}

Section against_simgrid(const Pipeline& pipeline, int repetitions) {
  Section section{fmt::format("SimGrid's actors on one batch of {}, {} devices, {} microbatches",
                              pipeline.schedule, pipeline.devices, pipeline.microbatches),
                  {}};
  const Schedule schedule = schedule_of(pipeline);
  std::optional<PeerRun> best;
  for (int i = 0; i < repetitions; ++i) {
    const std::optional<PeerRun> peer = run_simgrid(schedule, kTimes);
    if (!peer) return section;  // not installed where this was built
    if (!best || peer->run_s < best->run_s) best = peer;
  }
  const Program program = lower(schedule);
  const CostTable costs = price_of(program);
  const CompiledProgram compiled(program);
  const std::vector<std::int64_t> prices = compiled.costs(costs);
  std::vector<std::int64_t> values(compiled.values(), 0);
  check_against_peer(schedule, simulate(program, costs, {}).makespan, *best);
  const std::vector<double> seconds = best_processor_seconds(
      2 * repetitions,
      {[&] { compiled.run_body(values, prices); }, [&] { run_whole_path(pipeline); }});
  const auto row = [&](const char* what, double ours, double theirs, double floor) {
    section.rows.push_back({.what = what,
                            .value = ours * 1e3,
                            .unit = "ms",
                            .of = "SimGrid",
                            .ratio = theirs / ours,
                            .floor = floor});
  };
  row("evaluate: a pass over a body", seconds[0], best->run_s, 240.0);
  row("name to result, with steady state", seconds[1], best->build_s + best->run_s, 25.0);
  return section;
}

}  // namespace

std::vector<Section> bench_simulator(const Settings& settings) {
  tools::keep_freed_memory();  // as the planner does, which takes this path for each candidate
  std::vector<Section> sections;
  for (const Pipeline& pipeline : {Pipeline{"1f1b", 64, 512}, Pipeline{"2bw", 64, 512}})
    sections.push_back(rates(pipeline, settings.repetitions));
  if (Section peer = against_simgrid({"1f1b", 64, 512}, settings.repetitions); !peer.rows.empty())
    sections.push_back(std::move(peer));
  for (Section& section : contention_sections(settings)) sections.push_back(std::move(section));
  return sections;
}

}  // namespace tandem::benchmarks
