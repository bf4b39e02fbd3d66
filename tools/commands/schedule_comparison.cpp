#include "tools/commands/schedule_comparison.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "simulator/simulate.h"
#include "tools/options/cluster_setup.h"
#include "tools/options/scenario.h"
#include "tools/options/schedule_options.h"
#include "tools/options/weight_options.h"
#include "tools/print/healthy_run.h"
#include "tools/print/sensitivity_report.h"
#include "tools/print/simulation_report.h"

namespace tandem::tools {

namespace {

std::vector<std::string> names_of(const Options& options) {
  std::vector<std::string> names;
  const std::string text = options.text("schedule");
  std::string_view rest = text;
  while (true) {
    const std::size_t comma = rest.find(',');
    const std::string name(find_schedule(rest.substr(0, comma)).name);
    if (std::find(names.begin(), names.end(), name) != names.end())
      throw UsageError(fmt::format("tandem simulate: --schedule names {} twice", name));
    names.push_back(name);
    if (comma == std::string_view::npos) return names;
    rest.remove_prefix(comma + 1);
  }
}

constexpr std::int64_t kMostMicrobatches = 65535;

struct Outcome {
  std::string schedule;
  std::string refusal;  // empty: it was simulated, and there are both of these
  std::optional<Scenario> scenario;
  SimulationResult result{};
};

double rate(const Outcome& outcome) { return samples_per_s(*outcome.scenario, outcome.result); }

class Comparison {
 public:
  Comparison(Options options, std::int64_t batches)
      : options_(std::move(options)), names_(names_of(options_)), batches_(batches) {
    check_options();
    const bool on_cluster = names_a_cluster(options_);
    if (on_cluster && !(options_.has("width") && options_.has("depth")))
      throw UsageError("tandem simulate: give --width and --depth to compare schedules");
    if (!on_cluster && !options_.has("costs-per") && !options_.has("costs"))
      options_.set("costs-per", "device");
  }

  /// The fastest first, those that refuse last.
  std::vector<Outcome> at(std::int64_t microbatches) const {
    std::vector<Outcome> outcomes;
    for (const std::string& name : names_) outcomes.push_back(outcome(name, microbatches));
    std::stable_sort(outcomes.begin(), outcomes.end(), [](const Outcome& a, const Outcome& b) {
      if (a.refusal.empty() != b.refusal.empty()) return a.refusal.empty();
      return a.refusal.empty() && rate(a) > rate(b);
    });
    return outcomes;
  }

  /// Those that none is faster than by more than rounding; none: all refuse.
  std::vector<std::string> fastest(std::int64_t microbatches) const {
    constexpr double kRounding = 1e-6;  // of times divided among chunks
    std::vector<std::string> names;
    const std::vector<Outcome> outcomes = at(microbatches);
    for (const Outcome& one : outcomes) {
      if (one.refusal.empty() && rate(one) * (1.0 + kRounding) >= rate(outcomes.front()))
        names.push_back(one.schedule);
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  struct Range {
    std::int64_t first, last;
    std::vector<std::string> fastest;
  };

  /// Of 1 to four times the microbatches asked for. Between points a sixth apart the fastest is
  /// taken to change at most once.
  std::vector<Range> ranges(std::int64_t microbatches) const {
    const std::int64_t end = std::min<std::int64_t>(4 * microbatches, kMostMicrobatches);
    std::vector<Range> found{{1, 1, fastest(1)}};
    for (std::int64_t at = 1; at < end;) {
      const std::int64_t next = std::min(end, at + std::max<std::int64_t>(1, at / 6));
      std::vector<std::string> there = fastest(next);
      if (there != found.back().fastest) {
        const std::int64_t first = first_change(at, next, found.back().fastest);
        found.back().last = first - 1;
        found.push_back({first, next, std::move(there)});
      }
      found.back().last = next;
      at = next;
    }
    return found;
  }

 private:
  /// Every option of some schedules only must be one of a schedule named here.
  void check_options() const {
    for (const std::string_view option : options_of_some_schedules()) {
      if (!options_.has(std::string(option))) continue;
      const bool taken = std::any_of(names_.begin(), names_.end(), [&](const std::string& name) {
        return takes(find_schedule(name), option);
      });
      if (!taken)
        throw UsageError(fmt::format("none of the schedules {} has an option --{}",
                                     fmt::join(names_, ", "), option));
    }
    for (const char* name : {"trace", "picture", "report", "schedule-file", "sensitivity",
                             "scenarios", "jitter", "straggler-rate", "threads"}) {
      if (options_.has(name))
        throw UsageError(fmt::format("tandem simulate: --{} is for one schedule", name));
    }
    if (!options_.words().empty())
      throw UsageError("tandem simulate: --schedule is not taken: the plan sets it");
  }

  Outcome outcome(const std::string& name, std::int64_t microbatches) const {
    Options options = options_;
    options.set("schedule", name);
    options.set("microbatches", std::to_string(microbatches));
    const ScheduleTraits& traits = find_schedule(name);
    for (const std::string_view option : options_of_some_schedules()) {
      if (!takes(traits, option)) options.unset(std::string(option));
    }
    Outcome outcome{.schedule = name, .refusal = {}, .scenario = {}};
    try {
      outcome.scenario = make_scenario(options);
    } catch (const InputError& error) {
      outcome.refusal = error.what();
      return outcome;
    }
    if (outcome.scenario->search && outcome.scenario->search->interrupted)
      throw Interrupted("interrupted: nothing was compared");
    outcome.result = simulate(
        *outcome.scenario,
        {.batches = batches_, .activation_after_input = outcome.scenario->activation_after_input});
    return outcome;
  }

  /// The first of (`same`, `other`] at which others are the fastest than at `same`.
  std::int64_t first_change(std::int64_t same, std::int64_t other,
                            const std::vector<std::string>& names) const {
    while (other - same > 1) {
      const std::int64_t middle = same + (other - same) / 2;
      (fastest(middle) == names ? same : other) = middle;
    }
    return other;
  }

  Options options_;
  std::vector<std::string> names_;
  std::int64_t batches_;
};

double peak_activations(const SimulationResult& result) {
  double most = 0.0;
  for (const DeviceUse& use : result.devices) most = std::max(most, use.peak_activations);
  return most;
}

double bubble_of_period(const SimulationResult& result, std::int64_t batches) {
  const double ideal = to_seconds(result.ideal) / static_cast<double>(batches);
  return result.cycle.count() == 0 ? 0.0 : 1.0 - ideal / result.period_s();
}

void print_table(const std::vector<Outcome>& outcomes, std::int64_t batches) {
  std::set<WeightSemantics> others;  // than vanilla
  fmt::print("{:<20} {:>11} {:>11} {:>9} {:>8} {:>11} {:>9}  {}\n", "schedule", "a batch",
             "samples/s", "slower by", "bubble", "activations", "versions", "weights");
  for (const Outcome& one : outcomes) {
    if (!one.refusal.empty()) {
      fmt::print("{:<20} {}\n", one.schedule, one.refusal);
      continue;
    }
    std::int32_t versions = 1;
    for (const DeviceUse& use : one.result.devices)
      versions = std::max(versions, use.weight_versions);
    fmt::print("{:<20} {:>11} {:>11.4g} {:>7.1f} % {:>6.1f} % {:>11.4g} {:>9}  {}\n", one.schedule,
               print_duration(one.result.cycle / one.result.cycle_batches), rate(one),
               rate(one) > 0.0 ? 100.0 * (rate(outcomes.front()) / rate(one) - 1.0) : 0.0,
               100.0 * bubble_of_period(one.result, batches), peak_activations(one.result),
               versions, short_name(one.scenario->weights));
    if (one.scenario->weights > WeightSemantics::vanilla) others.insert(one.scenario->weights);
  }
  for (const WeightSemantics weights : others) fmt::print("{}", weights_note(weights));
}

void print_ranges(const std::vector<Comparison::Range>& ranges) {
  fmt::print("\nfastest, by microbatches of a batch:\n");
  for (const Comparison::Range& range : ranges) {
    fmt::print(
        "  {:>5} to {:<5} {}\n", range.first, range.last,
        range.fastest.empty() ? "none can" : fmt::format("{}", fmt::join(range.fastest, ", ")));
  }
}

void print_as_json(const std::vector<Outcome>& outcomes, std::int64_t batches,
                   const std::vector<Comparison::Range>& ranges) {
  Json schedules = Json::array(), fastest = Json::array();
  for (const Outcome& one : outcomes) {
    Json row{{"schedule", one.schedule}};
    if (one.refusal.empty()) {
      row["semantics"] = name(one.scenario->weights);
      row.update(result_json(*one.scenario, one.result));
      if (const auto healthy = healthy_run(*one.scenario, batches))
        row["healthy"] = healthy_json(*one.scenario, one.result, *healthy);
      const auto bottlenecks = bottlenecks_of(*one.scenario, one.result);
      row["bottlenecks"] = bottlenecks ? bottlenecks_json(*bottlenecks) : Json();
    } else {
      row["refused"] = one.refusal;
    }
    schedules.push_back(std::move(row));
  }
  for (const Comparison::Range& range : ranges) {
    fastest.push_back({{"first_microbatches", range.first},
                       {"last_microbatches", range.last},
                       {"schedules", range.fastest}});
  }
  const Scenario& scenario = *outcomes.front().scenario;
  Json config = scenario.config;
  for (const char* own : {"schedule", "semantics"}) config.erase(own);
  print_result("simulate", config, scenario.assumptions,
               {{"schedules", std::move(schedules)}, {"fastest", std::move(fastest)}});
}

}  // namespace

bool names_several_schedules(const Options& options) {
  return options.text("schedule").find(',') != std::string::npos;
}

int compare_schedules(const Options& options, std::int64_t batches) {
  const Comparison comparison(options, batches);
  if (!options.has("microbatches")) throw UsageError("--microbatches is missing");
  const std::int64_t microbatches = options.integer("microbatches", 1, kMostMicrobatches, 1);
  const std::vector<Outcome> outcomes = comparison.at(microbatches);
  if (!outcomes.front().refusal.empty()) throw InputError(outcomes.front().refusal);
  const std::vector<Comparison::Range> ranges = comparison.ranges(microbatches);
  if (options.has("json")) {
    print_as_json(outcomes, batches, ranges);
  } else {
    print_table(outcomes, batches);
    print_ranges(ranges);
  }
  return 0;
}

}  // namespace tandem::tools
