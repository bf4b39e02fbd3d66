// Models of Llama's layers, grouped heads and rotary positions, with tied and untied ends, and of
// Qwen's with norms of heads and biases: the executor against the serial reference, bit for bit, on
// every schedule, and its memory against the plan's, to the byte.

#include <algorithm>
#include <chrono>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/executor/numbers.h"
#include "tests/support/pipelines.h"
#include "tests/support/sanitizers.h"
#include "tests/support/trajectory.h"

namespace tandem {
namespace {

using testing::by_executor;
using testing::by_reference;
using testing::TrainingCase;

/// `like` in the depth that the schedule needs, trained on bytes.
TrainingCase llama_case(const std::string& schedule, std::uint16_t devices, const ModelSpec& like) {
  TrainingCase test = TrainingCase::on(schedule, devices);
  for (const int fewer : {4, 2, 1}) {  // some take even numbers, data-parallel one
    if (TrainingCase(test).take_microbatches(6)) break;
    test = TrainingCase::on(schedule, static_cast<std::uint16_t>(fewer));
  }
  const ModelSpec sized = test.model;
  test.model = like;
  test.model.blocks = sized.blocks;
  test.model.vocabulary = sized.vocabulary;
  test.model.tied = like.tied && sized.tied;
  test.batches = 3;
  return test;
}

std::vector<ModelSpec> llamas() {
  return {testing::tiny_llama(), testing::tiny_llama(true), testing::tiny_qwen()};
}

/// False: the schedule does not take so many microbatches.
bool expect_as_reference(const TrainingCase& test) {
  if (!test.is_served()) return false;
  SCOPED_TRACE(fmt::format("{} m {} recompute {}", test.model.name, test.microbatches,
                           name(test.recompute)));
  const Program program = lower(test.make());
  const SlotCounts slots = count_slots(program);
  const auto delays = testing::seeded_delays(1, std::chrono::microseconds(200));
  expect_equal(by_executor<float>(test, program, slots, delays),
               by_reference<float>(test, test.semantics()));
  const Data data = testing::data_of(test);
  const auto planned = testing::planned_memory(test, program, slots);
  const TrainingReport<float> report =
      train_on_cpu<float>(program, testing::setup_of<float>(test, program, data));
  for (const DeviceId device : ids(planned))
    EXPECT_EQ(report.high_water[device], planned[device]) << "device " << index(device);
  return true;
}

class LlamaSemantics : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(EverySchedule, LlamaSemantics,
                         ::testing::ValuesIn(testing::schedule_names()), testing::test_name);

TEST_P(LlamaSemantics, EqualTheReferenceAndThePlannedMemory) {
  int trained = 0;
  for (const ModelSpec& model : llamas()) {
    for (const Recompute recompute :
         {Recompute::none, Recompute::selective, Recompute::full, Recompute::stage}) {
      // GPT-2 has all of them with a sanitizer, too.
      if (testing::kSanitized && recompute != Recompute::none && trained > 0) continue;
      TrainingCase test = llama_case(GetParam(), 3, model);
      if (!test.take_microbatches(6)) continue;
      test.recompute = recompute;
      trained += expect_as_reference(test) ? 1 : 0;
    }
  }
  EXPECT_GT(trained, 0);
}

TEST(LlamaSlices, EqualTheReferenceAndThePlannedMemory) {
  for (const char* schedule : {"terapipe", "seq1f1b", "seq1f1b-zb", "seq1f1b-i"}) {
    for (const ModelSpec& model : llamas()) {
      TrainingCase test = llama_case(schedule, 2, model);
      test.chunks = TrainingCase::on(schedule, 2).chunks;
      test.devices = 2;
      test.slices = {3, 3};
      for (const Recompute recompute : {Recompute::none, Recompute::stage}) {
        test.recompute = recompute;
        EXPECT_TRUE(test.take_microbatches(3) && expect_as_reference(test)) << schedule;
      }
    }
  }
}

TEST(LlamaWidth, ReplicasAddUpAlike) {
  for (const ModelSpec& model : llamas()) {
    for (const OptimizerKind optimizer : {OptimizerKind::adamw, OptimizerKind::muon}) {
      TrainingCase test = llama_case("2bw", 2, model);
      test.width = 2;
      test.microbatches = 4;
      test.optimizer.kind = optimizer;
      test.guard = {.clip = ClipScope::global, .most_norm = 0.5};
      expect_equal(by_executor<float>(test), by_reference<float>(test, test.semantics()));
    }
  }
}

// Negative control: what each option of the layers does is seen in the weights.
TEST(LlamaSemantics, DependOnEveryDetailOfTheLayers) {
  const TrainingCase qwen = llama_case("1f1b", 2, testing::tiny_qwen());
  const auto trained = [](const TrainingCase& test) {
    return by_reference<float>(test, test.semantics()).losses;
  };
  const auto base = trained(qwen);
  const auto changed = [&](auto change) {
    TrainingCase other = qwen;
    change(other.model.shape);
    return trained(other) != base;
  };
  EXPECT_TRUE(changed([](TransformerShape& shape) { shape.details.norm_epsilon = 1e-2; }));
  EXPECT_TRUE(changed([](TransformerShape& shape) { shape.details.rotary.theta = 50.0; }));
  EXPECT_TRUE(changed([](TransformerShape& shape) {
    shape.details.rotary = {
        .theta = 100.0, .scaling = RotaryScaling::llama3, .factor = 2.0, .original_positions = 12};
  }));
  EXPECT_TRUE(changed([](TransformerShape& shape) { shape.head_norm = false; }));
  EXPECT_TRUE(changed([](TransformerShape& shape) { shape.key_value_heads = 3; }));
  EXPECT_FALSE(changed([](TransformerShape& shape) { shape.details.sliding_window = 6; }));
}

}  // namespace
}  // namespace tandem
