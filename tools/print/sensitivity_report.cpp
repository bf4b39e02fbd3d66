#include "tools/print/sensitivity_report.h"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.h"

namespace tandem::tools {

namespace {

/// Instances of a cycle times devices, links and sums that may be its bottleneck: a quarter of a
/// second at the most.
constexpr double kMostWork = 2e6;

/// How much of `whole` a change of 1 % is, in percent.
double percent(const CriticalTime& time, double whole_s) {
  return whole_s > 0.0 ? time.seconds_a_batch() / whole_s : 0.0;
}

bool is_on_all(const Sensitivity& row) { return row.least.time.count() > 0; }

std::string next_text(const Bottlenecks& all) {
  if (all.order.size() > 1 && is_on_all(all.order[1])) {
    return fmt::format("{}, {:.3f} %", name(all.order[1].resource),
                       percent(all.order[1].least, all.whole_s));
  }
  if (!all.next) return "none";
  return fmt::format("{}, once the first takes {:.1f} % less", name(all.next->resource),
                     100.0 * all.next->from);
}

/// The next one is looked for where one alone limits the run.
Bottlenecks of_endless_run(const Scenario& scenario, const SimulationResult& result,
                           const std::vector<Sensitivity>& rows) {
  Bottlenecks all{.whole_s = result.period_s(), .order = bottlenecks(rows)};
  const auto& order = all.order;
  const bool alone =
      !order.empty() && is_on_all(order[0]) && (order.size() == 1 || !is_on_all(order[1]));
  if (alone) all.next = next_bottleneck(scenario.program, scenario.costs, order.front());
  return all;
}

std::string signed_percent_column(double value) {
  return value == 0.0 ? fmt::format("{:>9} %", 0) : fmt::format("{:>+9.3f} %", value);
}

/// What 1 % faster gains, and 1 % slower loses.
std::string text_of(const CriticalShare& row, double whole_s) {
  return signed_percent_column(-percent(row.least, whole_s)) + " " +
         signed_percent_column(percent(row.most, whole_s));
}

/// A row of what a run and a batch of its endless run gain and lose; nothing where both are none.
bool print_row(const std::string& name, const CriticalShare* batch, const CriticalShare& run,
               const SimulationResult& result) {
  if (run.most.time.count() == 0 && (batch == nullptr || batch->most.time.count() == 0))
    return false;
  fmt::print("{:<28} {:<23}  {}\n", name,
             batch == nullptr ? "" : text_of(*batch, result.period_s()),
             text_of(run, to_seconds(result.makespan)));
  return true;
}

void print_layers(const LayerGains& gains, const SimulationResult& result) {
  const auto print = [&](const std::string& name, const LayerGain& gain) {
    print_row(name, gain.period ? &*gain.period : nullptr, gain.makespan, result);
  };
  fmt::print("\n");
  for (const LayerGain& gain : gains.alike) {
    if (gain.layers.size() > 1) print("all " + name(gains, gain), gain);
  }
  for (const LayerGain& gain : gains.most) print(name(gains, gain), gain);
  if (gains.rest) print(fmt::format("the other {} layers", gains.rest->layers.size()), *gains.rest);
}

}  // namespace

std::optional<Bottlenecks> bottlenecks_of(const Scenario& scenario,
                                          const SimulationResult& result) {
  if (scenario.network || !result.exact_cycle) return std::nullopt;
  const double work = static_cast<double>(scenario.program.size()) *
                      static_cast<double>(result.cycle_batches) *
                      static_cast<double>(scenario.program.placement().devices);
  if (work > kMostWork) return std::nullopt;
  try {
    const auto paths = CriticalPaths::of_endless_run(scenario.program, scenario.costs, result);
    return of_endless_run(scenario, result, paths.spent_on_suspects());
  } catch (const InputError&) {  // times too long for circuits to be compared
    return std::nullopt;
  }
}

void print_bottlenecks(const Bottlenecks& all) {
  const char* const of = all.endless ? "the endless run" : "this run";
  const std::vector<Sensitivity>& rows = all.order;
  if (rows.empty()) return fmt::print("\nno bottleneck: {} takes no time\n", of);
  if (is_on_all(rows.front())) {
    return fmt::print(
        "\nbottleneck of {}: {}: 1 % faster there shortens it by {:.3f} %\nnext: {}\n", of,
        name(rows.front().resource), percent(rows.front().least, all.whole_s), next_text(all));
  }
  constexpr std::size_t kMostNamed = 4;
  std::string names;
  for (std::size_t i = 0; i < rows.size() && i < kMostNamed; ++i)
    names += fmt::format("{}{}", i == 0 ? "" : ", ", name(rows[i].resource));
  if (rows.size() > kMostNamed) names += fmt::format(" and {} more", rows.size() - kMostNamed);
  fmt::print(
      "\nno single bottleneck of {}: no device, link or sum is on all of its critical paths; these "
      "are on some: {}\n",
      of, names);
}

Json bottlenecks_json(const Bottlenecks& all) {
  const auto nth = [&](std::size_t i) {
    return i < all.order.size() && is_on_all(all.order[i]) ? Json(name(all.order[i].resource))
                                                           : Json();
  };
  return {{"bottleneck", nth(0)},
          {"next", all.next ? Json(name(all.next->resource)) : nth(1)},
          {"next_once_less", all.next ? Json(all.next->from) : Json()}};
}

Sensitivities sensitivities_of(const Scenario& scenario, const SimulationResult& result,
                               std::int64_t batches) {
  if (scenario.network) {
    throw InputError(
        "--sensitivity and --contention exclude each other: on shared links a slower op changes "
        "the times of others, so critical paths are not exact");
  }
  const auto run = CriticalPaths::of_run(scenario.program, scenario.costs, batches);
  std::optional<CriticalPaths> endless;
  if (result.exact_cycle)
    endless = CriticalPaths::of_endless_run(scenario.program, scenario.costs, result);
  Sensitivities all{.period = {}, .makespan = run.spent_on_resources()};
  if (scenario.layers)
    all.layers = layer_gains(*scenario.layers, endless ? &*endless : nullptr, run);
  if (endless) {
    all.period = endless->spent_on_resources();
    all.bottlenecks = of_endless_run(scenario, result, *all.period);
  } else {
    all.bottlenecks = {.endless = false,
                       .whole_s = to_seconds(result.makespan),
                       .order = bottlenecks(all.makespan)};
  }
  return all;
}

void print_sensitivity(const Sensitivities& all, const SimulationResult& result) {
  print_bottlenecks(all.bottlenecks);
  fmt::print("\n{:<28} {:<23}  {}\n{:<28} {:>11} {:>11}  {:>11} {:>11}\n", "1 % of",
             all.period ? "a batch, endless" : "", "this run", "", all.period ? "faster" : "",
             all.period ? "slower" : "", "faster", "slower");
  std::size_t left_out = 0;
  for (std::size_t i = 0; i < all.makespan.size(); ++i) {
    const Sensitivity& run = all.makespan[i];
    const Sensitivity* const batch = all.period ? &(*all.period)[i] : nullptr;
    if (!print_row(name(run.resource), batch, run, result)) ++left_out;
  }
  if (left_out > 0) fmt::print("{} more are on no critical path\n", left_out);
  if (all.layers) print_layers(*all.layers, result);
}

Json sensitivity_json(const Sensitivities& all) {
  Json rows = Json::array();
  for (std::size_t i = 0; i < all.makespan.size(); ++i) {
    const Sensitivity& run = all.makespan[i];
    Json row{{"resource", name(run.resource)}};
    row["period_critical_s"] = all.period ? as_json((*all.period)[i]) : Json();
    row["makespan_critical_s"] = as_json(run);
    rows.push_back(std::move(row));
  }
  Json json = bottlenecks_json(all.bottlenecks);
  json["rows"] = std::move(rows);
  json["layers"] = all.layers ? layers_json(*all.layers) : Json();
  json["layer_kinds"] = all.layers ? kinds_json(*all.layers) : Json();
  return json;
}

}  // namespace tandem::tools
