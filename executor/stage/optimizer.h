#pragma once
// SGD, momentum, AdamW, NAdam and Muon over kernels. A step reads one version of the weights and
// writes the next, which may be the same memory.

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <vector>

#include "core/base/check.h"
#include "executor/backend/step_rules.h"
#include "executor/layers/layer.h"
#include "executor/stage/learning_rate.h"
#include "executor/stage/muon.h"
#include "executor/stage/state_layout.h"

namespace tandem {

struct OptimizerConfig {
  OptimizerKind kind = OptimizerKind::adamw;
  DelayCorrection correction = DelayCorrection::none;
  double learning_rate = 1e-3;  // the peak of its schedule
  LearningRateSchedule schedule = {};
  double momentum = 0.9;  // β of m = β·m + (1 − β)·g
  double beta1 = 0.9;     // of AdamW, also beside Muon
  double beta2 = 0.95;
  double nadam_beta1 = 0.99;  // of NAdam, as arXiv 2505.01099 sets it for pipelines
  double nadam_beta2 = 0.999;
  double momentum_decay = 0.004;
  double epsilon = 1e-8;      // of all three
  double weight_decay = 0.0;  // decoupled; of matrices only
  double muon_momentum = 0.95;
  MuonScale muon_scale = MuonScale::match_rms_adamw;
  std::optional<double> muon_learning_rate = {};  // the peak for Muon's matrices; none: the same

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
    case OptimizerKind::muon:  // of what is not a hidden matrix
      return {.beta1 = config.beta1, .beta2 = config.beta2};
    case OptimizerKind::nadam:
      return {.beta1 = config.nadam_beta1,
              .beta2 = config.nadam_beta2,
              .looks_ahead = true,
              .momentum_decay = config.momentum_decay};
  }
  return {};
}

/// What the update of weights is handed. state: as StateLayout says; zeros before the first update.
template <class T, class W = T>
struct UpdateSpans {
  std::span<const W> weights = {}, gradients = {};
  std::span<W> state = {}, weights_out = {};
  std::span<T> rounded = {};  // a copy of the weights made; empty: not wanted
  /// As StepSpans has them; δ is zeros before the first update.
  std::span<T> forward_weights = {}, backward_weights = {};
  std::span<W> drift = {};
  std::span<T> scratch = {};  // update_scratch() elements
};

/// Elements of scratch that an update of these tensors needs.
template <class T, class W>
std::int64_t update_scratch(OptimizerKind kind, std::span<const Tensor> tensors) {
  return kind == OptimizerKind::muon ? muon_scratch<T, W>(tensors) : 0;
}

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

/// The rate of Muon's matrices: all of its schedule is in proportion.
inline double muon_rate(const OptimizerConfig& config, const OptimizerStep& step) {
  const double peak = config.muon_learning_rate.value_or(config.learning_rate);
  LearningRateSchedule schedule = config.schedule;
  if (config.learning_rate > 0.0) schedule.least *= peak / config.learning_rate;
  return learning_rate_at(schedule, peak, step.batch, step.reading.delay);
}

inline StepNumbers step_numbers(const OptimizerConfig& config, const OptimizerStep& step) {
  const double count = static_cast<double>(step.number);
  const DecideNumbers moments = moment_numbers(config);
  const MomentCorrections corrections = moment_corrections(moments, count);
  return {.learning_rate = learning_rate_at(config.schedule, config.learning_rate, step.batch,
                                            step.reading.delay),
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
}

/// Those of the tensors from `begin` on, as of a span that begins there; neighbours are one.
inline std::vector<ElementRange> decayed_ranges(std::span<const Tensor> tensors,
                                                std::int64_t begin) {
  std::vector<ElementRange> decayed;
  for (const Tensor& tensor : tensors) {
    if (!tensor.decayed) continue;
    const std::int64_t first = tensor.offset - begin;
    if (decayed.empty() || decayed.back().last != first) decayed.push_back({first, first});
    decayed.back().last += tensor.size();
  }
  return decayed;
}

/// The weights of consecutive tensors, and their state.
template <class T, class W>
StepSpans<T, W> step_spans(const StateLayout& layout, std::span<const Tensor> tensors,
                           StepWrites writes, const UpdateSpans<T, W>& spans) {
  const std::int64_t begin = tensors.front().offset;
  const ElementRange range{begin, total_size(tensors)};
  const auto part = [](auto span, const ElementRange& of) {
    return span.empty() ? span
                        : span.subspan(static_cast<std::size_t>(of.first),
                                       static_cast<std::size_t>(of.size()));
  };
  const StateRanges state = layout.of(range, tensors.front());
  StepSpans<T, W> made{.weights = part(spans.weights, range),
                       .gradient = part(spans.gradients, range),
                       .first = part(spans.state, state.first),
                       .second = part(spans.state, state.second),
                       .keeps_state = writes == StepWrites::weights,
                       .rounded = part(spans.rounded, range),
                       .forward_weights = part(spans.forward_weights, range),
                       .backward_weights = part(spans.backward_weights, range),
                       .drift = part(spans.drift, range),
                       .last_step = part(spans.state, state.last_step)};
  if (writes != StepWrites::state) made.weights_out = part(spans.weights_out, range);
  return made;
}

/// Steps the tensors, which cover the spans by their offsets. Elements are updated independently of
/// one another, but for those of a matrix of Muon's: equal weights, gradients and states give equal
/// bits wherever they stand.
template <Kernels K>
void update(K& kernels, const OptimizerConfig& config, const OptimizerStep& step,
            std::span<const Tensor> tensors,
            const UpdateSpans<typename K::Scalar, typename K::Wide>& spans) {
  const auto size = static_cast<std::size_t>(total_size(tensors));
  const StateLayout layout(config.optimizer(), tensors);
  TANDEM_CHECK(
      step.number >= 1 && spans.weights.size() == size && std::ssize(spans.state) == layout.size(),
      step.number, spans.weights.size(), spans.state.size(), size, layout.size());
  if (layout.size() == 0 && step.writes == StepWrites::state) return;
  const StepNumbers numbers = step_numbers(config, step);
  StepNumbers of_matrices = numbers;
  of_matrices.learning_rate = muon_rate(config, step);
  of_matrices.beta1 = config.muon_momentum;
  const bool muon = config.kind == OptimizerKind::muon;
  while (!tensors.empty()) {
    // A matrix of Muon's, or all before the next one.
    const auto hidden = [muon](const Tensor& tensor) { return muon && tensor.hidden; };
    const auto end = std::ranges::find_if(tensors.begin(), tensors.end(), hidden);
    const bool matrix = end == tensors.begin();
    const auto taken =
        tensors.first(matrix ? 1 : static_cast<std::size_t>(std::distance(tensors.begin(), end)));
    tensors = tensors.subspan(taken.size());
    auto part = step_spans(layout, taken, step.writes, spans);
    const std::vector<ElementRange> decayed = decayed_ranges(taken, taken.front().offset);
    part.decayed = decayed;
    if (matrix) {
      step_matrix(kernels, matrix_of(taken.front()), config.muon_scale, part, of_matrices,
                  spans.scratch);
    } else {
      kernels.step(muon ? OptimizerKind::adamw : config.kind, part, numbers);
    }
  }
}

}  // namespace tandem
