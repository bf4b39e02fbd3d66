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

  /// `weights`: of each layer; they outlive this. A table of learned positions is the last of the
  /// first layer's.
  NextLogits(const ModelSpec& model, std::span<const std::vector<T>> weights)
      : model_(model), weights_(weights) {}

  /// A number for each token of the vocabulary, valid until the next call; a function of `tokens`
  /// alone. REQUIRES: one or more, and no more than there are learned positions (checked).
  std::span<const T> after(std::span<const std::int32_t> tokens) {
    TANDEM_CHECK(!tokens.empty(), tokens.size());
    lay_out(std::ssize(tokens));
    Sample<T> sample;
    sample.tokens.assign(tokens.begin(), tokens.end());
    // Those behind are not seen: attention is causal. Without targets the head leaves logits.
    sample.tokens.resize(static_cast<std::size_t>(model_.sequence));
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const AnyLayer<K>& layer = layers_[i];
      const bool is_last = i + 1 == layers_.size();
      layer.forward(kernels_,
                    {.weights = std::span<const T>(weights_[i])
                                    .first(static_cast<std::size_t>(layer.weights_size())),
                     .input = i == 0 ? std::span<const T>() : std::span<const T>(input_),
                     .sample = &sample,
                     .stash = std::span(stash_).first(static_cast<std::size_t>(layer.stash_size())),
                     .output = is_last ? std::span<T>() : std::span<T>(output_)});
      std::swap(input_, output_);
    }
    const auto vocabulary = static_cast<std::size_t>(model_.vocabulary);
    return std::span<const T>(stash_).subspan((tokens.size() - 1) * vocabulary, vocabulary);
  }

 private:
  /// For so many tokens: in blocks, so that layers are made again seldom, and what is computed
  /// grows with the text.
  void lay_out(std::int64_t tokens) {
    constexpr std::int64_t kBlock = 64;
    std::int64_t sequence = (tokens + kBlock - 1) / kBlock * kBlock;
    if (const std::int32_t positions = shape_of(model_).positions; positions > 0) {
      if (most_ == 0) most_ = model_.sequence;
      TANDEM_CHECK(tokens <= most_, tokens, most_);
      sequence = std::min(sequence, most_);
    }
    if (!layers_.empty() && sequence == model_.sequence) return;
    model_.sequence = static_cast<std::int32_t>(sequence);
    layers_.clear();
    const LayerShape shape{.model = model_};
    std::int64_t stash = 0;
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      layers_.emplace_back(shape, static_cast<std::int32_t>(i));
      stash = std::max(stash, layers_.back().stash_size());
    }
    stash_.resize(static_cast<std::size_t>(stash));
    input_.resize(static_cast<std::size_t>(shape.boundary()));
    output_.resize(input_.size());
  }

  ModelSpec model_;
  std::int64_t most_ = 0;  // learned positions; 0: none
  std::span<const std::vector<T>> weights_;
  std::vector<AnyLayer<K>> layers_;
  K kernels_;
  std::vector<T> stash_, input_, output_;
};

}  // namespace tandem
