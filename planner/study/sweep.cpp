#include "planner/study/sweep.h"

#include <limits>
#include <new>
#include <utility>

#include "core/base/error.h"
#include "core/base/table.h"

namespace tandem {

namespace {

constexpr double kUnknownFigure = std::numeric_limits<double>::quiet_NaN();

constexpr SweepMetric kSweepMetrics[] = {
    {"throughput", true, [](const SweepFigures& row) { return row.samples_per_s; }},
    {"per-device", true, [](const SweepFigures& row) { return row.samples_per_s / row.devices; }},
    {"tokens", true, [](const SweepFigures& row) { return row.tokens_per_s; }},
    {"flops", true, [](const SweepFigures& row) { return row.flops_per_s_per_device; }},
    {"period", false, [](const SweepFigures& row) { return row.period_s; }},
    {"makespan", false, [](const SweepFigures& row) { return row.makespan_s; }},
    // That of the first batches would set schedules back that never drain.
    {"bubble", false,
     [](const SweepFigures& row) {
       return row.period_s == 0.0 ? 0.0 : 1.0 - row.ideal_s_a_batch / row.period_s;
     }},
    {"memory", false, [](const SweepFigures& row) { return row.peak_bytes; }},
    {"activations", false, [](const SweepFigures& row) { return row.peak_activations; }},
};

/// What the device that fills most of its own has.
std::optional<double> capacity_of(const Scenario& scenario) {
  std::optional<double> found;
  double fullest = 0.0;
  for (const DeviceId device : ids(*scenario.memory)) {
    const auto bytes = static_cast<double>((*scenario.capacity)[device]);
    const double share = static_cast<double>((*scenario.memory)[device].total()) / bytes;
    if (!(share > fullest)) continue;
    fullest = share;
    found = bytes;
  }
  return found;
}

SweepAnswer answer_of(SweepRun run, const SearchWatch& watch) {
  PreparedScenario prepared = prepare_scenario(run.request, watch);
  if (prepared.search && prepared.search->interrupted) throw Interrupted("interrupted");
  SimulationResult result = simulate(prepared.scenario, {.batches = run.batches});
  std::optional<SimulationResult> healthy = simulate_healthy(prepared.scenario, run.batches);
  return {std::move(run), std::move(prepared), std::move(result), std::move(healthy)};
}

SweepFigures figures_of(const SweepAnswer& answer) {
  const auto& [run, prepared, result, healthy] = answer;
  const Scenario& scenario = prepared.scenario;
  const double samples = samples_per_s(scenario, result);
  SweepFigures figures{
      .samples_per_s = samples,
      .tokens_per_s = kUnknownFigure,
      .flops_per_s_per_device = kUnknownFigure,
      .devices = static_cast<double>(prepared.cluster ? prepared.cluster->devices_used()
                                                      : std::size_t{prepared.request.devices} *
                                                            prepared.request.width),
      .period_s = result.period_s(),
      .makespan_s = to_seconds(result.makespan),
      .ideal_s_a_batch = to_seconds(result.ideal) / static_cast<double>(run.batches),
      .peak_bytes = scenario.memory ? 0.0 : kUnknownFigure,
      .peak_activations = 0.0};
  if (const auto& use = scenario.use) {
    figures.tokens_per_s = samples * use->tokens;
    figures.flops_per_s_per_device = samples * use->flops / static_cast<double>(use->devices);
  }
  for (const DeviceId device : ids(result.devices)) {
    figures.peak_activations =
        std::max(figures.peak_activations, result.devices[device].peak_activations);
    if (scenario.memory) {
      figures.peak_bytes =
          std::max(figures.peak_bytes, static_cast<double>((*scenario.memory)[device].total()));
    }
  }
  return figures;
}

}  // namespace

SweepOutcome sweep_outcome(const std::function<SweepRun()>& run, const SearchWatch& watch) {
  try {
    return {.answer = answer_of(run(), watch)};
  } catch (const ShapeError& error) {
    return {.failure = {error.code(), error.what(), error.diagnostics(), true}};
  } catch (const InputError& error) {
    return {.failure = {error.code(), error.what(), error.diagnostics()}};
  } catch (const Interrupted&) {
    throw;
  } catch (const Error& error) {
    return {.failure = {error.code(), error.what()}};
  } catch (const std::bad_alloc&) {
    return {.failure = {ExitCode::failed, "out of memory"}};
  }
}

std::span<const SweepMetric> sweep_metrics() { return kSweepMetrics; }

std::size_t sweep_metric(std::string_view name) {
  const auto* const found = std::ranges::find(kSweepMetrics, name, &SweepMetric::name);
  return static_cast<std::size_t>(found - std::begin(kSweepMetrics));
}

void SweptRow::set_metrics(const SweepFigures& figures) {
  metrics.clear();
  for (const SweepMetric& metric : kSweepMetrics) metrics.push_back(metric.of(figures));
}

SweptRow swept_row(std::size_t index, const SweepOutcome& outcome) {
  SweptRow row{.index = index,
               .metrics = std::vector<double>(std::size(kSweepMetrics), kUnknownFigure)};
  if (!outcome.answer) {
    row.refusal = outcome.failure.message.empty() ? "refused" : outcome.failure.message;
    return row;
  }
  const PreparedScenario& prepared = outcome.answer->prepared;
  const Scenario& scenario = prepared.scenario;
  row.set_metrics(figures_of(*outcome.answer));
  if (scenario.memory && scenario.capacity) {
    row.fits = scenario.fits();
    row.capacity = capacity_of(scenario);
  }
  row.shape = {.tensor = prepared.cluster ? prepared.cluster->assumptions().tensor : 0,
               .depth = prepared.request.devices,
               .width = prepared.request.width};
  row.weights = scenario.weights;
  return row;
}

}  // namespace tandem
