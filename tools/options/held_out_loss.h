#pragma once
// HeldOutEvaluation: in the course of training, the loss of the newest weights on text that is
// never trained on.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "core/model/plan.h"
#include "executor/cpu/kernels.h"
#include "executor/stage/evaluation.h"
#include "executor/stage/reference.h"
#include "executor/train.h"
#include "tools/cli/options.h"
#include "tools/options/training_tokens.h"

namespace tandem::tools {

/// --validate-every and what goes with it.
void add_held_out_options(Options& options);

class HeldOutEvaluation {
 public:
  using Kernel = cpu::Kernels<float>;

  HeldOutEvaluation(const Plan& plan, Data data, std::int64_t every, std::int64_t microbatches)
      : data_(std::move(data)),
        every_(every),
        microbatches_(microbatches),
        evaluation_(plan.model, plan.stages, plan.microbatch_size, data_) {}
  HeldOutEvaluation(const HeldOutEvaluation&) = delete;  // a part of it refers to another
  HeldOutEvaluation& operator=(const HeldOutEvaluation&) = delete;

  /// Null where --validate-every is not given. Throws UsageError for options that would be ignored,
  /// and where it is not said which text; InputError where that text is too short. `by`: what makes
  /// tokens of a text.
  static std::unique_ptr<HeldOutEvaluation> from(const Options& options, const Plan& plan,
                                                 const std::optional<TextTokenizer>& by = {});

  std::int64_t every() const { return every_; }
  bool due(std::int64_t steps) const { return steps % every_ == 0; }

  double loss(std::span<const StageWeights<float>> stages);
  double loss(const ReferenceState<float>& state);

 private:
  Data data_;
  std::int64_t every_, microbatches_;
  Evaluation<Kernel> evaluation_;  // reads data_
};

}  // namespace tandem::tools
