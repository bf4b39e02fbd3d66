// PipeDream's graph.txt, and stages cut from it.

#include "core/import/graph_file.h"

#include <chrono>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/text/files.h"
#include "core/text/json_document.h"
#include "tests/core/error_of.h"
#include "tests/support/data.h"
#include "tests/support/fuzz_input.h"

namespace tandem {
namespace {

using std::chrono::microseconds;
using testing::error_of;
using testing::fuzz_input;
using ::testing::HasSubstr;

LayerGraph branches() { return parse_layer_graph("g", fuzz_input("pipedream_graph/branches.txt")); }

std::string graph_error(const std::string& text) {
  return error_of([&text] { parse_layer_graph("g", text); });
}

constexpr const char* kNumbers =
    " -- forward_compute_time=1, backward_compute_time=2, activation_size=8, parameter_size=4\n";

TEST(GraphFile, LayersStandBehindThoseThatFeedThem) {
  const LayerGraph graph = branches();
  ASSERT_EQ(graph.layers.size(), 5u);
  EXPECT_EQ(graph.layers[0].forward, Duration{});  // an Input loads data
  EXPECT_EQ(graph.layers[1].what, "Conv2d(3, 64, kernel_size=(3, 3), stride=(1, 1))");
  EXPECT_EQ(graph.layers[1].backward, microseconds(4000));
  EXPECT_EQ(graph.layers[3].name, "node4");
  EXPECT_EQ(graph.layers[4].output, 3000);
  for (const auto& [from, to] : graph.edges) EXPECT_LT(from, to);
}

TEST(GraphFile, StagesHaveTheCostsOfTheirLayers) {
  const LayerGraph graph = branches();
  EXPECT_EQ(bytes_across(graph, 1), 1'000'000);
  EXPECT_EQ(bytes_across(graph, 2), 4'000'000);  // node2, for two of those behind
  EXPECT_EQ(bytes_across(graph, 3), 8'000'000);  // node2 and node3
  const StageCostFile costs = stage_costs_of(graph, {{0, 3}, {3, 5}}, 1e9);
  ASSERT_EQ(costs.stages.size(), 2u);
  EXPECT_EQ(costs.stages[0].forward, microseconds(3000));
  EXPECT_EQ(costs.stages[0].backward, microseconds(5000));
  EXPECT_EQ(costs.stages[1].forward, microseconds(3500));
  EXPECT_EQ(costs.stages[1].activation, 8'000'000 + 4'000'000 + 3000);
  EXPECT_EQ(costs.links, std::vector<Duration>{microseconds(8000)});
  EXPECT_EQ(stage_costs_of(graph, {{0, 3}, {3, 5}}, 0.0).links, std::vector<Duration>(1));
}

TEST(GraphFile, WhatIsWrongIsSaidWhereItStands) {
  EXPECT_EQ(graph_error(std::string("a -- x") + kNumbers + "b -- x" + kNumbers +
                        "\ta -- b\n\tb -- a\n\tb -- c\n"),
            "g:5:7: error: no layer c\n b -- c\n      ^");
  EXPECT_THAT(
      graph_error(std::string("a -- x") + kNumbers + "b -- x" + kNumbers + "\ta -- b\n\tb -- a\n"),
      HasSubstr("g:1:1: error: a feeds itself, or is fed by what does: a cycle"));
  EXPECT_THAT(graph_error(std::string("a -- x") + kNumbers + "a -- x" + kNumbers),
              HasSubstr("g:2:1: error: a second a"));
  EXPECT_THAT(graph_error("a -- x -- forward_compute_time=-1, backward_compute_time=1, "
                          "activation_size=1, parameter_size=1"),
              HasSubstr("expected milliseconds from 0 to 1000000, found \"-1\""));
  EXPECT_THAT(graph_error("a -- x -- forward_compute_time=1, activation_size=1"),
              HasSubstr("no backward_compute_time"));
  EXPECT_THAT(graph_error("a -- x -- forward_compute_time=1, backward_compute_time=1, "
                          "activation_size=[1; nan], parameter_size=1"),
              HasSubstr("expected bytes from 0 to"));
  EXPECT_THAT(graph_error("hello"), HasSubstr("g:1:1: error: expected a layer"));
  EXPECT_EQ(graph_error(""), "g: error: no layers: expected lines such as \"node1 -- …\"");
}

class PipeDreamProfiles : public testing::DataTest {};

TEST_F(PipeDreamProfiles, HaveTheirPublishedParametersAndTimes) {
  const struct {
    const char* file;
    std::size_t layers, edges;
    double parameters, backward_ms;
  } rows[]{{"profiles/alexnet.graph.txt", 23, 23, 61.10e6, 40.5},
           {"profiles/vgg16.graph.txt", 41, 41, 138.36e6, 438.6},
           {"profiles/resnet18.graph.txt", 71, 79, 11.69e6, 152.3}};
  for (const auto& row : rows) {
    const std::string path = testing::data_path(row.file).string();
    const LayerGraph graph = parse_layer_graph(path, read_file(path, kLargestJson));
    EXPECT_EQ(graph.layers.size(), row.layers) << row.file;
    EXPECT_EQ(graph.edges.size(), row.edges) << row.file;
    double parameters = 0, backward = 0;
    for (const ProfiledLayer& layer : graph.layers) {
      parameters += static_cast<double>(layer.parameters) / 4;
      backward += to_seconds(layer.backward) * 1e3;
    }
    EXPECT_NEAR(parameters, row.parameters, 1e-3 * row.parameters) << row.file;
    EXPECT_NEAR(backward, row.backward_ms, 0.06) << row.file;
  }
}

}  // namespace
}  // namespace tandem
