// Arguments of Megatron-LM, in a list or in a script.

#include "core/import/megatron_arguments.h"

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/files/read.h"
#include "core/import/models.h"
#include "core/model/catalog.h"
#include "tests/core/error_of.h"
#include "tests/support/fuzz_input.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using testing::fuzz_input;
using ::testing::HasSubstr;

std::string megatron_error(const std::string& text) {
  return error_of([&text] { parse_model("args", text); });
}

TEST(MegatronArguments, AListIsAModel) {
  ModelSpec model = parse_model("dir/gpt.sh", fuzz_input("megatron/gpt"));
  EXPECT_EQ(model.name, "gpt");
  model.name = "megatron-1.7b";
  EXPECT_EQ(model, find_model("megatron-1.7b")->model);
}

TEST(MegatronArguments, AScriptIsReadForItsArguments) {
  ModelSpec model = parse_model("llama.sh", fuzz_input("megatron/llama.sh"));
  EXPECT_EQ(parameter_count(model), 6'738'415'616);
  model.name = "llama-2-7b";
  EXPECT_EQ(model, find_model("llama-2-7b")->model);
}

TEST(MegatronArguments, DefaultsAreMegatrons) {
  const std::string few =
      "--num-layers 2 --hidden-size 96 --num-attention-heads 4 --seq-length 8 --vocab-size 100 ";
  const ModelSpec plain = parse_model("a", few);
  EXPECT_EQ(plain.architecture, Architecture::gpt2);
  EXPECT_EQ(plain.vocabulary, 128);
  EXPECT_TRUE(plain.tied);
  EXPECT_EQ(parse_model("a", few + "--tensor-model-parallel-size 3").vocabulary, 384);
  EXPECT_EQ(parse_model("a", few + "--swiglu").shape.mlp_width, 256);
  const ModelSpec grouped = parse_model("a", few + "--group-query-attention");
  EXPECT_EQ(grouped.shape.key_value_heads, 1);
  EXPECT_TRUE(grouped.shape.query_bias);
  const TransformerShape shape =
      parse_model("a", few + "--disable-bias-linear --add-qkv-bias --qk-layernorm").shape;
  EXPECT_TRUE(shape.query_bias);
  EXPECT_FALSE(shape.attention_bias);
  EXPECT_FALSE(shape.mlp_bias);
  EXPECT_TRUE(shape.head_norm);
  // Heads that don't divide the width are not GPT-2's.
  EXPECT_EQ(parse_model("a", few + "--num-attention-heads 5").architecture,
            Architecture::transformer);
  EXPECT_EQ(parse_model("a", few + "--num-layers 5").blocks, 5);  // the last one counts
}

TEST(MegatronArguments, WhatIsWrongIsSaidWhereItStands) {
  EXPECT_EQ(megatron_error("--num-layers $LAYERS --hidden-size 64 --num-attention-heads 4\n"
                           "--seq-length 0 --vocab-size 10"),
            "args:1:14: error: --num-layers: expected an integer from 1 to 10000, found "
            "\"$LAYERS\"\n"
            "--num-layers $LAYERS --hidden-size 64 --num-attention-heads 4\n"
            "             ^~~~~~~\n"
            "args:2:14: error: --seq-length: expected an integer from 1 to 1048576, found \"0\"\n"
            "--seq-length 0 --vocab-size 10\n"
            "             ^");
  EXPECT_THAT(megatron_error("--num-layers --hidden-size 64"),
              HasSubstr("--num-layers has no value"));
  EXPECT_THAT(megatron_error("--num-layers"),
              HasSubstr("args:1:1: error: --num-layers has no value"));
  EXPECT_THAT(megatron_error("--num-layers 3"), HasSubstr("args: error: no --hidden-size"));
  EXPECT_THAT(megatron_error(fuzz_input("megatron/grouped")),
              HasSubstr("--num-experts has no analytic costs"));
  EXPECT_THAT(
      megatron_error("--num-layers 2 --hidden-size 96 --num-attention-heads 4 --seq-length 8 "
                     "--vocab-size 100 --group-query-attention --num-query-groups 3"),
      HasSubstr("4 heads can't share 3 heads of keys and values evenly"));
  EXPECT_THAT(megatron_error("--num-layers 99999999999999999999"), HasSubstr("found \"9999999"));
}

using Options = std::vector<std::pair<std::string, std::string>>;

TEST(MegatronArguments, ALayoutSaysTheStages) {
  const auto of = [](const std::string& layout) {
    return parse_megatron_run("a",
                              "--num-layers 7 --pipeline-model-parallel-size 2 "
                              "--pipeline-model-parallel-layout \"" +
                                  layout + "\"");
  };
  EXPECT_EQ(of("Et*3|t*4L").options,
            (Options{{"depth", "2"}, {"schedule", "1f1b"}, {"stages", "0-7,7-16"}}));
  EXPECT_EQ(of("Et*2|(tt|)*1,t*2|tL").options, (Options{{"depth", "2"},
                                                        {"schedule", "interleaved"},
                                                        {"chunks", "2"},
                                                        {"stages", "0-5,5-9,9-13,13-16"}}));
  for (const char* bad : {"Et*3|t*3L", "t*7", "Et*7|L|", "Et*7|(tL", "Et*99999999|L", "Et*7|mL"})
    EXPECT_THAT(of(bad).passed_over, ElementsAre("pipeline-model-parallel-layout")) << bad;
  EXPECT_EQ(parse_megatron_run("a", "--use-distributed-optimizer --use-tp-pp-dp-mapping").options,
            (Options{{"zero", "1"}, {"device-order", "stages-first"}}));
}

TEST(MegatronArguments, HowItWasRunBecomesOptions) {
  const MegatronRun run = parse_megatron_run(
      "a",
      "--num-layers 48 --tensor-model-parallel-size 8 --pipeline-model-parallel-size=4\n"
      "--micro-batch-size 2 --global-batch-size 512 --num-layers-per-virtual-pipeline-stage 3 \\\n"
      "--recompute-granularity full --lr 1e-4 --bf16 --lr 2e-4");
  EXPECT_EQ(run.options, (Options{{"tensor", "8"},
                                  {"depth", "4"},
                                  {"microbatch-size", "2"},
                                  {"global-batch", "512"},
                                  {"schedule", "interleaved"},
                                  {"chunks", "4"},
                                  {"recompute", "full"}}));
  EXPECT_THAT(run.passed_over, ElementsAre("lr", "bf16"));
  EXPECT_EQ(
      parse_megatron_run("a", "--pipeline-model-parallel-size 2 --recompute-activations").options,
      (Options{{"depth", "2"}, {"schedule", "1f1b"}, {"recompute", "selective"}}));
  const auto of = [](const std::string& text) { return parse_megatron_run("a", text).options; };
  const std::string full = "--recompute-granularity full --recompute-method ";
  EXPECT_EQ(of(full + "uniform --recompute-num-layers 1"), (Options{{"recompute", "full"}}));
  EXPECT_EQ(of(full + "uniform --recompute-num-layers 3"), (Options{{"recompute", "uniform:3"}}));
  EXPECT_EQ(of(full + "block --recompute-num-layers 5"), (Options{{"recompute", "blocks:5"}}));
  EXPECT_EQ(of("--tensor-model-parallel-size 2 --sequence-parallel"),
            (Options{{"tensor", "2"}, {"sequence-parallel", ""}}));
}

TEST(MegatronArguments, AModelAloneSaysThatTheRunIsLeft) {
  const std::string layers =
      "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 8 --vocab-size 100 "
      "--max-position-embeddings 8";
  EXPECT_THAT(parse_noted_model("a", layers).notes, ElementsAre());
  EXPECT_THAT(parse_noted_model("a", layers + " --pipeline-model-parallel-size 2 "
                                              "--micro-batch-size 3")
                  .notes,
              ElementsAre(HasSubstr(" --depth 2 --microbatch-size 3")));
  EXPECT_THAT(parse_noted_model("a", layers + " --sequence-parallel --micro-batch-size 3").notes,
              ElementsAre(HasSubstr(" --microbatch-size 3 --sequence-parallel")));
}

TEST(MegatronArguments, WhatIsNotUsedIsNamed) {
  EXPECT_THAT(parse_megatron_run("llama.sh", fuzz_input("megatron/llama.sh")).passed_over,
              ElementsAre("nproc_per_node", "bf16"));
  // Neither a shell's variable nor layers that don't divide is a number to go by.
  EXPECT_THAT(parse_megatron_run("a",
                                 "--micro-batch-size $SIZE --pipeline-model-parallel-size 2 "
                                 "--num-layers 10 --num-layers-per-virtual-pipeline-stage 3 "
                                 "--recompute-granularity some --odd\x1b[31m")
                  .passed_over,
              ElementsAre("odd", "micro-batch-size", "num-layers-per-virtual-pipeline-stage",
                          "recompute-granularity"));
  EXPECT_THAT(parse_megatron_run("gpt", fuzz_input("megatron/gpt")).passed_over, ElementsAre());
}

}  // namespace
}  // namespace tandem
