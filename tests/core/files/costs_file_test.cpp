#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/files/read.h"
#include "tests/core/error_of.h"

namespace tandem {
namespace {

using testing::error_of;

std::string costs_error(const std::string& text) {
  return error_of([&text] { parse_costs("costs.json", text); });
}

/// The error of a file with this one stage, which begins at line 1, column 27.
std::string error_in_stage(const std::string& stage) {
  const std::string text = "{\"version\": 1, \"stages\": [" + stage + "]}";
  const std::string message = costs_error(text);
  return message.substr(0, message.find('\n'));
}

TEST(CostsFile, ReadsEachStage) {
  const StageCostFile costs = parse_costs("costs.json", R"({
    "version": 1,
    "stages": [
      {"forward_ns": 100, "backward_ns": 201},
      {"forward_ns": 10, "backward_input_ns": 11, "backward_weight_ns": 12, "update_ns": 3,
       "recompute_ns": 9, "activation_bytes": 64, "weight_gradient_bytes": 32},
      {"forward_ns": 1, "backward_input_ns": 2, "backward_weight_ns": 3, "backward_ns": 4}
    ],
    "transfer_ns": 7, "reduce_ns": 8
  })");
  ASSERT_EQ(costs.stages.size(), 3U);
  EXPECT_EQ(costs.stages[0], (StageCostRow{.forward = Duration{100},
                                           .backward_input = Duration{100},
                                           .backward_weight = Duration{101},
                                           .backward = Duration{201},
                                           .update = Duration{0},
                                           .recompute = Duration{100},
                                           .activation = {},
                                           .weight_gradient = {}}));
  EXPECT_EQ(costs.stages[1], (StageCostRow{.forward = Duration{10},
                                           .backward_input = Duration{11},
                                           .backward_weight = Duration{12},
                                           .backward = Duration{23},
                                           .update = Duration{3},
                                           .recompute = Duration{9},
                                           .activation = 64,
                                           .weight_gradient = 32}));
  EXPECT_EQ(costs.stages[2].backward, Duration{4});
  EXPECT_EQ(costs.transfer, Duration{7});
  EXPECT_EQ(costs.reduce, Duration{8});
}

TEST(CostsFile, TransfersAndReductionsAreFreeUnlessGiven) {
  const StageCostFile costs = parse_costs(
      "costs.json", R"({"version": 1, "stages": [{"forward_ns": 1, "backward_ns": 2}]})");
  EXPECT_EQ(costs.transfer, Duration{0});
  EXPECT_EQ(costs.reduce, Duration{0});
}

TEST(CostsFile, ReadsBackWhatItWrites) {
  StageCostFile costs;
  costs.stages.push_back({.forward = Duration{10},
                          .backward_input = Duration{11},
                          .backward_weight = Duration{12},
                          .backward = Duration{20},
                          .update = Duration{3},
                          .recompute = Duration{9},
                          .activation = 64,
                          .weight_gradient = 0});
  costs.stages.push_back({});
  costs.transfer = Duration{5};
  EXPECT_EQ(parse_costs("again.json", costs_text(costs)), costs);
}

TEST(CostsFile, AMoveOfAStashHasATimeOfItsOwnOrThatOfATransfer) {
  const StageCostFile costs = parse_costs("costs.json", R"({"version": 1, "stages": [
      {"forward_ns": 1, "backward_ns": 2, "move_ns": 5}, {"forward_ns": 1, "backward_ns": 2}]})");
  EXPECT_EQ(costs.stages[0].move, Duration{5});
  EXPECT_EQ(costs.stages[1].move, std::nullopt);
  EXPECT_EQ(parse_costs("again.json", costs_text(costs)), costs);
}

TEST(CostsFile, GivesEachLinkATransferOfItsOwn) {
  const auto file = [](const char* rest) {
    return std::string(R"({"version": 1, "stages": [{"forward_ns": 1, "backward_ns": 2}], )") +
           rest;
  };
  const StageCostFile costs = parse_costs("costs.json", file(R"("link_transfers_ns": [5, 7]})"));
  EXPECT_EQ(costs.links, (std::vector<Duration>{Duration{5}, Duration{7}}));
  EXPECT_EQ(parse_costs("again.json", costs_text(costs)), costs);
  EXPECT_NE(costs_error(file(R"("link_transfers_ns": [5], "transfer_ns": 5})"))
                .find("/link_transfers_ns: expected no \"transfer_ns\" besides"),
            std::string::npos);
}

TEST(CostsFile, ABackwardIsWholeOrBothHalves) {
  EXPECT_EQ(costs_error("{\"version\": 1, \"stages\": [{\"forward_ns\": 1}]}"),
            "costs.json:1:27: error: /stages/0: expected \"backward_ns\", or both "
            "\"backward_input_ns\" and \"backward_weight_ns\", found none of them\n"
            "{\"version\": 1, \"stages\": [{\"forward_ns\": 1}]}\n"
            "                          ^~~~~~~~~~~~~~~~~");
  EXPECT_EQ(error_in_stage("{\"forward_ns\": 1, \"backward_input_ns\": 1}"),
            "costs.json:1:27: error: /stages/0: expected \"backward_ns\", or both "
            "\"backward_input_ns\" and \"backward_weight_ns\", found only \"backward_input_ns\" of "
            "the halves");
  EXPECT_EQ(
      error_in_stage("{\"forward_ns\": 1, \"backward_weight_ns\": 1, \"backward_ns\": 2}"),
      "costs.json:1:27: error: /stages/0: expected \"backward_ns\", or both "
      "\"backward_input_ns\" and \"backward_weight_ns\", found only \"backward_weight_ns\" of "
      "the halves");
  EXPECT_EQ(error_in_stage("{\"forward_ns\": 1, \"backward_input_ns\": 86400000000000, "
                           "\"backward_weight_ns\": 1}"),
            "costs.json:1:104: error: /stages/0/backward_weight_ns: backward_input_ns and "
            "backward_weight_ns add up to more than a day");
}

TEST(CostsFile, WeightGradientBytesArePartOfTheActivation) {
  EXPECT_EQ(error_in_stage("{\"forward_ns\": 1, \"backward_ns\": 1, \"weight_gradient_bytes\": 5}"),
            "costs.json:1:88: error: /stages/0/weight_gradient_bytes: expected "
            "\"activation_bytes\" too, of which these are a part");
  EXPECT_EQ(error_in_stage("{\"forward_ns\": 1, \"backward_ns\": 1, \"activation_bytes\": 4, "
                           "\"weight_gradient_bytes\": 5}"),
            "costs.json:1:111: error: /stages/0/weight_gradient_bytes: expected at most "
            "activation_bytes, 4, found 5");
}

TEST(CostsFile, HasAStage) {
  EXPECT_EQ(costs_error("{\"version\": 1, \"stages\": []}"),
            "costs.json:1:26: error: /stages: expected a stage at least, found []\n"
            "{\"version\": 1, \"stages\": []}\n"
            "                         ^~");
  EXPECT_EQ(costs_error("{\"version\": 1, \"stages\": {}, \"transfer\": 5}"),
            "costs.json:1:26: error: /stages: expected an array, found an object\n"
            "{\"version\": 1, \"stages\": {}, \"transfer\": 5}\n"
            "                         ^~\n"
            "costs.json:1:30: error: /transfer: unknown key \"transfer\"\n"
            "{\"version\": 1, \"stages\": {}, \"transfer\": 5}\n"
            "                             ^~~~~~~~~~");
}

}  // namespace
}  // namespace tandem
