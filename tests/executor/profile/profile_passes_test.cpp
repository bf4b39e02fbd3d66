#include "executor/profile/profile_passes.h"

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <stop_token>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "executor/backend/wakeup.h"
#include "executor/cpu/backend.h"
#include "executor/profile/profile_visits.h"
#include "tests/executor/numbers.h"
#include "tests/support/deferred_backend.h"

namespace tandem {
namespace {

ModelSpec small(Architecture architecture) {
  return {.name = "small",
          .architecture = architecture,
          .blocks = 3,
          .width = 8,
          .heads = 2,
          .sequence = 4,
          .vocabulary = 256,
          .tied = architecture == Architecture::gpt2};
}

/// Norms of heads, grouped heads, a gate: all kernels that GPT-2 has no use for.
ModelSpec small_qwen() {
  ModelSpec model = testing::tiny_qwen(false);
  model.vocabulary = 256;
  model.sequence = 4;
  return model;
}

using testing::DeferredBackend;
using testing::DeferredRunState;

/// Three passes after one that is not timed, the second with an update.
template <Backend B>
Tallies measure(B& backend, const ModelSpec& model, const std::vector<std::int32_t>& slices = {}) {
  const Data data(model, 2, 1);
  ModelPasses<B> passes(backend, model, 2, OptimizerKind::adamw, data, slices);
  Tallies tallies;
  passes.pass(true, nullptr);
  for (const bool updates : {false, true, false}) passes.pass(updates, &tallies);
  return tallies;
}

/// Each layer once for each of its functions in every pass; updates once for all slices.
void expect_all_are_timed(const ModelSpec& model, const Tallies& tallies, std::size_t slices = 1) {
  std::map<LayerKind, std::int64_t> layers;
  for (const LayerKind kind : layers_of(model)) ++layers[kind];
  ASSERT_EQ(tallies.size(), slices * layers.size());
  for (const auto& [measured, rows] : tallies) {
    const LayerKind kind = measured.kind;
    const auto count = [&](Measured what) { return rows[index(what)].count; };
    EXPECT_EQ(count(Measured::forward), 3 * 2 * layers[kind]) << name(kind);
    for (const Measured each : {Measured::backward, Measured::backward_input,
                                Measured::backward_weight, Measured::selective_recompute}) {
      EXPECT_EQ(count(each), 3 * layers[kind]) << name(kind) << ", " << index(each);
    }
    EXPECT_EQ(count(Measured::update), measured.slice == 0 ? layers[kind] : 0) << name(kind);
    EXPECT_GT(rows[index(Measured::forward)].sum, Duration::zero()) << name(kind);
  }
}

TEST(ModelPasses, TimeEachLayerOnceForEachOfItsFunctionsInEveryTimedPass) {
  for (const ModelSpec& model :
       {small(Architecture::gpt2), small(Architecture::linear), small_qwen()}) {
    Wakeup wakeup;
    cpu::Backend<float> backend(wakeup, {});
    expect_all_are_timed(model, measure(backend, model));
  }
}

/// Their times are known only when all has run, and nothing rests on the host's order.
TEST(ModelPasses, TimeADeviceThatComputesLate) {
  for (const ModelSpec& model : {small(Architecture::gpt2), small_qwen()}) {
    DeferredRunState run_state;
    Wakeup wakeup;
    DeferredBackend<float> backend(run_state, 0, wakeup, {});
    expect_all_are_timed(model, measure(backend, model));
    EXPECT_THAT(run_state.order.violations(), ::testing::IsEmpty());
    EXPECT_GT(run_state.order.launches(), 0u);
  }
}

TEST(ModelPasses, TimeEachLayerOfEachSlice) {
  const ModelSpec model = small(Architecture::gpt2);
  Wakeup wakeup;
  cpu::Backend<float> backend(wakeup, {});
  expect_all_are_timed(model, measure(backend, model, {2, 1, 1}), 3);
  DeferredRunState run_state;
  DeferredBackend<float> late(run_state, 0, wakeup, {});
  expect_all_are_timed(model, measure(late, model, {3, 1}), 2);
  EXPECT_THAT(run_state.order.violations(), ::testing::IsEmpty());
}

TEST(ModelPasses, TimeNoUpdateInAPassWithout) {
  const ModelSpec model = small(Architecture::gpt2);
  const Data data(model, 2, 1);
  Wakeup wakeup;
  cpu::Backend<float> backend(wakeup, {});
  ModelPasses<cpu::Backend<float>> passes(backend, model, 2, OptimizerKind::adamw, data);
  Tallies tallies;
  passes.pass(false, &tallies);
  ASSERT_FALSE(tallies.empty());
  for (const auto& [measured, rows] : tallies)
    EXPECT_EQ(rows[index(Measured::update)].count, 0) << name(measured.kind);
}

TEST(ProfileVisits, MeasureEachSizeOnDevicesThatComputeLate) {
  using B = DeferredBackend<float>;
  const ProfileRequest request{.model = small(Architecture::gpt2),
                               .microbatch_sizes = {1, 2},
                               .slices = {3, 1},
                               .busy_devices = 2,
                               .repetitions = 5};
  // One a device of a visit: memory of the next lies where memory of this one lay.
  std::mutex mutex;
  std::deque<DeferredRunState> run_states;
  const MeasuredSizes measured = measure_layers<B>(request, [&](DeviceId device, Wakeup& wakeup,
                                                                std::stop_token stop) {
    const std::lock_guard lock(mutex);
    return std::make_unique<B>(run_states.emplace_back(), index(device), wakeup, std::move(stop));
  });
  EXPECT_EQ(run_states.size(), 2u * 2u * 2u * 5u);
  Profile profile;
  put_layers(measured, request, profile);
  ASSERT_EQ(profile.slices.size(), 2u);
  EXPECT_EQ(profile.slices[1].tokens, 1);
  EXPECT_EQ(profile.slices[1].before, 3);
  for (const auto& rows : {profile.layers, profile.slices[0].layers, profile.slices[1].layers}) {
    EXPECT_EQ(rows.size(), 2u * 4u);  // embedding, attention, mlp, head
    for (const LayerCost& row : rows) {
      EXPECT_GT(row.forward, Duration::zero()) << name(row.kind);
      EXPECT_GT(row.update, Duration::zero()) << name(row.kind);
    }
  }
  for (DeferredRunState& run_state : run_states) {
    EXPECT_THAT(run_state.order.violations(), ::testing::IsEmpty());
    EXPECT_GT(run_state.order.launches(), 0u);
  }
}

/// What one device throws ends the others, which wait for it between passes.
TEST(ProfileVisits, EndWhenADeviceFails) {
  using B = cpu::Backend<float>;
  const ProfileRequest request{.model = small(Architecture::gpt2),
                               .microbatch_sizes = {1},
                               .busy_devices = 2,
                               .repetitions = 5};
  const BackendMaker<B> make = [](DeviceId device, Wakeup& wakeup, std::stop_token stop) {
    if (index(device) == 1) throw DeviceError("no second device");
    return std::make_unique<B>(wakeup, std::move(stop));
  };
  EXPECT_THROW(measure_layers<B>(request, make), DeviceError);
}

}  // namespace
}  // namespace tandem
