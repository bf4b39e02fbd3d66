// On small spaces the search finds what brute force finds: each schedule, depth, microbatch size,
// recomputation, extra in flight and cut of the model, simulated one by one.

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "core/lower/lower.h"
#include "core/memory/storage.h"
#include "planner/search/batch_work.h"
#include "planner/search/search.h"
#include "simulator/cost/measured_layers.h"
#include "simulator/cost/stage_costs.h"
#include "simulator/simulate.h"
#include "tests/planner/synthetic.h"

namespace tandem {
namespace {

/// A plan tried by brute force.
struct Tried {
  Plan plan;
  Period period;
  std::vector<std::int64_t> work;  // of the stages for one batch, largest first
  std::vector<Bytes> held;         // by the stages, largest first
  Bytes peak = 0;
  std::size_t row = 0;  // of the registry
  bool fits = true;
};

/// Straight from the core's own functions, with nothing of the planner's.
Tried attempt(const PlanRequest& request, Plan plan) {
  const ScheduleTraits& traits = find_schedule(plan.schedule);
  const Program program = lower(make_schedule(traits, schedule_request(plan)));
  const StageCosts costs = costs_from_profile(request.profile, plan);
  const CostTable table = price(program, cost_model(program.placement(), costs));
  const SimulationResult result = simulate(program, table, {.batches = 1});
  Tried tried;
  tried.period = {result.cycle, result.cycle_batches};
  tried.row = static_cast<std::size_t>(&traits - schedules().data());
  std::vector<Duration> work(plan.stages.size());
  for (const Instruction& instruction : program.instructions()) {
    const LaneKind lane = program.lanes()[program.lanes(instruction).front()].kind;
    if (lane == LaneKind::compute) work[index(instruction.op.replica)] += table[instruction.cost];
  }
  for (const Duration one : work) tried.work.push_back(one.count());
  std::sort(tried.work.rbegin(), tried.work.rend());
  Table<ReplicaId, StageBytes> bytes;
  for (const LayerRange& range : plan.stages) {
    bytes.push_back(stage_bytes(plan.model, range, plan.microbatch_size, plan.optimizer,
                                plan.request.recompute));
  }
  const SlotCounts slots = count_slots(program);
  for (const ReplicaId replica : ids(slots)) {
    Bytes held = bytes[replica].optimizer + workspace_of(slots[replica], bytes[replica]);
    for (std::size_t kind = 0; kind < kSlotKinds; ++kind) {
      if (kind == index(SlotKind::hosted_stash)) continue;  // on another device
      held += slots[replica].counts[kind] * bytes[replica].slot[kind];
    }
    tried.held.push_back(held);
  }
  std::sort(tried.held.rbegin(), tried.held.rend());
  for (const MemoryByClass& memory : memory_by_class(program, slots, bytes)) {
    tried.peak = std::max(tried.peak, memory.total());
    plan.predicted.peak_bytes.push_back(memory.total());
  }
  tried.fits = !request.memory || tried.peak <= *request.memory;
  tried.plan = std::move(plan);
  return tried;
}

/// What the order is made by: the costs of the fastest cut, whether or not that fits.
std::optional<OrderCosts> order_costs_of(const PlanRequest& request, const Plan& plan) {
  if (!find_schedule(plan.schedule).orders_by_costs) return std::nullopt;
  std::optional<Tried> fastest;
  testing::each_cut(static_cast<std::int32_t>(layers_of(plan.model).size()),
                    static_cast<std::int32_t>(stage_count(plan)),
                    [&](const std::vector<LayerRange>& cut) {
                      Plan with = plan;
                      with.stages = cut;
                      Tried tried = attempt(request, with);
                      if (!fastest || tried.work < fastest->work) fastest = std::move(tried);
                    });
  return order_costs(costs_from_profile(request.profile, fastest->plan), plan.request.recompute);
}

/// The cut that the planner promises: slowest stage first, then the second slowest, then the
/// shorter first stage. Of those that fit; where devices have several stages it is taken or left,
/// and then the one whose stages hold least.
std::optional<Tried> best_cut(const PlanRequest& request, const Plan& plan) {
  std::optional<Tried> fastest, smallest;
  const auto layers = static_cast<std::int32_t>(layers_of(plan.model).size());
  const auto stages = static_cast<std::int32_t>(stage_count(plan));
  const bool several = stages > plan.request.devices;
  const std::optional<OrderCosts> by = order_costs_of(request, plan);
  testing::each_cut(layers, stages, [&](const std::vector<LayerRange>& cut) {
    Plan with = plan;
    with.request.costs = by;
    with.stages = cut;
    Tried tried = attempt(request, with);
    if (several && (!smallest || tried.held < smallest->held)) smallest = tried;
    if (!several && !tried.fits) return;
    if (!fastest || tried.work < fastest->work) fastest = std::move(tried);
  });
  if (!fastest || fastest->fits) return fastest;
  return smallest->fits ? smallest : std::nullopt;
}

auto rank(const Tried& tried) {
  return std::tuple(tried.period, tried.plan.request.devices * tried.plan.request.width, tried.peak,
                    tried.row, tried.plan.request.chunks, tried.plan.request.recompute,
                    -tried.plan.microbatch_size, tried.plan.request.extra_in_flight);
}

/// Depths, widths and chunks of a schedule, as the planner promises to try them.
std::vector<Plan> frames(const PlanRequest& request, const ScheduleTraits& row) {
  const bool loops = row.replicas_per_device == 0;
  const std::size_t layers = layers_of(request.model).size();
  std::vector<Plan> all;
  for (std::uint16_t depth = 1; depth <= request.devices; ++depth) {
    if (row.only_devices != 0 && row.only_devices != depth) continue;
    for (std::uint16_t width = 1; depth * width <= request.devices; ++width) {
      if (depth == 1 && (width > 1) != (row.only_devices == 1)) continue;
      for (std::uint16_t chunks = loops ? 2 : 1; chunks <= (loops ? 4 : 1); ++chunks) {
        const std::size_t held = loops ? chunks : row.replicas_per_device;
        if (held > 1 && (depth == 1 || depth * held > layers)) continue;
        Plan plan;
        plan.model = request.model;
        plan.schedule = row.name;
        plan.request.devices = depth;
        plan.request.width = width;
        plan.request.chunks = chunks;
        plan.optimizer = request.optimizer;
        all.push_back(plan);
      }
    }
  }
  return all;
}

/// All plans with their best cuts, best first. Extra in flight goes further than the planner does.
std::vector<Tried> brute_force(const PlanRequest& request) {
  std::vector<Tried> all;
  for (const ScheduleTraits& row : schedules()) {
    if (row.weights == WeightSemantics::stashed || row.weights == WeightSemantics::latest) continue;
    if (row.replicas_per_stage > 1 || row.evicts || !row.whole.empty()) continue;
    // Their cap is to be chosen.
    if (row.name == "zb-auto" || row.name == "v-adaptive" || row.name == "search") continue;
    for (const Plan& frame : frames(request, row)) {
      for (const std::int32_t size : {1, 2}) {
        if (request.global_batch / size % frame.request.width != 0) continue;
        for (const Recompute recompute : {Recompute::none, Recompute::full}) {
          const std::int32_t most = row.name == "2bw" ? 3 * (frame.request.devices - 1) + 1 : 0;
          for (std::int32_t extra = 0; extra <= most; ++extra) {
            Plan plan = frame;
            plan.microbatch_size = size;
            plan.request.microbatches = request.global_batch / size / frame.request.width;
            plan.request.recompute = recompute;
            plan.request.extra_in_flight = extra;
            if (reason_against(row, schedule_request(plan))) continue;
            if (auto tried = best_cut(request, plan)) all.push_back(std::move(*tried));
          }
        }
      }
    }
  }
  std::sort(all.begin(), all.end(),
            [](const Tried& a, const Tried& b) { return rank(a) < rank(b); });
  return all;
}

PlanRequest random_request(std::mt19937& random) {
  const auto up_to = [&](std::int64_t most) {
    return 1 + static_cast<std::int64_t>(random() % static_cast<std::uint32_t>(most));
  };
  PlanRequest request = testing::small_request(static_cast<std::uint16_t>(2 + random() % 2),
                                               4 * static_cast<std::int32_t>(up_to(3)), 1);
  std::vector<testing::LayerSpeed> speeds;
  for (const LayerKind kind :
       {LayerKind::embedding, LayerKind::attention, LayerKind::mlp, LayerKind::head}) {
    speeds.push_back({kind, up_to(500), up_to(900)});
  }
  const Duration transfer = std::chrono::microseconds(random() % 2 == 0 ? 5 : up_to(600));
  request.profile = testing::profile_of(request.model, {1, 2}, speeds, transfer);
  request.keep = 0;
  return request;
}

std::string print(const Plan& plan) {
  std::string text = describe(plan);
  for (const LayerRange& range : plan.stages) text += " " + std::to_string(range.last);
  return text;
}

/// The shapes' bests among `all`, as the planner ranks them.
std::vector<std::string> best_of_shapes(const std::vector<Tried>& all) {
  std::vector<std::string> shapes, texts;
  for (const Tried& tried : all) {
    Plan shape = tried.plan;
    shape.request.extra_in_flight = 0;
    const std::string text = describe(shape);
    if (std::find(shapes.begin(), shapes.end(), text) != shapes.end()) continue;
    shapes.push_back(text);
    texts.push_back(print(tried.plan));
  }
  return texts;
}

std::vector<std::string> printed(const PlanResult& result) {
  std::vector<std::string> texts;
  for (const Candidate& candidate : result.ranked) texts.push_back(print(candidate.plan));
  return texts;
}

TEST(Exhaustive, TheSearchFindsWhatBruteForceFinds) {
  std::mt19937 random(11);
  int limited = 0, with_extra = 0, changed = 0;
  for (int round = 0; round < 30; ++round) {
    PlanRequest request = random_request(random);
    const std::vector<Tried> free = brute_force(request);
    const PlanResult result = find_plans(request);
    ASSERT_EQ(printed(result), best_of_shapes(free)) << "round " << round;
    EXPECT_EQ(result.ranked.front().period, free.front().period);
    EXPECT_EQ(result.ranked.front().plan.predicted.peak_bytes,
              free.front().plan.predicted.peak_bytes);
    if (free.front().plan.request.chunks == 1) {
      EXPECT_EQ(result.ranked.front().slowest.count(), free.front().work.front());
    }
    with_extra += free.front().plan.request.extra_in_flight > 0 ? 1 : 0;

    // Half way between the least and the most that any plan needs: some fit, some don't.
    std::vector<Bytes> peaks;
    for (const Tried& tried : free) peaks.push_back(tried.peak);
    const auto [least, most] = std::minmax_element(peaks.begin(), peaks.end());
    request.memory = *least + (*most - *least) / static_cast<Bytes>(2 + random() % 8);
    const std::vector<Tried> fitting = brute_force(request);
    const PlanResult within = find_plans(request);
    ASSERT_EQ(printed(within), best_of_shapes(fitting)) << "round " << round;
    limited += fitting.size() < free.size() ? 1 : 0;
    changed += print(fitting.front().plan) != print(free.front().plan) ? 1 : 0;
  }
  EXPECT_GT(limited, 20);
  EXPECT_GT(changed, 5);
  EXPECT_GT(with_extra, 0);
}

TEST(Exhaustive, PruningLosesNothingOfWhatIsKept) {
  std::mt19937 random(12);
  std::size_t pruned = 0;
  for (int round = 0; round < 60; ++round) {
    PlanRequest request = random_request(random);
    request.devices = 3;
    if (round % 2 == 1) request.memory = 50'000 + static_cast<Bytes>(random() % 200'000);
    const PlanResult all = find_plans(request);
    for (const std::size_t keep : {1U, 3U, 10U}) {
      request.keep = keep;
      const PlanResult few = find_plans(request);
      std::vector<std::string> expected = printed(all);
      expected.resize(std::min(expected.size(), keep));
      ASSERT_EQ(printed(few), expected) << "round " << round;
      EXPECT_EQ(few.one_device.has_value(), all.one_device.has_value());
      if (all.one_device) {
        EXPECT_EQ(print(few.one_device->plan), print(all.one_device->plan));
      }
      pruned += few.pruned;
    }
  }
  EXPECT_GT(pruned, 100U);
}

TEST(Exhaustive, NoPeriodIsShorterThanTheSlowestStage) {
  std::mt19937 random(13);
  for (int round = 0; round < 60; ++round) {
    for (const Candidate& candidate : find_plans(random_request(random)).ranked) {
      EXPECT_GE(candidate.period, (Period{candidate.slowest, 1})) << describe(candidate.plan);
    }
  }
}

TEST(Exhaustive, StageTimesAreThoseOfTheCostModel) {
  std::mt19937 random(14);
  for (int round = 0; round < 20; ++round) {
    const PlanRequest request = random_request(random);
    const LayerTimes times = measured_layers(request.profile, request.model, 2, Recompute::none);
    for (std::int32_t first = 0; first < times.layers(); ++first) {
      for (std::int32_t last = first + 1; last <= times.layers(); ++last) {
        const StageTimes expected =
            costs_from_profile(request.profile, request.model, {{first, last}}, 2, Recompute::none)
                .stages.rows()[0];
        const StageTimes found = times.of({first, last});
        EXPECT_EQ(found.forward, expected.forward);
        EXPECT_EQ(found.recompute, expected.recompute);
        EXPECT_EQ(found.backward, expected.backward);
        EXPECT_EQ(found.backward_input, expected.backward_input);
        EXPECT_EQ(found.backward_weight, expected.backward_weight);
        EXPECT_EQ(found.update, expected.update);
      }
    }
  }
}

}  // namespace
}  // namespace tandem
