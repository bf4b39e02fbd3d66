// `plan` of a model on a cluster: an answer that `simulate` agrees with.

#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "tests/tools/tandem.h"
#include "tests/tools/unequal_nodes.h"

namespace tandem::testing {
namespace {

class PlanOnCluster : public CommandLine {
 protected:
  static constexpr const char* kQuestion =
      "plan --model gpt3-1.3b --cluster DGX-A100 --global-batch 64";

  /// The command that a plan names has its step's time.
  void expect_simulated_alike(const Json& plan) const {
    const std::string command = plan["command"];
    const auto simulated = tandem(command.substr(std::string("tandem ").size()) + " --json");
    ASSERT_EQ(simulated.code, 0) << command << simulated.err;
    EXPECT_DOUBLE_EQ(Json::parse(simulated.out)["result"]["period_s"], plan["period_s"]) << command;
  }
};

TEST_F(PlanOnCluster, SimulateAgreesWithEveryPlan) {
  const Json result =
      Json::parse(tandem(std::string(kQuestion) + " --dtype fp16 --json").out)["result"];
  ASSERT_GT(result["ranked"].size(), 3u);
  EXPECT_EQ(result["gap"], 0.0);
  for (const Json& plan : result["ranked"]) {
    expect_simulated_alike(plan);
    EXPECT_GE(plan["period_s"], result["bound"]);
  }
}

/// Of two nodes of eight, the second of which computes three times as fast.
class PlanOnUnequalNodes : public PlanOnCluster {
 protected:
  PlanOnUnequalNodes() { write("mixed.json", kUnequalNodes); }
  Json planned(const std::string& options) const {
    return json_of(
        "plan --model gpt3-1.3b --global-batch 64 --tensor 1 --dtype bf16 "
        "--microbatch-size 1 --schedule 1f1b,data-parallel --json " +
        options)["result"];
  }
};

/// It is held against the mean of both peaks.
TEST_F(PlanOnUnequalNodes, TheAnswerSaysSo) {
  const Json plan = planned("--cluster mixed.json");
  const Json& best = plan["ranked"][0];
  ASSERT_EQ(best["devices"], 16);
  const double share = best["flops_per_s_device"].get<double>() / ((312e12 + 989.5e12) / 2);
  EXPECT_THAT(plan["explanation"].dump(),
              ::testing::HasSubstr(fmt::format("({:.0f} % of its peak)", 100 * share)));
  EXPECT_THAT(plan["explanation"].dump(), ::testing::HasSubstr("devices are unequal"));
  const Json alike = planned("--cluster DGX-A100");
  EXPECT_THAT(alike["explanation"].dump(), ::testing::Not(::testing::HasSubstr("unequal")));
  EXPECT_EQ(alike["ranked"][0]["node_order"], Json::array());
}

/// Of eight devices the fast ones are taken, though the file names them last; commands and the
/// plan's file know it.
TEST_F(PlanOnUnequalNodes, FastOnesComeFirst) {
  const Json plan = planned("--cluster mixed.json --devices 8 --output plan.json");
  const Json& best = plan["ranked"][0];
  EXPECT_EQ(best["node_order"], Json({"new", "old"}));
  EXPECT_THAT(plan["explanation"].dump(), ::testing::HasSubstr("the order new, old"));
  expect_simulated_alike(best);
  EXPECT_EQ(json_of("simulate plan.json --json")["result"]["period_s"], best["period_s"]);
  const Json in_file_order = planned("--cluster mixed.json --devices 8 --node-order old,new");
  EXPECT_GT(in_file_order["ranked"][0]["period_s"].get<double>(),
            2 * best["period_s"].get<double>());
  expect_simulated_alike(in_file_order["ranked"][0]);
}

TEST_F(PlanOnUnequalNodes, OtherNamesAreRefused) {
  for (const std::string names : {"new", "new,new", "new,old,switch", "fast,slow", ","}) {
    const Ran ran = tandem(
        "simulate --model gpt3-1.3b --cluster mixed.json --schedule 1f1b --depth "
        "4 --node-order " +
        names);
    EXPECT_EQ(ran.code, 3) << names;
    EXPECT_THAT(ran.err, ::testing::HasSubstr("expected old,new, each once")) << names;
  }
}

/// Where eight devices leave a node by one link, what shares it makes another plan the fastest:
/// each is faster than the other where it was searched for.
TEST_F(PlanOnCluster, ContentionChangesTheAnswer) {
  const std::string question =
      "plan --model gpt2-medium --cluster 4xp3.16xlarge --global-batch 128 --dtype fp16 --schedule "
      "1f1b,zbv --microbatch-size 1 --zero 0 --recompute none --tensor 1 --json";
  const Json plain = json_of(question), contended = json_of(question + " --contention");
  EXPECT_EQ(plain["config"]["contention"], false);
  EXPECT_EQ(contended["config"]["contention"], true);
  EXPECT_THAT(contended["assumptions"]["contention"].get<std::string>(),
              ::testing::HasSubstr("max-min fair"));
  EXPECT_THAT(contended["result"]["explanation"].dump(), ::testing::HasSubstr("With contention"));
  EXPECT_EQ(plain["result"]["contended"], 0);
  EXPECT_GT(contended["result"]["contended"], 0);
  EXPECT_LE(contended["result"]["contended"], contended["result"]["simulated"]);
  const Json &one = plain["result"]["ranked"][0], &other = contended["result"]["ranked"][0];
  EXPECT_NE(one["depth"], other["depth"]);
  const auto seconds = [&](const Json& plan, const std::string& more) {
    std::string command = plan["command"].get<std::string>().substr(std::string("tandem ").size());
    if (const auto at = command.find(" --contention"); at != std::string::npos) command.erase(at);
    return json_of(command + more + " --json")["result"]["period_s"].get<double>();
  };
  EXPECT_EQ(seconds(one, ""), one["period_s"].get<double>());
  EXPECT_EQ(seconds(other, " --contention"), other["period_s"].get<double>());
  EXPECT_LT(seconds(one, ""), seconds(other, ""));
  EXPECT_LT(seconds(other, " --contention"), seconds(one, " --contention"));
  EXPECT_THAT(other["command"].get<std::string>(), ::testing::EndsWith(" --contention"));
}

/// In the words of `simulate`.
TEST_F(PlanOnCluster, RefusesWithContentionWhatSimulateDoes) {
  const auto words = [&](const std::string& line) {
    const auto ran = tandem(line);
    EXPECT_EQ(ran.code, 2) << line;
    return ran.err.substr(ran.err.find(": ", ran.err.find("tandem ")));
  };
  const std::string of = " --model gpt2 --cluster 2xp3.16xlarge --contention ";
  for (const std::string more : {"--collectives absent.json", "--calibration absent.json"}) {
    const std::string said = words("plan --global-batch 8" + of + more);
    EXPECT_EQ(said, words("simulate --schedule 1f1b" + of + more));
    EXPECT_THAT(said, ::testing::HasSubstr("exclude each other"));
  }
  EXPECT_EQ(
      words("plan --profile absent.json --devices 2 --global-batch 4 --contention"),
      words("simulate --schedule 1f1b --devices 2 --microbatches 4 --forward 1ms --contention"));
}

TEST_F(PlanOnCluster, WhatIsGivenIsNotSearched) {
  const Json result = Json::parse(tandem(std::string(kQuestion) +
                                         " --tensor 2 --width 1 --microbatch-size 2 --zero 0 "
                                         "--recompute full --semantics vanilla --json")
                                      .out)["result"];
  for (const Json& plan : result["ranked"]) {
    EXPECT_EQ(plan["tensor"], 2);
    EXPECT_EQ(plan["width"], 1);
    EXPECT_EQ(plan["microbatch_size"], 2);
    EXPECT_EQ(plan["zero"], 0);
    EXPECT_EQ(plan["recompute"], "full");
    EXPECT_EQ(plan["semantics"], "vanilla");
  }
}

TEST_F(PlanOnCluster, TheBatchThatNobodyGaveIsTheSmallestAsGoodAsAny) {
  const std::string question = "plan --model gpt3-1.3b --cluster DGX-A100 --schedule 1f1b --json";
  const Json asked = Json::parse(tandem(question + " --global-batch 8..64").out);
  EXPECT_EQ(asked["config"]["global_batches"], (Json{8, 16, 32, 64}));
  const Json& batches = asked["result"]["batches"];
  ASSERT_EQ(batches.size(), 4u);
  double most = 0.0;
  for (const Json& one : batches)
    most = std::max(most, one["best"]["throughput_samples_per_s"].get<double>());
  for (const Json& one : batches) {
    if (one["best"]["throughput_samples_per_s"] < most / 1.02) continue;
    EXPECT_EQ(one["global_batch"], asked["config"]["global_batch"]);
    EXPECT_EQ(one["best"], asked["result"]["ranked"][0]);
    break;
  }
  const Json usual = Json::parse(tandem(question + " --tensor 1 --microbatch-size 4").out);
  EXPECT_EQ(usual["config"]["global_batches"], (Json{256, 512, 1024, 2048, 4096, 8192}));
}

TEST_F(PlanOnCluster, ExplainsWhatMoreOfTheClusterWouldDo) {
  const std::string question = std::string(kQuestion) + " --schedule 1f1b --tensor 1 --explain";
  const Json result = Json::parse(tandem(question + " --json").out)["result"];
  const Json& gains = result["marginal"]["gains"];
  ASSERT_EQ(gains.size(), 6u);
  EXPECT_EQ(gains[0]["of"], "compute");
  EXPECT_LT(gains[0]["change"], 0.0);
  EXPECT_GE(gains[0]["change"], 1 / 1.01 - 1 - 1e-12);
  const Json& best = result["marginal"]["best"];
  EXPECT_NEAR(best["computes_s"].get<double>() + best["waits_s"].get<double>(),
              result["ranked"][0]["period_s"].get<double>(), 1e-9);
  EXPECT_THAT(tandem(question).out, ::testing::HasSubstr("\nany amount of memory "));
}

TEST_F(PlanOnCluster, DrawsWhatLessWouldDo) {
  const auto ran =
      tandem(std::string(kQuestion) + " --schedule 1f1b --tensor 1 --report page.html");
  ASSERT_EQ(ran.code, 0) << ran.err;
  const std::string page = read("page.html");
  for (const char* words : {"gpt3-1.3b on DGX-A100, batches of 64", "Within less memory",
                            "On fewer devices", "US$ a million tokens", "</html>"})
    EXPECT_THAT(page, ::testing::HasSubstr(words));
}

/// The lines that offer something.
std::vector<std::string> offers_in(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream rows(text);
  for (std::string row; std::getline(rows, row);) {
    if (row.starts_with("  --")) lines.push_back(row.substr(2, row.find(" (") - 2));
  }
  return lines;
}

/// The command with these options in place of its own.
std::string changed(const std::string& command, const std::string& offer) {
  std::map<std::string, std::string> options;
  std::istringstream words(command.substr(command.find("--")) + " " + offer);
  std::string flag;
  for (std::string word; words >> word;) {
    if (word.starts_with("--"))
      options[flag = word];
    else
      options[flag] = word;
  }
  std::string line = "check";
  for (const auto& [name, value] : options) line += " " + name + " " + value;
  return line;
}

/// Where nothing fits, `plan` offers for the nearest what `check` offers for it, and each of these
/// fits.
TEST_F(PlanOnCluster, OffersWhatCheckOffersAndItFits) {
  std::size_t offered = 0;
  for (const std::string question :
       {"--model gpt3-175b --cluster 4xDGX-A100 --global-batch 64",
        "--model gpt3-13b --cluster p3.16xlarge --global-batch 32 --schedule gpipe,1f1b",
        "--model gpt2-xl --cluster 2xp3.16xlarge --global-batch 64 --depth 2 --memory 4GiB --zero "
        "0 "
        "--recompute none --microbatch-size 4",
        "--model gpt3-1.3b --cluster DGX-A100 --global-batch 64 --contention --memory 2GiB"}) {
    SCOPED_TRACE(question);
    const auto ran = tandem("plan " + question);
    ASSERT_EQ(ran.code, 4) << ran.err;
    const std::size_t at = ran.err.find("tandem check ");
    ASSERT_NE(at, std::string::npos) << ran.err;
    const std::string command = ran.err.substr(at, ran.err.find(", does not fit", at) - at)
                                    .substr(std::string("tandem ").size());
    const auto checked = tandem(command);
    EXPECT_EQ(checked.code, 4) << command << checked.err;
    const std::string miss = "does not fit in";
    EXPECT_EQ(ran.err.substr(ran.err.find(miss)), checked.err.substr(checked.err.find(miss)));
    for (const std::string& offer : offers_in(ran.err)) {
      const auto followed = tandem(changed(command, offer));
      EXPECT_EQ(followed.code, 0) << changed(command, offer) << followed.err;
      ++offered;
    }
  }
  EXPECT_GT(offered, 6u);
}

TEST_F(PlanOnCluster, FewerDevicesAreNeverFaster) {
  double before = 0.0;
  for (const char* devices : {"8", "4", "2"}) {
    const Json result = Json::parse(
        tandem(std::string(kQuestion) + " --devices " + devices + " --json").out)["result"];
    const double now = result["ranked"][0]["period_s"];
    EXPECT_GE(now, before) << devices;
    before = now;
  }
}

TEST_F(PlanOnCluster, AnyNumberOfAClustersDevicesMayBeAsked) {
  const auto large = tandem(
      "plan --model gpt3-1.3b --cluster 1024xDGX-A100 --global-batch 8 --devices 8192 --schedule "
      "data-parallel --tensor 1");
  EXPECT_EQ(large.code, 0) << large.err;
}

TEST_F(PlanOnCluster, BadQuestionsAreRefused) {
  const std::string question = kQuestion;
  EXPECT_EQ(tandem("plan --cluster DGX-A100 --global-batch 64").code, 2);
  const std::string open = "plan --model gpt3-1.3b --cluster DGX-A100";
  for (const char* batches : {"64..8", "0..8", "8..", "..8", "8..16..32", "8..x"})
    EXPECT_EQ(tandem(open + " --global-batch " + batches).code, 2) << batches;
  EXPECT_EQ(tandem(open + " --objective memory").code, 2);
  EXPECT_EQ(tandem(open + " --planner 2bw").code, 2);
  EXPECT_EQ(tandem(question + " --planner pipedream --output plan.json").code, 2);
  EXPECT_EQ(tandem(question + " --schedule 3f3b").code, 2);
  EXPECT_THAT(tandem(question + " --schedule 1f1b,a-very-long-name-of-a-schedule").err,
              ::testing::HasSubstr("a-very-long-name-of-a-schedule"));
  EXPECT_EQ(tandem(question + " --recompute all").code, 2);
  EXPECT_EQ(tandem(question + " --tensor 7").code, 3);
  EXPECT_EQ(tandem(question + " --memory 100MiB").code, 4);
  EXPECT_EQ(tandem(question + " --depth 9").code, 4);
}

}  // namespace
}  // namespace tandem::testing
