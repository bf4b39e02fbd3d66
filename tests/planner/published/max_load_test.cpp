// Max-load: the proved optima of published graphs, and the best of all splits of small ones.

#include "planner/published/max_load.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <random>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/text/files.h"
#include "tests/support/data.h"

namespace tandem {
namespace {

class OperatorGraphs : public testing::DataTest {
 protected:
  static OperatorGraph graph(const std::string& name) {
    const std::string path = testing::data_path("partitioning/" + name + ".json").string();
    return parse_operator_graph(path, read_file(path, 1 << 24));
  }
};

TEST_F(OperatorGraphs, OptimaAreThoseProved) {
  const std::pair<const char*, double> rows[] = {
      {"bert24_inference", 17.7899},   {"bert24_training", 41.7458},
      {"resnet50_inference", 33.7747}, {"resnet50_training", 78.6318},
      {"bert_l-3_inference", 27.9186}, {"bert_l-3_training", 65.3031}};
  for (const auto& [name, load] : rows) {
    const OperatorGraph of = graph(name);
    const auto found = plan_max_load(of);
    ASSERT_TRUE(found.has_value()) << name;
    EXPECT_NEAR(found->load, load, 5e-5) << name;
    std::set<std::size_t> seen;
    for (const MaxLoadDevice& device : found->devices) {
      EXPECT_LE(device.load, found->load * (1 + 1e-12)) << name;
      seen.insert(device.nodes.begin(), device.nodes.end());
    }
    EXPECT_EQ(seen.size(), of.nodes.size()) << name;
  }
}

// The control: a device less is slower, so that what is compared depends on the search.
TEST_F(OperatorGraphs, ADeviceLessIsSlower) {
  OperatorGraph of = graph("resnet50_training");
  of.accelerators = 5;
  EXPECT_GT(plan_max_load(of)->load, 78.6319);
}

struct SmallGraph {
  OperatorGraph graph;
  /// Of nodes that are a device each.
  double load(const std::set<std::size_t>& part, bool accelerator) const {
    double time = 0.0, bytes = 0.0;
    for (const std::size_t node : part) {
      time += accelerator ? graph.nodes[node].accelerator_time : graph.nodes[node].processor_time;
      bytes += graph.nodes[node].bytes;
      if (accelerator && !graph.nodes[node].on_accelerators)
        return std::numeric_limits<double>::infinity();
    }
    if (!accelerator) return time;
    if (bytes > graph.memory_bytes) return std::numeric_limits<double>::infinity();
    std::set<std::size_t> crossing;
    for (const auto& [from, to] : graph.edges) {
      if (part.contains(from) != part.contains(to)) crossing.insert(from);
    }
    for (const std::size_t node : crossing) time += graph.nodes[node].transfer_time;
    return time;
  }
};

SmallGraph small_graph(std::mt19937& random, std::size_t nodes) {
  std::uniform_real_distribution<double> any(1.0, 10.0);
  SmallGraph made;
  made.graph.accelerators = 1 + static_cast<std::int32_t>(random() % 3);
  made.graph.processors = static_cast<std::int32_t>(random() % 2);
  made.graph.memory_bytes = 4.0 + static_cast<double>(random() % 6);
  for (std::size_t i = 0; i < nodes; ++i) {
    made.graph.nodes.push_back({.name = std::to_string(i),
                                .accelerator_time = any(random),
                                .processor_time = 3 * any(random),
                                .on_accelerators = random() % 8 != 0,
                                .backward = false,
                                .color = {},
                                .bytes = 1.0,
                                .transfer_time = any(random) / 5});
    for (std::size_t before = 0; before < i; ++before) {
      if (random() % 3 == 0) made.graph.edges.emplace_back(before, i);
    }
  }
  return made;
}

/// The least of all orders of devices and sets that close under what feeds them.
double best_of_all(const SmallGraph& of) {
  const std::size_t nodes = of.graph.nodes.size();
  double best = std::numeric_limits<double>::infinity();
  const auto is_ideal = [&](unsigned set) {
    return std::ranges::all_of(of.graph.edges, [&](const auto& edge) {
      return (set >> edge.second & 1U) == 0 || (set >> edge.first & 1U) != 0;
    });
  };
  const unsigned all = (1U << nodes) - 1;
  const std::function<void(unsigned, int, int, double)> go = [&](unsigned before, int accelerators,
                                                                 int processors, double so_far) {
    if (before == all) best = std::min(best, so_far);
    if (so_far >= best) return;
    for (unsigned next = before + 1; next <= all; ++next) {
      if ((next & before) != before || !is_ideal(next)) continue;
      std::set<std::size_t> part;
      for (std::size_t node = 0; node < nodes; ++node) {
        if ((next & ~before) >> node & 1U) part.insert(node);
      }
      if (accelerators > 0)
        go(next, accelerators - 1, processors, std::max(so_far, of.load(part, true)));
      if (processors > 0)
        go(next, accelerators, processors - 1, std::max(so_far, of.load(part, false)));
    }
  };
  go(0, of.graph.accelerators, of.graph.processors, 0.0);
  return best;
}

TEST(MaxLoad, FindsTheBestOfAllSplitsOfSmallGraphs) {
  std::mt19937 random(5);
  int none = 0, several = 0;
  for (int round = 0; round < 80; ++round) {
    const SmallGraph of = small_graph(random, 2 + random() % 7);
    const double best = best_of_all(of);
    const auto found = plan_max_load(of.graph);
    if (best == std::numeric_limits<double>::infinity()) {
      EXPECT_FALSE(found.has_value()) << round;
      ++none;
      continue;
    }
    ASSERT_TRUE(found.has_value()) << round;
    EXPECT_NEAR(found->load, best, 1e-9) << round;
    several += found->devices.size() > 1 ? 1 : 0;
  }
  EXPECT_GT(none, 0);
  EXPECT_GT(several, 20);
}

// What is of one color is not parted, forwards and backwards.
TEST(MaxLoad, ColorsStandOnOneDevice) {
  OperatorGraph graph{
      .memory_bytes = 100.0, .accelerators = 2, .processors = 0, .nodes = {}, .edges = {}};
  const auto node = [&](double time, bool backward, std::int64_t color) {
    graph.nodes.push_back({.name = "n",
                           .accelerator_time = time,
                           .processor_time = time,
                           .on_accelerators = true,
                           .backward = backward,
                           .color = color,
                           .bytes = 1.0,
                           .transfer_time = 0.5});
  };
  node(1, false, 1);
  node(2, false, 2);
  node(2, true, 2);
  node(1, true, 1);
  graph.edges = {{0, 1}, {1, 2}, {2, 3}};
  const auto found = plan_max_load(graph);
  ASSERT_EQ(found->devices.size(), 2u);
  EXPECT_EQ(found->devices[0].nodes, (std::vector<std::size_t>{0, 3}));
  EXPECT_DOUBLE_EQ(found->load, 4 + 0.5 + 0.5);  // what it gets and what it sends
}

TEST(MaxLoad, BadGraphsAreRefusedWithThePlace) {
  const std::string text =
      R"({"maxSizePerFPGA": 1, "maxFPGAs": 1, "maxCPUs": 0, "edges": [{"sourceId": 1, "destId": 7,
      "cost": 0}], "nodes": [{"id": 1, "supportedOnFpga": 1, "cpuLatency": 1, "fpgaLatency": -1,
      "isBackwardNode": 0}]})";
  try {
    parse_operator_graph("g.json", text);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("no node has id 7"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("/nodes/0/fpgaLatency"), std::string::npos);
  }
}

}  // namespace
}  // namespace tandem
