#pragma once
// The serial reference trainer: what an executor's bits are compared with. One thread, straight
// loops over batches, microbatches and layers; each tensor on its own, each version of the weights
// a whole copy. It shares kernels, layers, data and optimizer steps with the executor, and nothing
// else: no stage, no slot, no program.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/schedule/schedule.h"
#include "executor/data/data.h"
#include "executor/layers/all.h"
#include "executor/stage/gradient_guard.h"
#include "executor/stage/optimizer.h"

namespace tandem {

/// Layers whose weights are versioned together. Update u of a stage, counted from the start of the
/// run, covers its microbatches u·microbatches … and makes version u + 1. A microbatch that update
/// u covers reads version max(u − staleness, 0), forward and backward.
struct ReferenceStage {
  LayerRange layers;
  std::int32_t microbatches = 1;  // that an update covers, of one pipeline; divides m
  std::int32_t replicas = 1;      // each sums the gradients of its own microbatches
  // Of each microbatch of a batch, 0 … m−1.
  std::vector<std::int32_t> staleness = {};  // in updates of the stage; empty: 0
  std::vector<std::int32_t> replica = {};    // to whose sum it adds; empty: k mod replicas
  /// The microbatches of a batch in the order in which they are added; empty: ascending.
  std::vector<std::int32_t> order = {};
};

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

/// Tensors by name; a tied head's table is listed too, always equal to the embedding's.
template <class T>
struct ReferenceState {
  std::int64_t batches = 0;                       // ended
  std::map<std::string, std::vector<T>> weights;  // the newest version
  std::map<std::string, std::vector<T>>
      optimizer;               // first moments, then second ones; empty for SGD
  std::vector<double> losses;  // of the last batch, a microbatch each
  double gradient_norm = 0.0;  // of all gradients of the last updates, before clipping
};

/// An update that has just been made: which tensors got which version.
struct ReferenceUpdate {
  std::vector<std::string> tensors;
  std::int64_t version = 0;
};

/// Gradients are sums over microbatches, of the mean loss over the microbatches that an update of
/// the last stage covers in all pipelines; a stage whose updates cover more or fewer scales its sum
/// to the mean over its own. Those of a tied embedding are summed apart in embedding and head, then
/// added, embedding + head. What several pipelines or replicas sum apart is added in their order.
template <Kernels K>
class Reference {
 public:
  using T = typename K::Scalar;

  /// REQUIRES: stages cover the layers, in order, and those of tied embeddings update for the same
  /// microbatches (checked). `data` made for the same model and microbatch size, and outlives this.
  Reference(const ModelSpec& model, const ReferenceConfig& config, const Data& data);

  /// One batch and its updates. Throws DeviceError where the guard is to stop. Vanilla: W(t+1) =
  /// W(t) − ν∇f(W(t)); delayed by one: W(t) − ν∇f(W(max(t−1, 0))).
  const ReferenceState<T>& step(const std::function<void(const ReferenceUpdate&)>& on_update = {});
  const ReferenceState<T>& state() const { return state_; }

 private:
  using Tensors = std::map<std::string, std::vector<T>>;
  /// What a microbatch leaves at a layer for the gradients of the layer's weights.
  struct Left {
    std::vector<T> input, stash, scratch, output_gradient;
  };
  /// A layer, the weights of the version in use, and sums of gradients, contiguous as layers want
  /// them: one for each replica of each pipeline.
  struct Entry {
    AnyLayer<K> layer;
    std::vector<T> weights = {};
    std::vector<std::vector<T>> sums = {};
  };
  struct SerialStage {
    ReferenceStage config;
    std::vector<Entry> entries;
    std::deque<Tensors> versions;         // the newest last
    std::int64_t updates = 0, steps = 0;  // steps: updates that were not skipped
    std::int64_t loaded = -1;             // the version in the entries
    /// Of each update of a batch: its microbatches in the order in which they are added, and how
    /// many of them have been.
    std::vector<std::vector<std::int32_t>> to_add;
    std::vector<std::size_t> added;
  };

  SerialStage make_stage(const ReferenceStage& config, const LayerShape& shape);
  std::vector<std::int32_t> turns() const;
  void load(SerialStage& stage, std::int32_t microbatch);
  double run_microbatch(std::int32_t pipeline, std::int32_t microbatch);
  void run_backward(std::vector<Left>& left);
  bool add_gradients(SerialStage& stage, std::int32_t microbatch);
  void add_gradients_of(SerialStage& stage, std::int32_t microbatch);
  Tensors sum_of_rank(const SerialStage& stage, std::size_t rank) const;
  Tensors summed_gradients(const std::vector<SerialStage*>& stages);
  std::vector<double> squares_of(const std::vector<SerialStage*>& stages, const Tensors& gradients,
                                 LayerRange layers);
  std::map<std::string, GuardDecision> decisions_on(const std::vector<SerialStage*>& stages,
                                                    const Tensors& gradients);
  double scale_of(const SerialStage& stage) const;
  void update_stage(SerialStage& stage, const Tensors& gradients,
                    const std::map<std::string, GuardDecision>& decisions);
  void update_tensor(const SerialStage& stage, const Tensor& tensor, const std::vector<T>& gradient,
                     const GuardDecision& decision);

  ReferenceConfig config_;
  bool tied_;
  const Data& data_;
  K kernels_;
  std::int64_t boundary_;
  std::vector<SerialStage> stages_;
  std::vector<std::vector<Left>> left_;  // of each microbatch of each pipeline, its layers
  ReferenceState<T> state_;
};

}  // namespace tandem
