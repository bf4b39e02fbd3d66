#include "executor/layers/layer.h"

#include <algorithm>
#include <cmath>
#include <thread>

#include "executor/layers/norm.h"

namespace tandem {

void append_tensors(std::vector<Tensor> more, std::vector<Tensor>& tensors) {
  std::int64_t offset = total_size(tensors);
  for (Tensor& tensor : more) {
    tensor.offset = offset;
    if (tensor.key.empty()) tensor.key = tensor.name;
    offset += tensor.size();
    tensors.push_back(std::move(tensor));
  }
}

std::int64_t total_size(std::span<const Tensor> tensors) {
  return tensors.empty() ? 0 : tensors.back().offset + tensors.back().size();
}

namespace {

/// Element `i` of a tensor, whose stream of random numbers `key` names.
double initial_value(const Tensor& tensor, std::uint64_t seed, std::uint64_t key, std::size_t i) {
  switch (tensor.initial) {
    case Initial::normal:
      return tensor.deviation * normal(seed, key, i);
    case Initial::zeros:
      return 0.0;
    case Initial::ones:
      return 1.0;
    case Initial::dyadic:
      return 0.5 * static_cast<double>(random_bits(seed, key, i) % 5) - 1.0;
  }
  return 0.0;
}

}  // namespace

template <class T>
void initialise(const Tensor& tensor, std::uint64_t seed, std::span<T> values) {
  TANDEM_CHECK(static_cast<std::int64_t>(values.size()) == tensor.size(), values.size());
  const std::uint64_t key = key_of(tensor.key);
  const auto draw = [&, values](std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i)
      values[i] = static_cast<T>(static_cast<float>(initial_value(tensor, seed, key, i)));
  };
  // 30 ns an element: enough to be worth a thread.
  constexpr std::size_t kFewest = std::size_t{1} << 18;
  const std::size_t parts = std::min<std::size_t>(std::max(std::thread::hardware_concurrency(), 1U),
                                                  values.size() / kFewest + 1);
  std::vector<std::jthread> threads;
  for (std::size_t i = 1; i < parts; ++i)
    threads.emplace_back(draw, values.size() * i / parts, values.size() * (i + 1) / parts);
  draw(0, values.size() / parts);
}
template void initialise<float>(const Tensor&, std::uint64_t, std::span<float>);
template void initialise<double>(const Tensor&, std::uint64_t, std::span<double>);

std::vector<Tensor> norm_tensors(const std::string& prefix, const NormShape& norm) {
  const std::int64_t width = norm.of.width;
  std::vector<Tensor> tensors{
      {.name = prefix + ".gain", .shape = {width}, .initial = Initial::ones}};
  if (!norm.is_rms)
    tensors.push_back({.name = prefix + ".bias", .shape = {width}, .initial = Initial::zeros});
  return tensors;
}

std::vector<Tensor> projection_tensors(const std::string& prefix, std::int64_t inner,
                                       std::int64_t columns, double deviation, bool has_bias) {
  std::vector<Tensor> tensors{{.name = prefix + ".weight",
                               .shape = {inner, columns},
                               .decayed = true,
                               .hidden = true,
                               .initial = Initial::normal,
                               .deviation = deviation}};
  if (has_bias) tensors.push_back({.name = prefix + ".bias", .shape = {columns}});
  return tensors;
}

double mean_loss_scale(const ModelSpec& model, std::int32_t microbatch_size,
                       std::int32_t microbatches) {
  return 1.0 / (static_cast<double>(microbatch_size) * model.sequence * microbatches);
}

double initial_deviation(const ModelSpec& model) {
  return shape_of(model).details.initial_deviation;
}

double residual_deviation(const ModelSpec& model) {
  const double usual = initial_deviation(model);
  return shape_of(model).positions == 0 ? usual : usual / std::sqrt(2.0 * model.blocks);
}

}  // namespace tandem
