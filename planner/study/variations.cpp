#include "planner/study/variations.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.h"

namespace tandem {

namespace {

constexpr double kMostBoxes = 200'000;  // of all runs together: about 5 MB of page

bool is_communication(const CostKey& key) {
  return is_transfer(key.kind) || is_collective(key.kind);
}

Duration scaled(Duration time, double factor) {
  return Duration(std::llround(static_cast<double>(time.count()) * factor));
}

/// All transfers and sums take `factor` times as long. Of links that are shared, the rates; with
/// infinite ones nothing is shared.
Scenario with_links(const Scenario& asked, double factor) {
  Scenario scenario = asked;
  for (const CostId cost : ids(scenario.costs)) {
    if (is_communication(scenario.program.cost_keys()[cost]))
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
    if (makes_output(scenario.program.cost_keys()[cost].kind))
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
std::vector<const ScheduleTraits*> schedules_like(const ScheduleTraits& asked,
                                                  std::size_t stages_per_device, bool any_cut) {
  const auto cuts_alike = [&](const ScheduleTraits& row) {
    return row.replicas_per_device == 0 ? stages_per_device > 1
                                        : row.replicas_per_device == stages_per_device;
  };
  std::vector<const ScheduleTraits*> rows;
  for (const ScheduleTraits& row : schedules()) {
    if (any_cut ? row.compared == PageComparison::always
                : row.compared != PageComparison::never && cuts_alike(row))
      rows.push_back(&row);
  }
  if (std::ranges::find(rows, &asked) == rows.end()) rows.insert(rows.begin(), &asked);
  return rows;
}

}  // namespace

Variations::Variations(const ScenarioRequest& request, const PreparedScenario& prepared,
                       const SimulationRequest& simulated, std::size_t boxes)
    : asked_(request),
      scenario_(prepared.scenario),
      simulated_(simulated),
      boxes_(static_cast<double>(boxes)),
      drawn_(boxes_) {
  ask_about_links();
  const ScheduleTraits* traits = schedule_of(request);
  if (traits == nullptr) return;
  if (!prepared.search) {  // which would take its time again
    if (const auto asked = microbatches_of(request))
      ask_about_amount("Microbatches a batch", *asked, set_microbatches);
    const ClusterRequest* cluster = request.cluster();
    if (cluster != nullptr && cluster->global_batch) {
      ask_about_amount("Samples a batch", *cluster->global_batch,
                       [](std::int64_t samples, ScenarioRequest& changed) {
                         std::get<ClusterRequest>(changed.source).global_batch = samples;
                       });
    }
  }
  ask_about_schedules(*traits);
}

void Variations::ask_about_links() {
  const auto keys = ids(scenario_.costs);
  bool any = false, taken = false;
  for (const CostId cost : keys) {
    if (!is_communication(scenario_.program.cost_keys()[cost])) continue;
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

void Variations::ask_about_amount(const std::string& name, std::int64_t asked,
                                  std::function<void(std::int64_t, ScenarioRequest&)> set) {
  Question question{.name = name, .asked = std::to_string(asked), .positions = {}};
  constexpr std::array<std::pair<int, int>, 5> kParts{{{1, 4}, {1, 2}, {1, 1}, {2, 1}, {4, 1}}};
  for (const auto& [times, parts] : kParts) {
    if (asked % parts != 0) continue;
    const std::int64_t amount = asked / parts * times;
    question.positions.push_back({.label = std::to_string(amount),
                                  .as_asked = amount == asked,
                                  .boxes = static_cast<double>(times) / parts,
                                  .scenario = [this, set, amount] {
                                    return changed(
                                        [&](ScenarioRequest& request) { set(amount, request); });
                                  }});
  }
  questions_.push_back(std::move(question));
}

void Variations::ask_about_schedules(const ScheduleTraits& asked) {
  const Placement& placement = scenario_.program.placement();
  const std::size_t stages =
      std::max<std::size_t>(1, placement.replicas() / placement.devices / asked.replicas_per_stage);
  const bool any_cut = asked_.cluster() != nullptr;
  Question question{
      .name = "Schedule", .asked = std::string(asked.name), .list = true, .positions = {}};
  for (const ScheduleTraits* traits : schedules_like(asked, stages, any_cut)) {
    question.positions.push_back({.label = std::string(traits->name),
                                  .as_asked = traits == &asked,
                                  .weights = traits->weights,
                                  .scenario = [this, traits, stages] {
                                    return changed([&](ScenarioRequest& request) {
                                      set_schedule(*traits, stages, request);
                                    });
                                  }});
  }
  questions_.push_back(std::move(question));
}

Scenario Variations::changed(const std::function<void(ScenarioRequest&)>& change) const {
  ScenarioRequest request = asked_;
  change(request);
  return std::move(prepare_scenario(request).scenario);
}

std::optional<Variations::Run> Variations::at(const Position& position) {
  const double boxes = boxes_ * position.boxes;
  if (drawn_ + boxes > kMostBoxes) {
    ++too_large_;
    return std::nullopt;
  }
  try {
    Scenario scenario = position.scenario();
    SimulationRequest request = simulated_;
    request.record = true;
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

std::string Variations::left_out() const {
  if (too_large_ == 0) return {};
  return fmt::format(
      "{} other run{} left out: the runs of a page have at most {:.0f} boxes together, and the one "
      "asked for has {:.0f}. Fewer batches or microbatches leave room; tandem sweep compares runs "
      "of any size.",
      too_large_, too_large_ == 1 ? " is" : "s are", kMostBoxes, boxes_);
}

}  // namespace tandem
