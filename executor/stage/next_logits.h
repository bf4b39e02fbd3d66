#pragma once
// NextLogits: what a model says of the token that follows on some tokens. Forward only, layer after
// layer on the calling thread.

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "executor/layers/all.h"

namespace tandem {

template <Kernels K>
class NextLogits {
 public:
  using T = typename K::Scalar;

  /// `weights`: of each layer; they outlive this. It reads up to model.sequence tokens.
  NextLogits(const ModelSpec& model, std::span<const std::vector<T>> weights)
      : shape_{.model = model}, weights_(weights) {
    for (std::size_t i = 0; i < weights.size(); ++i)
      layers_.emplace_back(shape_, static_cast<std::int32_t>(i));
    std::int64_t stash = 0;
    for (const AnyLayer<K>& layer : layers_) stash = std::max(stash, layer.stash_size());
    stash_.resize(static_cast<std::size_t>(stash));
    input_.resize(static_cast<std::size_t>(shape_.boundary()));
    output_.resize(input_.size());
  }

  /// A number for each token of the vocabulary, valid until the next call. Those behind `tokens`
  /// are not seen: attention is causal. REQUIRES: one or more, and no more than the sequence
  /// (checked).
  std::span<const T> after(std::span<const std::int32_t> tokens) {
    const auto sequence = static_cast<std::size_t>(shape_.model.sequence);
    TANDEM_CHECK(!tokens.empty() && tokens.size() <= sequence, tokens.size(), sequence);
    Sample<T> sample;
    sample.tokens.assign(tokens.begin(), tokens.end());
    sample.tokens.resize(sequence);  // without targets
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const bool is_last = i + 1 == layers_.size();
      layers_[i].forward(
          kernels_,
          {.weights = weights_[i],
           .input = i == 0 ? std::span<const T>() : std::span<const T>(input_),
           .sample = &sample,
           .stash = std::span(stash_).first(static_cast<std::size_t>(layers_[i].stash_size())),
           .output = is_last ? std::span<T>() : std::span<T>(output_)});
      std::swap(input_, output_);
    }
    const auto vocabulary = static_cast<std::size_t>(shape_.model.vocabulary);
    return std::span<const T>(stash_).subspan((tokens.size() - 1) * vocabulary, vocabulary);
  }

 private:
  LayerShape shape_;
  std::span<const std::vector<T>> weights_;
  std::vector<AnyLayer<K>> layers_;
  K kernels_;
  std::vector<T> stash_, input_, output_;
};

}  // namespace tandem
