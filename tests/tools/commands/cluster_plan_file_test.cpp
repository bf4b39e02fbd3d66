// A plan of a cluster in a file: what was said of it, simulated and checked from the file alone.

#include <algorithm>
#include <filesystem>
#include <string>

#include "core/base/units.h"
#include "tests/support/json_schema.h"
#include "tests/tools/tandem.h"

namespace tandem::testing {
namespace {

class ClusterPlanFile : public CommandLine {
 protected:
  /// Writes the plan that `plan` answers with into plan.json.
  Json planned(const std::string& question) const {
    const Ran ran = tandem("plan " + question + " --output plan.json --json");
    EXPECT_EQ(ran.code, 0) << question << ran.err;
    const Json answer = Json::parse(ran.out);
    EXPECT_EQ(answer["config"]["output"], "plan.json");
    return answer["result"]["ranked"][0];
  }

  /// Nodes of two kinds of devices, and of two sizes.
  void write_unequal_cluster() const {
    write("unequal.json", R"({
  "version": 1,
  "name": "unequal",
  "groups": [
    {"name": "old",
     "members": [{"name": "gpu", "device": "V100-SXM2-32GB", "count": 2}, {"name": "bus"}],
     "links": [{"between": ["gpu", "bus"], "bytes_per_s_one_way": 100e9, "latency_ns": 3000}],
     "port": "gpu"},
    {"name": "new",
     "members": [{"name": "gpu", "device": "A100-SXM4-40GB", "count": 4}, {"name": "bus"}],
     "links": [{"between": ["gpu", "bus"], "bytes_per_s_one_way": 300e9, "latency_ns": 3000}],
     "port": "gpu"},
    {"name": "room", "members": [{"name": "old", "group": "old", "count": 1},
                                 {"name": "new", "group": "new", "count": 1}, {"name": "switch"}],
     "links": [{"between": ["old", "switch"], "bytes_per_s_one_way": 12.5e9, "latency_ns": 5000},
               {"between": ["new", "switch"], "bytes_per_s_one_way": 12.5e9, "latency_ns": 5000}]}
  ],
  "root": "room"
})");
  }
};

TEST_F(ClusterPlanFile, IsSimulatedAsItWasPlannedBitForBit) {
  write_unequal_cluster();
  const std::string small = "--model gpt3-1.3b --cluster DGX-A100 --global-batch 64 ";
  for (const std::string& question :
       {small, small + "--schedule 2bw --depth 4 --width 2",
        small + "--schedule interleaved --depth 4 --tensor 2", small + "--schedule zbv --zero 1",
        small + "--schedule zb-auto --depth 4 --dtype fp16",
        small + "--schedule seq1f1b --depth 4 --memory 30GiB",
        small + "--schedule 1f1b --depth 3 --recompute full --transfers blocking --clip 1",
        small + "--schedule 1f1b --depth 4 --cut blocks --device-order stages-first",
        std::string("--model gpt2-xl --cluster unequal.json --global-batch 24 --schedule 1f1b,2bw "
                    "--depth 3 --dtype fp16 --reserve 1GiB"),
        std::string("--model mixtral-8x7b --cluster 4xDGX-H100 --global-batch 32 --schedule 1f1b "
                    "--depth 8 --link-fraction 0.7"),
        small + "--contention",
        std::string("--model gpt2-xl --cluster 2xp3.16xlarge --global-batch 64 --schedule "
                    "1f1b,2bw,zbv --microbatch-size 2 --dtype fp16 --contention"),
        std::string("--model gpt2-xl --cluster 2xp3.16xlarge --global-batch 64 --schedule 1f1b "
                    "--depth 4 --transfers blocking --dtype fp16 --zero 1 --contention")}) {
    const Json said = planned(question);
    const Json plan = Json::parse(read("plan.json"));
    EXPECT_EQ(plan["version"], 2);
    EXPECT_EQ(schema_faults("plan.schema", plan), "") << question;
    EXPECT_EQ(plan["predicted"]["period_s"], said["period_s"]) << question;
    EXPECT_EQ(plan["stages"], said["stages"]) << question;
    const bool contention = question.ends_with("--contention");
    EXPECT_EQ(plan["cluster"].value("contention", false), contention);
    const Json simulated =
        json_of(std::string("simulate plan.json --json") + (contention ? " --contention" : ""));
    EXPECT_EQ(simulated["result"]["period_s"], said["period_s"]) << question;
    EXPECT_EQ(simulated["warnings"].dump().find("counts contention"), std::string::npos);
    EXPECT_EQ(simulated["config"]["stages"], said["stages"]) << question;
    const Json checked = json_of("check plan.json --json");
    EXPECT_EQ(checked["warnings"], Json::array()) << question;  // the memory is that predicted
    Bytes most = 0;
    for (const Json& device : checked["result"]["devices"])
      most = std::max(most, device["peak_bytes"].get<Bytes>());
    EXPECT_EQ(most, said["peak_bytes"]) << question;
  }
}

TEST_F(ClusterPlanFile, HasASchema) {
  if (!checks_schemas()) GTEST_SKIP() << "no libvalijson-dev";
  EXPECT_EQ(schema_faults("plan.schema", Json::parse(plan_text())), "");
  planned("--model gpt2 --cluster DGX-A100 --global-batch 16 --schedule 1f1b --depth 4");
  const Json plan = Json::parse(read("plan.json"));
  for (const char* key : {"/stages", "/cluster/tensor", "/predicted/peak_bytes"}) {
    const Json::json_pointer at(key);
    Json gone = plan, mistyped = plan;
    gone[at.parent_pointer()].erase(at.back());
    mistyped[at] = Json::object();
    EXPECT_NE(schema_faults("plan.schema", gone), "") << key;
    EXPECT_NE(schema_faults("plan.schema", mistyped), "") << key;
  }
}

TEST_F(ClusterPlanFile, NeedsNoOtherFile) {
  write_unequal_cluster();
  const Json said =
      planned("--model gpt2-xl --cluster unequal.json --global-batch 24 --schedule 1f1b --depth 3");
  std::filesystem::remove(folder() / "unequal.json");
  EXPECT_EQ(json_of("simulate plan.json --json")["result"]["period_s"], said["period_s"]);
}

TEST_F(ClusterPlanFile, WhatItSaysIsNotTakenAndWhatIfsAre) {
  const std::string question = "--model gpt3-1.3b --cluster DGX-A100 --global-batch 64 ";
  const double planned_s = planned(question + "--schedule 1f1b --depth 4")["period_s"];
  const auto seconds = [&](const std::string& more) {
    return json_of("simulate plan.json --json " + more)["result"]["period_s"].get<double>();
  };
  EXPECT_GT(seconds("--slow-device 1:0.8"), planned_s);
  EXPECT_GE(seconds("--contention"), 0.9 * planned_s);
  for (const std::string more :
       {"--schedule gpipe", "--depth 2", "--tensor 2", "--cluster DGX-H100", "--dtype fp16",
        "--microbatch-size 2", "--zero 1", "--storage bf16", "--link-rate 1Gb/s",
        "--profile profile.json", "--device-order stages-first", "--transfers blocking"}) {
    EXPECT_EQ(tandem("simulate plan.json " + more).code, 2) << more;
  }
  EXPECT_EQ(tandem("check plan.json --memory 1GiB").code, 4);
  EXPECT_EQ(tandem("check plan.json --memory 200GiB").code, 0);
  const Ran swept = tandem("sweep plan.json --slow-device 1:0.9,1:0.5 --json");
  EXPECT_EQ(swept.code, 0) << swept.err;
}

TEST_F(ClusterPlanFile, WithoutTheContentionThatItCountsItSaysSo) {
  const Json said = planned(
      "--model gpt2 --cluster 2xp3.16xlarge --global-batch 32 --schedule 1f1b --depth 8 --width 2 "
      "--tensor 1 --dtype fp16 --contention");
  const Json without = json_of("simulate plan.json --json");
  EXPECT_NE(without["result"]["period_s"], said["period_s"]);
  EXPECT_THAT(without["warnings"].dump(), HasSubstr("counts contention: --contention"));
  EXPECT_EQ(tandem("check plan.json").code, 0);
}

TEST_F(ClusterPlanFile, IsTrainedOnlyIfThisMachineCan) {
  write("tiny.json", kModel);
  const std::string question = "--model tiny.json --cluster DGX-A100 --global-batch 4 --depth 2 ";
  planned(question + "--schedule 1f1b --width 1 --tensor 1");
  const Ran trained = tandem("train plan.json --steps 2 --verify");
  EXPECT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(trained.err, HasSubstr("made for cluster DGX-A100"));
  EXPECT_THAT(trained.out, ::testing::Not(HasSubstr("predicted")));
  planned(question + "--schedule 1f1b --width 1 --tensor 2");
  expect_refused("train plan.json --steps 2", 3, "tensor degree is 2");
  planned(question + "--schedule 1f1b --width 2 --tensor 1 --zero 1");
  expect_refused("train plan.json --steps 2", 3, "ZeRO-1");
}

TEST_F(ClusterPlanFile, SaysWhatIsWrongWithIt) {
  planned("--model gpt2 --cluster DGX-A100 --global-batch 16 --schedule 1f1b --depth 4");
  const std::string good = read("plan.json");
  const auto refused = [&](const std::string& part, const std::string& instead,
                           const std::string& place) {
    write("bad.json", with(good, part, instead));
    expect_refused("simulate bad.json", 3, place);
    expect_refused("check bad.json", 3, place);
  };
  refused("\"version\": 2", "\"version\": 3", "/version");
  refused("\"device_order\": \"replicas-first\"", "\"device_order\": \"any\"",
          "/cluster/device_order");
  refused("\"fits_by\": \"framework\"", "\"fits_by\": 1", "/cluster/fits_by");
  refused("\"tensor\": 1", "\"tensor\": 64", "/cluster/cluster");
  refused("\"share\": 0.06", "\"share\": 1.5", "/cluster/reserve/share");
  refused("\"transfers\": \"overlapped\"", "\"transfers\": \"none\"", "/cluster/transfers");
  refused("\"schedule\": \"1f1b\"", "\"schedule\": \"3f3b\"", "/schedule");
  refused("\"root\": ", "\"top\": ", "/cluster/cluster");
}

}  // namespace
}  // namespace tandem::testing
