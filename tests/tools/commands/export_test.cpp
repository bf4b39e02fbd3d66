// What `export` writes, read back by what reads it; tests/tools/messages holds it word by word.

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/files/read.h"
#include "core/import/megatron_arguments.h"
#include "core/notation/pytorch_csv.h"
#include "tests/tools/tandem.h"
#include "tests/tools/unequal_nodes.h"

namespace tandem::testing {
namespace {

class Export : public CommandLine {
 protected:
  static constexpr const char* kQuestion = "plan --cluster DGX-A100 --global-batch 64 ";

  void plan(const std::string& more) const {
    const bool named = more.find("--model") != std::string::npos;
    const Ran ran =
        tandem(kQuestion + more + (named ? "" : " --model gpt3-1.3b") + " --output plan.json");
    ASSERT_EQ(ran.code, 0) << more << ran.err;
  }
  std::string exported(const std::string& to) const {
    const Ran ran = tandem("export plan.json --to " + to);
    EXPECT_EQ(ran.code, 0) << ran.err;
    return ran.out;
  }
};

TEST_F(Export, MegatronsArgumentsReadBackAreThePlan) {
  for (const std::string& more :
       {std::string("--schedule 1f1b --depth 4 --cut blocks"),
        std::string("--schedule 1f1b --depth 2 --tensor 2 --width 2 --cut even --zero 1"),
        std::string("--schedule interleaved --depth 4 --width 2 --cut blocks --recompute full "
                    "--device-order stages-first"),
        std::string("--schedule 1f1b --depth 4 --cut blocks --recompute blocks:2 --dtype fp16"),
        std::string("--schedule data-parallel --tensor 2 --width 4 --recompute selective "
                    "--attention plain")}) {
    // Its vocabulary is even, so that a tensor degree of 2 pads nothing.
    plan("--model megatron-1.7b " + more);
    const std::string text = exported("megatron");
    write("args.sh", text);
    const Json planned = Json::parse(read("plan.json"));
    std::string command =
        "simulate --model args.sh --cluster DGX-A100" + options_text(parse_megatron_run("a", text));
    if (planned["depth"] == 1) command += " --schedule 1f1b --stages 0-50";
    command += " --dtype " + planned["cluster"]["dtype"].get<std::string>() + " --attention " +
               planned["cluster"]["attention"].get<std::string>() + " --width " +
               planned["width"].dump() + " --json";
    const Ran ran = tandem(command);
    ASSERT_EQ(ran.code, 0) << command << ran.err;
    const Json simulated = Json::parse(ran.out);
    EXPECT_EQ(simulated["result"]["period_s"], planned["predicted"]["period_s"]) << command;
    EXPECT_EQ(simulated["config"]["stages"], planned["stages"]) << command;
  }
}

/// Megatron-LM takes groups of as many microbatches as devices unless it is told, and refuses a
/// last one that is smaller.
TEST_F(Export, MegatronIsToldOfGroupsThatAreNoPipelineLong) {
  const std::string flag = "--microbatch-group-size-per-virtual-pipeline-stage";
  const std::string interleaved =
      "--schedule interleaved --tensor 1 --width 2 --microbatch-size 1 --cut blocks --depth ";
  plan(interleaved + "4");
  EXPECT_THAT(exported("megatron"), ::testing::Not(HasSubstr(flag)));
  plan(interleaved + "3");  // 32 microbatches: two would be left
  EXPECT_THAT(exported("megatron"), HasSubstr(flag + " 4\n"));
}

TEST_F(Export, TheCsvReadBackIsTheOrder) {
  for (const char* schedule : {"gpipe", "1f1b", "interleaved", "zb-h1", "zbv", "dualpipev"}) {
    plan(std::string("--depth 4 --width 1 --tensor 1 --recompute none --microbatch-size 2 "
                     "--schedule ") +
         schedule);
    const Schedule read = parse_pytorch_csv(exported("pytorch-csv"), "order.csv");
    const Schedule own = make_schedule(read_plan((folder() / "plan.json").string()));
    EXPECT_EQ(read.placement.device, own.placement.device) << schedule;
    const auto computed = [](const Schedule& of) {
      std::vector<std::vector<Op>> rows;
      for (const std::vector<Op>& order : of.order) {
        rows.emplace_back();
        for (const Op& op : order) {
          if (is_compute(op.kind)) rows.back().push_back(op);
        }
      }
      return rows;
    };
    EXPECT_EQ(computed(read), computed(own)) << schedule;
    if (std::string(schedule) != "zb-h1") continue;
    Schedule other = own;  // the comparison sees two ops that change places
    std::swap(other.order[DeviceId{}][0], other.order[DeviceId{}][1]);
    EXPECT_NE(computed(read), computed(other));
  }
}

TEST_F(Export, WhatAnEngineCantDoNamesAPlanThatItCan) {
  plan("--schedule 2bw --depth 4 --width 2");
  const Ran refused = tandem("export plan.json --to megatron");
  EXPECT_EQ(refused.code, 3);
  EXPECT_EQ(refused.out, "");
  const std::size_t command = refused.err.find(": tandem plan ");
  ASSERT_NE(command, std::string::npos) << refused.err;
  std::string line = refused.err.substr(command + std::string(": tandem ").size());
  line = line.substr(0, line.find('\n'));
  EXPECT_THAT(line, HasSubstr("--output plan-megatron.json"));
  const Ran planned = tandem(line);
  ASSERT_EQ(planned.code, 0) << line << planned.err;
  const double seconds = Json::parse(read("plan-megatron.json"))["predicted"]["period_s"];
  EXPECT_THAT(refused.err, HasSubstr(fmt::format("{:.4g} s a step", seconds)));
  const Ran exported = tandem("export plan-megatron.json --to megatron");
  EXPECT_EQ(exported.code, 0) << exported.err;
  // No schedule unties embeddings.
  EXPECT_THAT(tandem("export plan.json --to torchtitan").err,
              HasSubstr("no option of tandem plan helps"));
  EXPECT_EQ(tandem("export plan.json --to pytorch-csv").code, 3);
  EXPECT_EQ(tandem("export plan.json --to sbatch").code, 3);
  EXPECT_EQ(tandem("export plan.json --to json").code, 0);
}

TEST_F(Export, EachObstacleIsSaid) {
  const auto said = [&](const std::string& more, const std::string& to, const std::string& word) {
    plan(more);
    const Ran ran = tandem("export plan.json --to " + to);
    EXPECT_EQ(ran.code, 3) << more;
    EXPECT_THAT(ran.err, HasSubstr(word)) << more;
  };
  const std::string shape = "--depth 4 --width 2 --tensor 1 ";
  said(shape + "--schedule seq1f1b", "pytorch-csv", "slices");
  said(shape + "--schedule 1f1b --cut blocks --dtype fp16", "torchtitan", "fp16");
  said(shape + "--schedule 1f1b --cut blocks --device-order stages-first", "torchtitan",
       "neighbours");
  said(shape + "--schedule 1f1b --cut blocks --optimizer nadam", "megatron", "nadam");
  said(shape + "--schedule 1f1b --cut blocks --recompute stage", "megatron", "whole forwards");
  said(shape + "--schedule zb-h1 --cut blocks", "megatron", "zb-h1");
  said("--depth 5 --width 1 --tensor 1 --schedule 1f1b", "megatron", "attention and its mlp");
}

TEST_F(Export, RanksAreEachThereOnce) {
  plan("--schedule interleaved --depth 2 --width 2 --tensor 2 --device-order stages-first");
  const Json json = Json::parse(exported("json"));
  std::set<int> ranks;
  for (const Json& device : json["ranks"]) {
    EXPECT_EQ(device.size(), 2U);
    for (const Json& pipeline : device) {
      for (const Json& rank : pipeline) EXPECT_TRUE(ranks.insert(rank.get<int>()).second);
    }
  }
  EXPECT_EQ(ranks.size(), 8U);
  EXPECT_EQ(*ranks.rbegin(), 7);
  EXPECT_EQ(json["ranks"][1][0][0], 2);  // the second stage of the first pipeline stands beside it
  std::size_t layers = 0;
  for (const Json& stage : json["stages"]) layers += stage["layers"].size();
  EXPECT_EQ(layers, 50U);
}

/// Who starts the ranks has to know which node is the first.
TEST_F(Export, UnequalNodesAreNamedInTheirOrder) {
  write("mixed.json", kUnequalNodes);
  ASSERT_EQ(
      tandem(
          "plan --model gpt3-1.3b --cluster mixed.json --global-batch 64 --dtype bf16 --schedule "
          "1f1b --depth 2 --width 4 --tensor 1 --cut blocks --output plan.json")
          .code,
      0);
  EXPECT_EQ(Json::parse(exported("json"))["node_order"], Json({"new", "old"}));
  EXPECT_THAT(exported("sbatch"), HasSubstr("on its nodes in this order: new, old."));
  plan("--schedule 1f1b --depth 2 --width 2 --tensor 2 --cut blocks");
  EXPECT_EQ(Json::parse(exported("json"))["node_order"], Json::array());
  EXPECT_THAT(exported("sbatch"), ::testing::Not(HasSubstr("in this order")));
}

TEST_F(Export, APlanOfThisMachineIsExportedToo) {
  write_plan(with(plan_text(), R"("schedule": "2bw")", R"("schedule": "1f1b")"));
  EXPECT_EQ(tandem("export plan.json --to pytorch-csv --output order.csv").code, 0);
  EXPECT_EQ(tandem("simulate --schedule-file order.csv --forward 1ms --backward 2ms").code, 0);
  EXPECT_EQ(json_of("export plan.json --to json --json")["config"]["to"], "json");
  EXPECT_EQ(tandem("export plan.json").code, 2);
  EXPECT_EQ(tandem("export plan.json --to deepspeed").code, 2);
  EXPECT_EQ(tandem("export nowhere.json --to json").code, 3);
}

}  // namespace
}  // namespace tandem::testing
