// PipeDream's planner: the bottlenecks of the authors' optimizer on their graphs, and the best of
// all plans of small chains.

#include "planner/published/pipedream.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/text/files.h"
#include "tests/support/data.h"

namespace tandem {
namespace {

class PipeDreamGraphs : public testing::DataTest {
 protected:
  static LayerGraph graph(const std::string& name) {
    const std::string path = testing::data_path("profiles/" + name + ".graph.txt").string();
    return parse_layer_graph(path, read_file(path, 1 << 20));
  }
  static PipeDreamPlan plan(const std::string& name, std::vector<PipeDreamLevel> levels) {
    return plan_pipedream({.graph = graph(name), .levels = std::move(levels)}).value();
  }
};

// Facts that the authors' released optimizer printed: 4 machines, compression ratio 1.
TEST_F(PipeDreamGraphs, BottlenecksAreThoseOfTheAuthors) {
  const struct {
    const char* name;
    std::size_t states;
    double at_1e9, at_12e9;
  } rows[] = {{"alexnet", 22, 0.034217141333, 0.022186},
              {"vgg16", 40, 0.205520896, 0.170076218667},
              {"resnet18", 100, 0.100004036, 0.065918}};
  for (const auto& row : rows) {
    const PipeDreamPlan slow = plan(row.name, {{4, 1e9}}), fast = plan(row.name, {{4, 12e9}});
    EXPECT_EQ(slow.states, row.states) << row.name;
    EXPECT_NEAR(slow.bottleneck_s, row.at_1e9, 1e-9 * row.at_1e9 + 5e-13) << row.name;
    EXPECT_NEAR(fast.bottleneck_s, row.at_12e9, 1e-9 * row.at_12e9 + 5e-13) << row.name;
    EXPECT_GT(slow.bottleneck_s, fast.bottleneck_s) << row.name;
  }
}

// The split that the authors ship for VGG-16 on 4 GPUs: before node 19, 3 replicas and 1.
TEST_F(PipeDreamGraphs, VggIsCutAsTheAuthorsShipIt) {
  const PipeDreamPlan found = plan("vgg16", {{4, 1e9}});
  ASSERT_EQ(found.stages.size(), 2u);
  EXPECT_EQ(found.stages[0].replicas, 3);
  EXPECT_EQ(found.stages[1].replicas, 1);
  EXPECT_EQ(graph("vgg16").layers[found.stages[1].layers.front()].name, "node19");
}

// Their optimizer's own recurrences, worked through for the two graphs that are chains.
TEST_F(PipeDreamGraphs, MachinesWithinMachines) {
  EXPECT_NEAR(plan("alexnet", {{4, 15.75e9}, {4, 7e9}}).bottleneck_s, 0.006829418286, 1e-12);
  const PipeDreamPlan vgg = plan("vgg16", {{4, 15.75e9}, {4, 7e9}});
  EXPECT_NEAR(vgg.bottleneck_s, 0.043183735810, 1e-12);
  std::int32_t devices = 0;
  for (const PipeDreamStage& stage : vgg.stages) devices += stage.replicas;
  EXPECT_EQ(devices, 16);
}

LayerGraph chain(std::mt19937& random, std::size_t layers) {
  std::uniform_int_distribution<int> any(1, 100);
  LayerGraph graph;
  for (std::size_t i = 0; i < layers; ++i) {
    graph.layers.push_back({.name = "layer" + std::to_string(i),
                            .what = "Linear",
                            .forward = Duration(any(random) * 1'000'000),
                            .backward = Duration(any(random) * 1'000'000),
                            .output = any(random) * 1'000'000,
                            .parameters = any(random) * 1'000'000});
    if (i > 0) graph.edges.emplace_back(i - 1, i);
  }
  return graph;
}

/// The least of all ways to share out machines and layers, in one level.
double best_of_all(const LayerGraph& graph, std::int32_t machines, double rate, double memory) {
  const std::size_t layers = graph.layers.size();
  double best = std::numeric_limits<double>::infinity();
  const std::function<void(std::size_t, std::int32_t, double)> go = [&](std::size_t first,
                                                                        std::int32_t used,
                                                                        double so_far) {
    for (std::size_t last = first + 1; last <= layers; ++last) {
      double seconds = 0, parameters = 0, held = 0;
      for (std::size_t i = first; i < last; ++i) {
        const ProfiledLayer& layer = graph.layers[i];
        seconds += to_seconds(layer.forward + layer.backward);
        parameters += static_cast<double>(layer.parameters);
        held += static_cast<double>(layer.output);
      }
      const double out = last == layers ? 0.0 : static_cast<double>(graph.layers[last - 1].output);
      const double in = first == 0 ? 0.0 : static_cast<double>(graph.layers[first - 1].output);
      for (std::int32_t own = 1; own <= machines - used; ++own) {
        if ((last == layers) != (used + own == machines)) continue;
        const double in_flight = std::ceil(static_cast<double>(machines - used - own) / own);
        if (memory > 0 && in_flight * (parameters + held) > memory) continue;
        const double work = (seconds + 4.0 * (own - 1) * parameters / (rate * own)) / own;
        // The first stage's own links are counted with the stage behind it.
        const double links = first == 0 ? 0.0 : 2.0 * std::max(in, out) / (rate * own);
        const double now = std::max({so_far, work, links});
        if (last == layers)
          best = std::min(best, now);
        else
          go(last, used + own, now);
      }
    }
  };
  go(0, 0, 0.0);
  return best;
}

TEST(PipeDream, FindsTheBestOfAllPlansOfSmallChains) {
  std::mt19937 random(7);
  std::size_t pipelines = 0;
  for (int round = 0; round < 60; ++round) {
    const LayerGraph graph = chain(random, 2 + random() % 6);
    const std::int32_t machines = 1 + static_cast<std::int32_t>(random() % 5);
    const double rate = 1e9 * static_cast<double>(1 + random() % 20);
    const auto found = plan_pipedream({.graph = graph, .levels = {{machines, rate}}});
    ASSERT_TRUE(found.has_value());
    EXPECT_DOUBLE_EQ(found->bottleneck_s, best_of_all(graph, machines, rate, 0.0)) << round;
    pipelines += found->stages.size() > 1 ? 1 : 0;
  }
  EXPECT_GT(pipelines, 10u);  // else the comparison would say nothing of cuts
}

TEST(PipeDream, MemoryForbidsWhatDoesNotFit) {
  std::mt19937 random(11);
  std::size_t slower = 0;
  for (int round = 0; round < 40; ++round) {
    const LayerGraph graph = chain(random, 5);
    const double memory = 1e8 * static_cast<double>(1 + random() % 8);
    const auto free = plan_pipedream({.graph = graph, .levels = {{4, 4e9}}});
    const auto found =
        plan_pipedream({.graph = graph, .levels = {{4, 4e9}}, .memory_bytes = memory});
    const double best = best_of_all(graph, 4, 4e9, memory);
    ASSERT_TRUE(found.has_value());  // by its count the last stage holds nothing
    EXPECT_DOUBLE_EQ(found->bottleneck_s, best);
    slower += found->bottleneck_s > free->bottleneck_s ? 1 : 0;
  }
  EXPECT_GT(slower, 0u);
}

// A diamond has a cut more than a chain: either branch alone may stand before it.
TEST(PipeDream, BranchesAreCutInEveryWay) {
  LayerGraph graph;
  for (int i = 0; i < 4; ++i) {
    graph.layers.push_back({.name = "n" + std::to_string(i),
                            .what = "op",
                            .forward = Duration(i == 1 || i == 2 ? 10'000'000 : 1'000'000),
                            .backward = {},
                            .output = 0,
                            .parameters = 1'000'000'000});
  }
  graph.edges = {{0, 1}, {0, 2}, {1, 3}, {2, 3}};
  const auto found = plan_pipedream({.graph = graph, .levels = {{2, 1e9}}});
  EXPECT_EQ(found->states, 5u);
  EXPECT_DOUBLE_EQ(found->bottleneck_s, 0.011);  // a branch on each device
}

TEST(PipeDream, ManyBranchesAreRefused) {
  LayerGraph graph;
  for (int i = 0; i < 14; ++i)
    graph.layers.push_back({.name = "n" + std::to_string(i), .what = "op", .forward = Duration(1)});
  EXPECT_THROW(plan_pipedream({.graph = graph, .levels = {{2, 1e9}}}), InputError);
}

}  // namespace
}  // namespace tandem
