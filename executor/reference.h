#pragma once
// The serial reference trainer: what an executor's bits are compared with. One thread, straight
// loops over batches, microbatches and layers; each tensor on its own, each version of the weights
// a whole copy. It shares kernels, layers, data and optimizer steps with the executor, and nothing
// else: no stage, no slot, no program.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/schedule.h"
#include "executor/data.h"
#include "executor/gradient_guard.h"
#include "executor/layers/all.h"
#include "executor/optimizer.h"

namespace tandem {

/// Layers whose weights are versioned together. Microbatch k of a pipeline, counted from the start
/// of the run, reads the version that holds what the first (⌊k / round⌋ − staleness)·round
/// microbatches gave, forward and backward; the initial one, if that is not positive.
struct ReferencePart {
  LayerRange layers;
  std::int32_t microbatches = 1;  // that an update covers, of one pipeline
  std::int32_t round = 1;         // a multiple of `microbatches`
  std::int32_t staleness = 0;     // in rounds
  std::int32_t replicas = 1;      // microbatch k adds to the sum of replica k mod replicas
};

/// What the parts of a schedule that stashes weights read and cover, by its own ops; `layers` of
/// each part. With vertical sync all parts read what was known when the first one read.
std::vector<ReferencePart> stashed_parts(const Schedule& schedule,
                                         const std::vector<LayerRange>& layers, bool vertical_sync);

struct ReferenceConfig {
  WeightSemantics semantics = WeightSemantics::vanilla;
  OptimizerConfig optimizer = {};
  GradientGuard guard = {};
  std::int32_t microbatches = 1;  // m: of one pipeline's batch
  std::int32_t microbatch_size = 1;
  std::uint16_t width =
      1;  // pipelines: a batch is m microbatches of the first, then of the second …
  std::int32_t replicas = 1;  // of the model within a pipeline; of stashed semantics see `parts`
  /// In which a batch's gradients are summed, its microbatches 0 … m−1; empty: ascending.
  std::vector<std::int32_t> order = {};
  /// Of each microbatch of a batch the replica to whose sum it adds; empty: k mod replicas.
  std::vector<std::int32_t> copies = {};
  std::uint64_t seed = 0;  // of the initial weights
  /// Of stashed semantics, covering the model in order. Else it is the whole model, updated once a
  /// batch.
  std::vector<ReferencePart> parts = {};
  /// Of ClipScope::per_stage, covering the model in order: what is clipped by one norm.
  std::vector<LayerRange> stages = {};
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
/// the last part covers in all pipelines; a part whose updates cover more or fewer scales its sum
/// to the mean over its own. Those of a tied embedding are summed apart in embedding and head, then
/// added, embedding + head. What several pipelines or replicas sum apart is added in their order.
template <Kernels K>
class Reference {
 public:
  using T = typename K::Scalar;

  /// REQUIRES: parts cover the layers, in order, and those of tied embeddings update for the same
  /// microbatches (checked). `data` made for the same model and microbatch size, and outlives this.
  Reference(const ModelSpec& model, const ReferenceConfig& config, const Data& data);

  /// One batch and its updates. Throws DeviceError where the guard is to stop. Vanilla: W(t+1) =
  /// W(t) − ν∇f(W(t)); delayed by one: W(t) − ν∇f(W(max(t−1, 0))).
  const ReferenceState<T>& step(const std::function<void(const ReferenceUpdate&)>& on_update = {});
  const ReferenceState<T>& state() const { return state_; }

 private:
  using Tensors = std::map<std::string, std::vector<T>>;
  /// A layer, the weights of the version in use, and sums of gradients, contiguous as layers want
  /// them: one for each replica of each pipeline.
  struct Entry {
    AnyLayer<K> layer;
    std::vector<T> weights = {};
    std::vector<std::vector<T>> sums = {};
  };
  struct Part {
    ReferencePart config;
    std::vector<Entry> entries;
    std::deque<Tensors> versions;         // the newest last
    std::int64_t updates = 0, steps = 0;  // steps: updates that were not skipped
    std::int64_t loaded = -1;             // the version in the entries
  };

  void load(Part& part, std::int64_t microbatch);
  double run_microbatch(std::int64_t batch, std::int32_t pipeline, std::int32_t microbatch);
  void run_backward(std::vector<std::vector<T>>& inputs, std::vector<std::vector<T>>& stashes,
                    std::int32_t pipeline, std::int64_t microbatch);
  Tensors sum_of_rank(const Part& part, std::size_t rank) const;
  Tensors summed_gradients(const std::vector<Part*>& parts);
  std::vector<double> squares_of(const std::vector<Part*>& parts, const Tensors& gradients,
                                 LayerRange layers);
  std::map<std::string, GuardDecision> decisions_on(const std::vector<Part*>& parts,
                                                    const Tensors& gradients);
  double scale_of(const Part& part) const;
  void update_part(Part& part, const Tensors& gradients,
                   const std::map<std::string, GuardDecision>& decisions);
  void update_tensor(const Part& part, const Tensor& tensor, const std::vector<T>& gradient,
                     const GuardDecision& decision);

  ReferenceConfig config_;
  bool tied_;
  const Data& data_;
  K kernels_;
  std::int64_t boundary_;
  std::vector<Part> parts_;
  ReferenceState<T> state_;
};

}  // namespace tandem
