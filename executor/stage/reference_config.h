#pragma once
// What a serial reference is asked for, and what it shows.

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
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

/// A row of a stage, of which an empty one says what all have by themselves.
inline std::int32_t row_of(const std::vector<std::int32_t>& rows, std::int32_t microbatch,
                           std::int32_t otherwise) {
  return rows.empty() ? otherwise : rows[static_cast<std::size_t>(microbatch)];
}

/// The staleness of the oldest version that a microbatch reads.
inline std::int32_t most_stale(const ReferenceStage& stage) {
  std::int32_t most = 0;
  for (const auto* row : {&stage.staleness, &stage.backward_staleness}) {
    for (const std::int32_t staleness : *row) most = std::max(most, staleness);
  }
  return most;
}

/// Versions of a stage that are still read, or trained, after so many updates.
inline std::size_t begun_versions(const ReferenceStage& stage, std::int64_t updates) {
  return 1 + static_cast<std::size_t>(std::min<std::int64_t>(most_stale(stage), updates));
}

struct ReferenceConfig {
  WeightSemantics semantics = WeightSemantics::vanilla;
  OptimizerConfig optimizer = {};
  GradientGuard guard = {};
  std::int32_t microbatches = 1;  // m: of one pipeline's batch; its slices where they are cut
  std::int32_t microbatch_size = 1;
  std::uint16_t width =
      1;  // pipelines: a batch is m microbatches of the first, then of the second …
  std::uint64_t seed = 0;  // of the initial weights
  /// Tokens of each slice of a microbatch, which then stand for microbatches, one after another;
  /// empty: sequences are whole. Forward goes through a microbatch's slices in order, backward in
  /// the reverse one.
  std::vector<std::int32_t> slices = {};
  /// Covering the model in order. Empty: the whole model, updated once a batch, reading what
  /// `semantics` says.
  std::vector<ReferenceStage> stages = {};
  /// Of ClipScope::per_stage, covering the model in order: what is clipped by one norm.
  std::vector<LayerRange> clip_ranges = {};

  std::int32_t slice_count() const {
    return static_cast<std::int32_t>(std::max<std::size_t>(slices.size(), 1));
  }
};

/// Tensors by name; a tied head's table is listed too, always equal to the embedding's.
template <class T>
struct ReferenceState {
  std::int64_t batches = 0;                       // ended
  std::map<std::string, std::vector<T>> weights;  // the newest version
  std::map<std::string, std::vector<T>>
      optimizer;               // as UpdateSpans::state has it; empty for plain SGD
  std::vector<double> losses;  // of the last batch, a microbatch or slice each
  double gradient_norm = 0.0;  // of all gradients of the last updates, before clipping
};

/// An update that has just been made: which tensors got which version.
struct ReferenceUpdate {
  std::vector<std::string> tensors;
  std::int64_t version = 0;
};

/// The stages that `config` says, or those of its semantics. REQUIRES: they cover the model
/// (checked).
std::vector<ReferenceStage> stages_of(const ModelSpec& model, const ReferenceConfig& config);

/// The microbatches of a batch one after the other, in the order in which a stage adds them; empty:
/// ascending. Of each sequence in slices only the first one added, the last, with which all run.
std::vector<std::int32_t> turns_of(std::vector<std::int32_t> order, std::int32_t microbatches,
                                   std::int32_t slices);

}  // namespace tandem
