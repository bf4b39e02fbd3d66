#pragma once
// SGD, momentum, AdamW and NAdam over kernels. A step reads one version of the weights and writes
// the next, which may be the same memory.

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/check.h"
#include "executor/backend/step_rules.h"
#include "executor/layers/layer.h"
#include "executor/stage/learning_rate.h"

namespace tandem {

struct OptimizerConfig {
  OptimizerKind kind = OptimizerKind::adamw;
  DelayCorrection correction = DelayCorrection::none;
  double learning_rate = 1e-3;  // the peak of its schedule
  LearningRateSchedule schedule = {};
  double momentum = 0.9;  // β of m = β·m + (1 − β)·g
  double beta1 = 0.9;     // of AdamW
  double beta2 = 0.95;
  double nadam_beta1 = 0.99;  // of NAdam, as arXiv 2505.01099 sets it for pipelines
  double nadam_beta2 = 0.999;
  double momentum_decay = 0.004;
  double epsilon = 1e-8;      // of both
  double weight_decay = 0.0;  // decoupled; of matrices only

  Optimizer optimizer() const { return {kind, correction}; }
};

/// What a decision has to know of it.
inline DecideNumbers moment_numbers(const OptimizerConfig& config) {
  switch (config.kind) {
    case OptimizerKind::sgd:
      return {};
    case OptimizerKind::momentum:
      return {.beta1 = config.momentum};
    case OptimizerKind::adamw:
      return {.beta1 = config.beta1, .beta2 = config.beta2};
    case OptimizerKind::nadam:
      return {.beta1 = config.nadam_beta1,
              .beta2 = config.nadam_beta2,
              .looks_ahead = true,
              .momentum_decay = config.momentum_decay};
  }
  return {};
}

/// What the update of weights is handed. state: optimizer_states() times the weights' size, all
/// first moments, then all second ones, then all steps before, where their delay is corrected;
/// zeros before the first update.
template <class T, class W = T>
struct UpdateSpans {
  std::span<const W> weights = {}, gradients = {};
  std::span<W> state = {}, weights_out = {};
  std::span<T> rounded = {};  // a copy of the weights made; empty: not wanted
  /// As StepSpans has them; δ is zeros before the first update.
  std::span<T> forward_weights = {}, backward_weights = {};
  std::span<W> drift = {};
};

/// What a step writes. A step that may have to be taken back writes the weights elsewhere and
/// leaves the state as it is; once it stays, the state is stepped by itself, to the same bits.
enum class StepWrites : std::uint8_t { all, weights, state };

/// One step of an optimizer.
struct OptimizerStep {
  std::int64_t number = 1;      // of the steps taken, counted from 1
  std::int64_t batch = 1;       // that it is for, counted from 1: has a learning rate
  double gradient_scale = 1.0;  // factor of the gradients
  StepWrites writes = StepWrites::all;
  Reading reading = {};                      // of the stage; its delay divides the rate, too
  const UpdateDecision* decision = nullptr;  // knows how many steps were taken, so `number` counts
                                             // for nothing, and has a further factor
};

/// Steps the tensors, which cover the spans by their offsets. Elements are updated independently of
/// one another: equal weights, gradients and states give equal bits wherever they stand.
template <Kernels K>
void update(K& kernels, const OptimizerConfig& config, const OptimizerStep& step,
            std::span<const Tensor> tensors,
            const UpdateSpans<typename K::Scalar, typename K::Wide>& spans) {
  using T = typename K::Scalar;
  using W = typename K::Wide;
  const auto size = static_cast<std::size_t>(total_size(tensors));
  const auto states = static_cast<std::size_t>(optimizer_states(config.optimizer()));
  TANDEM_CHECK(
      step.number >= 1 && spans.weights.size() == size && spans.state.size() == states * size,
      step.number, spans.weights.size(), spans.state.size(), size, states);
  if (states == 0 && step.writes == StepWrites::state) return;
  const double count = static_cast<double>(step.number);
  const DecideNumbers moments = moment_numbers(config);
  const MomentCorrections corrections = moment_corrections(moments, count);
  const StepNumbers numbers{
      .learning_rate =
          learning_rate_at(config.schedule, config.learning_rate, step.batch, step.reading.delay),
      .gradient_scale = step.gradient_scale,
      .weight_decay = config.weight_decay,
      .beta1 = moments.beta1,
      .beta2 = moments.beta2,
      .epsilon = config.epsilon,
      .correction1 = corrections.correction1,
      .correction2 = corrections.correction2,
      .slope_weight = corrections.slope_weight,
      .steps = count,
      .corrects_decay = config.correction == DelayCorrection::error_feedback_with_decay,
      .reading = step.reading,
      .decision = step.decision};
  std::vector<ElementRange> decayed;
  for (const Tensor& tensor : tensors) {
    if (!tensor.decayed) continue;
    if (decayed.empty() || decayed.back().last != tensor.offset)
      decayed.push_back({tensor.offset, tensor.offset});
    decayed.back().last += tensor.size();
  }
  StepSpans<T, W> whole{.weights = spans.weights,
                        .gradient = spans.gradients.first(size),
                        .keeps_state = step.writes == StepWrites::weights,
                        .rounded = spans.rounded,
                        .forward_weights = spans.forward_weights,
                        .backward_weights = spans.backward_weights,
                        .drift = spans.drift,
                        .decayed = decayed};
  if (step.writes != StepWrites::state) whole.weights_out = spans.weights_out;
  const bool corrects = config.correction != DelayCorrection::none;
  const std::size_t of_moments = states - (corrects ? 1 : 0);
  if (of_moments > 0) whole.first = spans.state.first(size);
  if (of_moments > 1) whole.second = spans.state.subspan(size, size);
  if (corrects) whole.last_step = spans.state.last(size);
  kernels.step(config.kind, whole, numbers);
}

}  // namespace tandem
