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
  EXPECT_EQ(ran.err, "Llama-2-7b-hf: 6.738 B parameters (6738415616)\n");
  EXPECT_EQ(json_of("simulate --model model.json" + line)["result"], json["result"]);
}

TEST_F(Foreign, ALongSequenceIsToldOf) {
  take("hugging_face/llama.json", "config.json");
  write("long.json", with(read("config.json"), "\"max_position_embeddings\": 4096",
                          "\"max_position_embeddings\": 131072"));
  const std::string line = " --cluster DGX-H100 --schedule 1f1b --depth 8 --width 1 --json";
  const auto notes = [&](const std::string& model) {
    return json_of("simulate --model " + model + line)["assumptions"]["notes"].dump();
  };
  const std::string note = "sequence 131072 from long.json; --sequence shortens it";
  EXPECT_THAT(notes("long.json"), HasSubstr(note));
  for (const char* model : {"long.json --sequence 16384", "config.json", "llama-2-7b"})
    EXPECT_THAT(notes(model), Not(HasSubstr("shortens it"))) << model;
  EXPECT_THAT(tandem("import --from hugging-face long.json").err, HasSubstr("\n" + note + "\n"));
  EXPECT_THAT(tandem("import --from hugging-face config.json").err, Not(HasSubstr("shortens")));
}

TEST_F(Foreign, LearnedPositionsBoundTheSequence) {
  write("opt.json", R"({"model_type": "opt"})");
  const std::string line = "check --model opt.json --cluster DGX-H100 --schedule 1f1b --sequence ";
  EXPECT_EQ(tandem(line + "2048").code, 0);
  expect_error(line + "5000", 3,
               "error: model opt.json: a sequence of 5000 tokens, for which 2050 learned positions "
               "are too few");
}

TEST_F(Foreign, AFileOfOneNodeIsNotCounted) {
  take("nccl_xml/h200", "n.xml");
  const std::string line = "simulate --model gpt2 --schedule 1f1b --cluster ";
  expect_error(line + "4xn.xml", 2,
               "error: cluster 4xn.xml: only nodes of the catalogue are counted so; n.xml does not "
               "say what joins several: tandem import writes it as cluster.json, which takes a "
               "group of them and their network");
  std::filesystem::rename(folder() / "n.xml", folder() / "4xn.xml");
  EXPECT_EQ(tandem(line + "4xn.xml --depth 3").code, 0);
}

TEST_F(Foreign, AConfigOfMoreThanAModelIsSaidToBe) {
  take("hugging_face/gemma3.json", "config.json");
  const Ran ran = tandem("import --from hugging-face config.json --output model.json");
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.err,
            "warning: config.json: the language model alone is read: what sees or hears is left "
            "out\ngemma3: 3.88 B parameters (3880263168)\n"
            "sequence 131072 from config.json; --sequence shortens it\n");
  take("hugging_face/mixtral.json", "mixtral.json");
  EXPECT_EQ(tandem("import --from hugging-face mixtral.json --output model.json").err,
            "mixtral: 46.7 B parameters (46702792704), 12.88 B of them active for a token\n"
            "sequence 131072 from mixtral.json; --sequence shortens it\n");
  const std::string line =
      "simulate --cluster 2xDGX-H100 --schedule 1f1b --depth 16 --json --model ";
  EXPECT_THAT(json_of(line + "mixtral.json")["assumptions"]["notes"].dump(),
              HasSubstr("no expert parallelism"));
  EXPECT_THAT(json_of(line + "llama-2-7b")["assumptions"]["notes"].dump(),
              Not(HasSubstr("expert")));
  take("hugging_face/deepseek_v3.json", "deepseek.json");
  const Ran refused = tandem("import --from hugging-face deepseek.json");
  EXPECT_EQ(refused.code, 3);
  EXPECT_EQ(refused.out, "");
  EXPECT_THAT(refused.err, HasSubstr("671026419200 parameters"));
}

TEST_F(Foreign, WhatIsOnlyPricedIsNotMeasuredOrTrained) {
  take("hugging_face/llama.json", "config.json");
  write_plan();
  const std::string why =
      "error: model Llama-2-7b-hf: a transformer built unlike GPT-2 is priced on a cluster; the "
      "layers that can be measured and trained are GPT-2's and linear ones";
  expect_error("profile --model config.json --output out.json", 3, why);
  expect_error("plan --model config.json --profile profile.json --devices 2 --global-batch 4", 3,
               why);
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

TEST_F(Foreign, ADeviceIsNamedWhereNobodySays) {
  take("astra_sim/switch.yml", "net.yml");
  write("cluster.json", R"({"version": 1, "groups": [], "root": "x"})");
  const std::string line = "simulate --model gpt2 --schedule 1f1b --cluster ";
  expect_error(line + "net.yml", 2,
               "error: net.yml: ASTRA-sim's NPUs are of no kind: name the device with --gpu, such "
               "as --gpu A100-SXM4-80GB (tandem catalog list shows all)");
  expect_error(line + "net.yml --gpu A100-SXM4-80GiB", 2,
               "error: --gpu: the catalogue has no device A100-SXM4-80GiB; did you mean "
               "\"A100-SXM4-80GB\"? (tandem catalog list shows all)");
  expect_error(line + "cluster.json --gpu T4-16GB", 2,
               "error: cluster.json: the file says what its devices are: --gpu is not taken");
  expect_error(line + "DGX-H100 --gpu T4-16GB", 2,
               "error: tandem simulate: --gpu is for a --cluster file that does not say what its "
               "devices are");
  expect_error("import --from hugging-face net.yml --gpu T4-16GB", 2,
               "error: tandem import: --gpu is for clusters, not for hugging-face");
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
  expect_error("import --from pipedream graph.txt", 2, "error: tandem import: --stages is missing");
  expect_error("import --from pipedream graph.txt --stages 6", 3,
               "error: graph.txt: 5 layers can't be cut into 6 stages");
  expect_error("import --from hugging-face graph.txt --stages 6", 2,
               "error: tandem import: --stages is for graphs of layers, not for hugging-face");
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
  EXPECT_EQ(warning,
            "warning: tensor degree 4 was not measured: layers take a + b / T, as at the degrees "
            "around it\n");
  EXPECT_EQ(tandem("simulate --schedule 1f1b --devices 2 --microbatches 4 --costs costs.json").code,
            0);
  const Ran beyond = tandem(line + "--tensor 16");
  EXPECT_EQ(beyond.code, 3);
  EXPECT_THAT(beyond.err, HasSubstr("tensor degrees 1, 2, 8, not 16"));
  expect_error("import --from pipedream piper.json --stages 2 --tensor 2", 2,
               "error: tandem import: --tensor is for piper, not for pipedream");
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
  EXPECT_THAT(ran.err, HasSubstr("options of simulate:" + options + "\n"));
  EXPECT_THAT(ran.err, HasSubstr("not used: --nnodes --lr\n"));
  const Json config =
      json_of("simulate --model model.json --cluster DGX-H100 --json" + options)["config"];
  EXPECT_EQ(config["depth"], 4);
  EXPECT_EQ(config["microbatches"], 32);
}

}  // namespace
}  // namespace tandem::testing
