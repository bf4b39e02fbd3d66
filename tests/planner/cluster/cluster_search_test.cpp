// The fastest plan on a cluster is what simulating everything finds, and no bound is above a
// simulation.

#include "planner/cluster/cluster_search.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/model/catalog.h"
#include "core/model/node_order.h"
#include "planner/cluster/least_memory.h"
#include "planner/cluster/pace_bound.h"
#include "planner/cluster/step_bound.h"
#include "simulator/contention/contended.h"
#include "simulator/cost/cluster_network.h"
#include "simulator/simulate.h"
#include "tests/planner/cluster/small_question.h"

namespace tandem {
namespace {

using testing::ask;
using ::testing::HasSubstr;
using testing::small_model;
using testing::uneven_cluster;

/// Of one simulated plan.
struct Simulated {
  double seconds = 0.0;
  Bytes peak = 0;  // of the fullest device
};
Network network_alone(const ClusterSetup& setup) {
  const ClusterPlan& made = setup.made;
  const ScheduleRequest& shape = made.plan.request;
  const ClusterLayout layout(setup.cluster(), shape.width, shape.devices, setup.request.order,
                             static_cast<std::size_t>(setup.assumptions().tensor));
  return cluster_network(made.program, made.plan, layout, setup.assumptions());
}

/// A shape as set_up_on_cluster() and simulate() have it; empty: it does not fit.
std::optional<Simulated> simulated_alone(const ClusterQuestion& question, const ClusterShape& shape,
                                         DeviceOrder order, std::int32_t extra) {
  ClusterRequest request = question.base;
  request.plan = plan_of(question, shape);
  request.plan.request.extra_in_flight = extra;
  request.assumptions = assumptions_of(question, shape.frame);
  request.order = order;
  request.depth = shape.frame.depth;
  request.width = shape.frame.width;
  request.global_batch = question.global_batch;
  try {
    const ClusterSetup setup = set_up_on_cluster(request);
    if (!setup.made.fits()) return std::nullopt;
    const ClusterPlan& made = setup.made;
    const CostTable prices = price(made.program, cost_model(made.schedule.placement, made.costs));
    const SimulationResult result =
        question.contention ? simulate_contended(made.program, prices, network_alone(setup), {})
                            : simulate(made.program, prices, {});
    Simulated one{.seconds = result.period_s(), .peak = 0};
    for (const MemoryByClass& of : made.memory) one.peak = std::max(one.peak, of.total());
    return one;
  } catch (const InputError&) {
    return std::nullopt;
  }
}

/// Simulates all of the space, in every order of unequal nodes, and holds every bound against it.
struct BruteForce {
  double best_s = std::numeric_limits<double>::infinity();
  double best_usd = std::numeric_limits<double>::infinity();
  Bytes best_peak = std::numeric_limits<Bytes>::max();
  std::size_t simulated = 0, tight = 0;
  std::size_t paced = 0;     // those that memory bounds more than computation does
  std::size_t together = 0;  // those that make several blocks again together

  explicit BruteForce(ClusterQuestion question) {
    for (const ClusterSpec& spec : node_orders(question.base.cluster->spec())) {
      question.base.cluster = std::make_shared<const Cluster>(spec);
      add(question);
    }
  }
  void add(const ClusterQuestion& question) {
    const ClusterSpace space(question);
    const auto ways = std::make_shared<ClusterWays>(*question.base.cluster);
    StepBound bounds(question, ways);
    PaceBound paces(question, ways);
    std::vector<Rejected> refused;
    for (const ClusterFrame& frame : space.frames()) {
      const double of_frame = bounds.of(frame);
      for (const ClusterShape& shape : space.shapes(frame, refused)) {
        std::optional<ClusterShape> one = shape;
        for (; one; one = space.keeping_less(*one)) add(question, *one, of_frame, bounds, paces);
      }
    }
  }
  void add(const ClusterQuestion& question, const ClusterShape& shape, double of_frame,
           StepBound& bounds, PaceBound& paces) {
    LeastMemory least_memory(question);
    const DevicePrices price(*question.base.cluster);
    const ClusterFrame& frame = shape.frame;
    const double any = bounds.of(shape, StepBound::Cut::any),
                 balanced = bounds.of(shape, StepBound::Cut::balanced);
    EXPECT_LE(of_frame, any * (1 + 1e-9)) << describe(shape);
    EXPECT_LE(any, balanced * (1 + 1e-9)) << describe(shape);
    for (const DeviceOrder order : {DeviceOrder::replicas_first, DeviceOrder::stages_first}) {
      for (const std::int32_t extra : {0, 1, 2, 4}) {
        const bool several = option_of_extras(*shape.schedule);
        if (extra > 0 && (!several || extra > 2 * (frame.depth - 1))) continue;
        const auto one = simulated_alone(question, shape, order, extra);
        if (!one) continue;
        const bool whole = question.base.cut == StageCut::blocks;  // stages may be shorter then
        EXPECT_LE(whole ? any : balanced, one->seconds) << describe(shape);
        EXPECT_LE(paces.of(shape), one->seconds) << describe(shape);
        EXPECT_LE(least_memory.of(shape), static_cast<double>(one->peak)) << describe(shape);
        paced += paces.of(shape) > balanced ? 1 : 0;
        together += frame.recompute.by_block() && frame.recompute.count > 1 ? 1 : 0;
        best_s = std::min(best_s, one->seconds);
        best_peak = std::min(best_peak, one->peak);
        const auto devices = static_cast<std::size_t>(frame.groups() * frame.tensor);
        if (const auto usd = price.usd_per_s(devices))
          best_usd = std::min(best_usd, one->seconds * *usd);
        tight += balanced > 0.9 * one->seconds ? 1 : 0;
        ++simulated;
      }
    }
  }
  static bool option_of_extras(const ScheduleTraits& row) {
    return std::ranges::find(row.options, "extra-in-flight") != row.options.end();
  }
};

/// Of what the question has no price for, cost is not asked.
void expect_found(ClusterQuestion question, std::size_t least_simulated) {
  const BruteForce all(question);
  EXPECT_GE(all.simulated, least_simulated);
  const ClusterAnswer answer = find_cluster_plans(question);
  ASSERT_FALSE(answer.ranked.empty());
  EXPECT_DOUBLE_EQ(answer.ranked.front().period_s, all.best_s);
  EXPECT_DOUBLE_EQ(answer.bound, all.best_s);
  EXPECT_LE(answer.any_cut, all.best_s);
  EXPECT_LT(answer.simulated, all.simulated);

  question.objective = Objective::memory;
  EXPECT_EQ(find_cluster_plans(question).ranked.front().peak_bytes, all.best_peak);
  if (all.best_usd == std::numeric_limits<double>::infinity()) return;
  question.objective = Objective::cost;
  const ClusterAnswer cheapest = find_cluster_plans(question);
  EXPECT_DOUBLE_EQ(cheapest.ranked.front().value, all.best_usd);
  EXPECT_DOUBLE_EQ(cheapest.ranked.front().usd.value(), all.best_usd);
  EXPECT_DOUBLE_EQ(cheapest.bound, all.best_usd);
}

TEST(ClusterSearch, EqualsSimulatingEverything) {
  const ClusterSpec node = cluster_of_nodes("p3.16xlarge");
  ClusterQuestion question = ask(small_model(4, 512), node, 8, Bytes{4} << 30);
  question.most_devices = 4;
  expect_found(question, 500);
}

TEST(ClusterSearch, EqualsItInWholeBlocks) {
  for (const Bytes memory : {Bytes{4} << 30, Bytes{700} << 20}) {
    ClusterQuestion question = ask(small_model(5, 512), cluster_of_nodes("p3.16xlarge"), 8, memory);
    question.base.cut = StageCut::blocks;
    question.most_devices = 4;
    question.schedules = {"1f1b", "2bw", "interleaved"};
    expect_found(question, 50);
    const ClusterAnswer answer = find_cluster_plans(question);
    for (const LayerRange stage : answer.ranked.front().plan.stages)
      EXPECT_TRUE(stage.last % 2 == 1 || stage.last == 12) << stage.last;
  }
}

/// The cheapest plan uses fewer devices than the fastest.
TEST(ClusterSearch, EqualsItAtAPrice) {
  ClusterSpec node = cluster_of_nodes("p3.16xlarge");
  for (DeviceSpec& device : node.devices) device.usd_per_hour = 3.6;
  ClusterQuestion question = ask(small_model(4, 512), node, 8, Bytes{4} << 30);
  question.most_devices = 4;
  question.schedules = {"1f1b", "2bw", "interleaved"};
  expect_found(question, 100);
  const std::size_t fastest = find_cluster_plans(question).ranked.front().devices;
  question.objective = Objective::cost;
  EXPECT_LT(find_cluster_plans(question).ranked.front().devices, fastest);
}

TEST(ClusterSearch, WithoutAPriceNothingIsCheapest) {
  ClusterQuestion question =
      ask(small_model(4, 512), cluster_of_nodes("p3.16xlarge"), 8, Bytes{4} << 30);
  question.objective = Objective::cost;
  EXPECT_THROW(find_cluster_plans(question), InputError);
}

TEST(ClusterSearch, EqualsItWhereMemoryIsShort) {
  const ClusterSpec node = cluster_of_nodes("p3.16xlarge");
  ClusterQuestion question = ask(small_model(6, 1024), node, 8, Bytes{1100} << 20);
  question.most_devices = 4;
  const ClusterAnswer answer = find_cluster_plans(question);
  std::size_t too_large = 0;
  for (const ScheduleOutcome& of : answer.schedules) too_large += of.too_large;
  EXPECT_GT(too_large, 20u);
  expect_found(question, 50);
}

/// In as much memory as each plan takes, and by either figure of it, Little's law leaves no plan
/// out, and bounds some nearer than computation does.
TEST(ClusterSearch, PacesHoldInJustEnoughMemory) {
  for (const FitsBy by : {FitsBy::framework, FitsBy::tandem}) {
    std::size_t paced = 0, near = 0;
    ModelSpec model = small_model(8, 512);
    model.vocabulary = 1024;
    ClusterQuestion question = ask(model, cluster_of_nodes("p3.16xlarge"), 64, Bytes{16} << 30);
    question.base.assumptions.fits_by = by;
    question.most_devices = 4;
    question.depth = 4;
    question.microbatch_size = 4;
    const ClusterSpace space(question);
    std::vector<Rejected> refused;
    for (const ClusterFrame& frame : space.frames()) {
      for (const ClusterShape& shape : space.shapes(frame, refused)) {
        const auto one = simulated_alone(question, shape, DeviceOrder::replicas_first, 0);
        if (!one) continue;
        ClusterQuestion filled = ask(model, cluster_of_nodes("p3.16xlarge"), 64, one->peak);
        filled.base.assumptions.fits_by = by;
        const auto ways = std::make_shared<ClusterWays>(*filled.base.cluster);
        const double pace = PaceBound(filled, ways).of(shape);
        EXPECT_LE(pace, one->seconds) << describe(shape);
        paced += pace > StepBound(filled, ways).of(shape, StepBound::Cut::balanced) ? 1 : 0;
        near += pace > 0.4 * one->seconds ? 1 : 0;
      }
    }
    EXPECT_GT(paced, 0u);
    // None is by half a pace. tandem's slots are there throughout.
    EXPECT_EQ(near > 0, by == FitsBy::framework);
  }
}

/// In any memory: near the least that is enough it shows what is judged before it is counted.
TEST(ClusterSearch, EqualsItWhereStagesAreMadeAgain) {
  std::size_t none = 0, some = 0;
  for (Bytes memory = Bytes{100} << 20; memory < Bytes{3} << 30; memory += memory / 16) {
    ClusterQuestion question =
        ask(small_model(12, 256), cluster_of_nodes("p3.16xlarge"), 64, memory);
    question.most_devices = 2;
    question.microbatch_size = 16;
    question.recompute = Recompute::stage;
    question.schedules = {"1f1b", "interleaved"};
    const BruteForce all(question);
    const ClusterAnswer answer = find_cluster_plans(question);
    ASSERT_EQ(answer.ranked.empty(), all.simulated == 0) << memory;
    ++(answer.ranked.empty() ? none : some);
    if (answer.ranked.empty()) continue;
    EXPECT_DOUBLE_EQ(answer.ranked.front().period_s, all.best_s) << memory;
  }
  EXPECT_GT(none, 3u);
  EXPECT_GT(some, 3u);
}

/// How many blocks of a stage are made again depends on where it begins.
TEST(ClusterSearch, EqualsItWhereSomeBlocksAreMadeAgain) {
  for (const Recompute recompute :
       {Recompute::blocks(1), Recompute::blocks(2), Recompute::uniform(3)}) {
    ClusterQuestion question =
        ask(small_model(7, 512), cluster_of_nodes("p3.16xlarge"), 8, Bytes{4} << 30);
    question.most_devices = 4;
    question.recompute = recompute;
    question.schedules = {"1f1b", "2bw", "interleaved", "zbv", "zb-h1"};
    expect_found(question, 100);
  }
}

TEST(ClusterSearch, EqualsItOnUnequalDevices) {
  ClusterQuestion question = ask(small_model(4, 512), uneven_cluster(), 16, Bytes{4} << 30);
  question.schedules = {"1f1b", "zbv", "2bw", "interleaved"};
  question.microbatch_size = 1;
  expect_found(question, 200);
}

/// What shares links through time, in a node and between two; some plans are faster with it, as
/// their sums don't meet, so that a filter by the times without it would lose the best.
TEST(ClusterSearch, EqualsItWithContention) {
  std::size_t faster = 0, slower = 0;
  for (const auto& [nodes, devices] : {std::pair{"p3.16xlarge", 4}, {"2xp3.16xlarge", 16}}) {
    ClusterQuestion question =
        ask(small_model(6, 512), cluster_of_nodes(nodes), 16, Bytes{4} << 30);
    question.most_devices = devices;
    question.schedules = {"1f1b", "gpipe", "zbv", "2bw", "interleaved"};
    if (devices > 4) question.microbatch_size = 1;
    const ClusterAnswer plain = find_cluster_plans(question);
    EXPECT_EQ(plain.contended, 0u);
    question.contention = true;
    expect_found(question, 100);
    const ClusterAnswer answer = find_cluster_plans(question);
    EXPECT_GT(answer.contended, 0u);
    EXPECT_LE(answer.contended, answer.simulated);
    for (const ClusterCandidate& one : answer.ranked) {
      const ClusterSetup setup = set_up_on_cluster(one.request);
      const double alone = period_s(setup.made, false);
      faster += one.period_s < alone ? 1 : 0;
      slower += one.period_s > alone ? 1 : 0;
    }
  }
  EXPECT_GT(faster, 0u);
  EXPECT_GT(slower, 0u);
}

/// Who fixes a part of the answer is never better off: what the whole space was said to hold no
/// better plan than is at least as good as any plan that a part of it has.
TEST(ClusterSearch, NoPartOfTheSpaceHasABetterPlan) {
  std::mt19937_64 random(7);
  const auto one_of = [&random](auto values) {
    return *(values.begin() + random() % values.size());
  };
  std::size_t compared = 0;
  for (int turn = 0; turn < 16; ++turn) {
    ClusterQuestion question =
        ask(small_model(one_of(std::vector{3, 5, 8}), 512),
            turn % 4 == 0 ? uneven_cluster() : cluster_of_nodes("DGX-A100"),
            one_of(std::vector{8, 24}), Bytes{one_of(std::vector{1, 2, 8})} << 30);
    question.microbatch_size = one_of(std::vector{1, 2, 4});
    question.schedules = {"1f1b", "zbv", "2bw", "interleaved", "seq1f1b"};
    if (turn % 2 == 0)
      question.recompute = one_of(std::vector{Recompute::blocks(1), Recompute::uniform(2)});
    const ClusterAnswer whole = find_cluster_plans(question);
    for (int part = 0; part < 6; ++part) {
      ClusterQuestion fixed = question;
      if (random() % 2 == 0) fixed.depth = one_of(std::vector<std::uint16_t>{1, 2, 3, 4, 8});
      if (random() % 2 == 0) fixed.tensor = one_of(std::vector{1, 2, 4});
      if (random() % 2 == 0) fixed.sharded_optimizer = random() % 2 == 0;
      if (random() % 3 == 0)
        fixed.schedules = {one_of(std::vector<std::string>{"1f1b", "zbv", "2bw"})};
      if (random() % 3 == 0) fixed.width = one_of(std::vector<std::uint16_t>{1, 2, 4});
      const ClusterAnswer of_part = find_cluster_plans(fixed);
      if (of_part.ranked.empty()) continue;
      ASSERT_FALSE(whole.ranked.empty()) << turn;
      EXPECT_LE(whole.ranked.front().period_s, of_part.ranked.front().period_s)
          << turn << " " << part;
      EXPECT_LE(whole.any_cut, of_part.ranked.front().period_s) << turn << " " << part;
      ++compared;
    }
  }
  EXPECT_GT(compared, 40u);
}

TEST(ClusterSearch, BoundsAreNear) {
  ClusterQuestion question =
      ask(small_model(8, 2048), cluster_of_nodes("DGX-A100"), 64, Bytes{80} << 30);
  question.tensor = 1;
  question.microbatch_size = 4;
  question.schedules = {"1f1b", "interleaved", "2bw", "data-parallel"};
  const BruteForce all(question);
  EXPECT_GT(all.tight, all.simulated / 3) << all.simulated;
}

TEST(ClusterSearch, ACandidateIsWhatItsRequestAsksFor) {
  const ClusterQuestion question =
      ask(small_model(8, 1024), cluster_of_nodes("DGX-A100"), 32, Bytes{8} << 30);
  const ClusterAnswer answer = find_cluster_plans(question);
  ASSERT_GT(answer.ranked.size(), 3u);
  for (const ClusterCandidate& one : answer.ranked) {
    const ClusterSetup setup = set_up_on_cluster(one.request);
    const ClusterPlan& made = setup.made;
    EXPECT_EQ(made.plan.stages, one.plan.stages);
    const CostTable prices = price(made.program, cost_model(made.schedule.placement, made.costs));
    EXPECT_DOUBLE_EQ(simulate(made.program, prices, {}).period_s(), one.period_s);
    EXPECT_TRUE(made.fits());
  }
}

TEST(ClusterSearch, AStopLeavesTheBestSoFarAndItsBound) {
  const ClusterQuestion question =
      ask(small_model(8, 1024), cluster_of_nodes("DGX-A100"), 32, Bytes{8} << 30);
  const double best = find_cluster_plans(question).ranked.front().period_s;
  int turns = 0;
  const ClusterAnswer answer = find_cluster_plans(question, [&] { return ++turns > 60; });
  EXPECT_TRUE(answer.interrupted);
  EXPECT_LE(answer.bound, best);
  for (const ClusterCandidate& one : answer.ranked) EXPECT_GE(one.period_s, best);
}

TEST(ClusterSearch, AGapThatIsAllowedSavesSimulations) {
  ClusterQuestion question =
      ask(small_model(8, 1024), cluster_of_nodes("DGX-A100"), 32, Bytes{8} << 30);
  const ClusterAnswer exact = find_cluster_plans(question);
  question.gap = 0.1;
  const ClusterAnswer near = find_cluster_plans(question);
  EXPECT_LT(near.simulated, exact.simulated);
  EXPECT_LE(near.ranked.front().period_s * 0.9, exact.ranked.front().period_s);
  EXPECT_LE(near.bound, exact.ranked.front().period_s);
  EXPECT_LE(near.gap(), 0.1 / 0.9);
  EXPECT_EQ(exact.gap(), 0.0);
}

TEST(ClusterSearch, SaysWhatIsRefused) {
  ClusterQuestion question =
      ask(small_model(4, 512), cluster_of_nodes("p3.16xlarge"), 8, Bytes{4} << 30);
  question.schedules = {"no such schedule"};
  EXPECT_THROW(find_cluster_plans(question), UsageError);
  question.schedules = {"2bw"};
  question.vanilla_only = true;
  const ClusterAnswer none = find_cluster_plans(question);
  EXPECT_TRUE(none.ranked.empty());
  ASSERT_FALSE(none.rejected.empty());
  EXPECT_EQ(none.rejected.front().cause, RejectCause::semantics);
}

TEST(ClusterSearch, TakesTheMicrobatchSizeThatIsAskedFor) {
  ClusterQuestion question =
      ask(small_model(4, 512), cluster_of_nodes("p3.16xlarge"), 37, Bytes{16} << 30);
  question.schedules = {"data-parallel"};
  question.most_devices = 1;
  EXPECT_EQ(find_cluster_plans(question).ranked.front().plan.microbatch_size, 1);
  question.microbatch_size = 37;  // more than is searched
  EXPECT_EQ(find_cluster_plans(question).ranked.front().plan.microbatch_size, 37);
  question.microbatch_size = 36;
  EXPECT_EQ(find_cluster_plans(question).frames, 0u);
}

TEST(ClusterSearch, SaysWhyNoScheduleHasSoManyStagesOnADevice) {
  const auto refusals = [](const char* schedule, std::uint16_t chunks) {
    ClusterQuestion question =
        ask(small_model(4, 512), cluster_of_nodes("p3.16xlarge"), 8, Bytes{4} << 30);
    question.schedules = {schedule};
    question.chunks = chunks;
    std::string text;
    for (const Rejected& one : find_cluster_plans(question).rejected) text += one.reason + "\n";
    return text;
  };
  EXPECT_EQ(refusals("zbv", 3), "it has 2 stages on each device, not 3\n");
  EXPECT_EQ(refusals("zbv", 2), "");
  EXPECT_EQ(refusals("1f1b", 2), "");  // they count for schedules that have several
  EXPECT_THAT(refusals("interleaved", 9), HasSubstr("9 stages on each of 2 devices: small has"));
  EXPECT_THAT(refusals("hanayo", 3), HasSubstr("3 stages on each device are not a multiple of 2"));
}

}  // namespace
}  // namespace tandem
