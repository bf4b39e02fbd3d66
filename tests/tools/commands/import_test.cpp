// Models and clusters of other programs, on the command line.

#include <filesystem>
#include <string>
#include <tuple>

#include "tests/support/source_folder.h"
#include "tests/tools/tandem.h"

namespace tandem::testing {
namespace {

using ::testing::Not;

class Foreign : public CommandLine {
 protected:
  /// An input that the fuzzers start from, into the folder.
  void take(const std::string& kept, const std::string& name) const {
    std::filesystem::copy_file(testing::source_folder() / ("tests/fuzz/corpus/" + kept),
                               folder() / name);
  }
};

TEST_F(Foreign, AConfigIsAModel) {
  take("hugging_face/llama.json", "config.json");
  const std::string line = " --cluster DGX-H100 --schedule 1f1b --depth 4 --width 2 --json";
  const Json json = json_of("simulate --model config.json" + line);
  EXPECT_EQ(json["config"]["model"], "Llama-2-7b-hf");
  EXPECT_EQ(json["config"]["parameters"], 6738415616);
  EXPECT_EQ(json["config"]["sequence"], 4096);
  EXPECT_THAT(json["assumptions"]["notes"].dump(), HasSubstr("activations without dropout"));
  const Json by_name = json_of("simulate --model llama-2-7b" + line);
  EXPECT_EQ(json["result"], by_name["result"]);
  const Ran ran = tandem("import --from hugging-face config.json --output model.json");
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.out, "");
  EXPECT_EQ(json_of("simulate --model model.json" + line)["result"], json["result"]);
  const Json printed = Json::parse(tandem("import --from hugging-face config.json --json").out);
  EXPECT_EQ(schema_faults(printed), "");
  EXPECT_EQ(printed["result"]["content"], Json::parse(read("model.json")));
}

TEST_F(Foreign, ALongSequenceIsToldOf) {
  take("hugging_face/llama.json", "config.json");
  write("long.json", with(read("config.json"), "\"max_position_embeddings\": 4096",
                          "\"max_position_embeddings\": 131072"));
  const std::string line = " --cluster DGX-H100 --schedule 1f1b --depth 8 --width 1 --json";
  const auto notes = [&](const std::string& model) {
    return json_of("simulate --model " + model + line)["assumptions"]["notes"].dump();
  };
  EXPECT_THAT(notes("long.json"), HasSubstr("131072"));
  for (const char* model : {"long.json --sequence 16384", "config.json", "llama-2-7b"})
    EXPECT_THAT(notes(model), Not(HasSubstr("131072"))) << model;
}

TEST_F(Foreign, AFileMayHaveTheNameOfACount) {
  take("nccl_xml/h200", "4xn.xml");
  const std::string line = "simulate --model gpt2 --schedule 1f1b --cluster ";
  EXPECT_EQ(tandem(line + "4xn.xml --depth 3").code, 0);
}

TEST_F(Foreign, ExpertsAreToldOf) {
  take("hugging_face/mixtral.json", "mixtral.json");
  const std::string line =
      "simulate --cluster 2xDGX-H100 --schedule 1f1b --depth 16 --json --model ";
  EXPECT_THAT(json_of(line + "mixtral.json")["assumptions"]["notes"].dump(),
              HasSubstr("no expert parallelism"));
  EXPECT_THAT(json_of(line + "llama-2-7b")["assumptions"]["notes"].dump(),
              Not(HasSubstr("expert")));
}

TEST_F(Foreign, WhatIsOnlyPricedIsNotMeasuredOrTrained) {
  take("hugging_face/mixtral.json", "config.json");
  write_plan();
  EXPECT_EQ(tandem("profile --model config.json --output out.json").code, 3);
  EXPECT_FALSE(exists("out.json"));
}

TEST_F(Foreign, AClusterIsReadOrImported) {
  for (const auto& [kept, from, more] :
       {std::tuple{"nvidia_smi/h100", "nvidia-smi", ""},
        {"nvidia_smi/v100", "nvidia-smi", " --gpu V100-SXM2-16GB"},
        {"nccl_xml/h200", "nccl-xml", ""},
        {"astra_sim/three.yml", "astra-sim", " --gpu A100-SXM4-40GB"}}) {
    SCOPED_TRACE(kept);
    std::filesystem::remove(folder() / "cluster");
    take(kept, "cluster");
    const std::string line = "simulate --model gpt2 --schedule 1f1b --depth 3 --width 1 --json";
    const Json read = json_of(line + " --cluster cluster" + more);
    const Ran ran =
        tandem(fmt::format("import --from {} cluster{} --output cluster.json", from, more));
    EXPECT_EQ(ran.code, 0) << ran.err;
    EXPECT_EQ(ran.err, "");
    EXPECT_EQ(json_of(line + " --cluster cluster.json")["result"], read["result"]);
    EXPECT_EQ(read["config"]["cluster"], "cluster");
  }
}

TEST_F(Foreign, AGraphIsCutIntoStages) {
  take("pipedream_graph/branches.txt", "graph.txt");
  ASSERT_EQ(tandem("import --from pipedream graph.txt --stages 2 --link-rate 1GB/s "
                   "--output costs.json")
                .code,
            0);
  const Json costs = Json::parse(read("costs.json"));
  EXPECT_EQ(costs["stages"][0]["forward_ns"], 3000000);
  EXPECT_EQ(costs["stages"][1]["backward_ns"], 5500000);
  EXPECT_EQ(costs["link_transfers_ns"], Json::array({8000000}));
  EXPECT_EQ(tandem("simulate --schedule 1f1b --devices 2 --microbatches 4 --costs costs.json").code,
            0);
}

TEST_F(Foreign, APiperGraphIsCutAtAnyTensorDegreeBetweenThoseMeasured) {
  take("piper/three.json", "piper.json");
  const std::string line = "import --from piper piper.json --stages 2 --link-rate 1GB/s ";
  const auto stages = [&](const std::string& more) {
    const Ran ran = tandem(line + "--output costs.json" + more);
    EXPECT_EQ(ran.code, 0) << ran.err;
    return std::pair(Json::parse(read("costs.json")), ran.err);
  };
  const auto [one, nothing] = stages("");
  EXPECT_EQ(nothing, "");
  EXPECT_EQ(one["stages"][0]["forward_ns"], 10250000);
  EXPECT_EQ(one["stages"][1]["activation_bytes"], 1000);
  const auto [four, warning] = stages(" --tensor 4");
  EXPECT_EQ(four["stages"][0]["forward_ns"], 4250000);
  EXPECT_THAT(warning, StartsWith("warning: tensor degree 4 "));
  EXPECT_EQ(tandem("simulate --schedule 1f1b --devices 2 --microbatches 4 --costs costs.json").code,
            0);
}

TEST_F(Foreign, BadFilesEndWithTheirPlace) {
  take("nccl_xml/cut", "cut");
  take("nvidia_smi/truncated", "truncated");
  take("astra_sim/wrong_count.yml", "wrong");
  for (const std::string file : {"cut", "truncated", "wrong"}) {
    const Ran ran =
        tandem("check --model gpt2 --schedule 1f1b --gpu V100-SXM2-16GB --cluster " + file);
    EXPECT_EQ(ran.code, 3) << file;
    EXPECT_THAT(ran.err, StartsWith(file + ":")) << file;
  }
  write("bad", std::string(1'000'000, '<'));
  EXPECT_EQ(tandem("import --from nccl-xml bad").code, 3);
  EXPECT_EQ(tandem("import --from astra-sim bad --gpu T4-16GB").code, 3);
  EXPECT_EQ(tandem("import --from nvidia-smi bad --gpu T4-16GB").code, 3);
  EXPECT_EQ(tandem("import --from hugging-face bad").code, 3);
}

TEST_F(Foreign, ArgumentsOfMegatronSayHowToSimulateIt) {
  write("run.sh",
        "torchrun --nnodes 2 pretrain_gpt.py --num-layers 8 --hidden-size 1024 \\\n"
        " --num-attention-heads 16 --seq-length 1024 --vocab-size 50257 --lr 1e-4 \\\n"
        " --tensor-model-parallel-size 2 --pipeline-model-parallel-size 4 \\\n"
        " --micro-batch-size 2 --global-batch-size 64 --recompute-activations\n");
  const Ran ran = tandem("import --from megatron run.sh --output model.json");
  EXPECT_EQ(ran.code, 0);
  const std::string options =
      " --tensor 2 --depth 4 --microbatch-size 2 --global-batch 64 --schedule 1f1b "
      "--recompute selective";
  EXPECT_THAT(ran.err, HasSubstr(options + "\n"));
  const Json config =
      json_of("simulate --model model.json --cluster DGX-H100 --json" + options)["config"];
  EXPECT_EQ(config["depth"], 4);
  EXPECT_EQ(config["microbatches"], 32);
}

}  // namespace
}  // namespace tandem::testing
