#pragma once
// Small trainings for tests: a plan in one struct, run by the executor or by the serial reference.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/lower/lower.h"
#include "core/memory/storage.h"
#include "core/schedule/schedule.h"
#include "executor/cpu/kernels.h"
#include "executor/stage/reference.h"
#include "executor/stage/reference_stages.h"
#include "executor/train.h"

namespace tandem::testing {

struct TrainingCase {
  std::string schedule = "1f1b";
  ModelSpec model{.name = "tiny",
                  .blocks = 2,
                  .width = 8,
                  .heads = 2,
                  .sequence = 6,
                  .vocabulary = 256,
                  .tied = true};
  std::uint16_t devices = 2;
  std::int32_t microbatches = 4, microbatch_size = 1, extra_in_flight = 0;
  std::uint16_t width = 1, chunks = 1;
  std::vector<std::uint16_t> replicas = {};
  std::uint16_t directions = 2;
  bool vertical_sync = false;
  double correction_decay = ScheduleRequest{}.correction_decay;
  bool published_delays = false, single_backwards = false;
  std::optional<double> activation_cap = {};
  std::optional<OrderCosts> costs = {};
  GradientGuard guard = {};
  bool post_validation = false;
  std::int64_t batches = 4;
  Recompute recompute = Recompute::none;
  OptimizerConfig optimizer{
      .kind = OptimizerKind::adamw, .learning_rate = 1e-2, .weight_decay = 0.1};
  std::uint64_t seed = 7;
  std::vector<std::int32_t> slices = {};  // tokens of each slice; empty: sequences are whole

  /// With two chunks a device where the schedule takes or has them, and a layer for each; tied
  /// embeddings where it takes them.
  static TrainingCase on(const std::string& schedule, std::uint16_t devices) {
    TrainingCase test{.schedule = schedule, .devices = devices};
    const std::uint16_t stages = find_schedule(schedule).replicas_per_device;
    if (stages == 0) test.chunks = 2;
    if (stages != 1) test.model.blocks = std::max(3, devices - 1);
    TrainingCase untied = test;
    untied.model.tied = false;
    if (!test.is_served() && untied.is_served()) return untied;
    return test;
  }

  WeightSemantics semantics() const { return find_schedule(schedule).weights; }
  ScheduleRequest request() const {
    return {
        .devices = devices,
        .microbatches = microbatches,
        .chunks = chunks,
        .extra_in_flight = extra_in_flight,
        .replicas = replicas,
        .directions = directions,
        .vertical_sync = vertical_sync,
        .correction_decay = correction_decay,
        .published_delays = published_delays,
        .slices = slices.empty() ? Slicing{} : Slicing::of_lengths(slices),
        .single_backwards = single_backwards,
        .width = width,
        .recompute = recompute,
        .tied_embeddings = has_tied_ends(model),
        .global_norm = guard.is_global(),
        .post_validation = post_validation,
        .activation_caps = activation_cap ? std::vector{*activation_cap} : std::vector<double>{},
        .costs = costs};
  }
  Schedule make() const { return make_schedule(find_schedule(schedule), request()); }
  bool is_served() const { return !reason_against(find_schedule(schedule), request()); }
  /// The fewest microbatches from `least` on that the schedule takes; where it takes no more, the
  /// fewest of all. False: it takes none.
  bool take_microbatches(std::int32_t least) {
    constexpr std::int32_t kMost = 64;
    microbatches = least;
    for (std::int32_t tried = 0; tried < kMost; ++tried) {
      if (is_served()) return true;
      microbatches = microbatches % kMost + 1;
    }
    return false;
  }
};

/// Layers cut into `stages` consecutive ranges, as even as can be.
inline std::vector<LayerRange> even_stages(const ModelSpec& model, std::size_t stages) {
  const auto layers = static_cast<std::int32_t>(layers_of(model).size());
  const auto count = static_cast<std::int32_t>(stages);
  std::vector<LayerRange> ranges;
  for (std::int32_t stage = 0; stage < count; ++stage) {
    ranges.push_back({layers * stage / count, layers * (stage + 1) / count});
  }
  return ranges;
}

inline ReferenceConfig reference_config(const TrainingCase& test, const Schedule& schedule,
                                        WeightSemantics semantics) {
  const std::vector<LayerRange> layers = even_stages(test.model, schedule.placement.stages());
  return {.semantics = semantics,
          .optimizer = test.optimizer,
          .guard = test.guard,
          .microbatches = schedule.microbatches,
          .microbatch_size = test.microbatch_size,
          .width = test.width,
          .seed = test.seed,
          .slices = test.slices,
          .stages = reference_stages(schedule, layers, semantics),
          .clip_ranges = layers};
}

inline ReferenceConfig reference_config(const TrainingCase& test, WeightSemantics semantics) {
  return reference_config(test, test.make(), semantics);
}

inline Data data_of(const TrainingCase& test) {
  return Data(test.model, test.microbatch_size, test.seed);
}

template <class T>
TrainingSetup<T> setup_of(const TrainingCase& test, const Program& program, const Data& data) {
  TrainingSetup<T> setup;
  setup.stage = {.model = test.model,
                 .microbatch_size = test.microbatch_size,
                 .recompute = test.recompute,
                 .optimizer = test.optimizer,
                 .guard = test.guard,
                 .seed = test.seed,
                 .data = &data,
                 .slices = test.slices};
  setup.layers = even_stages(test.model, program.placement().stages());
  setup.slots = count_slots(program);
  setup.batches = test.batches;
  return setup;
}

inline Table<DeviceId, MemoryByClass> planned_memory(const TrainingCase& test,
                                                     const Program& program,
                                                     const SlotCounts& slots) {
  Table<ReplicaId, StageBytes> bytes;
  const auto layers = even_stages(test.model, program.placement().stages());
  for (const StageId stage : program.placement().stage) {
    bytes.push_back(stage_bytes(test.model, layers[index(stage)], test.microbatch_size,
                                test.optimizer.optimizer(), test.recompute, Storage::f32,
                                parts_of(test.slices)));
  }
  return memory_by_class(program, slots, bytes);
}

/// Sleeps up to `most` before a quarter of the work, differently for every seed.
inline std::function<void(DeviceId, Instance)> seeded_delays(std::uint64_t seed,
                                                             std::chrono::microseconds most) {
  return [seed, most](DeviceId device, Instance instance) {
    std::mt19937_64 random(seed * 1'000'003u + index(device) * 7919u +
                           index(instance.id) * 104'729u +
                           static_cast<std::uint64_t>(instance.body + 64));
    if (random() % 4 != 0) return;
    std::this_thread::sleep_for(most * static_cast<std::int64_t>(random() % 100) / 100);
  };
}

}  // namespace tandem::testing
