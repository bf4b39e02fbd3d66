#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "core/files/plan_cluster.h"
#include "core/files/read.h"
#include "core/model/catalog.h"
#include "core/model/plan.h"
#include "tests/core/error_of.h"
#include "tests/support/edited_text.h"

namespace tandem {
namespace {

using testing::error_of;
using testing::with;

constexpr const char* kPlan = R"({
  "version": 1,
  "model": {"version": 1, "blocks": 4, "width": 64, "heads": 8, "sequence": 32},
  "schedule": "2bw",
  "width": 1,
  "depth": 3,
  "microbatch_size": 2,
  "microbatches": 4,
  "extra_in_flight": 1,
  "recompute": "full",
  "optimizer": "momentum",
  "stages": [[0, 3], [3, 6], [6, 10]],
  "profile": "profiles/here.json",
  "predicted": {"period_s": 0.125, "samples_per_s": 64.0, "peak_bytes": [100, 200, 300]}
})";

/// The plan with `from` replaced by `to`.
std::string plan_with(const std::string& from, const std::string& to) {
  return with(kPlan, from, to);
}

std::string plan_error(const std::string& text) {
  return error_of([&text] { parse_plan("plan.json", text); });
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

/// The first line of the error that a replacement brings.
std::string plan_error_with(const std::string& from, const std::string& to) {
  return first_line(plan_error(plan_with(from, to)));
}

TEST(PlanFile, ReadsAPlan) {
  const Plan plan = parse_plan("plan.json", kPlan);
  EXPECT_EQ(plan.model.blocks, 4);
  EXPECT_EQ(plan.schedule, "2bw");
  EXPECT_EQ(plan.request.width, 1);
  EXPECT_EQ(plan.request.devices, 3);
  EXPECT_EQ(plan.microbatch_size, 2);
  EXPECT_EQ(plan.request.microbatches, 4);
  EXPECT_EQ(plan.request.extra_in_flight, 1);
  EXPECT_EQ(plan.request.recompute, Recompute::full);
  EXPECT_EQ(plan.optimizer, OptimizerKind::momentum);
  EXPECT_EQ(plan.stages, (std::vector<LayerRange>{{0, 3}, {3, 6}, {6, 10}}));
  EXPECT_EQ(plan.profile, "profiles/here.json");
  EXPECT_EQ(plan.predicted.period_s, 0.125);
  EXPECT_EQ(plan.predicted.samples_per_s, 64.0);
  EXPECT_EQ(plan.predicted.peak_bytes, (std::vector<Bytes>{100, 200, 300}));
}

/// kPlan on a cluster, with all that a file may say of that.
Plan plan_of_two_nodes() {
  Plan plan = parse_plan("plan.json", kPlan);
  PlanCluster on{.cluster = cluster_of_nodes("2xDGX-A100"), .name = "2xDGX-A100"};
  on.assumptions.format = NumberFormat::bf16;
  on.assumptions.attention = AttentionKernel::flash;
  on.assumptions.tensor = 2;
  on.assumptions.sequence_parallel = on.assumptions.sharded_optimizer = true;
  on.assumptions.reserve = {.share = 1.0 / 3.0, .bytes = 7};
  on.assumptions.fits_by = FitsBy::tandem;
  on.assumptions.product_fraction = 0.7;
  on.assumptions.link_fraction = 1.0 / 7.0;
  on.assumptions.collectives = CollectiveConstants{1e-6, 2e-6, 3e-6, 4e9, 5e9, 6e9};
  on.calibration = CalibrationFile{.device = "A100", .constants = kTypicalConstants};
  on.assumptions.calibration = on.calibration->constants;
  on.order = DeviceOrder::stages_first;
  on.blocking_transfers = true;
  plan.predicted.bound_s = 0.1;
  plan.cluster = std::make_shared<const PlanCluster>(std::move(on));
  return plan;
}

TEST(PlanFile, ReadsBackAPlanOfACluster) {
  const Plan plan = plan_of_two_nodes();
  const std::string text = plan_text(plan);
  const Plan again = parse_plan("again.json", text);
  EXPECT_EQ(plan_text(again), text);
  ASSERT_NE(again.cluster, nullptr);
  const PlanCluster &on = *again.cluster, &was = *plan.cluster;
  EXPECT_EQ(on.name, was.name);
  EXPECT_EQ(on.cluster, was.cluster);
  EXPECT_EQ(on.calibration, was.calibration);
  EXPECT_EQ(on.assumptions.calibration, was.assumptions.calibration);
  EXPECT_EQ(on.assumptions.collectives, was.assumptions.collectives);
  EXPECT_EQ(on.assumptions.reserve, was.assumptions.reserve);
  EXPECT_EQ(on.assumptions.link_fraction, was.assumptions.link_fraction);
  EXPECT_EQ(on.assumptions.memory_fraction, std::nullopt);
  EXPECT_EQ(on.order, was.order);
  EXPECT_TRUE(on.blocking_transfers);
  EXPECT_EQ(again.predicted.bound_s, 0.1);
}

TEST(PlanFile, SaysWhatIsWrongWithACluster) {
  const std::string text = plan_text(plan_of_two_nodes());
  const auto error = [&text](const std::string& from, const std::string& to) {
    return plan_error(with(text, from, to));
  };
  EXPECT_NE(error("\"microbatches\"", "\"schedule_file\": \"own.txt\", \"microbatches\"")
                .find("/schedule_file"),
            std::string::npos);
  EXPECT_NE(error("\"zero\": 1", "\"zero\": 2").find("/cluster/zero"), std::string::npos);
  EXPECT_NE(error("\"depth\": 3", "\"depth\": 2").find("/stages"), std::string::npos);
  EXPECT_NE(error("\"tensor\": 2", "\"tensor\": 6").find("the plan takes 18 devices"),
            std::string::npos);
}

TEST(PlanFile, ReadsBackWhatItWrites) {
  Plan plan = parse_plan("plan.json", kPlan);
  plan.predicted.period_s = 1.0 / 3.0;
  plan.predicted.samples_per_s = 1e-300;
  const std::string text = plan_text(plan);
  const Plan again = parse_plan("again.json", text);
  EXPECT_EQ(plan_text(again), text);
  EXPECT_EQ(again.model, plan.model);
  EXPECT_EQ(again.stages, plan.stages);
  EXPECT_EQ(again.predicted.period_s, plan.predicted.period_s);
  EXPECT_EQ(again.predicted.samples_per_s, plan.predicted.samples_per_s);
}

TEST(PlanFile, SaysHowDelayIsCorrected) {
  EXPECT_EQ(parse_plan("plan.json", kPlan).optimizer.correction, DelayCorrection::none);
  const std::string corrected =
      plan_with(R"("optimizer": "momentum")",
                R"("optimizer": "momentum", "delay_correction": "error-feedback")");
  const Plan plan = parse_plan("plan.json", corrected);
  EXPECT_EQ(plan.optimizer, Optimizer(OptimizerKind::momentum, DelayCorrection::error_feedback));
  EXPECT_EQ(parse_plan("again.json", plan_text(plan)).optimizer, plan.optimizer);
  EXPECT_EQ(plan_error_with(R"("optimizer": "momentum")",
                            R"("optimizer": "momentum", "delay_correction": "twice")"),
            "plan.json:11:48: error: /delay_correction: expected \"none\", \"error-feedback\" or "
            "\"error-feedback-with-decay\", found \"twice\"");
  EXPECT_NO_THROW(make_schedule(plan));
  Plan in_time = plan;
  in_time.schedule = "1f1b";
  in_time.request.extra_in_flight = 0;
  EXPECT_THROW(make_schedule(in_time), InputError);
  in_time.optimizer.correction = DelayCorrection::none;
  EXPECT_NO_THROW(make_schedule(in_time));
}

TEST(PlanFile, WritesForPeople) {
  EXPECT_EQ(plan_text(parse_plan("plan.json", kPlan)),
            "{\n"
            "  \"version\": 1,\n"
            "  \"model\": {\n"
            "    \"version\": 1,\n"
            "    \"name\": \"unnamed\",\n"
            "    \"architecture\": \"gpt2\",\n"
            "    \"blocks\": 4,\n"
            "    \"width\": 64,\n"
            "    \"heads\": 8,\n"
            "    \"sequence\": 32,\n"
            "    \"vocabulary\": 256,\n"
            "    \"tied\": true\n"
            "  },\n"
            "  \"schedule\": \"2bw\",\n"
            "  \"width\": 1,\n"
            "  \"depth\": 3,\n"
            "  \"microbatch_size\": 2,\n"
            "  \"microbatches\": 4,\n"
            "  \"extra_in_flight\": 1,\n"
            "  \"recompute\": \"full\",\n"
            "  \"optimizer\": \"momentum\",\n"
            "  \"stages\": [[0, 3], [3, 6], [6, 10]],\n"
            "  \"profile\": \"profiles/here.json\",\n"
            "  \"predicted\": {\"period_s\": 0.125, \"samples_per_s\": 64.0, "
            "\"peak_bytes\": [100, 200, 300]}\n"
            "}\n");
}

TEST(PlanFile, HoldsTheOptionsOfSomeSchedulesOnlyWhereTheySaySomething) {
  const std::string options =
      "\"chunks\": 1, \"group\": 4, \"replicas\": [4, 2, 1], \"vertical_sync\": true, "
      "\"global_norm\": true, \"post_validation\": true, \"optimizer\"";
  const Plan plan = parse_plan("plan.json", plan_with("\"optimizer\"", options));
  EXPECT_EQ(plan.request.chunks, 1);
  EXPECT_EQ(plan.request.group, 4);
  EXPECT_EQ(plan.request.replicas, (std::vector<std::uint16_t>{4, 2, 1}));
  EXPECT_TRUE(plan.request.vertical_sync);
  EXPECT_TRUE(plan.request.global_norm && plan.request.post_validation);
  const std::string text = plan_text(plan);
  EXPECT_EQ(text.find("chunks"), std::string::npos);
  for (const char* row : {"\"group\": 4,", "\"replicas\": [4, 2, 1],", "\"vertical_sync\": true,",
                          "\"global_norm\": true,", "\"post_validation\": true,"}) {
    EXPECT_NE(text.find(row), std::string::npos) << row;
  }
  EXPECT_EQ(plan_text(parse_plan("again.json", text)), text);
  const ScheduleRequest request = schedule_request(plan);
  EXPECT_EQ(request.group, 4);
  EXPECT_EQ(request.replicas, plan.request.replicas);
  EXPECT_TRUE(request.vertical_sync);
  EXPECT_TRUE(request.global_norm && request.post_validation);
}

TEST(PlanFile, CarriesWhatItsOrderWasMadeBy) {
  const std::string stage = R"({"forward_ns": 3, "backward_input_ns": 4, "backward_weight_ns": 2})";
  const std::string key = R"("order_costs": {"stages": [)";
  const std::string rest = R"(], "transfer_ns": 5}, "activation_cap": 2.5, "optimizer")";
  const Plan plan = parse_plan(
      "plan.json", plan_with("\"optimizer\"", key + stage + ", " + stage + ", " + stage + rest));
  const ScheduleRequest request = schedule_request(plan);
  EXPECT_EQ(request.activation_caps, std::vector{2.5});
  ASSERT_TRUE(request.costs.has_value());
  EXPECT_EQ(request.costs->transfer, Duration(5));
  EXPECT_EQ(request.costs->stages[StageId{2}],
            (StageOrderCosts{Duration(3), Duration(4), Duration(2)}));
  const std::string text = plan_text(plan);
  EXPECT_EQ(plan_text(parse_plan("again.json", text)), text);
  EXPECT_EQ(schedule_request(parse_plan("again.json", text)).costs, request.costs);
  EXPECT_EQ(plan_text(parse_plan("plan.json", kPlan)).find("order_costs"), std::string::npos);
  EXPECT_EQ(first_line(plan_error_with("\"optimizer\"", key + stage + rest)),
            "plan.json:11:29: error: /order_costs/stages: expected 3 stages, as many as the plan "
            "has, found an array");
  EXPECT_EQ(first_line(plan_error_with("\"optimizer\"", "\"activation_cap\": 0.5, \"optimizer\"")),
            "plan.json:11:21: error: /activation_cap: expected a number >= 1, found 0.5");
}

TEST(PlanFile, StagesAreAsManyAsTheChunksOrTheReplicasSay) {
  const std::string depth = "\"depth\": 3";
  std::string chunked = plan_with("[3, 6], [6, 10]", "[3, 4], [4, 5], [5, 6], [6, 7], [7, 10]");
  chunked.replace(chunked.find(depth), depth.size(), "\"depth\": 3, \"chunks\": 2");
  const Plan plan = parse_plan("plan.json", chunked);
  EXPECT_EQ(plan.request.chunks, 2);
  EXPECT_EQ(stage_count(plan), 6u);
  EXPECT_EQ(schedule_request(plan).chunks, 2);
  EXPECT_EQ(
      plan_error_with(depth, "\"depth\": 3, \"chunks\": 2"),
      "plan.json:12:13: error: /stages: expected 6 stages, one for each chunk of each device, "
      "found 3");
  EXPECT_EQ(plan_error_with(depth, "\"depth\": 3, \"chunks\": 4"),
            "plan.json:12:13: error: /stages: more stages than layers: 12 stages for the model's "
            "10 layers");
  EXPECT_EQ(plan_error_with(depth, "\"depth\": 3, \"replicas\": [2, 1]"),
            "plan.json:12:13: error: /stages: expected 2 stages, one for each entry of the "
            "replicas, found 3");
  EXPECT_EQ(plan_error_with(depth, "\"depth\": 3, \"replicas\": [3, 0]"),
            "plan.json:6:31: error: /replicas/1: expected an integer from 1 to 65535, found 0");
}

TEST(PlanFile, StagesAreHalfOpenRanges) {
  EXPECT_EQ(plan_error(plan_with("[3, 6]", "\"3-5\"")),
            "plan.json:12:22: error: /stages/1: expected two integers, found \"3-5\"\n"
            "  \"stages\": [[0, 3], \"3-5\", [6, 10]],\n"
            "                     ^~~~~ a half-open range, such as [3, 6]");
  EXPECT_EQ(plan_error_with("[3, 6]", "[3, 6, 9]"),
            "plan.json:12:22: error: /stages/1: expected two integers, found [3, 6, 9]");
  EXPECT_EQ(plan_error_with("[3, 6]", "[3, 6.0]"),
            "plan.json:12:26: error: /stages/1/1: expected an integer from 0 to 2147483647, "
            "found 6.0");
}

TEST(PlanFile, StagesCoverTheModelInOrder) {
  EXPECT_EQ(plan_error(plan_with("[3, 6]", "[4, 6]")),
            "plan.json:12:22: error: /stages/1: expected a range that starts at layer 3, where the "
            "stage before ends, found [4, 6]\n"
            "  \"stages\": [[0, 3], [4, 6], [6, 10]],\n"
            "                     ^~~~~~");
  EXPECT_EQ(plan_error_with("[0, 3]", "[1, 3]"),
            "plan.json:12:14: error: /stages/0: expected the first stage to start at layer 0, "
            "found [1, 3]");
  EXPECT_EQ(plan_error_with("[3, 6], [6, 10]", "[3, 3], [3, 10]"),
            "plan.json:12:22: error: /stages/1: expected at least one layer, found [3, 3]");
  EXPECT_EQ(plan_error_with("[6, 10]", "[6, 9]"),
            "plan.json:12:30: error: /stages/2: expected the last stage to end at layer 10, after "
            "the model's last, found [6, 9]");
  EXPECT_EQ(plan_error_with("[6, 10]", "[6, 11]"),
            "plan.json:12:30: error: /stages/2: expected the last stage to end at layer 10, after "
            "the model's last, found [6, 11]");
}

TEST(PlanFile, StagesAreAsManyAsTheDepth) {
  EXPECT_EQ(plan_error_with("[3, 6], [6, 10]", "[3, 10]"),
            "plan.json:12:13: error: /stages: expected 3 stages, one for each device of the depth, "
            "found 2");
  EXPECT_EQ(plan_error_with("\"depth\": 3", "\"depth\": 11"),
            "plan.json:12:13: error: /stages: more stages than layers: 11 stages for the model's "
            "10 layers");
  EXPECT_EQ(plan_error_with("[100, 200, 300]", "[100, 200]"),
            "plan.json:14:73: error: /predicted/peak_bytes: expected 3 numbers, one for each "
            "device, found 2");
}

TEST(PlanFile, FaultsOfTheModelHaveTheirPlace) {
  EXPECT_EQ(
      plan_error(plan_with("\"heads\": 8", "\"heads\": 7")),
      "plan.json:3:62: error: /model/heads: expected a divisor of the width 64, found 7\n"
      "  \"model\": {\"version\": 1, \"blocks\": 4, \"width\": 64, \"heads\": 7, \"sequence\": "
      "32},\n"
      "                                                             ^");
}

TEST(PlanFile, EveryKeyIsRequired) {
  for (const char* key :
       {"version", "model", "schedule", "width", "depth", "microbatch_size", "microbatches",
        "extra_in_flight", "recompute", "optimizer", "stages", "profile", "predicted"}) {
    const std::string quoted = std::string("\n  \"") + key + "\"";
    EXPECT_EQ(plan_error_with(quoted, std::string("\n  \"x-") + key + "\""),
              std::string("plan.json:1:1: error: missing key \"") + key + "\"");
  }
}

TEST(PlanFile, ReportsEveryMistake) {
  std::string text = plan_with("\"depth\": 3", "\"depht\": 3");
  text.replace(text.find("\"full\""), 6, "\"half\"");
  text.replace(text.find("[6, 10]"), 7, "[6, null]");
  text.replace(text.find("\"momentum\""), 10, "\"adam\"");
  text.replace(text.find("0.125"), 5, "-1.0");
  EXPECT_EQ(
      plan_error(text),
      "plan.json:1:1: error: missing key \"depth\"\n"
      "{\n"
      "^\n"
      "plan.json:6:3: error: /depht: unknown key \"depht\"; did you mean \"depth\"?\n"
      "  \"depht\": 3,\n"
      "  ^~~~~~~\n"
      "plan.json:10:16: error: /recompute: expected none|selective|full|uniform:N|blocks:N|stage, "
      "found \"half\"\n"
      "  \"recompute\": \"half\",\n"
      "               ^~~~~~\n"
      "plan.json:11:16: error: /optimizer: expected \"sgd\", \"momentum\", \"adamw\", \"nadam\" or "
      "\"muon\", found \"adam\"; did you mean \"adamw\"?\n"
      "  \"optimizer\": \"adam\",\n"
      "               ^~~~~~\n"
      "plan.json:12:34: error: /stages/2/1: expected an integer from 0 to 2147483647, found "
      "null\n"
      "  \"stages\": [[0, 3], [3, 6], [6, null]],\n"
      "                                 ^~~~\n"
      "plan.json:14:29: error: /predicted/period_s: expected a number >= 0, found -1.0\n"
      "  \"predicted\": {\"period_s\": -1.0, \"samples_per_s\": 64.0, \"peak_bytes\": [100, "
      "200, 300]}\n"
      "                            ^~~~");
}

TEST(PlanFile, NoBatchIsBeyondArithmetic) {
  std::string text = plan_with("\"microbatch_size\": 2", "\"microbatch_size\": 1048576");
  text.replace(text.find("\"sequence\": 32"), 14, "\"sequence\": 1048576");
  text.replace(text.find("\"microbatches\": 4"), 17, "\"microbatches\": 1048576");
  EXPECT_EQ(first_line(plan_error(text)),
            "plan.json:7:22: error: /microbatch_size: a batch of 1048576 microbatches of this size "
            "would hold 5e+21 numbers of activations; expected at most 3e+17");
}

TEST(ScheduleRequestOfAPlan, CarriesWhatTheScheduleNeeds) {
  Plan plan = parse_plan("plan.json", kPlan);
  const ScheduleRequest request = schedule_request(plan);
  EXPECT_EQ(request.devices, 3);
  EXPECT_EQ(request.microbatches, 4);
  EXPECT_EQ(request.extra_in_flight, 1);
  EXPECT_EQ(request.width, 1);
  EXPECT_EQ(request.recompute, Recompute::full);
  EXPECT_TRUE(request.replicas.empty());
  EXPECT_TRUE(request.tied_embeddings);

  plan.request.devices = 1;
  EXPECT_FALSE(schedule_request(plan).tied_embeddings);
  plan.request.devices = 3;
  plan.model.tied = false;
  EXPECT_FALSE(schedule_request(plan).tied_embeddings);
  plan.model.tied = true;
  plan.model.architecture = Architecture::linear;
  EXPECT_FALSE(schedule_request(plan).tied_embeddings);
}

}  // namespace
}  // namespace tandem
