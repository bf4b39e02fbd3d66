// Makes a schedule, prices it, simulates it, and writes its timeline for Perfetto.

#include <chrono>
#include <cstdio>

#include <tandem/core/lower/lower.h>
#include <tandem/simulator/cost/stage_costs.h>
#include <tandem/simulator/simulate.h>
#include <tandem/traces/chrome/chrome_trace.h>

int main() {
  using namespace std::chrono_literals;
  const auto schedule =
      tandem::make_schedule(tandem::find_schedule("1f1b"), {.devices = 4, .microbatches = 8});
  const tandem::Program program = tandem::lower(schedule);
  const auto costs = tandem::uniform_costs(4, {.forward = 1ms, .backward = 2ms}, 0ms);
  const auto prices = tandem::price(program, tandem::cost_model(program.placement(), costs));
  const auto result = tandem::simulate(program, prices, {.batches = 1, .record = true});
  const tandem::TraceRun run{.timeline = &*result.timeline};
  tandem::write_chrome_trace("1f1b.json", program, {&run, 1});
  std::printf("a batch takes %g s\n", tandem::to_seconds(result.makespan));
}
