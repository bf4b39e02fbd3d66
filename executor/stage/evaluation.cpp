#include "executor/stage/evaluation.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "executor/cpu/kernels.h"

namespace tandem {

template <Kernels K>
Evaluation<K>::Evaluation(const ModelSpec& model, std::span<const LayerRange> stages,
                          std::int32_t microbatch_size, const Data& data)
    : data_(data) {
  std::int64_t stash = 0;
  for (const LayerRange layers : stages) {
    stages_.emplace_back(model, layers, microbatch_size, 1.0);
    stash = std::max(stash, stages_.back().sizes().stash);
  }
  TANDEM_CHECK(stages_.front().is_first() && stages_.back().is_last(), stages.size());
  stash_.resize(static_cast<std::size_t>(stash));
  input_.resize(static_cast<std::size_t>(stages_.front().sizes().boundary));
  output_.resize(input_.size());
}

template <Kernels K>
double Evaluation<K>::loss_of(std::span<const std::span<const T>> weights,
                              std::int64_t microbatch) {
  data_.fill(microbatch, sample_);
  double loss = 0.0;
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    const Stage<K>& stage = stages_[i];
    const auto stash = static_cast<std::size_t>(stage.sizes().stash);
    stage.forward(kernels_,
                  {.weights = weights[i],
                   .input = stage.is_first() ? std::span<const T>{} : std::span<const T>(input_),
                   .sample = &sample_,
                   .stash = std::span(stash_).first(stash),
                   .output = stage.is_last() ? std::span<T>{} : std::span<T>(output_),
                   .loss = &loss});
    std::swap(input_, output_);
  }
  return loss;
}

template <Kernels K>
double Evaluation<K>::loss(std::span<const std::span<const T>> weights, std::int64_t first,
                           std::int64_t count) {
  TANDEM_CHECK(weights.size() == stages_.size() && count >= 1, weights.size(), count);
  double sum = 0.0;
  for (std::int64_t i = 0; i < count; ++i) sum += loss_of(weights, first + i);
  return sum / static_cast<double>(count);
}

template class Evaluation<cpu::Kernels<float>>;
template class Evaluation<cpu::Kernels<double>>;

}  // namespace tandem
