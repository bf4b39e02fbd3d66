#pragma once
// What a serial reference is asked for.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/model/model.h"
#include "core/schedule/schedule.h"
#include "executor/stage/gradient_guard.h"
#include "executor/stage/optimizer.h"

namespace tandem {

/// Layers whose weights are versioned together. Update u of a stage, counted from the start of the
/// run, covers its microbatches u·microbatches … and makes version u + 1. A microbatch that update
/// u covers reads version max(u − staleness, 0), forward and backward; or its backward one of its
/// own.
struct ReferenceStage {
  LayerRange layers;
  std::int32_t microbatches = 1;  // that an update covers, of one pipeline; divides m
  std::int32_t replicas = 1;      // each sums the gradients of its own microbatches
  // Of each microbatch of a batch, 0 … m−1.
  std::vector<std::int32_t> staleness = {};           // in updates of the stage; empty: 0
  std::vector<std::int32_t> backward_staleness = {};  // that of its backward; empty: the same
  Reading reading = {};                               // what they read instead of weights
  std::vector<std::int32_t> replica = {};             // to whose sum it adds; empty: k mod replicas
  /// The microbatches of a batch in the order in which they are added; empty: ascending.
  std::vector<std::int32_t> order = {};
};

/// The staleness of the oldest version that a microbatch reads.
inline std::int32_t most_stale(const ReferenceStage& stage) {
  std::int32_t most = 0;
  for (const auto* row : {&stage.staleness, &stage.backward_staleness}) {
    for (const std::int32_t staleness : *row) most = std::max(most, staleness);
  }
  return most;
}

struct ReferenceConfig {
  WeightSemantics semantics = WeightSemantics::vanilla;
  OptimizerConfig optimizer = {};
  GradientGuard guard = {};
  std::int32_t microbatches = 1;  // m: of one pipeline's batch
  std::int32_t microbatch_size = 1;
  std::uint16_t width =
      1;  // pipelines: a batch is m microbatches of the first, then of the second …
  std::uint64_t seed = 0;  // of the initial weights
  /// Covering the model in order. Empty: the whole model, updated once a batch, reading what
  /// `semantics` says.
  std::vector<ReferenceStage> stages = {};
  /// Of ClipScope::per_stage, covering the model in order: what is clipped by one norm.
  std::vector<LayerRange> clip_ranges = {};
};

/// The stages that `config` says, or those of its semantics. REQUIRES: they cover the model
/// (checked).
std::vector<ReferenceStage> stages_of(const ModelSpec& model, const ReferenceConfig& config);

}  // namespace tandem
