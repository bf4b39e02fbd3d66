// Rates of the simulator and of what makes its programs, against a flat longest path.

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "core/check.h"
#include "core/lower.h"
#include "core/verify.h"
#include "simulator/cost/stage_costs.h"
#include "simulator/simulate.h"
#include "tools/benchmarks/benchmark.h"
#include "tools/benchmarks/flat_reference.h"

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
  ScheduleRequest request;
  request.devices = pipeline.devices;
  request.microbatches = pipeline.microbatches;
  return make_schedule(find_schedule(pipeline.schedule), request);
}

CostTable price_of(const Program& program) {
  StageTimes times;
  times.forward = times.recompute = milliseconds(1);
  times.backward = milliseconds(2);
  times.backward_input = times.backward_weight = milliseconds(1);
  times.update = microseconds(50);
  return price(program, cost_model(program.placement(), uniform_costs(program.placement().parts(),
                                                                      times, microseconds(100))));
}

Duration run_machine(const Program& program, const CostTable& costs) {
  SimulatedMachine machine(program, costs);
  run(program, program.order(), 1, machine);
  Duration end{};
  for (const DeviceTally& tally : machine.tallies()) end = std::max(end, tally.last_end);
  return end;
}

Section rates(const Pipeline& pipeline, int repetitions) {
  const Schedule schedule = schedule_of(pipeline);
  const Program program = lower(schedule);
  const CostTable costs = price_of(program);
  const SlotCounts slots = count_slots(program);
  FlatReference reference(program, costs);
  const std::vector<double> seconds = best_seconds(
      repetitions,
      {[&] { keep(reference.longest_path()); }, [&] { keep(run_machine(program, costs)); },
       [&] { keep(schedule_of(pipeline)); }, [&] { keep(lower(schedule)); },
       [&] { keep(verify(program, slots)); }, [&] { keep(count_slots(program)); },
       [&] {
         const Program own = lower(schedule_of(pipeline));
         keep(simulate(own, price_of(own), {}));
       }});
  const char* const names[] = {kReference,
                               "run() and SimulatedMachine, 1 batch",
                               "make the schedule",
                               "lower()",
                               "verify(), slots given",
                               "count_slots()",
                               "name to result with steady state"};
  Section section{
      fmt::format("{}, {} devices, {} microbatches: {} instructions a body", pipeline.schedule,
                  pipeline.devices, pipeline.microbatches, program.size()),
      {}};
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    section.rows.push_back({.what = names[i],
                            .value = static_cast<double>(program.size()) / seconds[i] / 1e6,
                            .unit = "M instructions/s",
                            .of = i == 0 ? "" : kReference,
                            .ratio = seconds[0] / seconds[i]});
  }
  return section;
}

}  // namespace

std::vector<Section> bench_simulator(const Settings& settings) {
  std::vector<Section> sections;
  for (const Pipeline& pipeline : {Pipeline{"1f1b", 64, 512}, Pipeline{"2bw", 64, 512}}) {
    sections.push_back(rates(pipeline, settings.repetitions));
  }
  return sections;
}

}  // namespace tandem::benchmarks
