#include "core/files/profile_file.h"

#include <cstddef>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/files/read.h"
#include "tests/core/error_of.h"
#include "tests/support/edited_text.h"

namespace tandem {
namespace {

using ::testing::AllOf;
using testing::error_of;
using ::testing::HasSubstr;
using testing::with;

constexpr const char* kProfile = R"({
  "version": 1,
  "machine": "a laptop", "date": "2026-11-21", "command": "tandem profile", "backend": "cpu",
  "model": {"version": 1, "architecture": "linear", "blocks": 2, "width": 8, "sequence": 1},
  "optimizer": "sgd",
  "busy_devices": 2,
  "instruction_overhead_ns": 450,
  "layers": [
    {"kind": "linear", "microbatch_size": 1, "forward_ns": 10, "backward_input_ns": 11,
     "backward_weight_ns": 12, "backward_ns": 21, "selective_recompute_ns": 4,
     "update_ns": 3},
    {"kind": "squared_error", "microbatch_size": 1, "forward_ns": 1, "backward_input_ns": 2,
     "backward_weight_ns": 0, "backward_ns": 2, "selective_recompute_ns": 0,
     "update_ns": 0}
  ],
  "transfers": [{"bytes": 0, "time_ns": 100}, {"bytes": 4096, "time_ns": 900}]
})";

std::string profile_with(const std::string& from, const std::string& to) {
  return with(kProfile, from, to);
}

std::string profile_error(const std::string& text) {
  return error_of([&text] { parse_profile("p.json", text); });
}

TEST(ProfileFile, ReadsAProfile) {
  const Profile profile = parse_profile("p.json", kProfile);
  EXPECT_EQ(profile.machine, "a laptop");
  EXPECT_EQ(profile.date, "2026-11-21");
  EXPECT_EQ(profile.command, "tandem profile");
  EXPECT_EQ(profile.backend, "cpu");
  EXPECT_EQ(profile.model.architecture, Architecture::linear);
  EXPECT_EQ(profile.optimizer, OptimizerKind::sgd);
  EXPECT_EQ(profile.busy_devices, 2);
  EXPECT_EQ(profile.instruction_overhead, Duration{450});
  ASSERT_EQ(profile.layers.size(), 2U);
  EXPECT_EQ(profile.layers[0].kind, LayerKind::linear);
  EXPECT_EQ(profile.layers[0].microbatch_size, 1);
  EXPECT_EQ(profile.layers[0].forward, Duration{10});
  EXPECT_EQ(profile.layers[0].backward_input, Duration{11});
  EXPECT_EQ(profile.layers[0].backward_weight, Duration{12});
  EXPECT_EQ(profile.layers[0].backward, Duration{21});
  EXPECT_EQ(profile.layers[0].selective_recompute, Duration{4});
  EXPECT_EQ(profile.layers[0].update, Duration{3});
  EXPECT_EQ(profile.layers[1].kind, LayerKind::squared_error);
  ASSERT_EQ(profile.transfers.size(), 2U);
  EXPECT_EQ(profile.transfers[1].bytes, 4096);
  EXPECT_EQ(profile.transfers[1].time, Duration{900});
}

TEST(ProfileFile, ReadsBackWhatItWrites) {
  Profile profile = parse_profile("p.json", kProfile);
  profile.command = "tandem profile --name \"x\\y\"\n";
  const std::string text = profile_text(profile);
  const Profile again = parse_profile("again.json", text);
  EXPECT_EQ(profile_text(again), text);
  EXPECT_EQ(again.command, profile.command);
  EXPECT_EQ(again.layers.size(), profile.layers.size());
  EXPECT_EQ(again.layers[0].backward, profile.layers[0].backward);
  EXPECT_EQ(again.layers[0].selective_recompute, Duration{4});
}

TEST(ProfileFile, KeepsTheTimesOfSlices) {
  Profile profile = parse_profile("p.json", kProfile);
  profile.slices = {{.tokens = 1, .before = 0, .layers = profile.layers}};
  profile.slices[0].layers[0].forward = Duration{7};
  const Profile again = parse_profile("again.json", profile_text(profile));
  ASSERT_EQ(again.slices.size(), 1U);
  EXPECT_EQ(again.slices[0].tokens, 1);
  EXPECT_EQ(again.slices[0].before, 0);
  EXPECT_EQ(again.slices[0].layers[0].forward, Duration{7});
  EXPECT_EQ(again.slices[0].layers[1].backward, profile.layers[1].backward);
  profile.slices.push_back(profile.slices[0]);
  EXPECT_THAT(
      profile_error(profile_text(profile)),
      HasSubstr("expected one entry for each number of tokens, and of those before, found a "
                "second one; the first is entry 0"));
}

TEST(ProfileFile, BytesThatAreNoTextAreReplaced) {
  Profile profile = parse_profile("p.json", kProfile);
  profile.command = "cat \xFF";
  EXPECT_EQ(parse_profile("again.json", profile_text(profile)).command, "cat \xEF\xBF\xBD");
}

TEST(ProfileFile, HasARowForEachKindAndSize) {
  EXPECT_EQ(
      profile_error(profile_with("\"squared_error\"", "\"linear\"")),
      "p.json:8:13: error: /layers: no entry of kind \"squared_error\", which the model has\n"
      "  \"layers\": [\n"
      "            ^\n"
      "p.json:12:5: error: /layers/1: expected one entry for each kind, microbatch size and "
      "tensor degree, found a second one; the first is entry 0\n"
      "    {\"kind\": \"linear\", \"microbatch_size\": 1, \"forward_ns\": 1, "
      "\"backward_input_ns\": 2,\n"
      "    ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~");
  EXPECT_EQ(
      profile_error(profile_with("\"bytes\": 4096", "\"bytes\": 0")),
      "p.json:16:47: error: /transfers/1: expected one entry for each size, found a second "
      "one; the first is entry 0\n"
      "  \"transfers\": [{\"bytes\": 0, \"time_ns\": 100}, {\"bytes\": 0, \"time_ns\": 900}]\n"
      "                                              ^~~~~~~~~~~~~~~~~~~~~~~~~~~~");
}

/// The same layers as two devices share them, and as four.
std::string profile_at_degrees() {
  const auto rows = [](int tensor, int forward) {
    std::string text;
    for (const char* kind : {"linear", "squared_error"}) {
      text += fmt::format(
          R"(,
    {{"kind": "{}", "microbatch_size": 1, "tensor": {}, "forward_ns": {}, "backward_input_ns": 2,
     "backward_weight_ns": 0, "backward_ns": 2, "selective_recompute_ns": 0, "update_ns": 0}})",
          kind, tensor, forward);
    }
    return text;
  };
  std::string text = kProfile;
  const std::size_t end = text.find("\n  ],");
  return text.insert(end, rows(2, 7) + rows(4, 5));
}

TEST(ProfileFile, HasAProfileForEachTensorDegree) {
  const TensorProfiles profiles = parse_tensor_profiles("p.json", profile_at_degrees());
  ASSERT_EQ(profiles.size(), 3U);
  EXPECT_EQ(profiles.at(1).layers[0].forward, Duration{10});
  EXPECT_EQ(profiles.at(2).layers[0].forward, Duration{7});
  EXPECT_EQ(profiles.at(4).layers[1].forward, Duration{5});
  EXPECT_EQ(profiles.at(4).transfers.size(), 2U);
  EXPECT_EQ(profiles.at(2).instruction_overhead, Duration{450});
  // Plans are made from what one device takes; a file of before has nothing else.
  EXPECT_EQ(profile_text(parse_profile("p.json", profile_at_degrees())),
            profile_text(parse_profile("p.json", kProfile)));
  EXPECT_EQ(parse_tensor_profiles("p.json", kProfile).size(), 1U);
}

TEST(ProfileFile, HasEachKindAtEachTensorDegree) {
  const auto error_at_degrees = [](const std::string& from, const std::string& to) {
    std::string text = profile_at_degrees();
    const std::size_t at = text.rfind(from);
    text.replace(at, from.size(), to);
    return error_of([&text] { parse_tensor_profiles("p.json", text); });
  };
  const std::string last = R"("squared_error", "microbatch_size": 1, "tensor": 4)";
  EXPECT_THAT(error_at_degrees(last, R"("squared_error", "microbatch_size": 1, "tensor": 8)"),
              AllOf(HasSubstr("no entry of kind \"squared_error\" at tensor degree 4, which the"),
                    HasSubstr("no entry of kind \"linear\" at tensor degree 8, which the")));
  EXPECT_THAT(error_at_degrees(last, R"("squared_error", "microbatch_size": 1, "tensor": 2)"),
              HasSubstr("/layers/5: expected one entry for each kind, microbatch size and tensor "
                        "degree, found a second one; the first is entry 3"));
  EXPECT_THAT(error_at_degrees(last, R"("squared_error", "microbatch_size": 1, "tensor": 0)"),
              HasSubstr("/layers/5/tensor: expected an integer from 1 to 65535, found 0"));
}

TEST(ProfileFile, OfWhatNoDeviceComputesAloneIsNoneToPlanFrom) {
  std::string text = kProfile;
  for (std::size_t at = 0; (at = text.find("\"microbatch_size\": 1,", at)) != std::string::npos;
       ++at)
    text.replace(at, 21, "\"microbatch_size\": 1, \"tensor\": 2,");
  EXPECT_EQ(parse_tensor_profiles("p.json", text).begin()->first, 2);
  EXPECT_THAT(profile_error(text),
              HasSubstr("no entry of kind \"linear\" at tensor degree 1, which"));
}

TEST(ProfileFile, ReportsEveryMistake) {
  std::string text = profile_with("\"kind\": \"linear\"", "\"kind\": \"linaer\"");
  text.replace(text.find("\"time_ns\": 900"), 14, "\"time_us\": 0.9");
  text.replace(text.find("450"), 3, "1e3");
  EXPECT_EQ(
      profile_error(text),
      "p.json:7:30: error: /instruction_overhead_ns: expected an integer from 0 to "
      "86400000000000, found 1e3\n"
      "  \"instruction_overhead_ns\": 1e3,\n"
      "                             ^~~\n"
      "p.json:9:14: error: /layers/0/kind: expected \"embedding\", \"attention\", \"mlp\", "
      "\"head\", \"linear\" or \"squared_error\", found \"linaer\"; did you mean \"linear\"?\n"
      "    {\"kind\": \"linaer\", \"microbatch_size\": 1, \"forward_ns\": 10, "
      "\"backward_input_ns\": 11,\n"
      "             ^~~~~~~~\n"
      "p.json:16:47: error: /transfers/1: missing key \"time_ns\"\n"
      "  \"transfers\": [{\"bytes\": 0, \"time_ns\": 100}, {\"bytes\": 4096, \"time_us\": "
      "0.9}]\n"
      "                                              ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~\n"
      "p.json:16:63: error: /transfers/1/time_us: unknown key \"time_us\"; did you mean "
      "\"time_ns\"?\n"
      "  \"transfers\": [{\"bytes\": 0, \"time_ns\": 100}, {\"bytes\": 4096, \"time_us\": "
      "0.9}]\n"
      "                                                              ^~~~~~~~~");
}

TEST(ProfileFile, KeepsTheAlgorithmsOfProducts) {
  const std::vector<ProductAlgorithm> algorithms{{.product = "8 x 4 x 2, bf16",
                                                  .library = "cublasLt 130002",
                                                  .algorithm = "0042ff",
                                                  .time = Duration(900),
                                                  .first_time = Duration(1000),
                                                  .measured = 8},
                                                 {.product = "8 x 4 x 3, bf16"}};
  const Profile profile = parse_profile("profile.json", kProfile);
  const std::string text = profile_text(profile, algorithms);
  EXPECT_EQ(parse_product_algorithms("profile.json", text), algorithms);
  EXPECT_EQ(profile_text(parse_profile("profile.json", text)), profile_text(profile));
  EXPECT_EQ(parse_product_algorithms("profile.json", kProfile), std::vector<ProductAlgorithm>());
}

TEST(ProfileFile, HasOneAlgorithmForEachProduct) {
  const Profile profile = parse_profile("profile.json", kProfile);
  const std::string twice = profile_text(profile, {{.product = "x"}, {.product = "x"}});
  EXPECT_THAT(error_of([&] { parse_profile("profile.json", twice); }),
              HasSubstr("expected one entry for each product, found a second one"));
  std::string none = profile_text(profile, {{.product = "x"}});
  none.replace(none.find("\"measured\": 1"), 13, "\"measured\": 0");
  EXPECT_THAT(error_of([&] { parse_product_algorithms("profile.json", none); }),
              HasSubstr("/products/0/measured"));
}

}  // namespace
}  // namespace tandem
