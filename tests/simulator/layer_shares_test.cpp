// What single layers gain against simulating again with that one layer changed: stages are added up
// anew from the profile's rows by the test itself. All prices are a million times as large, so that
// a millionth of a layer is whole nanoseconds, and no other path overtakes.

#include "simulator/cost/layer_shares.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/model/catalog.h"
#include "core/program/graph.h"
#include "simulator/analysis/sensitivity.h"
#include "simulator/cost/cluster_costs.h"
#include "tests/simulator/makespan.h"
#include "tests/support/pipelines.h"

namespace tandem::testing {
namespace {

/// Every other one of times so small that many paths tie.
Profile random_profile(const ModelSpec& model, std::uint64_t seed) {
  Profile profile;
  profile.model = model;
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t bound) {
    return Duration(static_cast<std::int64_t>(random() % (seed % 2 == 0 ? 3 : bound)));
  };
  for (const LayerKind kind :
       {LayerKind::embedding, LayerKind::attention, LayerKind::mlp, LayerKind::head}) {
    profile.layers.push_back({.kind = kind,
                              .microbatch_size = 1,
                              .forward = below(1000),
                              .backward_input = below(1000),
                              .backward_weight = below(1000),
                              .backward = below(2000),
                              .update = below(300)});
  }
  profile.transfers = {{.bytes = 0, .time = below(200)}};
  profile.instruction_overhead = below(50);
  return profile;
}

/// The model's layers in as many stages, uneven ones.
std::vector<LayerRange> cut(std::int32_t layers, std::size_t stages) {
  std::vector<LayerRange> ranges;
  std::int32_t first = 0;
  for (std::size_t stage = 0; stage < stages; ++stage) {
    const auto left = static_cast<std::int32_t>(stages - stage);
    const std::int32_t last =
        left == 1 ? layers
                  : std::min(first + 1 + static_cast<std::int32_t>(stage % 3), layers - left + 1);
    ranges.push_back({first, last});
    first = last;
  }
  return ranges;
}

/// A schedule's program at the prices of a profile.
class Priced {
 public:
  Priced(const Pipeline& wanted, std::uint64_t seed)
      : schedule_(schedule_of(wanted)), program_(lower(schedule_)) {
    const std::size_t stages = schedule_.placement.stages();
    model_ = {.name = "small",
              .blocks = static_cast<std::int32_t>(stages),
              .width = 8,
              .heads = 2,
              .sequence = 4,
              .vocabulary = 16};
    profile_ = random_profile(model_, seed);
    plan_.model = model_;
    plan_.stages = cut(static_cast<std::int32_t>(layers_of(model_).size()), stages);
    costs_ = costs_from_profile(profile_, model_, plan_.stages, 1, Recompute::none);
    table_ = price(program_, cost_model(schedule_.placement, costs_));
  }

  const Program& program() const { return program_; }
  const CostTable& table() const { return table_; }
  LayerShares shares() const { return layer_shares(plan_, costs_); }

  /// All `times` as large, and one layer's by one part of that more, or less.
  CostTable changed(std::size_t changed_layer, std::int64_t times, std::int64_t more) const {
    StageCosts again = costs_;
    const std::vector<LayerKind> layers = layers_of(model_);
    for (const StageId stage : ids(again.stages)) {
      const LayerRange range = plan_.stages[index(stage)];
      const Duration overhead = times * profile_.instruction_overhead;
      StageTimes sum{.forward = overhead,
                     .recompute = overhead,
                     .backward = overhead,
                     .backward_input = overhead,
                     .backward_weight = overhead,
                     .update = overhead};
      for (auto layer = static_cast<std::size_t>(range.first);
           layer < static_cast<std::size_t>(range.last); ++layer) {
        const LayerCost& row = *std::ranges::find(profile_.layers, layers[layer], &LayerCost::kind);
        const std::int64_t by = times + (layer == changed_layer ? more : 0);
        sum.forward += by * row.forward;
        sum.recompute += by * row.forward;
        sum.backward += by * row.backward;
        sum.backward_input += by * row.backward_input;
        sum.backward_weight += by * row.backward_weight;
        sum.update += by * row.update;
      }
      again.stages[stage] = sum;
      again.stages[stage].move = times * *costs_.stages[stage].move;
      again.stages[stage].reduce = times * costs_.stages[stage].reduce;
    }
    again.transfer *= times;
    again.reduce_tied *= times;
    again.norm *= times;
    return price(program_, cost_model(schedule_.placement, std::move(again)));
  }

 private:
  Schedule schedule_;
  Program program_;
  ModelSpec model_;
  Profile profile_;
  Plan plan_;
  StageCosts costs_;
  CostTable table_;
};

std::int64_t makespan_by_simulate(const Program& program, const CostTable& costs,
                                  std::int64_t batches) {
  return simulate(program, costs, {.batches = batches}).makespan.count();
}

std::vector<Pipeline> pipelines_of_layers(const std::string& schedule) {
  return every_pipeline(schedule, {1, 2, 3, 4}, {4}, 5);
}

struct LayersSeen {
  std::size_t gains = 0;               // layers on all critical paths
  std::size_t two_sided = 0;           // some critical paths spend more than others
  std::size_t beyond_first_order = 0;  // at half the time other paths are critical
  std::size_t other_layers = 0;        // another layer, changed instead, gains something else
};

LayersSeen expect_layers_as_simulated_again(const std::string& schedule) {
  LayersSeen seen;
  std::uint64_t seed = 0;
  for (const Pipeline& wanted : pipelines_of_layers(schedule)) {
    const Priced priced(wanted, ++seed);
    const std::int64_t batches = 1 + static_cast<std::int64_t>(seed % 2);
    const std::int64_t all = makespan_by_simulate(priced.program(), priced.table(), batches);
    const std::vector<CriticalShare> rows =
        CriticalPaths::of_run(priced.program(), priced.table(), batches)
            .spent_on_layers(priced.shares());
    for (std::size_t layer = 0; layer < rows.size(); ++layer) {
      SCOPED_TRACE(wanted.name() + ", layer " + std::to_string(layer));
      const auto with = [&](std::size_t which, std::int64_t times, std::int64_t more) {
        return makespan_by_simulate(priced.program(), priced.changed(which, times, more), batches);
      };
      const std::int64_t faster = kMillion * all - rows[layer].least.time.count();
      EXPECT_EQ(with(layer, kMillion, -1), faster);
      EXPECT_EQ(with(layer, kMillion, 1), kMillion * all + rows[layer].most.time.count());
      seen.gains += rows[layer].least.time.count() > 0;
      seen.two_sided += rows[layer].least != rows[layer].most;
      seen.beyond_first_order += with(layer, 2, -1) != 2 * all - rows[layer].least.time.count();
      seen.other_layers += with((layer + 1) % rows.size(), kMillion, -1) != faster;
    }
  }
  return seen;
}

class EverySchedulesLayers : public ::testing::TestWithParam<std::string> {};

TEST_P(EverySchedulesLayers, GainOfTheMakespanWhatSimulatingAgainFinds) {
  const LayersSeen seen = expect_layers_as_simulated_again(GetParam());
  EXPECT_GT(seen.gains, 0u);
  EXPECT_GT(seen.other_layers, 0u);
}

TEST(LayerGainsOfARun, HaveTwoSidesAndEndWhereOtherPathsTakeOver) {
  LayersSeen seen;
  // Few pipelines have two sides, and which are drawn depends on what options there are.
  for (const std::string& schedule : schedule_names()) {
    const LayersSeen one = expect_layers_as_simulated_again(schedule);
    seen.two_sided += one.two_sided;
    seen.beyond_first_order += one.beyond_first_order;
    if (seen.two_sided > 0 && seen.beyond_first_order > 0) break;
  }
  EXPECT_GT(seen.two_sided, 0u);
  EXPECT_GT(seen.beyond_first_order, 0u);
}

TEST_P(EverySchedulesLayers, GainOfThePeriodThatOfTheMaximumCycleRatio) {
  std::uint64_t seed = 0;
  for (const Pipeline& wanted : pipelines_of_layers(GetParam())) {
    if (++seed % 3 != 0) continue;
    const Priced priced(wanted, seed);
    const Program& program = priced.program();
    const SimulationResult result = simulate(program, priced.table(), {});
    ASSERT_TRUE(result.exact_cycle) << wanted.name();
    const double whole = static_cast<double>(kMillion) * 1e9 * result.period_s();
    const std::vector<CriticalShare> rows =
        CriticalPaths::of_endless_run(program, priced.table(), result)
            .spent_on_layers(priced.shares());
    for (std::size_t layer = 0; layer < rows.size(); layer += 2) {
      SCOPED_TRACE(wanted.name() + ", layer " + std::to_string(layer));
      const auto with = [&](std::int64_t more) {
        return maximum_cycle_ratio(program, priced.changed(layer, kMillion, more));
      };
      EXPECT_NEAR(with(-1), whole - 1e9 * rows[layer].least.seconds_a_batch(), 0.05);
      EXPECT_NEAR(with(1), whole + 1e9 * rows[layer].most.seconds_a_batch(), 0.05);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Schedules, EverySchedulesLayers, ::testing::ValuesIn(schedule_names()),
                         test_name);

TEST(PricedShare, OfAllLayersIsAllButTheOverheadAndFollowsSlowerDevices) {
  const Priced priced(pipeline("1f1b", 4, 4), 7);
  const Program& program = priced.program();
  const LayerShares shares = priced.shares();
  std::vector<std::size_t> all;
  for (std::size_t layer = 0; layer < shares.layers.size(); ++layer) all.push_back(layer);
  const CostTable share = priced_share(program, priced.table(), shares, all);
  const CostTable slow = scaled(program, priced.table(), device_resource(DeviceId{2}), 3.0);
  const CostTable slow_share = priced_share(program, slow, shares, all);
  std::size_t slower = 0;
  Duration overhead{};
  for (const CostId cost : ids(share)) {
    const CostKey& key = program.cost_keys()[cost];
    if (!on_compute_lane(key.kind)) {
      EXPECT_EQ(share[cost], Duration{});
      continue;
    }
    if (overhead == Duration{}) overhead = priced.table()[cost] - share[cost];
    EXPECT_EQ(priced.table()[cost] - share[cost], overhead);
    const bool on_slow = key.source == DeviceId{2};
    EXPECT_EQ(slow_share[cost], (on_slow ? 3 : 1) * share[cost]);
    slower += on_slow;
  }
  EXPECT_GT(overhead, Duration{});
  EXPECT_GT(slower, 0u);
}

TEST(LayerShares, OfAClusterAddUpToItsStages) {
  const Plan plan{.model = model_of_name("gpt2"),
                  .schedule = "1f1b",
                  .request = {.devices = 4, .microbatches = 8, .width = 2},
                  .microbatch_size = 4,
                  .stages = {{0, 5}, {5, 12}, {12, 19}, {19, 26}}};
  const Cluster cluster(cluster_of_nodes("p3.16xlarge"));
  const ClusterLayout layout(cluster, plan.request.width, plan.request.devices,
                             DeviceOrder::replicas_first);
  for (const bool sharded : {false, true}) {
    AnalyticAssumptions assumptions{.calibration = Calibration{}};  // no time of a batch's own
    assumptions.sharded_optimizer = sharded;
    const Schedule schedule = make_schedule(plan);
    const StageCosts costs = cluster_costs(plan, schedule.placement, layout, assumptions);
    const LayerShares shares = layer_shares(plan, costs);
    for (const StageId stage : ids(shares.times)) {
      const LayerRange range = plan.stages[index(stage)];
      for (const auto time : kOpTimes) {
        Duration sum{};
        for (std::int32_t layer = range.first; layer < range.last; ++layer)
          sum += shares.layers[static_cast<std::size_t>(layer)].*time;
        const Duration whole = shares.times[stage].*time;
        if (time != &StageTimes::update || !sharded) {
          EXPECT_EQ(sum, whole);
          continue;
        }
        // The second half of the ring follows the update, and each layer's share is cut to whole
        // nanoseconds.
        const Duration own = whole - costs.stages[stage].reduce;
        EXPECT_LE(sum, own + Duration(1));
        EXPECT_GE(sum + Duration(range.size() + 1), own);
      }
    }
  }
}

}  // namespace
}  // namespace tandem::testing
