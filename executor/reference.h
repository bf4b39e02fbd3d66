#pragma once
// The serial reference trainer: what an executor's bits are compared with. One thread, straight
// loops over batches, microbatches and layers; each tensor on its own, each version of the weights
// a whole copy. It shares kernels, layers, data and optimizer steps with the executor, and nothing
// else: no stage, no slot, no program.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/schedule.h"
#include "executor/data.h"
#include "executor/layers/all.h"
#include "executor/optimizer.h"

namespace tandem {

struct ReferenceConfig {
  WeightSemantics semantics = WeightSemantics::vanilla;  // or delayed_by_one
  OptimizerConfig optimizer = {};
  std::int32_t microbatches = 1;  // m: summed into one update
  std::int32_t microbatch_size = 1;
  std::uint64_t seed = 0;  // of the initial weights
};

/// After `updates` updates. Tensors by name; a tied head's table is listed too, always equal to the
/// embedding's.
template <class T>
struct ReferenceState {
  std::int64_t updates = 0;
  std::map<std::string, std::vector<T>> weights;  // the newest version
  std::map<std::string, std::vector<T>>
      optimizer;               // first moments, then second ones; empty for SGD
  std::vector<double> losses;  // of the last batch, a microbatch each
};

/// Gradients are sums over microbatches in ascending order, of the loss scaled by 1/(B·T·m). Those
/// of a tied embedding are summed apart in embedding and head, then added, embedding + head.
template <Kernels K>
class Reference {
 public:
  using T = typename K::Scalar;

  /// REQUIRES: semantics vanilla or delayed_by_one (checked); `data` made for the same model and
  /// microbatch size, and outlives this.
  Reference(const ModelSpec& model, const ReferenceConfig& config, const Data& data);

  /// One batch and its update: W(t+1) = W(t) − ν∇f(W(t)), or with delay W(t) − ν∇f(W(max(t−1, 0))).
  const ReferenceState<T>& step();
  const ReferenceState<T>& state() const { return state_; }

 private:
  using Tensors = std::map<std::string, std::vector<T>>;
  /// A layer, the weights of the version in use, and the sum of gradients, contiguous as layers
  /// want them.
  struct Entry {
    AnyLayer<K> layer;
    std::vector<T> weights, gradients;
  };

  void load(const Tensors& weights);
  double run_microbatch(std::int64_t k);
  void update_tensor(const Tensor& tensor, const std::vector<T>& gradient);
  void update_all();

  ReferenceConfig config_;
  bool tied_;
  const Data& data_;
  K kernels_;
  std::int64_t boundary_;
  std::vector<Entry> entries_;
  ReferenceState<T> state_;
  Tensors previous_;
};

}  // namespace tandem
