#pragma once
// Random numbers, tiny models and the gradient checker that the numeric tests share.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/random.h"
#include "executor/layers/layer.h"

namespace tandem::testing {

/// Normal numbers of the given deviation, the same for float and double up to rounding.
template <class T>
std::vector<T> random_numbers(std::int64_t size, std::uint64_t seed, double deviation = 1.0) {
  std::vector<T> values(static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<T>(static_cast<float>(deviation * normal(seed, 1, i)));
  }
  return values;
}

inline ModelSpec tiny_gpt(bool tied = true) {
  ModelSpec model;
  model.name = "tiny";
  model.blocks = 2;
  model.width = 8;
  model.heads = 2;
  model.sequence = 6;
  model.vocabulary = 11;
  model.tied = tied;
  return model;
}

/// Llama's layers: two heads of queries for one of keys and values, positions stretched as Llama
/// 3's.
inline ModelSpec tiny_llama(bool tied = false) {
  ModelSpec model;
  model.name = tied ? "tiny tied llama" : "tiny llama";
  model.architecture = Architecture::transformer;
  model.blocks = 2;
  model.width = 8;
  model.heads = 4;
  model.sequence = 6;
  model.vocabulary = 11;
  model.tied = tied;
  model.shape = {.key_value_heads = 2,
                 .head_width = 2,
                 .mlp_width = 7,
                 .rms_norm = true,
                 .query_bias = false,
                 .attention_bias = false,
                 .mlp_bias = false,
                 .gated = true,
                 .dropout = false};
  model.shape.details = {.norm_epsilon = 1e-6,
                         .activation = Activation::silu,
                         .rotary = {.theta = 100.0,
                                    .scaling = RotaryScaling::llama3,
                                    .factor = 2.0,
                                    .original_positions = 12}};
  return model;
}

/// Qwen's: norms of heads, biases of queries, keys and values, and heads that are wider in all than
/// the model.
inline ModelSpec tiny_qwen(bool tied = true) {
  ModelSpec model = tiny_llama(tied);
  model.name = "tiny qwen";
  model.heads = 3;
  model.shape.key_value_heads = 1;
  model.shape.head_width = 4;
  model.shape.head_norm = true;
  model.shape.query_bias = true;
  model.shape.details.rotary = {.theta = 100.0};
  return model;
}

inline ModelSpec tiny_linear() {
  ModelSpec model;
  model.name = "chain";
  model.architecture = Architecture::linear;
  model.blocks = 3;
  model.width = 2;
  model.heads = 1;
  model.sequence = 2;
  model.tied = false;
  return model;
}

/// A microbatch of random tokens or numbers.
template <class T>
Sample<T> random_sample(const ModelSpec& model, std::int32_t microbatch_size, std::uint64_t seed) {
  Sample<T> sample;
  const std::int64_t rows = std::int64_t{microbatch_size} * model.sequence;
  const auto vocabulary = static_cast<std::uint64_t>(model.vocabulary);
  for (std::int64_t i = 0; i < rows; ++i) {
    const auto at = static_cast<std::uint64_t>(i);
    sample.tokens.push_back(static_cast<std::int32_t>(random_bits(seed, 2, at) % vocabulary));
    sample.targets.push_back(static_cast<std::int32_t>(random_bits(seed, 3, at) % vocabulary));
  }
  sample.inputs = random_numbers<T>(rows * model.width, seed + 4);
  sample.expected = random_numbers<T>(rows * model.width, seed + 5);
  return sample;
}

/// How far `gradient` is from the slope of `function` at `at`, relative to its length: along its
/// own direction and along a random one. `function` is evaluated at changed values of `at`, which
/// come back as they were. Central differences at two steps, extrapolated: the error is of fourth
/// order in the step.
inline double gradient_error(std::span<double> at, std::span<const double> gradient,
                             const std::function<double()>& function, double step = 2e-3) {
  const std::vector<double> origin(at.begin(), at.end());
  double length = 0.0;
  for (const double value : gradient) {
    length += value * value;
  }
  length = std::sqrt(length);
  double worst = 0.0;
  for (const bool random : {false, true}) {
    std::vector<double> direction(gradient.begin(), gradient.end());
    if (random) {
      direction = random_numbers<double>(static_cast<std::int64_t>(at.size()), 99);
    }
    double norm = 0.0, claimed = 0.0;
    for (const double value : direction) {
      norm += value * value;
    }
    norm = std::sqrt(norm);
    for (std::size_t i = 0; i < at.size(); ++i) {
      direction[i] /= norm > 0.0 ? norm : 1.0;
      claimed += direction[i] * gradient[i];
    }
    const auto value_at = [&](double distance) {
      for (std::size_t i = 0; i < at.size(); ++i) {
        at[i] = origin[i] + distance * direction[i];
      }
      return function();
    };
    const double coarse = (value_at(step) - value_at(-step)) / (2 * step);
    const double fine = (value_at(step / 2) - value_at(-step / 2)) / step;
    worst = std::max(worst, std::abs((4 * fine - coarse) / 3 - claimed));
  }
  std::copy(origin.begin(), origin.end(), at.begin());
  return worst / std::max(length, 1e-300);
}

}  // namespace tandem::testing
