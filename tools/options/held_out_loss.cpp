#include "tools/options/held_out_loss.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/base/error.h"
#include "tools/options/training_tokens.h"

namespace tandem::tools {

namespace {

constexpr std::int64_t kMicrobatches = 32;

Tokens held_out_tokens(const Options& options) {
  if (options.has("validation-data")) return read_tokens(options.text("validation-data"));
  if (!options.has("data")) return shipped_held_out_tokens();
  refuse(options,
         "--validate-every: give --validation-data FILE, a text that --data does not "
         "hold");
}

}  // namespace

void add_held_out_options(Options& options) {
  options.value("validate-every", "N", "steps from one validation to the next (default: none)")
      .input("validation-data", "FILE",
             "text or token file that is never trained on (default: the shipped text's end)")
      .value("validation-batches", "K",
             "microbatches to validate on, spread over all of that text (default 32, or as many as "
             "there are)");
}

std::unique_ptr<HeldOutEvaluation> HeldOutEvaluation::from(const Options& options, const Plan& plan,
                                                           const std::optional<TextTokenizer>& by) {
  if (!options.has("validate-every")) {
    refuse_given(options, {"validation-data", "validation-batches"},
                 "--{} goes with --validate-every N");
    return nullptr;
  }
  if (plan.model.architecture == Architecture::linear)
    throw InputError("a linear model trains on random numbers: there is no text to hold out");
  const std::int64_t every = options.integer("validate-every", 1, 100'000'000, 1);
  Tokens tokens = held_out_tokens(options);
  if (by) tokens = by->tokens_of(std::move(tokens));
  Data data(plan.model, plan.microbatch_size, 0, std::move(tokens), SampleOrder::spread);
  const std::int64_t most = data.distinct_samples() / plan.microbatch_size;
  if (most == 0) {
    throw InputError(
        fmt::format("the validation data has {} samples, fewer than a microbatch of {}",
                    data.distinct_samples(), plan.microbatch_size));
  }
  const std::int64_t microbatches =
      options.integer("validation-batches", 1, most, std::min(most, kMicrobatches));
  return std::make_unique<HeldOutEvaluation>(plan, std::move(data), every, microbatches);
}

double HeldOutEvaluation::loss(std::span<const StageWeights<float>> stages) {
  std::vector<std::span<const float>> weights;
  for (const StageWeights<float>& stage : stages) weights.push_back(stage.values);
  return evaluation_.loss(weights, 0, microbatches_);
}

double HeldOutEvaluation::loss(const ReferenceState<float>& state) {
  std::vector<std::vector<float>> values;
  for (const Stage<Kernel>& stage : evaluation_.stages()) {
    std::vector<float>& own = values.emplace_back();
    for (const Tensor& tensor : stage.parameters()) {
      const std::vector<float>& part = state.weights.at(tensor.name);
      own.insert(own.end(), part.begin(), part.end());
    }
  }
  const std::vector<std::span<const float>> weights(values.begin(), values.end());
  return evaluation_.loss(weights, 0, microbatches_);
}

}  // namespace tandem::tools
