#include "tools/print/healthy_run.h"

#include <chrono>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tools/print/scenario_json.h"

namespace tandem::tools {

double slower_by(const SimulationResult& result, const SimulationResult& healthy) {
  return healthy.cycle.count() == 0 ? 0.0 : result.period_s() / healthy.period_s() - 1.0;
}

std::string difference_line(const ScenarioRequest& request, const Scenario& scenario,
                            const SimulationResult& result,
                            const std::optional<SimulationResult>& healthy) {
  if (!healthy) return {};
  const Duration batch = result.cycle / result.cycle_batches;
  const Duration usual = healthy->cycle / healthy->cycle_batches;
  std::string difference = "this run is as fast";
  if (batch != usual) {
    difference = fmt::format(
        "this run is {:.1f} % {}, by {} a batch", 100.0 * std::abs(slower_by(result, *healthy)),
        batch > usual ? "slower" : "faster", print_duration(std::chrono::abs(batch - usual)));
  }
  return fmt::format("without --{}: {} a batch, {:.4g} samples/s; {}\n",
                     fmt::join(troubles(request), ", --"), print_duration(usual),
                     samples_per_s(scenario, *healthy), difference);
}

Json healthy_json(const ScenarioRequest& request, const Scenario& scenario,
                  const SimulationResult& result, const SimulationResult& healthy) {
  return {{"without", troubles(request)},
          {"makespan_s", to_seconds(healthy.makespan)},
          {"period_s", healthy.period_s()},
          {"throughput_samples_per_s", samples_per_s(scenario, healthy)},
          {"slower_by", slower_by(result, healthy)}};
}

}  // namespace tandem::tools
