// A model on a cluster by their names: simulate and check.

#include <cstddef>
#include <cstdint>
#include <string>

#include "tests/tools/tandem.h"

namespace tandem::testing {
namespace {

const std::string kNames = "--model gpt2 --cluster p3.16xlarge --schedule 2bw";

class OnCluster : public CommandLine {};

TEST_F(OnCluster, FirstContactNeedsNoFiles) {
  const Json json =
      json_of("simulate --model gpt2-xl --cluster 8xp3.16xlarge --schedule 2bw --json");
  const Json& config = json["config"];
  EXPECT_EQ(config["model"], "gpt2-xl");
  EXPECT_EQ(config["parameters"], 1557611200);
  EXPECT_EQ(config["cluster_devices"], 64);
  EXPECT_EQ(config["devices_used"], 64);
  EXPECT_EQ(config["width"].get<int>() * config["depth"].get<int>(), 64);
  EXPECT_EQ(config["stages"].size(), config["depth"]);
  EXPECT_EQ(config["global_batch"], 4 * 64);
  EXPECT_EQ(config["shapes"].size(), 6u);
  for (const char* key : {"costs", "dtype", "attention", "product_fraction", "memory_fraction",
                          "link_fraction", "device_order", "notes", "lanes", "contention"}) {
    EXPECT_TRUE(json["assumptions"].contains(key)) << key;
  }
  const Json& result = json["result"];
  EXPECT_GT(result["throughput_samples_per_s"], 0.0);
  EXPECT_DOUBLE_EQ(result["tokens_per_s"].get<double>(),
                   1024 * result["throughput_samples_per_s"].get<double>());
  EXPECT_LT(result["flops_per_s_per_device"].get<double>(), 0.6 * 125e12);
  for (const Json& device : result["devices"]) {
    EXPECT_EQ(device["capacity_bytes"], std::int64_t{16} << 30);
    EXPECT_EQ(device["fits"], true);
    EXPECT_LT(device["peak_bytes"], device["capacity_bytes"]);
  }
}

TEST_F(OnCluster, AnOptionMovesTheAnswerItsWay) {
  // Two stages: layers outweigh the head.
  const auto rate = [&](const std::string& more) {
    return json_of("simulate " + kNames + " --width 4 --json " +
                   more)["result"]["throughput_samples_per_s"]
        .get<double>();
  };
  const double usual = rate("");
  EXPECT_GT(rate("--product-fraction 0.9"), usual);
  EXPECT_LT(rate("--memory-fraction 0.2"), usual);
  EXPECT_LT(rate("--link-fraction 0.01"), usual);
  EXPECT_LT(rate("--dtype fp32"), usual);
  EXPECT_GT(rate("--attention flash"), usual);
  EXPECT_LT(rate("--recompute full"), usual);
  EXPECT_GT(rate("--sequence 256"), usual);
  EXPECT_EQ(rate("--optimizer adamw"), usual);
}

TEST_F(OnCluster, UtilisationsAreCalledByTheirNames) {
  const std::string line = "simulate " + kNames + " --width 1";
  const Json result = json_of(line + " --recompute full --json")["result"];
  EXPECT_DOUBLE_EQ(result["mfu"].get<double>(),
                   result["flops_per_s_per_device"].get<double>() / 125e12);
  EXPECT_DOUBLE_EQ(result["hfu"].get<double>(),
                   result["flops_per_s_per_device_with_recomputation"].get<double>() / 125e12);
  EXPECT_GT(result["hfu"], result["mfu"]);
}

TEST_F(OnCluster, AShapeIsFoundForWhatIsGiven) {
  const auto config = [&](const std::string& more) {
    return json_of("simulate --model gpt2 --cluster p3.16xlarge --json " + more)["config"];
  };
  EXPECT_EQ(config("--schedule data-parallel")["width"], 8);
  const Json three = config("--schedule 1f1b --width 3");
  EXPECT_EQ(three["depth"], 2);
  EXPECT_EQ(three["global_batch"], 4 * 6);
  EXPECT_EQ(config("--schedule 1f1b --depth 3")["width"], 2);
}

TEST_F(OnCluster, TensorParallelismTakesItsDevices) {
  const Json json = json_of(
      "simulate --model gpt2-medium --cluster p3.16xlarge --schedule 2bw "
      "--tensor 4 --json");
  EXPECT_EQ(json["config"]["tensor"], 4);
  EXPECT_EQ(json["config"]["depth"], 2);
  EXPECT_EQ(json["config"]["devices_used"], 8);
  const Json whole = json_of(
      "simulate --model gpt2-medium --cluster p3.16xlarge --schedule 2bw "
      "--depth 2 --width 1 --json");
  EXPECT_LT(json["result"]["devices"][0]["peak_bytes"].get<double>(),
            0.5 * whole["result"]["devices"][0]["peak_bytes"].get<double>());
}

TEST_F(OnCluster, WhatIsTooLongIsRefused) {
  const std::string name(5000, 'n');
  for (const std::string& names :
       {"--model " + name + " --cluster p3.16xlarge", "--model gpt2 --cluster " + name}) {
    const Ran ran = tandem("simulate " + names + " --schedule 1f1b");
    EXPECT_EQ(ran.code, 2);
    EXPECT_THAT(ran.err, HasSubstr(name));
  }
}

TEST_F(OnCluster, ContentionIsFollowedThroughTime) {
  const std::string line =
      "simulate --model gpt2 --cluster 2xp3.16xlarge --schedule 1f1b --depth 8 "
      "--device-order stages-first --json";
  const Json priced = json_of(line), followed = json_of(line + " --contention");
  EXPECT_THAT(followed["assumptions"]["contention"].get<std::string>(), HasSubstr("max-min fair"));
  EXPECT_THAT(followed["assumptions"]["notes"].dump(), HasSubstr("max-min"));
  EXPECT_THAT(priced["assumptions"]["notes"].dump(), ::testing::Not(HasSubstr("max-min")));
  const double rate = followed["result"]["throughput_samples_per_s"];
  EXPECT_GT(rate, priced["result"]["throughput_samples_per_s"].get<double>());
}

TEST_F(OnCluster, ComputeIsSlowedWhileDataMoves) {
  const std::string line =
      "simulate --model gpt2 --cluster 2xp3.16xlarge --schedule 1f1b --depth 8";
  const Json plain = json_of(line + " --json --contention");
  const Json none = json_of(line + " --json --contention --compute-slowdown 1");
  const Json slowed = json_of(line + " --json --contention --compute-slowdown 1.25");
  const auto busy = [](const Json& json) {
    return json["result"]["devices"][3]["busy_s"].get<double>();
  };
  EXPECT_EQ(none, plain);
  EXPECT_GT(busy(slowed), busy(plain));
  EXPECT_LT(busy(slowed), 1.25 * busy(plain));  // data moves only part of the time
  EXPECT_EQ(slowed["config"]["compute_slowdown"], 1.25);
  EXPECT_THAT(slowed["assumptions"]["notes"].dump(), HasSubstr("computes 1.25 times as long"));
  EXPECT_THAT(plain["assumptions"]["notes"].dump(), ::testing::Not(HasSubstr("times as long")));
}

TEST_F(OnCluster, TransfersMayBlock) {
  const std::string costs =
      " --schedule 1f1b --devices 4 --microbatches 8 --forward 1ms --backward 2ms --transfer 0.5ms";
  const Json plain = json_of("simulate --transfers blocking --json" + costs);
  EXPECT_EQ(plain["assumptions"]["transfers"], "blocking");
  EXPECT_DOUBLE_EQ(plain["result"]["makespan_s"], 42.5e-3);
  const Json beside = json_of("simulate --transfers overlapped --json" + costs);
  EXPECT_EQ(beside["result"], json_of("simulate --json" + costs)["result"]);
  EXPECT_LT(beside["result"]["makespan_s"], 42.5e-3);
}

TEST_F(OnCluster, StagesMayBeEven) {
  const auto stages = [&](const std::string& more) {
    const Json json = json_of("simulate --width 1 --depth 4 --json " + kNames + more);
    EXPECT_EQ(json["assumptions"]["cut"], more.empty() ? "balanced" : "even");
    return json["config"]["stages"].dump();
  };
  EXPECT_EQ(stages(" --cut even"), "[[0,7],[7,13],[13,19],[19,26]]");
  EXPECT_NE(stages(""), stages(" --cut even"));
}

TEST_F(OnCluster, StagesMayBeGiven) {
  const std::string simulate = "simulate --width 1 --json " + kNames + " ";
  const Json even = json_of(simulate + "--depth 4 --cut even");
  const Json given = json_of(simulate + "--stages 0-7,7-13,13-19,19-26");
  EXPECT_EQ(given["assumptions"]["cut"], "given");
  EXPECT_EQ(given["config"]["stages"], even["config"]["stages"]);
  EXPECT_EQ(given["result"], even["result"]);
  const Json other = json_of(simulate + "--stages 0-2,2-5,5-7,7-26");
  EXPECT_EQ(other["config"]["stages"].dump(), "[[0,2],[2,5],[5,7],[7,26]]");
  EXPECT_GT(other["result"]["period_s"], even["result"]["period_s"]);
}

TEST_F(OnCluster, StagesThatDoNotCoverTheModelAreRefused) {
  const std::string simulate = "simulate --width 1 " + kNames + " ";
  for (const auto& [stages, code] :
       std::vector<std::pair<std::string, int>>{{"0-7,7-13,13-19,19-25", 3},  // ends early
                                                {"0-7,7-13,14-19,19-26", 3},  // a gap
                                                {"0-7,7-13,13-19,19-27", 3},  // more than it has
                                                {"0-7,7-7,7-19,19-26", 3},    // an empty one
                                                {"0-26 --depth 4", 3},  // one for four devices
                                                {"0-7,7", 2},           // no range
                                                {"0-7,7-13,13-19,19-26 --cut even", 2}}) {  // both
    EXPECT_EQ(tandem(simulate + "--stages " + stages).code, code) << stages;
  }
}

TEST_F(OnCluster, TakesFilesForNames) {
  write("model.json",
        R"({"version": 1, "name": "mine", "blocks": 2, "width": 64, "heads": 2, "sequence": 32})");
  write("cluster.json", R"({"version": 1, "name": "desk", "groups": [{"name": "desk",
    "members": [{"name": "gpu", "device": "RTX-4090-24GB", "count": 2}, {"name": "pcie"}],
    "links": [{"between": ["gpu", "pcie"], "bytes_per_s_one_way": 25e9, "latency_ns": 3000}]}],
    "root": "desk"})");
  const Json json =
      json_of("simulate --model model.json --cluster cluster.json --schedule gpipe --json");
  EXPECT_EQ(json["config"]["cluster"], "desk");
  EXPECT_EQ(json["config"]["depth"], 2);
  EXPECT_EQ(json["assumptions"]["dtype"], "bf16");
  EXPECT_EQ(json["assumptions"]["attention"], "flash");
}

TEST_F(OnCluster, SchedulesAreCompared) {
  const Json json = json_of(
      "simulate --model gpt2 --cluster p3.16xlarge --schedule 2bw,1f1b "
      "--width 2 --depth 4 --microbatches 4 --json");
  EXPECT_EQ(json["result"]["schedules"][0]["schedule"], "2bw");
}

TEST_F(OnCluster, EverySchedulePerhapsRefusesButAnswers) {
  const Json rows = json_of("schedule --list --json")["result"]["schedules"];
  ASSERT_FALSE(rows.empty());
  std::size_t answered = 0;
  for (const Json& row : rows) {
    const std::string name = row["name"];
    const Ran ran = tandem(
        "simulate --model gpt2 --cluster p3.16xlarge --depth 4 --width 2 "
        "--microbatches 8 --json --schedule " +
        name);
    EXPECT_TRUE(ran.code == 0 || ran.code == 3 || ran.code == 2) << name << ran.err;
    answered += ran.code == 0 ? 1 : 0;
  }
  EXPECT_GT(2 * answered, rows.size());
}

TEST_F(OnCluster, CheckSaysWhetherItFits) {
  EXPECT_EQ(tandem("check " + kNames).code, 0);
  EXPECT_EQ(tandem("check --model gpt2-xl --cluster p3.16xlarge --schedule gpipe").code, 4);
  EXPECT_EQ(
      tandem("check --model gpt2-xl --cluster p3.16xlarge --schedule gpipe --memory 80GiB").code,
      0);
}

/// The options of a line and, in place of its own, those of a list such as "--depth 8 --zero 1".
std::string with_options(const std::string& line, const std::string& instead) {
  std::string result = line;
  for (std::size_t at = 0; at < instead.size();) {
    const std::size_t space = instead.find(' ', at);
    const std::size_t end = std::min(instead.find(' ', space + 1), instead.size());
    const std::string option = instead.substr(at, space - at + 1);
    const std::size_t old = result.find(option);
    if (old != std::string::npos)
      result.erase(old, std::min(result.find(" --", old), result.size()) - old);
    result += " " + instead.substr(at, end - at);
    at = end + 1;
  }
  return result;
}

TEST_F(OnCluster, CheckNamesOptionsThatFit) {
  const std::string names = "check --model gpt3-2.7b --cluster 4xp3.16xlarge --schedule ";
  for (const std::string& line :
       {names + "2bw --depth 4 --microbatch-size 4", names + "gpipe --depth 8 --global-batch 512",
        names + "1f1b --depth 4 --width 4 --tensor 2 --microbatches 64 --microbatch-size 4",
        names + "2bw --microbatch-size 8"}) {
    const Ran misfit = tandem(line);
    EXPECT_EQ(misfit.code, 4) << line;
    std::size_t at = misfit.err.find("\n  --");
    ASSERT_NE(at, std::string::npos) << misfit.err;
    std::size_t listed = 0;
    for (++at; at < misfit.err.size(); ++listed) {
      const std::size_t end = misfit.err.find('\n', at), bracket = misfit.err.find(" (", at);
      const std::string options = misfit.err.substr(at + 2, bracket - at - 2);
      const std::string bytes =
          misfit.err.substr(bracket + 2, misfit.err.find(" on device ", bracket) - bracket - 2);
      const Ran fits = tandem(with_options(line, options));
      EXPECT_EQ(fits.code, 0) << line << " " << options << fits.err;
      EXPECT_THAT(fits.out, HasSubstr(", " + bytes + "; most of it")) << line << " " << options;
      at = end + 1;
    }
    EXPECT_GE(listed, 2u) << line;
  }
}

/// gpt2's layers, of which one device takes a + b milliseconds, and T of them a + b / T.
const std::string kMeasuredLayers = fixture("gpt2-profile.json");

TEST_F(OnCluster, LayersMeasuredAtTensorDegreesTakeThePlaceOfRooflines) {
  write("profile.json", kMeasuredLayers);
  const std::string line =
      "simulate --model gpt2 --cluster p3.16xlarge --schedule 1f1b --width 1 "
      "--depth 1 --microbatches 1 --json --profile profile.json ";
  const auto busy = [&](const std::string& more) {
    const Ran ran = tandem(line + more);
    EXPECT_EQ(ran.code, 0) << ran.err;
    return Json::parse(ran.out)["result"]["devices"][0]["busy_s"].get<double>();
  };
  // 26 layers, forward and two backwards, and their updates.
  const auto law = [](int size, int tensor) {
    return 26 * (3e-9 * size * (100'000 + 2'400'000 / tensor) + 1e-6);
  };
  EXPECT_NEAR(busy("--tensor 2"), law(1, 2), 1e-9);
  EXPECT_NEAR(busy("--tensor 4 --microbatch-size 3"), law(3, 4), 1e-6);
  EXPECT_NEAR(busy("--tensor 6 --microbatch-size 2"), law(2, 6), 1e-6);
  const Json json = Json::parse(tandem(line + "--tensor 4 --microbatch-size 3").out);
  ASSERT_EQ(json["warnings"].size(), 2u);
  EXPECT_THAT(json["warnings"][0].get<std::string>(), StartsWith("microbatches of 3 "));
  EXPECT_THAT(json["warnings"][1].get<std::string>(), StartsWith("tensor degree 4 "));
  EXPECT_EQ(json["assumptions"]["costs"], "measured layers");
  EXPECT_EQ(json["assumptions"]["profile"]["machine"], "a node");
  // Memory is the model's, whatever its layers take.
  EXPECT_EQ(json["result"]["devices"][0]["peak_bytes"],
            json_of("simulate --model gpt2 --cluster p3.16xlarge --schedule 1f1b --width 1 --depth "
                    "1 --microbatches 1 --json --tensor 4 --microbatch-size 3")["result"]["devices"]
                                                                               [0]["peak_bytes"]);
  const Ran check = tandem(
      "check --model gpt2 --cluster p3.16xlarge --schedule 1f1b --width 1 "
      "--depth 2 --profile profile.json --tensor 4");
  EXPECT_EQ(check.code, 0);
  EXPECT_THAT(check.out, HasSubstr("a node, 2026-11-22"));
  EXPECT_EQ(check.err, "warning: " + json["warnings"][1].get<std::string>() + "\n");
}

TEST_F(OnCluster, ComputesInFp8OnlyWhereThatIsAskedFor) {
  write("cluster.json", R"({"version": 1, "name": "c", "devices": [{"name": "card",
      "fp8_flops_per_s": 1e15, "memory_bytes": 100000000000, "memory_bytes_per_s": 1e12}],
      "groups": [{"name": "n", "members": [{"name": "gpu", "device": "card", "count": 1}]}],
      "root": "n"})");
  const std::string line =
      "simulate --model gpt2 --cluster cluster.json --schedule 1f1b --depth 1 ";
  EXPECT_THAT(tandem(line).err, HasSubstr("no number format in common"));
  EXPECT_THAT(tandem(line + "--dtype fp8").err, HasSubstr("card has no peak for bf16"));
}

}  // namespace
}  // namespace tandem::testing
