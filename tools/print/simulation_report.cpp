#include "tools/print/simulation_report.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/files/plan_cluster.h"
#include "core/text/count_text.h"
#include "planner/search/stage_memory.h"
#include "tools/print/scenario_summary.h"
#include "tools/print/words.h"

namespace tandem::tools {

namespace {

double ratio(Duration part, Duration whole) {
  return whole.count() == 0
             ? 0.0
             : static_cast<double>(part.count()) / static_cast<double>(whole.count());
}

/// Of one device, by the flops of a sample.
double flops_per_device(const ModelUse& use, double flops, double samples_per_s) {
  return samples_per_s * flops / static_cast<double>(use.devices);
}

std::string bubble_text(const BubbleRate& bubble) {
  const double work = bubble.of_run - bubble.idle;
  std::string text = fmt::format("bubble rate {:.1f} %", 100.0 * bubble.of_run);
  if (work < 0.0005) return text;
  return text + fmt::format(": {:.1f} % idle, {:.1f} % recomputation and updates",
                            100.0 * bubble.idle, 100.0 * work);
}

void print_rates(const ModelUse& use, double samples_per_s) {
  const double rate = flops_per_device(use, use.flops, samples_per_s);
  const double peak = use.peak_flops_per_s / static_cast<double>(use.devices);
  fmt::print(
      "{:.4g} tokens/s; {:.4g} TFLOP/s a device, {:.1f} % of peak (MFU, model FLOPs utilisation)",
      samples_per_s * use.tokens, rate / 1e12, 100.0 * rate / peak);
  if (use.flops_done > use.flops) {
    const double done = flops_per_device(use, use.flops_done, samples_per_s);
    fmt::print(
        "\n{:.4g} TFLOP/s a device with recomputation, {:.1f} % (HFU, hardware FLOPs utilisation)",
        done / 1e12, 100.0 * done / peak);
  }
  fmt::print("\n");
}

/// Options that say what is not as it should be, without "--".
std::vector<std::string> troubles(const ScenarioRequest& request) {
  std::vector<std::string> flags;
  for (const PerturbationTraits& kind : kPerturbations) {
    if (std::ranges::find(request.perturbations, kind.kind, &Perturbation::kind) !=
        request.perturbations.end())
      flags.emplace_back(kind.flag);
  }
  if (request.contention) flags.emplace_back("contention");
  return flags;
}

/// Of an endless run, 0.25 where a batch takes a quarter longer than it should.
double slower_by(const SimulationResult& result, const SimulationResult& healthy) {
  return healthy.cycle.count() == 0 ? 0.0 : result.period_s() / healthy.period_s() - 1.0;
}

/// What troubles cost.
std::string difference_line(const ScenarioRequest& request, const Scenario& scenario,
                            const SimulationResult& result, const SimulationResult& healthy) {
  const Duration batch = result.cycle / result.cycle_batches;
  const Duration usual = healthy.cycle / healthy.cycle_batches;
  std::string difference = "this run is as fast";
  if (batch != usual) {
    difference = fmt::format(
        "this run is {:.1f} % {}, by {} a batch", 100.0 * std::abs(slower_by(result, healthy)),
        batch > usual ? "slower" : "faster", print_duration(std::chrono::abs(batch - usual)));
  }
  return fmt::format("without --{}: {} a batch, {:.4g} samples/s; {}\n",
                     fmt::join(troubles(request), ", --"), print_duration(usual),
                     samples_per_s(scenario, healthy), difference);
}

Json healthy_json(const ScenarioRequest& request, const Scenario& scenario,
                  const SimulationResult& result, const SimulationResult& healthy) {
  return {{"without", troubles(request)},
          {"makespan_s", to_seconds(healthy.makespan)},
          {"period_s", healthy.period_s()},
          {"throughput_samples_per_s", samples_per_s(scenario, healthy)},
          {"slower_by", slower_by(result, healthy)}};
}

}  // namespace

void print_memory(const Scenario& scenario) {
  // Where there are two figures, the classes add up to the one that says what fits.
  const std::optional<MemoryFigures>& both = scenario.figures;
  const bool framework = both && both->by == FitsBy::framework;
  const auto cell = [&](std::string_view text) {
    return fmt::format(" {:>{}}", text, both ? 10 : 11);
  };
  std::string text = fmt::format("\n{:>6}", "device");
  for (const ClassBytes& of : classes({})) text += cell(of.name);
  text += cell(both ? name(both->by) : "total");
  if (both) text += cell(name(framework ? FitsBy::tandem : FitsBy::framework));
  text += scenario.capacity ? "  fits\n" : "\n";
  for (const DeviceId device : ids(*scenario.memory)) {
    const MemoryByClass& memory = (*scenario.memory)[device];
    text += fmt::format("{:>6}", index(device));
    for (const ClassBytes& of : classes(memory)) text += cell(print_bytes(of.bytes));
    text += cell(print_bytes(memory.total()));
    if (both) text += cell(print_bytes((framework ? both->tandem : both->framework)[device]));
    text += !scenario.capacity ? "\n" : scenario.fits(device) ? "  yes\n" : "  NO\n";
  }
  if (scenario.use || !scenario.reserve.none()) text += fits_line(scenario);
  fmt::print("{}", text);
}

std::string batch_text(const Program& program) {
  const std::int32_t slices = program.slices();
  return counted(program.microbatches() / slices, "microbatch") +
         (slices == 1 ? "" : fmt::format(" of {} slices", slices));
}

std::string print_percent(double share) { return fmt::format("{:.1f} %", 100.0 * share); }

BubbleRate bubble_rate(const SimulationResult& result) {
  Duration busy{};
  for (const DeviceUse& use : result.devices) busy = std::max(busy, use.busy);
  return {.of_run = ratio(result.makespan - result.ideal, result.makespan),
          .idle = ratio(result.makespan - busy, result.makespan)};
}

void print_summary(const ScenarioRequest& request, const PreparedScenario& prepared,
                   const SimulationResult& result, std::int64_t batches,
                   const std::optional<SimulationResult>& healthy) {
  const Scenario& scenario = prepared.scenario;
  const Program& program = scenario.program;
  if (prepared.cluster) fmt::print("{}\n\n", cluster_summary(*prepared.cluster));
  fmt::print("{}: {} of {} in {}; {}\n", schedule_heading(program.schedule()),
             counted(batches, "batch"), batch_text(program), print_duration(result.makespan),
             bubble_text(bubble_rate(result)));
  const auto spread = prepared.cluster ? prepared.cluster->spread() : std::nullopt;
  fmt::print("endless run (steady state): {} a batch{}, {:.4g} samples/s, from batch {} on{}\n",
             print_duration(result.cycle / result.cycle_batches),
             spread ? fmt::format(" ±{:.3g} %", 100 * spread->within_80) : "",
             samples_per_s(scenario, result), result.steady_from_batch,
             result.cycle_batches == 1
                 ? ""
                 : fmt::format(", repeating every {} batches", result.cycle_batches));
  if (healthy) fmt::print("{}", difference_line(request, scenario, result, *healthy));
  if (scenario.use) print_rates(*scenario.use, samples_per_s(scenario, result));
  fmt::print("\n{:>6} {:>11} {:>11} {:>16} {:>11} {:>9}\n", "device", "busy", "idle",
             "exposed transfer", "activations", "versions");
  for (const DeviceId device : ids(result.devices)) {
    const DeviceUse& use = result.devices[device];
    fmt::print("{:>6} {:>11} {:>11} {:>16} {:>11.4g} {:>9}\n", index(device),
               print_duration(use.busy), print_duration(use.bubble),
               print_duration(use.exposed_communication), use.peak_activations,
               use.weight_versions);
  }
  if (scenario.memory) print_memory(scenario);
  if (prepared.search) fmt::print("\n{}", search_text(*prepared.search));
  if (prepared.cluster) print_assumptions(request, *prepared.cluster);
  for (const std::string& warning : warnings_of(request, prepared, result))
    fmt::print(stderr, "warning: {}\n", warning);
}

Json result_json(const ScenarioRequest& request, const PreparedScenario& prepared,
                 const SimulationResult& result, const std::optional<SimulationResult>& healthy) {
  const Scenario& scenario = prepared.scenario;
  Json devices = Json::array();
  for (const DeviceId device : ids(result.devices)) {
    const DeviceUse& use = result.devices[device];
    Json row{{"device", index(device)},
             {"busy_s", to_seconds(use.busy)},
             {"bubble_s", to_seconds(use.bubble)},
             {"exposed_communication_s", to_seconds(use.exposed_communication)},
             {"peak_activations", use.peak_activations},
             {"weight_versions", use.weight_versions},
             {"peak_bytes", nullptr},
             {"capacity_bytes", nullptr},
             {"fits", nullptr}};
    if (scenario.memory) {
      const MemoryByClass& memory = (*scenario.memory)[device];
      row["peak_bytes"] = memory.total();
      for (const ClassBytes& of : classes(memory)) row["bytes_by_class"][of.name] = of.bytes;
      if (scenario.figures) row.update(figures_json(*scenario.figures, device));
    }
    if (scenario.capacity) {
      const Bytes capacity = (*scenario.capacity)[device];
      row["capacity_bytes"] = capacity;
      row["reserve_bytes"] = capacity - scenario.reserve.usable(capacity);
      if (scenario.memory) row["fits"] = scenario.fits(device);
    }
    devices.push_back(std::move(row));
  }
  Json json{{"makespan_s", to_seconds(result.makespan)},
            {"span_s", to_seconds(result.span)},
            {"ideal_s", to_seconds(result.ideal)},
            {"period_s", result.period_s()},
            {"period_batches", result.cycle_batches},
            {"steady_from_batch", result.steady_from_batch},
            {"throughput_samples_per_s", samples_per_s(scenario, result)},
            {"bubble_of_total", bubble_rate(result).of_run},
            {"bubble_of_span", ratio(result.span - result.ideal, result.span)},
            {"bubble_of_ideal", ratio(result.makespan - result.ideal, result.ideal)},
            {"devices", std::move(devices)}};
  if (prepared.search) json["search"] = search_json(*prepared.search);
  if (scenario.use) {
    const double samples = samples_per_s(scenario, result);
    json["tokens_per_s"] = samples * scenario.use->tokens;
    json["flops_per_s_per_device"] = flops_per_device(*scenario.use, scenario.use->flops, samples);
    json["flops_per_s_per_device_with_recomputation"] =
        flops_per_device(*scenario.use, scenario.use->flops_done, samples);
    json["mfu"] = samples * scenario.use->flops / scenario.use->peak_flops_per_s;
    json["hfu"] = samples * scenario.use->flops_done / scenario.use->peak_flops_per_s;
  }
  if (healthy) json["healthy"] = healthy_json(request, scenario, result, *healthy);
  return json;
}

std::vector<std::string> warnings_of(const ScenarioRequest& request,
                                     const PreparedScenario& prepared,
                                     const SimulationResult& result) {
  std::vector<std::string> warnings = prepared.warnings;
  if (request.plan() != nullptr) {
    for (std::string& warning : storage_warnings(request.plan()->storage))
      warnings.push_back(std::move(warning));
  }
  if (prepared.cluster && prepared.plan->cluster && prepared.plan->cluster->contention &&
      !request.contention)
    warnings.emplace_back("the plan's prediction counts contention: --contention counts it here");
  if (!result.exact_cycle) {
    warnings.emplace_back(
        "no repetition was found: the period is the maximum cycle ratio, rounded");
  }
  return warnings;
}

void print_spread(const Spread& spread) {
  const Uncertainty& what = spread.request.what;
  fmt::print("\n{} scenarios from seed {}: ops jitter by {:.4g} %", spread.request.scenarios,
             what.seed, 100.0 * what.jitter);
  if (what.straggler_rate > 0.0) {
    fmt::print("; each device {:.4g} times as slow with a chance of {:.4g} %",
               what.straggler_factor, 100.0 * what.straggler_rate);
  }
  if (spread.batches > 1) fmt::print("; means over {} batches", spread.batches);
  const auto time = [&](double seconds) {
    return fmt::format("{} ({:+.2f} %)", print_duration(Duration(std::llround(seconds * 1e9))),
                       spread.plain_s > 0.0 ? 100.0 * (seconds / spread.plain_s - 1.0) : 0.0);
  };
  fmt::print("\na batch of the endless run: P50 {}, P95 {}, P99 {}\n",
             time(spread.percentile_s(50)), time(spread.percentile_s(95)),
             time(spread.percentile_s(99)));
  fmt::print("mean {}, worst {}; without noise {}\n", time(spread.mean_s()),
             time(spread.sorted_s.back()),
             print_duration(Duration(std::llround(spread.plain_s * 1e9))));
}

Json spread_json(const Spread& spread) {
  const Uncertainty& what = spread.request.what;
  return {{"scenarios", spread.request.scenarios},
          {"seed", what.seed},
          {"jitter", what.jitter},
          {"straggler_rate", what.straggler_rate},
          {"straggler_factor", what.straggler_factor},
          {"batches", spread.batches},
          {"warm_up_batches", Scenarios::kWarmUp},
          {"without_noise_s", spread.plain_s},
          {"p50_s", spread.percentile_s(50)},
          {"p95_s", spread.percentile_s(95)},
          {"p99_s", spread.percentile_s(99)},
          {"mean_s", spread.mean_s()},
          {"least_s", spread.sorted_s.front()},
          {"worst_s", spread.sorted_s.back()}};
}

std::string search_text(const OrderSearch& search) {
  const SearchedOrder& found = search.found;
  std::string text = fmt::format("search: {}", print_duration(found.makespan));
  if (found.named.empty()) {
    text += found.stopped ? "; there was no time for a named schedule that keeps the cap\n"
                          : "; no named schedule of one stage a device keeps the cap\n";
  } else if (found.is_named()) {
    text += fmt::format(", as fast as {}, the fastest named schedule of one stage a device\n",
                        found.named);
  } else {
    text += fmt::format(
        ", {:.2f} % less than {}, the fastest named schedule of one stage a device ({})\n",
        100.0 * found.gain(), found.named, print_duration(found.named_makespan));
  }
  text += found.optimal()
              ? "proved: no order of these stages takes less\n"
              : fmt::format("proved: no order of these stages takes less than {}, {:.2f} % below\n",
                            print_duration(found.bound), 100.0 * found.gap());
  text +=
      fmt::format("{} tried in {:.2f} s, seed {}{}\n", counted(found.orders, "order"),
                  search.seconds, search.seed, found.stopped ? "; stopped, the best so far" : "");
  return text;
}

Json search_json(const OrderSearch& search) {
  const SearchedOrder& found = search.found;
  Json named = nullptr, named_makespan = nullptr;
  if (!found.named.empty()) {
    named = found.named;
    named_makespan = to_seconds(found.named_makespan);
  }
  return {{"makespan_s", to_seconds(found.makespan)},
          {"bound_s", to_seconds(found.bound)},
          {"gap", found.gap()},
          {"optimal", found.optimal()},
          {"fastest_named", named},
          {"fastest_named_makespan_s", named_makespan},
          {"gain", found.gain()},
          {"is_named", found.is_named()},
          {"orders", found.orders},
          {"seed", search.seed},
          {"seconds", search.seconds},
          {"stopped", found.stopped},
          {"interrupted", search.interrupted}};
}

int search_exit_code(const OrderSearch& search) {
  if (!search.interrupted) return static_cast<int>(ExitCode::done);
  fmt::print(stderr, "error: interrupted after {}: this is the best so far\n",
             counted(search.found.orders, "order"));
  return static_cast<int>(ExitCode::interrupted);
}

}  // namespace tandem::tools
