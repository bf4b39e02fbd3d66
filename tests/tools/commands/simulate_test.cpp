// tandem simulate, with plain costs and with a file of costs. Plans: job_test.cpp.

#include <chrono>
#include <string>
#include <vector>

#include "tests/tools/tandem.h"

namespace tandem::testing {
namespace {

const std::string kSimulateFlush = "simulate --schedule 1f1b --devices 4 --microbatches 8";

class Simulate : public CommandLine {
 protected:
  Json result_of(const std::string& line) const { return json_of(line + " --json")["result"]; }
};

TEST_F(Simulate, JsonHasTheKeysOfTheContract) {
  const Json json = json_of(kGolden + " --json");
  EXPECT_EQ(keys_of(json), (std::vector<std::string>{"schema_version", "command", "config",
                                                     "assumptions", "result", "warnings"}));
  EXPECT_EQ(json["schema_version"], 1);
  EXPECT_EQ(json["command"], "simulate");
  EXPECT_EQ(json["warnings"], Json::array());
  EXPECT_EQ(
      keys_of(json["result"]),
      (std::vector<std::string>{"makespan_s", "span_s", "ideal_s", "period_s", "period_batches",
                                "steady_from_batch", "throughput_samples_per_s", "bubble_of_total",
                                "bubble_of_span", "bubble_of_ideal", "devices", "bottlenecks"}));
  EXPECT_EQ(keys_of(json["result"]["devices"][0]),
            (std::vector<std::string>{"device", "busy_s", "bubble_s", "exposed_communication_s",
                                      "peak_activations", "weight_versions", "peak_bytes",
                                      "capacity_bytes", "fits"}));
}

TEST_F(Simulate, TheGoldenCase) {
  const Json json = json_of(kGolden + " --json");
  EXPECT_EQ(json["config"]["schedule"], "1f1b");
  EXPECT_EQ(json["config"]["devices"], 4);
  EXPECT_EQ(json["config"]["microbatches"], 8);
  EXPECT_EQ(json["config"]["microbatch_size"], 1);
  EXPECT_EQ(json["config"]["width"], 1);
  EXPECT_EQ(json["config"]["recompute"], "none");
  EXPECT_EQ(json["config"]["batches"], 1);
  EXPECT_EQ(json["assumptions"]["lanes"], "shared");
  const Json& result = json["result"];
  EXPECT_EQ(result["makespan_s"], 0.033);
  EXPECT_EQ(result["span_s"], 0.033);
  EXPECT_EQ(result["ideal_s"], 0.024);
  EXPECT_EQ(result["period_s"], 0.033);
  EXPECT_EQ(result["period_batches"], 1);
  EXPECT_DOUBLE_EQ(result["throughput_samples_per_s"], 8 / 0.033);
  EXPECT_DOUBLE_EQ(result["bubble_of_total"], 9.0 / 33);
  EXPECT_DOUBLE_EQ(result["bubble_of_span"], 9.0 / 33);
  EXPECT_DOUBLE_EQ(result["bubble_of_ideal"], 9.0 / 24);
  ASSERT_EQ(result["devices"].size(), 4u);
  for (int d = 0; d < 4; ++d) {
    EXPECT_EQ(result["devices"][d], (Json{{"device", d},
                                          {"busy_s", 0.024},
                                          {"bubble_s", 0.009},
                                          {"exposed_communication_s", 0.0},
                                          {"peak_activations", 4.0 - d},
                                          {"weight_versions", 1},
                                          {"peak_bytes", nullptr},
                                          {"capacity_bytes", nullptr},
                                          {"fits", nullptr}}));
  }
}

TEST_F(Simulate, MarksADefinitionOfOurOwn) {
  const std::string costs = " --devices 3 --microbatches 4 --forward 1ms --backward 2ms";
  EXPECT_THAT(tandem("simulate --schedule timeprest-i" + costs).out,
              StartsWith("timeprest-i (our own definition): "));
  EXPECT_THAT(tandem("simulate --schedule timeprest" + costs).out, StartsWith("timeprest: "));
  const Ran both = tandem("simulate --schedule timeprest,timeprest-i" + costs);
  EXPECT_THAT(both.out, HasSubstr("\ntimeprest-i (ours) "));
  EXPECT_THAT(both.out, HasSubstr("\ntimeprest  "));
  EXPECT_THAT(tandem("explain idle --device 0 --schedule timeprest-i" + costs).out,
              HasSubstr("device 0 of timeprest-i (our own definition) "));
}

TEST_F(Simulate, TwoBwNeverDrains) {
  const std::string line =
      "simulate --schedule 2bw --devices 4 --microbatches 8 --forward 1ms --backward 2ms";
  EXPECT_EQ(result_of(line)["makespan_s"], 0.033);
  EXPECT_EQ(result_of(line)["period_s"], 0.024);
  EXPECT_EQ(result_of(line + " --batches 3")["makespan_s"], 0.081);
  EXPECT_EQ(result_of(line)["devices"][3]["weight_versions"], 2);
}

TEST_F(Simulate, NamesTheBottleneckAndTheNextOne) {
  const std::string slow =
      "simulate --schedule 2bw --devices 4 --microbatches 8 --forward 1ms "
      "--backward 2ms --slow-device 2:0.5";
  const Json all = result_of(slow)["bottlenecks"];
  EXPECT_EQ(all["bottleneck"], "device 2");
  EXPECT_NEAR(all["next_once_less"].get<double>(), 0.5, 2e-3);
  // As --sensitivity says, which says it once.
  const std::string both = tandem(slow + " --sensitivity").out;
  EXPECT_EQ(both.find("\nbottleneck"), both.rfind("\nbottleneck"));
  const Json whole = result_of(slow + " --sensitivity");
  EXPECT_EQ(whole["bottlenecks"], all);
  for (const char* key : {"bottleneck", "next", "next_once_less"})
    EXPECT_EQ(whole["sensitivity"][key], all[key]) << key;
  // Equal devices: none alone.
  const std::string equal = slow.substr(0, slow.find(" --slow-device"));
  EXPECT_TRUE(result_of(equal)["bottlenecks"]["bottleneck"].is_null());
}

TEST_F(Simulate, NamesNoBottleneckWhereNoneIsKnown) {
  const std::string shared =
      "simulate --model gpt2 --cluster 2xp3.16xlarge --schedule 1f1b --depth 8";
  EXPECT_THAT(tandem(shared).out, HasSubstr("bottleneck"));
  EXPECT_THAT(tandem(shared + " --contention").out, ::testing::Not(HasSubstr("bottleneck")));
  const std::string large =
      "simulate --schedule 2bw --devices 64 --microbatches 512 --forward 1ms --backward 2ms";
  EXPECT_TRUE(result_of(large)["bottlenecks"].is_null());
}

TEST_F(Simulate, DrawsAPicture) {
  const Ran ran = tandem(kGolden + " --picture");
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.out, HasSubstr("\ndev 3 |"));
  EXPECT_THAT(ran.out, ::testing::Not(HasSubstr("\033")));
}

TEST_F(Simulate, AMillionBatchesTakeNoLongerThanTen) {
  const auto start = std::chrono::steady_clock::now();
  const Json result = result_of(
      "simulate --schedule 2bw --devices 4 --microbatches 8 --forward "
      "1ms --backward 2ms --batches 1000000");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  EXPECT_EQ(result["makespan_s"], 0.033 + 999'999 * 0.024);
}

TEST_F(Simulate, HalvesOfTheBackwardAddUp) {
  const Json whole = result_of(kGolden);
  EXPECT_EQ(
      result_of(kSimulateFlush + " --forward 1ms --backward-input 500us --backward-weight 1.5ms"),
      whole);
}

TEST_F(Simulate, AForwardAndABackwardAsOneUnitHaveATimeOfTheirOwn) {
  const std::string line =
      "simulate --schedule dualpipe --devices 4 --microbatches 8 --forward 1ms --backward 2ms";
  EXPECT_EQ(result_of(line)["makespan_s"], 0.026);
  EXPECT_EQ(result_of(line + " --overlapped 3ms"), result_of(line)) << "their sum, by default";
  EXPECT_LT(result_of(line + " --overlapped 2.5ms")["makespan_s"], 0.026);
  EXPECT_EQ(result_of(line)["devices"][0]["peak_activations"], 5.0);
}

TEST_F(Simulate, AStashThatMovesHasATimeOfItsOwn) {
  const std::string shape = " --devices 8 --microbatches 16 --forward 1ms --backward 2ms";
  const std::string line = "simulate --schedule bpipe" + shape;
  const Json plain = result_of("simulate --schedule 1f1b" + shape);
  EXPECT_EQ(plain["makespan_s"], 0.069);
  EXPECT_EQ(result_of(line + " --move 1.5ms")["makespan_s"], 0.069);
  EXPECT_EQ(result_of(line + " --move 2ms")["makespan_s"], 0.072);
  EXPECT_EQ(plain["devices"][0]["peak_activations"], 8.0);
  EXPECT_EQ(result_of(line)["devices"][0]["peak_activations"], 5.0);
}

TEST_F(Simulate, IdealLanesOccupyNothing) {
  // Two transfers at a time of 2 ms each: one link carries them one after the other.
  const std::string line =
      "simulate --schedule gpipe --devices 2 --microbatches 4 --forward 1ms "
      "--backward 1ms --transfer 2ms";
  EXPECT_EQ(result_of(line + " --lanes ideal")["makespan_s"], 0.014);
  EXPECT_EQ(result_of(line + " --lanes shared"), result_of(line));
  EXPECT_EQ(result_of(line)["makespan_s"], 0.020);
}

TEST_F(Simulate, CostsPerDeviceAreThoseOfAllItsChunks) {
  const std::string line = "simulate --schedule 1f1b-v --devices 2 --microbatches 3";
  EXPECT_EQ(result_of(line + " --forward 2ms --backward 4ms --costs-per device"),
            result_of(line + " --forward 1ms --backward 2ms --costs-per stage"));
}

TEST_F(Simulate, RecomputationIsNoUsefulWork) {
  const Json result = result_of(kGolden + " --recompute full --recompute-time 500us");
  EXPECT_EQ(result["ideal_s"], 0.024);
  EXPECT_EQ(result["devices"][0]["busy_s"], 0.028);
}

TEST_F(Simulate, MemoryIsCountedWhenActivationsHaveASize) {
  const std::string sized = kGolden + " --activation-bytes 1MiB";
  const Json devices = result_of(sized + " --memory 3MiB")["devices"];
  EXPECT_EQ(devices[0]["peak_bytes"], 4 << 20);
  EXPECT_EQ(devices[0]["capacity_bytes"], 3 << 20);
  EXPECT_EQ(devices[0]["fits"], false);
  EXPECT_EQ(devices[1]["fits"], true);
  EXPECT_EQ(result_of(sized)["devices"][0]["fits"], nullptr);
}

TEST_F(Simulate, CostsComeFromAFile) {
  write("costs.json", R"({"version": 1, "stages": [
    {"forward_ns": 1000000, "backward_ns": 2000000},
    {"forward_ns": 1000000, "backward_ns": 2000000},
    {"forward_ns": 1000000, "backward_ns": 2000000},
    {"forward_ns": 1000000, "backward_ns": 2000000}]})");
  EXPECT_EQ(result_of(kSimulateFlush + " --costs costs.json"), result_of(kGolden));
}

TEST_F(Simulate, AnOptionsBytesAreEscaped) {
  const Ran ran = tandem({"simulate", "--forward", "\033[31m", "--backward", "1ms", "--schedule",
                          "1f1b", "--devices", "1", "--microbatches", "1"});
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.err, HasSubstr("\"\\u001b[31m\""));
}

TEST_F(Simulate, WhatCostsNothingTakesNoTime) {
  const std::string line =
      "simulate --schedule 2bw --devices 4 --microbatches 8 --forward 0s "
      "--backward 0ns --batches 1000000";
  const Json result = result_of(line);
  EXPECT_EQ(result["makespan_s"], 0.0);
  EXPECT_EQ(result["bubble_of_total"], 0.0);
  EXPECT_EQ(result["throughput_samples_per_s"], 0.0);
  const Ran ran = tandem(
      "simulate --schedule 2bw --devices 4 --microbatches 8 --forward 0s "
      "--backward 0s --picture");
  EXPECT_THAT(ran.out, StartsWith("nothing to draw"));
}

TEST_F(Simulate, PicturesAndTracesAreBounded) {
  for (const std::string output : {"picture", "trace x.json"}) {
    const Ran ran = tandem(kGolden + " --batches 10000000 --" + output);
    EXPECT_EQ(ran.code, 3);
    EXPECT_FALSE(exists("x.json"));
  }
}

TEST_F(Simulate, MarksMicrobatchesThatWereNotMeasured) {
  std::string larger;
  for (const char* kind : {"embedding", "attention", "mlp", "head"}) {
    larger += fmt::format(
        R"({{"kind": "{}", "microbatch_size": 3, "forward_ns": 30000, "backward_input_ns": 30000,
    "backward_weight_ns": 30000, "backward_ns": 60000, "selective_recompute_ns": 9000,
    "update_ns": 1000}}, )",
        kind);
  }
  write("profile.json", with(profile_text(), "\"layers\": [", "\"layers\": [" + larger));
  const auto write_plan = [&](int size) {
    write("plan.json", with(plan_text(), "\"microbatch_size\": 1",
                            fmt::format("\"microbatch_size\": {}", size)));
  };
  const auto of_size = [&](int size) {
    write_plan(size);
    return json_of("simulate plan.json --json");
  };
  EXPECT_EQ(of_size(1)["warnings"], Json::array());
  EXPECT_EQ(of_size(3)["warnings"], Json::array());
  const Json between = of_size(2);
  ASSERT_EQ(between["warnings"].size(), 1u);
  EXPECT_THAT(between["warnings"][0].get<std::string>(), StartsWith("microbatches of 2 "));
  EXPECT_GT(between["result"]["period_s"], of_size(1)["result"]["period_s"]);
  EXPECT_LT(between["result"]["period_s"], of_size(3)["result"]["period_s"]);
  write_plan(4);
  EXPECT_EQ(tandem("simulate plan.json").code, 3);
}

// Of the zero bubble paper's Table 5: 1.5B, 24 microbatches, of whose activations 32h of 34h + 5as
// are left behind an input gradient.
TEST_F(Simulate, OrdersAnAutomaticScheduleByTheCostsGiven) {
  const std::string wanted =
      "simulate --schedule zb-2p --devices 8 --microbatches 24 --forward 18.522ms "
      "--backward-input 18.086ms --backward-weight 9.337ms --transfer 0.601ms --lanes ideal "
      "--activation-bytes 201216B --weight-gradient-bytes 73728B --json";
  EXPECT_LT(json_of(wanted)["result"]["bubble_of_span"], 0.04335);
  EXPECT_GT(json_of(with(wanted, "zb-2p", "zb-1p"))["result"]["bubble_of_span"], 0.1);
  EXPECT_EQ(json_of(with(wanted, "zb-2p", "zb-auto --activation-cap 8"))["result"],
            json_of(with(wanted, "zb-2p", "zb-1p"))["result"]);
}

TEST_F(Simulate, AFailureIsAnObjectToo) {
  const Ran usage = tandem(kSimulateFlush + " --forward 3 --backward 2ms --json");
  EXPECT_EQ(usage.code, 2);
  const Json refused = Json::parse(usage.out)["error"];
  const std::string message = refused["message"];
  EXPECT_EQ(usage.err, "error: " + message + "\n");
  EXPECT_THAT(message, StartsWith("tandem simulate: --forward: "));
  EXPECT_EQ(refused, (Json{{"code", 2},
                           {"message", message},
                           {"pointer", ""},
                           {"file", ""},
                           {"line", 0},
                           {"column", 0}}));
  write("costs.json", "{\"version\": 1,\n \"stages\": [{\"forward_ns\": -1, \"backward_ns\": 2}]}");
  const Ran file = tandem(
      "simulate --schedule 1f1b --devices 1 --microbatches 1 --json --costs "
      "costs.json");
  EXPECT_EQ(file.code, 3);
  const Json error = Json::parse(file.out)["error"];
  EXPECT_EQ(error["code"], 3);
  EXPECT_EQ(error["file"], "costs.json");
  EXPECT_EQ(error["line"], 2);
  EXPECT_EQ(error["column"], 28);
  EXPECT_EQ(error["pointer"], "/stages/0/forward_ns");
  EXPECT_THAT(file.err, StartsWith("costs.json:2:28: error: /stages/0/forward_ns: " +
                                   error["message"].get<std::string>() + "\n"));
}

}  // namespace
}  // namespace tandem::testing
