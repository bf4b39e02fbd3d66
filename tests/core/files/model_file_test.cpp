#include <string>

#include <gtest/gtest.h>

#include "core/files/read.h"
#include "core/import/models.h"
#include "tests/core/error_of.h"

namespace tandem {
namespace {

using testing::error_of;

std::string model_error(const std::string& text) {
  return error_of([&text] { parse_model("model.json", text); });
}

TEST(ModelFile, ReadsAModel) {
  const ModelSpec model = parse_model("model.json", R"({
    "version": 1, "name": "tiny", "architecture": "gpt2", "blocks": 2, "width": 64, "heads": 8,
    "sequence": 32, "vocabulary": 1000, "tied": false  // a comment
  })");
  EXPECT_EQ(model, (ModelSpec{.name = "tiny",
                              .architecture = Architecture::gpt2,
                              .blocks = 2,
                              .width = 64,
                              .heads = 8,
                              .sequence = 32,
                              .vocabulary = 1000,
                              .tied = false}));
}

TEST(ModelFile, HasDefaults) {
  const ModelSpec model = parse_model(
      "model.json", R"({"version": 1, "blocks": 2, "width": 64, "heads": 8, "sequence": 32})");
  EXPECT_EQ(model.name, "unnamed");
  EXPECT_EQ(model.architecture, Architecture::gpt2);
  EXPECT_EQ(model.vocabulary, 256);
  EXPECT_TRUE(model.tied);
}

TEST(ModelFile, ALinearModelNeedsNoHeads) {
  const ModelSpec model = parse_model(
      "model.json",
      R"({"version": 1, "architecture": "linear", "blocks": 3, "width": 5, "sequence": 1})");
  EXPECT_EQ(model.architecture, Architecture::linear);
  EXPECT_EQ(model.heads, 1);
}

TEST(ModelFile, ReadsBackWhatItWrites) {
  ModelSpec model;
  model.name = "quotes \" and \\ and ü";
  EXPECT_EQ(parse_model("m", model_text(model)), model);
  model.architecture = Architecture::linear;
  model.heads = 1;
  model.tied = false;
  EXPECT_EQ(parse_model("m", model_text(model)), model);
}

TEST(ModelFile, WritesForPeople) {
  EXPECT_EQ(model_text(ModelSpec{}),
            "{\n"
            "  \"version\": 1,\n"
            "  \"name\": \"unnamed\",\n"
            "  \"architecture\": \"gpt2\",\n"
            "  \"blocks\": 4,\n"
            "  \"width\": 128,\n"
            "  \"heads\": 4,\n"
            "  \"sequence\": 128,\n"
            "  \"vocabulary\": 256,\n"
            "  \"tied\": true\n"
            "}\n");
}

TEST(ModelFile, HeadsDivideTheWidth) {
  EXPECT_EQ(model_error("{\"version\": 1, \"blocks\": 2, \"width\": 64,\n"
                        " \"heads\": 12, \"sequence\": 32}"),
            "model.json:2:11: error: /heads: expected a divisor of the width 64, found 12\n"
            " \"heads\": 12, \"sequence\": 32}\n"
            "          ^~");
}

TEST(ModelFile, AbsurdSizesAreRefusedByTheirLimits) {
  EXPECT_EQ(model_error("{\n"
                        "\"version\": 1,\n"
                        "\"blocks\": 10001,\n"
                        "\"width\": 1048577,\n"
                        "\"heads\": 0,\n"
                        "\"sequence\": -1,\n"
                        "\"vocabulary\": 99999999999999999999\n"
                        "}"),
            "model.json:3:11: error: /blocks: expected an integer from 1 to 10000, found 10001\n"
            "\"blocks\": 10001,\n"
            "          ^~~~~\n"
            "model.json:4:10: error: /width: expected an integer from 1 to 1048576, found 1048577\n"
            "\"width\": 1048577,\n"
            "         ^~~~~~~\n"
            "model.json:5:10: error: /heads: expected an integer from 1 to 1048576, found 0\n"
            "\"heads\": 0,\n"
            "         ^\n"
            "model.json:6:13: error: /sequence: expected an integer from 1 to 1048576, found -1\n"
            "\"sequence\": -1,\n"
            "            ^~\n"
            "model.json:7:15: error: /vocabulary: expected an integer from 1 to 16777216, found "
            "99999999999999999999\n"
            "\"vocabulary\": 99999999999999999999\n"
            "              ^~~~~~~~~~~~~~~~~~~~");
}

TEST(ModelFile, KeysAndNamesAreChecked) {
  EXPECT_EQ(model_error("{\"version\": 1, \"architecture\": \"gtp2\", \"block\": 2,\n"
                        " \"width\": 64, \"heads\": 8}"),
            "model.json:1:1: error: missing key \"blocks\"\n"
            "{\"version\": 1, \"architecture\": \"gtp2\", \"block\": 2,\n"
            "^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~\n"
            "model.json:1:1: error: missing key \"sequence\"\n"
            "{\"version\": 1, \"architecture\": \"gtp2\", \"block\": 2,\n"
            "^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~\n"
            "model.json:1:32: error: /architecture: expected \"gpt2\", \"linear\" or "
            "\"transformer\", found \"gtp2\"; did you mean \"gpt2\"?\n"
            "{\"version\": 1, \"architecture\": \"gtp2\", \"block\": 2,\n"
            "                               ^~~~~~\n"
            "model.json:1:40: error: /block: unknown key \"block\"; did you mean \"blocks\"?\n"
            "{\"version\": 1, \"architecture\": \"gtp2\", \"block\": 2,\n"
            "                                       ^~~~~~~");
}

TEST(ModelFile, IsAnObject) {
  EXPECT_EQ(model_error("[]"),
            "model.json:1:1: error: expected an object, found []\n"
            "[]\n"
            "^~");
}

TEST(ModelFile, SaysWhichFileIsMissing) {
  EXPECT_EQ(error_of([] { read_model("no/such/model.json"); }),
            "no/such/model.json: error: cannot open: No such file or directory");
}

}  // namespace
}  // namespace tandem
