#include "tools/options/what_if.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.h"
#include "tools/options/schedule_options.h"
#include "tools/options/weight_options.h"

namespace tandem::tools {

namespace {

constexpr double kMostBoxes = 200'000;  // of all runs together: about 5 MB of page

bool is_carried(const CostKey& key) { return is_transfer(key.kind) || is_collective(key.kind); }

Duration scaled(Duration time, double factor) {
  return Duration(std::llround(static_cast<double>(time.count()) * factor));
}

/// All transfers and sums take `factor` times as long. Of links that are shared, the rates; with
/// infinite ones nothing is shared.
Scenario with_links(const Scenario& asked, double factor) {
  Scenario scenario = asked;
  for (const CostId cost : ids(scenario.costs)) {
    if (is_carried(scenario.program.cost_keys()[cost]))
      scenario.costs[cost] = scaled(scenario.costs[cost], factor);
  }
  if (!scenario.network) return scenario;
  if (factor == 0.0) {
    scenario.network.reset();
    return scenario;
  }
  for (Network::Link& link : scenario.network->links) link.bytes_per_second /= factor;
  for (auto& flows : scenario.network->flows) {
    for (Network::Flow& flow : flows) {
      flow.latency = scaled(flow.latency, factor);
      flow.bytes_per_second /= factor;
    }
  }
  return scenario;
}

/// Each transfer takes a share of the longest forward: for runs whose transfers take no time.
Scenario with_transfers(const Scenario& asked, double share) {
  Scenario scenario = asked;
  Duration forward{};
  for (const CostId cost : ids(scenario.costs)) {
    if (scenario.program.cost_keys()[cost].kind == OpKind::forward)
      forward = std::max(forward, scenario.costs[cost]);
  }
  for (const CostId cost : ids(scenario.costs)) {
    if (is_transfer(scenario.program.cost_keys()[cost].kind))
      scenario.costs[cost] = scaled(forward, share);
  }
  return scenario;
}

/// Schedules to compare one with. Times that are given for a stage mean the same work only where
/// the model is cut into as many stages; a model's times are worked out anew for each cut.
std::vector<std::string_view> schedules_like(std::string_view asked, std::size_t stages_per_device,
                                             bool any_cut) {
  std::vector<std::string_view> names{"looped-bfs", "interleaved", "interleaved-zb"};
  if (stages_per_device == 2) names = {"interleaved", "interleaved-zb", "zbv", "v-half"};
  if (stages_per_device == 1) names = {"gpipe", "1f1b", "zb-h1", "2bw"};
  if (any_cut) names = {"gpipe", "1f1b", "interleaved", "zb-h1", "zbv", "2bw"};
  if (std::find(names.begin(), names.end(), asked) == names.end())
    names.insert(names.begin(), asked);
  return names;
}

}  // namespace

WhatIfs::WhatIfs(const Options& options, const Scenario& scenario, const SimulationRequest& request,
                 std::size_t boxes)
    : options_(options),
      scenario_(scenario),
      request_(request),
      boxes_(static_cast<double>(boxes)),
      drawn_(boxes_) {
  ask_about_links();
  if (!options.words().empty() || options.has("schedule-file")) return;
  if (!scenario.search) {  // which would take its time again
    ask_about_amount("microbatches", "Microbatches a batch");
    ask_about_amount("global-batch", "Samples a batch");
  }
  ask_about_schedules();
}

void WhatIfs::ask_about_links() {
  const auto keys = ids(scenario_.costs);
  bool any = false, taken = false;
  for (const CostId cost : keys) {
    if (!is_carried(scenario_.program.cost_keys()[cost])) continue;
    any = true;
    taken = taken || scenario_.costs[cost] > Duration::zero();
  }
  if (!any) return;
  if (taken || scenario_.network) {
    Question question{.name = "Transfers and sums take", .asked = "\u00d7 1", .positions = {}};
    for (const double factor : {0.0, 0.25, 0.5, 1.0, 2.0, 4.0}) {
      question.positions.push_back(
          {.label = fmt::format("\u00d7 {:g}", factor),
           .as_asked = factor == 1.0,
           .scenario = [this, factor] { return with_links(scenario_, factor); }});
    }
    return questions_.push_back(std::move(question));
  }
  Question question{.name = "A transfer takes, of a forward", .asked = "nothing", .positions = {}};
  for (const double share : {0.0, 0.05, 0.1, 0.25, 0.5, 1.0}) {
    question.positions.push_back(
        {.label = fmt::format("{:g} %", 100.0 * share),
         .as_asked = share == 0.0,
         .scenario = [this, share] { return with_transfers(scenario_, share); }});
  }
  questions_.push_back(std::move(question));
}

void WhatIfs::ask_about_amount(const std::string& option, const std::string& name) {
  if (!options_.has(option)) return;
  constexpr std::int64_t kMost = 1'000'000'000;
  const std::int64_t asked = options_.integer(option, 1, kMost, 1);
  Question question{.name = name, .asked = std::to_string(asked), .positions = {}};
  constexpr std::array<std::pair<int, int>, 5> kParts{{{1, 4}, {1, 2}, {1, 1}, {2, 1}, {4, 1}}};
  for (const auto& [times, parts] : kParts) {
    if (asked % parts != 0) continue;
    const std::int64_t amount = asked / parts * times;
    question.positions.push_back({.label = std::to_string(amount),
                                  .as_asked = amount == asked,
                                  .boxes = static_cast<double>(times) / parts,
                                  .scenario = [this, option, amount] {
                                    Options options = options_;
                                    options.set(option, std::to_string(amount));
                                    return make_scenario(options);
                                  }});
  }
  questions_.push_back(std::move(question));
}

void WhatIfs::ask_about_schedules() {
  const ScheduleTraits& asked = find_schedule(options_.text("schedule", scenario_.schedule.name));
  const Placement& placement = scenario_.program.placement();
  const std::size_t stages =
      std::max<std::size_t>(1, placement.stages() / placement.devices / asked.stages_per_part);
  Question question{
      .name = "Schedule", .asked = std::string(asked.name), .list = true, .positions = {}};
  for (const std::string_view name : schedules_like(asked.name, stages, options_.has("model"))) {
    question.positions.push_back(
        {.label = std::string(name) + weights_mark(find_schedule(name).weights),
         .as_asked = name == asked.name,
         .scenario = [this, name, stages] {
           const ScheduleTraits& traits = find_schedule(name);
           Options options = options_;
           options.set("schedule", std::string(name));
           for (const std::string& option : flags_of_some_schedules()) {
             if (!takes(traits, option)) options.unset(option);
           }
           if (stages > 1 && takes(traits, "chunks")) options.set("chunks", std::to_string(stages));
           return make_scenario(options);
         }});
  }
  questions_.push_back(std::move(question));
}

std::optional<WhatIfs::Run> WhatIfs::at(const Position& position) {
  const double boxes = boxes_ * position.boxes;
  if (drawn_ + boxes > kMostBoxes) {
    ++too_large_;
    return std::nullopt;
  }
  try {
    Scenario scenario = position.scenario();
    SimulationRequest request = request_;
    request.record = true;
    request.activation_after_input = scenario.activation_after_input;
    SimulationResult result = simulate(scenario, request);
    drawn_ += boxes;
    return Run{std::move(scenario), std::move(result)};
  } catch (const UsageError&) {
    return std::nullopt;
  } catch (const InputError&) {
    return std::nullopt;
  } catch (const InfeasibleError&) {
    return std::nullopt;
  }
}

std::string WhatIfs::left_out() const {
  if (too_large_ == 0) return {};
  return fmt::format(
      "{} other run{} left out: the runs of a page have at most {:.0f} boxes together, and the one "
      "asked for has {:.0f}. Fewer batches or microbatches leave room; tandem sweep compares runs "
      "of any size.",
      too_large_, too_large_ == 1 ? " is" : "s are", kMostBoxes, boxes_);
}

}  // namespace tandem::tools
