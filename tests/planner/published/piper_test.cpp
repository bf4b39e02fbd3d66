// Piper's planner: its optimum is that of all plans of small chains, and its load the formula.

#include "planner/published/piper.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/random.h"

namespace tandem {
namespace {

constexpr double kFitsNowhere = std::numeric_limits<double>::infinity();

PiperLayer layer_of(double seconds, double held, double state) {
  PiperLayer layer{.modes = {}, .parameter_bytes = state / 4.0, .state_bytes = state};
  layer.modes[0] = {seconds, held, 0.0};
  layer.modes[1] = {4.0 / 3.0 * seconds, held / 10.0, held};
  return layer;
}

/// At twice the tensor degree a layer takes 0.6 of its time, and half of its bytes.
PiperQuestion random_question(std::uint64_t seed) {
  std::uint64_t drawn = 0;
  const auto draw = [&](double least, double most) {
    return least + (most - least) * uniform(random_bits(seed, 0, drawn++));
  };
  PiperQuestion question;
  const std::size_t layers = 2 + seed % 4;
  question.devices = static_cast<std::int32_t>(3 + seed % 4);
  question.microbatches = seed % 3 == 0 ? 2 : 8;
  question.bytes_per_s = 1e9;
  question.memory_bytes = draw(1.0e9, 8.0e9);
  for (const std::int32_t tensor : {1, 2}) question.degrees.push_back({tensor, {}});
  for (std::size_t layer = 0; layer < layers; ++layer) {
    const double seconds = draw(0.1, 1.0), held = draw(0.1e9, 1e9), state = draw(0.1e9, 2e9);
    question.degrees[0].layers.push_back(layer_of(seconds, held, state));
    question.degrees[1].layers.push_back(layer_of(0.6 * seconds, held / 2.0, state / 2.0));
    question.boundary_bytes.push_back(layer == 0 ? 0.0 : draw(1e6, 2e8));
  }
  return question;
}

/// Least load of all plans of the layers before `last`, with stages behind whose widths and devices
/// are spent: every cut, width, degree and mode, from the last stage to the first.
double by_brute_force(const PiperQuestion& question, std::size_t last, std::int64_t behind,
                      std::int32_t devices, bool equal, const PiperStage* like) {
  if (last == 0) return 0.0;
  double least = kFitsNowhere;
  for (std::size_t first = 0; first < last; ++first) {
    for (const PiperDegree& degree : question.degrees) {
      for (std::int32_t width = 1; width * degree.tensor <= devices; ++width) {
        if (width > question.microbatches) continue;
        for (const bool again : {false, true}) {
          const PiperStage stage{first, last, width, degree.tensor, again};
          if (equal && like != nullptr &&
              (like->width != width || like->tensor != degree.tensor || like->recomputed != again))
            continue;
          const auto load = piper_load(question, stage, behind);
          if (!load) continue;
          const double rest = by_brute_force(question, first, behind + width,
                                             devices - width * degree.tensor, equal, &stage);
          least = std::min(least, std::max(*load, rest));
        }
      }
    }
  }
  return least;
}

double by_brute_force(const PiperQuestion& question, bool equal) {
  return by_brute_force(question, question.boundary_bytes.size(), 0, question.devices, equal,
                        nullptr);
}

/// The load of a plan, each of its stages priced alone; nothing where one does not fit.
double load_of(const PiperQuestion& question, const PiperPlan& plan) {
  double load = 0.0;
  std::int64_t behind = 0;
  for (std::size_t place = plan.stages.size(); place-- > 0;) {
    load = std::max(load, piper_load(question, plan.stages[place], behind).value_or(kFitsNowhere));
    behind += plan.stages[place].width;
  }
  return load;
}

TEST(PiperPlanner, ItsOptimumIsThatOfAllPlans) {
  std::size_t planned = 0, refused = 0, better = 0, mixed = 0;
  for (std::uint64_t seed = 1; seed <= 120; ++seed) {
    const PiperQuestion question = random_question(seed);
    const double least = by_brute_force(question, false);
    const auto plan = plan_piper(question);
    ASSERT_EQ(plan.has_value(), least < kFitsNowhere) << seed;
    if (!plan) {
      ++refused;
      continue;
    }
    ++planned;
    EXPECT_DOUBLE_EQ(plan->load_s, least) << seed;
    EXPECT_DOUBLE_EQ(load_of(question, *plan), plan->load_s) << seed;
    std::int32_t devices = 0;
    std::size_t next = 0;
    for (const PiperStage& stage : plan->stages) {
      EXPECT_EQ(stage.first, next);
      next = stage.last;
      devices += stage.width * stage.tensor;
      mixed += stage.recomputed != plan->stages.front().recomputed ? 1 : 0;
    }
    EXPECT_EQ(next, question.boundary_bytes.size());
    EXPECT_LE(devices, question.devices);
    // The control: equal stages, as 2BW's planner has them, are often slower.
    better += plan->load_s < 0.999 * by_brute_force(question, true) ? 1 : 0;
  }
  EXPECT_GT(planned, 60u);
  EXPECT_GT(refused, 5u);
  EXPECT_GT(better, 30u);
  EXPECT_GT(mixed, 0u);
}

// Worked by hand: 2 replicas of two layers of 0.3 s, 1 GB of parameters in all, before one more.
TEST(PiperPlanner, ALoadIsTheFormula) {
  PiperQuestion question;
  question.devices = 3;
  question.microbatches = 4;
  question.memory_bytes = 10e9;
  question.boundary_bytes = {0.0, 1e8, 2e8};
  question.degrees.push_back({1, {}});
  for (int layer = 0; layer < 3; ++layer)
    question.degrees[0].layers.push_back(layer_of(0.3, 1e9, 2e9));
  const PiperStage stage{0, 2, 2, 1, false};
  // (0.6 + (2 · 0.2 + 4 · 1 · 1 / 4)) / 2 s; ceil(3 / 2) microbatches of 2 GB beside 4 GB.
  EXPECT_DOUBLE_EQ(piper_load(question, stage, 1).value(), 1.0);
  question.memory_bytes = 8e9;
  EXPECT_TRUE(piper_load(question, stage, 1).has_value());
  question.memory_bytes = 7.9e9;
  EXPECT_FALSE(piper_load(question, stage, 1).has_value());
  EXPECT_TRUE(piper_load(question, stage, 0).has_value()) << "one in flight";
  // Made again: 4 GB, 2 · 0.2 GB and one layer's 1 GB; 0.8 s in place of 0.6.
  EXPECT_DOUBLE_EQ(piper_load(question, {0, 2, 2, 1, true}, 1).value(), 1.1);
  question.memory_bytes = 5.3e9;
  EXPECT_FALSE(piper_load(question, {0, 2, 2, 1, true}, 1).has_value());
}

TEST(PiperPlanner, TooManyStatesAreRefused) {
  PiperQuestion question = random_question(1);
  question.devices = 4096;
  EXPECT_THROW(plan_piper(question), InputError);
}

}  // namespace
}  // namespace tandem
