// Piper's JSON: layers at tensor degrees that were measured, and at those between.

#include <chrono>
#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "core/import/graph_file.h"
#include "core/model/tensor_degrees.h"
#include "core/text/files.h"
#include "tests/core/error_of.h"
#include "tests/support/data.h"
#include "tests/support/fuzz_input.h"

namespace tandem {
namespace {

using std::chrono::microseconds;
using testing::error_of;
using testing::fuzz_input;
using ::testing::HasSubstr;

LayerGraph graph_of(const std::string& text, std::int32_t tensor) {
  return parse_piper_graph("p", text, tensor).graph;
}

std::string piper_error(const std::string& text, std::int32_t tensor = 1) {
  return error_of([&] { parse_piper_graph("p", text, tensor); });
}

TEST(PiperFile, LayersStandBehindThoseThatFeedThemAtAMeasuredDegree) {
  const LayerGraph graph = graph_of(fuzz_input("piper/three.json"), 2);
  ASSERT_EQ(graph.layers.size(), 3u);
  EXPECT_EQ(graph.layers[0].what, "embedding");
  EXPECT_EQ(graph.layers[1].name, "node 5");
  EXPECT_EQ(graph.layers[1].forward, microseconds(6000)) << "what recomputation adds";
  EXPECT_EQ(graph.layers[1].backward, microseconds(12'000));
  EXPECT_EQ(graph.layers[1].held, 3400);
  EXPECT_EQ(graph.layers[1].parameters, 4'000'000);
  EXPECT_EQ(graph.layers[0].output, 4'000'000) << "the largest of what it sends";
  EXPECT_EQ(graph.edges.size(), 3u);
  EXPECT_FALSE(parse_piper_graph("p", fuzz_input("piper/three.json"), 8).interpolated);
}

TEST(PiperFile, BetweenMeasuredDegreesAPartIsSharedOut) {
  // 18 ms at 2, 9 ms at 8: a = 6 ms, b = 24 ms, 12 ms at 4. The embedding takes the same at each.
  const PiperGraph found = parse_piper_graph("p", fuzz_input("piper/three.json"), 4);
  EXPECT_TRUE(found.interpolated);
  const ProfiledLayer& block = found.graph.layers[1];
  EXPECT_EQ(block.forward + block.backward, microseconds(12'000));
  EXPECT_EQ(block.forward, microseconds(4000));
  EXPECT_EQ(found.graph.layers[0].forward, microseconds(250));
  EXPECT_EQ(block.held, std::llround(3400 - 2000 * 2.0 / 3.0));
}

TEST(PiperFile, StagesHoldWhatTheirLayersHold) {
  const StageCostFile costs =
      stage_costs_of(graph_of(fuzz_input("piper/three.json"), 1), {{0, 2}, {2, 3}}, 1e9);
  EXPECT_EQ(costs.stages[0].activation, 2000 + 6000);
  EXPECT_EQ(costs.stages[1].activation, 1000);
  EXPECT_EQ(costs.stages[0].forward, microseconds(10'250));
  EXPECT_EQ(costs.links, std::vector<Duration>{microseconds(8000)}) << "embedding and block";
}

TEST(PiperFile, WhatIsWrongIsSaidWhereItStands) {
  const std::string wrong = piper_error(fuzz_input("piper/wrong.json"));
  EXPECT_THAT(wrong, HasSubstr("expected entries \"vanilla\" and \"activation recomp\""));
  EXPECT_THAT(wrong, HasSubstr("at most twice as long, found 0.001"));
  EXPECT_THAT(wrong, HasSubstr("expected tensor degrees from 1 to 65535 as keys"));
  EXPECT_THAT(wrong, HasSubstr("no node has id 9"));
  EXPECT_THAT(piper_error(fuzz_input("piper/cycle.json")),
              HasSubstr("feeds itself, or is fed by what does"));
  EXPECT_THAT(
      piper_error(fuzz_input("piper/from_two.json"), 1),
      HasSubstr(
          "node 7 has tensor degrees 2, 8, not 1: only degrees between them are interpolated"));
  EXPECT_THAT(piper_error(fuzz_input("piper/three.json"), 16),
              HasSubstr("tensor degrees 1, 2, 8, not 16"));
  EXPECT_THAT(piper_error("{}"), HasSubstr("missing key \"nodes\""));
  EXPECT_THAT(piper_error(R"({"nodes": [], "edges": []})"), HasSubstr("expected 1 to 65536 nodes"));
}

TEST(TensorDegrees, FollowALawBetweenThoseMeasured) {
  const auto share = [](std::int32_t tensor) {
    return degrees_around({1, 2, 8}, tensor, "x").share;
  };
  for (const std::int32_t tensor : {1, 2, 8})
    EXPECT_TRUE(degrees_around({1, 2, 8}, tensor, "x").measured());
  EXPECT_DOUBLE_EQ(share(4), (0.5 - 0.25) / (0.5 - 0.125));
  EXPECT_EQ(degrees_around({1, 2, 8}, 3, "x").below, 2);
  EXPECT_EQ(degrees_around({1, 2, 8}, 3, "x").above, 8);
  // Any a + b / T comes out as it is.
  for (const std::int32_t tensor : {3, 4, 5, 6, 7}) {
    const auto law = [](std::int32_t degree) { return 840'000 + 1'680'000 / degree; };
    EXPECT_NEAR(static_cast<double>(on_line(law(2), law(8), share(tensor))), law(tensor), 1.0);
  }
}

/// Piper's profile of BERT-32 on A100s without one of its degrees.
std::string without(const std::string& text, std::int32_t tensor) {
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(text);
  for (auto& node : json["nodes"]) node["TMPCs"].erase(std::to_string(tensor));
  return json.dump();
}

/// Forward and backward, in ms, and what is held, of all transformer layers, or of the embedding.
struct Sums {
  double forward = 0, backward = 0, held = 0;
  double time() const { return forward + backward; }
};

Sums sums_of(const LayerGraph& graph, const char* what) {
  Sums sums;
  for (const ProfiledLayer& layer : graph.layers) {
    if (layer.what != what) continue;
    sums.forward += to_seconds(layer.forward) * 1e3;
    sums.backward += to_seconds(layer.backward) * 1e3;
    sums.held += static_cast<double>(layer.held.value_or(0));
  }
  return sums;
}

double percent(double predicted, double measured) { return 100 * (predicted / measured - 1); }

class PiperProfiles : public testing::DataTest {};

TEST_F(PiperProfiles, ADegreeLeftOutIsPredictedFromItsNeighbours) {
  const std::string text =
      read_file(testing::data_path("piper/bert32a100.json").string(), 1'000'000);
  const struct {
    std::int32_t tensor;
    double time, forward, backward, held;  // percent, at most
  } bounds[]{{2, 3.5, 3.5, 3.5, 0.5}, {4, 5, 1.5, 7.5, 0.5}};
  for (const auto& most : bounds) {
    const PiperGraph predicted = parse_piper_graph("p", without(text, most.tensor), most.tensor);
    const PiperGraph measured = parse_piper_graph("p", text, most.tensor);
    EXPECT_TRUE(predicted.interpolated);
    EXPECT_FALSE(measured.interpolated);
    const Sums is = sums_of(measured.graph, "ParallelTransformerLayer");
    const Sums said = sums_of(predicted.graph, "ParallelTransformerLayer");
    const double time = percent(said.time(), is.time());
    const double embedding = percent(sums_of(predicted.graph, "Embedding").time(),
                                     sums_of(measured.graph, "Embedding").time());
    fmt::print(
        "tensor degree {}: 32 layers in {:.1f} ms, from its neighbours {:+.1f} % (forward "
        "{:+.1f} %, backward {:+.1f} %, held {:+.2f} %); embedding {:+.1f} %\n",
        most.tensor, is.time(), time, percent(said.forward, is.forward),
        percent(said.backward, is.backward), percent(said.held, is.held), embedding);
    EXPECT_LT(std::abs(time), most.time);
    EXPECT_LT(std::abs(percent(said.forward, is.forward)), most.forward);
    EXPECT_LT(std::abs(percent(said.backward, is.backward)), most.backward);
    EXPECT_LT(std::abs(percent(said.held, is.held)), most.held);
    EXPECT_LT(std::abs(embedding), 15);
    EXPECT_GT(std::abs(time), 1) << "it is a prediction";
  }
}

TEST_F(PiperProfiles, ALineInTheDegreeWouldBeFarOff) {
  const std::string text =
      read_file(testing::data_path("piper/bert32a100.json").string(), 1'000'000);
  const auto time = [&](std::int32_t tensor) {
    return sums_of(graph_of(text, tensor), "ParallelTransformerLayer").time();
  };
  EXPECT_GT(percent(time(1) + (time(4) - time(1)) / 3.0, time(2)), 25);
  EXPECT_GT(percent(time(2) + (time(8) - time(2)) / 3.0, time(4)), 25);
}

TEST_F(PiperProfiles, HaveTheTimeOfTheWholeModel) {
  const std::string text =
      read_file(testing::data_path("piper/bert32a100.json").string(), 1'000'000);
  const LayerGraph graph = graph_of(text, 1);
  EXPECT_EQ(graph.layers.size(), 37u);
  EXPECT_EQ(graph.edges.size(), 67u);
  EXPECT_NEAR(sums_of(graph, "ParallelTransformerLayer").time(), 971.748, 1e-3);
  EXPECT_NEAR(sums_of(graph, "ParallelTransformerLayer").forward, 32 * 10.35, 10);
}

}  // namespace
}  // namespace tandem
