#include "tools/simulation_report.h"

#include <fmt/format.h>

namespace tandem::tools {

namespace {

double percent(Duration part, Duration whole) {
  return whole.count() == 0 ? 0.0 : 100.0 * static_cast<double>(part.count()) / static_cast<double>(whole.count());
}

}  // namespace

void print_summary(const Program& program, const SimulationResult& result, std::int64_t batches) {
  fmt::print("{}: {} batch{} of {} microbatches in {}; bubble {:.1f} % of it\n", program.schedule(), batches,
             batches == 1 ? "" : "es", program.microbatches(), print_duration(result.makespan),
             percent(result.makespan - result.ideal, result.makespan));
  fmt::print("endless run: {} a batch, steady from batch {}{}\n", print_duration(result.cycle / result.cycle_batches),
             result.steady_from_batch,
             result.cycle_batches == 1 ? "" : fmt::format(", repeating every {} batches", result.cycle_batches));
  fmt::print("{:>6} {:>12} {:>12} {:>16} {:>12} {:>9}\n", "device", "busy", "bubble", "exposed transfer", "activations",
             "versions");
  for (const DeviceId device : ids(result.devices)) {
    const DeviceUse& use = result.devices[device];
    fmt::print("{:>6} {:>12} {:>12} {:>16} {:>12.4g} {:>9}\n", index(device), print_duration(use.busy),
               print_duration(use.bubble), print_duration(use.exposed_communication), use.peak_activations,
               use.weight_versions);
  }
}

}  // namespace tandem::tools
