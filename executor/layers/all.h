#pragma once
// Any layer of a model: a closed set, one alternative a LayerKind.

#include <variant>

#include "executor/layers/attention.h"
#include "executor/layers/embedding.h"
#include "executor/layers/head.h"
#include "executor/layers/linear.h"
#include "executor/layers/mlp.h"
#include "executor/layers/squared_error.h"

namespace tandem {

template <Kernels K>
class AnyLayer {
 public:
  using T = typename K::Scalar;
  using W = typename K::Wide;

  /// Layer `index` of shape.model. REQUIRES: index in range (checked).
  AnyLayer(const LayerShape& shape, std::int32_t index);

  LayerKind kind() const { return kind_; }
  /// With global names, and offsets in the layer's own weights.
  const std::vector<Tensor>& tensors() const { return tensors_; }
  std::int64_t weights_size() const { return total_size(tensors_); }
  std::int64_t stash_size() const {
    return std::visit([](const auto& layer) { return layer.stash_size(); }, layer_);
  }
  std::int64_t inner_size() const {
    return std::visit([](const auto& layer) { return layer.inner_size(); }, layer_);
  }
  std::int64_t scratch_size() const {
    return std::visit([](const auto& layer) { return layer.scratch_size(); }, layer_);
  }
  std::int64_t context_size() const {
    return std::visit([](const auto& layer) { return layer.context_size(); }, layer_);
  }
  void forward(K& kernels, const ForwardSpans<T, W>& spans) const {
    std::visit([&](const auto& layer) { layer.forward(kernels, spans); }, layer_);
  }
  void recompute(K& kernels, const BackwardSpans<T, W>& spans) const {
    std::visit([&](const auto& layer) { layer.recompute(kernels, spans); }, layer_);
  }
  void backward_input(K& kernels, const BackwardSpans<T, W>& spans) const {
    std::visit([&](const auto& layer) { layer.backward_input(kernels, spans); }, layer_);
  }
  void backward_weight(K& kernels, const BackwardSpans<T, W>& spans) const {
    std::visit([&](const auto& layer) { layer.backward_weight(kernels, spans); }, layer_);
  }

 private:
  using Variant =
      std::variant<Embedding<K>, Attention<K>, Mlp<K>, Head<K>, Linear<K>, SquaredError<K>>;
  static_assert(Layer<Embedding<K>, K> && Layer<Attention<K>, K> && Layer<Mlp<K>, K> &&
                Layer<Head<K>, K> && Layer<Linear<K>, K> && Layer<SquaredError<K>, K>);
  static_assert(std::variant_size_v<Variant> == kTrainableLayerKinds);

  /// The alternatives stand in the order of the kinds.
  template <std::size_t kFirst = 0>
  static Variant make(LayerKind kind, const LayerShape& shape) {
    if constexpr (kFirst + 1 < kTrainableLayerKinds) {
      if (static_cast<std::size_t>(kind) != kFirst) return make<kFirst + 1>(kind, shape);
    }
    return Variant(std::in_place_index<kFirst>, shape);
  }

  LayerKind kind_;
  Variant layer_;
  std::vector<Tensor> tensors_;
};

/// The block that layer `index` belongs to, for its name.
inline std::int32_t block_of(const ModelSpec& model, std::int32_t index) {
  return model.architecture == Architecture::linear ? index : (index - 1) / 2;
}

template <Kernels K>
AnyLayer<K>::AnyLayer(const LayerShape& shape, std::int32_t index)
    : kind_(layers_of(shape.model).at(static_cast<std::size_t>(index))),
      layer_(make(kind_, shape)) {
  const std::int32_t block = block_of(shape.model, index);
  append_tensors(std::visit([&](const auto& layer) { return layer.tensors(block); }, layer_),
                 tensors_);
}

}  // namespace tandem
