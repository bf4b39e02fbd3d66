// tandem explain idle, --sensitivity, and devices and links that are slower than they should be.

#include <cmath>
#include <string>
#include <vector>

#include "core/model/calibration.h"
#include "tests/tools/tandem.h"

namespace tandem::testing {
namespace {

const std::string kFlush = "--schedule 1f1b --devices 4 --microbatches 8";
const std::string kCosts = " --forward 1ms --backward 2ms --transfer 0.1ms";
const std::string k2bw = "simulate --schedule 2bw --devices 4 --microbatches 8" + kCosts;

class Explain : public CommandLine {
 protected:
  Json result_of(const std::string& line) const { return json_of(line + " --json")["result"]; }
};

TEST_F(Explain, IdleAsJsonAddsUp) {
  const Json result = result_of("explain idle --device 2 --batches 3 " + kFlush + kCosts);
  const Json simulated = result_of("simulate --batches 3 " + kFlush + kCosts);
  EXPECT_EQ(keys_of(result),
            (std::vector<std::string>{"device", "makespan_s", "idle_s", "causes", "bubbles"}));
  EXPECT_EQ(result["makespan_s"], simulated["makespan_s"]);
  EXPECT_EQ(result["idle_s"], simulated["devices"][2]["bubble_s"]);
  double causes = 0.0, bubbles = 0.0, chains = 0.0;
  for (const Json& cause : result["causes"]) causes += cause["time_s"].get<double>();
  for (const Json& bubble : result["bubbles"]) {
    bubbles += bubble["end_s"].get<double>() - bubble["start_s"].get<double>();
    if (bubble["next"].is_null())
      chains += bubble["end_s"].get<double>() - bubble["start_s"].get<double>();
    for (const Json& op : bubble["waited_for"]) chains += op["held_up_s"].get<double>();
  }
  EXPECT_NEAR(causes, result["idle_s"], 1e-9);
  EXPECT_NEAR(bubbles, result["idle_s"], 1e-9);
  EXPECT_NEAR(chains, result["idle_s"], 1e-9);
  EXPECT_EQ(keys_of(result["bubbles"][0]["waited_for"][0]),
            (std::vector<std::string>{"op", "stage", "microbatch", "device", "to_device", "start_s",
                                      "end_s", "held_up_s"}));
}

TEST_F(Explain, IdleTakesWhatSimulateTakes) {
  write_plan();
  EXPECT_EQ(tandem("explain idle plan.json --device 1 --batches 2").code, 0);
  const std::string cluster =
      " --model gpt2 --cluster p3.16xlarge --schedule 1f1b --width 2 --depth 4 --microbatch-size 4 "
      "--global-batch 64";
  const Json plain = result_of("explain idle --device 3" + cluster);
  const Json shared = result_of("explain idle --device 3 --contention" + cluster);
  EXPECT_GT(plain["bubbles"].size(), 0u);
  EXPECT_EQ(shared["makespan_s"], result_of("simulate --contention" + cluster)["makespan_s"]);
}

TEST_F(Explain, SensitivityNamesTheBottleneckAndTheNextOne) {
  const std::string line = k2bw + " --straggler 2:1.3,0:1.2 --sensitivity";
  const Json result = result_of(line)["sensitivity"];
  EXPECT_EQ(result["bottleneck"], "device 2");
  EXPECT_EQ(result["next"], "device 0");
  EXPECT_NEAR(result["next_once_less"], 1.0 - 1.2 / 1.3, 1e-3);
  for (const Json& row : result["rows"]) {
    if (row["resource"] != "device 2") continue;
    EXPECT_DOUBLE_EQ(row["period_critical_s"]["least"], 8 * 3.9e-3);
    EXPECT_DOUBLE_EQ(row["period_critical_s"]["most"], 8 * 3.9e-3);
  }
  EXPECT_FALSE(result_of(k2bw).contains("sensitivity"));
}

/// The last layer of six takes most, so that its stage is on all critical paths.
std::string uneven_profile(double head, double attention) {
  Json profile = Json::parse(profile_text());
  for (Json& row : profile["layers"]) {
    const double factor = row["kind"] == "head"        ? 3.0 * head
                          : row["kind"] == "attention" ? 2.0 * attention
                                                       : 1.0;
    for (auto& [key, value] : row.items()) {
      if (key.ends_with("_ns")) value = std::llround(factor * value.get<double>());
    }
  }
  return profile.dump();
}

TEST_F(Explain, SensitivityOfALayerIsWhatSimulatingAgainGains) {
  write_plan();
  const std::string line = "simulate plan.json --batches 20";
  const auto simulated = [&](double head, double attention) {
    write("profile.json", uneven_profile(head, attention));
    return result_of(line);
  };
  const Json faster_head = simulated(0.99, 1.0), slower_head = simulated(1.01, 1.0);
  const Json faster_attention = simulated(1.0, 0.99), little_head = simulated(0.1, 1.0);
  const Json now = simulated(1.0, 1.0);
  const Json said = result_of(line + " --sensitivity")["sensitivity"];
  ASSERT_EQ(said["layers"].size(), 6u);
  const Json& head = said["layers"][5];
  EXPECT_EQ(keys_of(head), (std::vector<std::string>{"layer", "kind", "stage", "period_critical_s",
                                                     "makespan_critical_s"}));
  EXPECT_EQ(head["kind"], "head");
  EXPECT_EQ(head["stage"], 1);
  const auto expect = [&](const Json& row, const Json& again, double part, const char* side) {
    for (const std::string time : {"period", "makespan"}) {
      EXPECT_NEAR(now[time + "_s"].get<double>() - again[time + "_s"].get<double>(),
                  part * row[time + "_critical_s"][side].get<double>(), 1e-12)
          << time;
      EXPECT_GT(row[time + "_critical_s"][side], 0.0);
    }
  };
  expect(head, faster_head, 0.01, "least");
  expect(head, slower_head, -0.01, "most");
  EXPECT_EQ(said["layer_kinds"][1]["kind"], "attention");
  EXPECT_EQ(said["layer_kinds"][1]["layers"], 2);
  expect(said["layer_kinds"][1], faster_attention, 0.01, "least");
  // With a tenth of the head the other stage is the slower one: that is beyond first order.
  EXPECT_LT(now["period_s"].get<double>() - little_head["period_s"].get<double>(),
            0.9 * head["period_critical_s"]["least"].get<double>() - 1e-6);
  const std::string text = tandem(line + " --sensitivity").out;
  EXPECT_THAT(text, HasSubstr("\nall 2 attention layers "));
  EXPECT_THAT(text, HasSubstr("\nlayer 5, head "));
}

TEST_F(Explain, SensitivityOfLayersIsOfModelsAndNamesThoseThatGainMost) {
  EXPECT_TRUE(result_of(k2bw + " --sensitivity")["sensitivity"]["layers"].is_null());
  const std::string line =
      "simulate --model gpt2 --cluster p3.16xlarge --schedule 1f1b --width 2 --depth 4 "
      "--microbatch-size 4 --global-batch 64 --sensitivity";
  const Json all = result_of(line)["sensitivity"];
  ASSERT_EQ(all["layers"].size(), 26u);
  // Whatever a stage computes is some layer's: the layers together lose what all devices lose.
  double kinds = 0.0, devices = 0.0;
  for (const Json& row : all["layer_kinds"])
    kinds += row["makespan_critical_s"]["most"].get<double>();
  for (const Json& row : all["rows"]) {
    if (row["resource"] == "all devices")
      devices = row["makespan_critical_s"]["most"].get<double>();
  }
  // All but what a device takes for a batch, beside its layers.
  EXPECT_NEAR(kinds + kTypicalConstants.batch_s, devices, 1e-6 * devices);
  EXPECT_THAT(tandem(line).out, HasSubstr("\nthe other 18 layers "));
}

TEST_F(Explain, ASlowDeviceIsOneOfOtherCosts) {
  write("costs.json", R"({"version": 1, "transfer_ns": 100000, "stages": [
    {"forward_ns": 1000000, "backward_ns": 2000000},
    {"forward_ns": 2000000, "backward_ns": 4000000},
    {"forward_ns": 1000000, "backward_ns": 2000000},
    {"forward_ns": 1000000, "backward_ns": 2000000}]})");
  const Json expected = result_of("simulate " + kFlush + " --costs costs.json");
  const std::string line = "simulate " + kFlush + kCosts;
  for (const std::string slow : {" --slow-device 1:0.5", " --straggler 1:2", " --straggler 1:2x",
                                 " --straggler 1:1.6 --slow-device 0:1,1:0.8"}) {
    Json result = result_of(line + slow);
    result.erase("healthy");
    EXPECT_EQ(result, expected) << slow;
  }
  EXPECT_NE(result_of(line), expected);
  EXPECT_EQ(json_of(line + " --slow-device 1:0.5 --json")["config"]["slow_device"], "1:0.5");
}

TEST_F(Explain, ADegradedLinkSlowsTransfersBothWays) {
  const std::string two =
      "simulate --schedule model-parallel --devices 3 --microbatches 1 --forward 1ms --backward "
      "1ms --transfer 1ms";
  EXPECT_EQ(result_of(two)["makespan_s"], 0.010);
  EXPECT_EQ(result_of(two + " --degraded-link 1-2:0.5")["makespan_s"], 0.012);
  EXPECT_EQ(result_of(two + " --degraded-link 2-1:0.5,0-1:0.25")["makespan_s"], 0.018);
}

/// A factor that would do the opposite of what its option is called.
TEST_F(Explain, WhatIsCalledSlowIsNeverMadeFaster) {
  const std::string line = "simulate " + kFlush + kCosts;
  // What the messages advise is taken, and slows the run.
  const double healthy = result_of(line)["period_s"];
  for (const std::string advised :
       {" --slow-device 3:0.8", " --straggler 3:1.25", " --degraded-link 2-3:0.5"})
    EXPECT_GT(result_of(line + advised)["period_s"].get<double>(), healthy) << advised;
  EXPECT_EQ(result_of(line + " --slow-device 3:1 --straggler 2:1")["period_s"], healthy);
}

TEST_F(Explain, WhatTroublesCostIsSaid) {
  const std::string line = "simulate " + kFlush + kCosts;
  const std::string slow = line + " --slow-device 3:0.5 --degraded-link 1-2:0.5";
  const Json result = json_of(slow + " --json")["result"];
  const Json& healthy = result["healthy"];
  EXPECT_EQ(healthy["without"], Json::array({"slow-device", "degraded-link"}));
  const Json well = json_of(line + " --json")["result"];
  for (const char* key : {"makespan_s", "period_s", "throughput_samples_per_s"})
    EXPECT_EQ(healthy[key], well[key]) << key;
  EXPECT_DOUBLE_EQ(healthy["slower_by"].get<double>(),
                   result["period_s"].get<double>() / well["period_s"].get<double>() - 1.0);
  EXPECT_GT(healthy["slower_by"], 0.5);
  EXPECT_FALSE(well.contains("healthy"));
  const std::string shared =
      "simulate --model gpt2 --cluster 2xp3.16xlarge --schedule 1f1b --depth 8 --device-order "
      "stages-first";
  const Json contended = json_of(shared + " --contention --json")["result"];
  EXPECT_EQ(contended["healthy"]["period_s"], json_of(shared + " --json")["result"]["period_s"]);
}

}  // namespace
}  // namespace tandem::testing
