// tandem evaluate DIR [TOKENS]: the loss of a folder's weights on tokens.

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/progress.h"
#include "core/text/count_text.h"
#include "executor/checkpoint/model_folder.h"
#include "executor/forwards.h"
#include "tools/cli/json_output.h"
#include "tools/cli/notices.h"
#include "tools/cli/options.h"
#include "tools/commands/command.h"
#include "tools/options/forward_options.h"
#include "tools/options/training_options.h"
#include "tools/options/training_tokens.h"

namespace tandem::tools {

namespace {

constexpr std::int32_t kLongestSequence = 1'048'576;
constexpr std::int64_t kMicrobatchesADevice = 8;  // the pipeline is a ninth of the time not full

struct Evaluated {
  double loss = 0.0;
  std::int64_t samples = 0, tokens = 0;
};

/// Every sample once. The sum is in their order.
Evaluated evaluate(const ModelFolder& folder, const std::vector<LayerRange>& stages,
                   const Data& data, std::int64_t most) {
  const std::int64_t count = std::min(data.distinct_samples(), most);
  // As full as can be, and all alike: the pipeline fills and empties once a body.
  const std::int64_t full = kMicrobatchesADevice * std::ssize(stages);
  const std::int64_t bodies = (count + full - 1) / full;
  const ForwardLayout layout{
      .stages = stages, .microbatches = static_cast<std::int32_t>((count + bodies - 1) / bodies)};
  const Activity activity("evaluating samples", count);
  const std::vector<double> losses =
      losses_of(folder, layout, data, count, [&activity](std::int64_t samples) {
        for (std::int64_t i = 0; i < samples; ++i) activity.step();
      });
  double sum = 0.0;
  for (const double loss : losses) sum += loss;
  return {sum / static_cast<double>(count), count, count * folder.model.sequence};
}

}  // namespace

Options options_of_evaluate() {
  Options options("evaluate", "DIR [options]",
                  "The loss of a checkpoint's weights, or of those of a folder of Hugging Face's "
                  "library, on tokens: each sample of the data once, none overlapping another.");
  options.words("DIR", 1, 1);
  options
      .input("data", "FILE",
             "text, as bytes, token file (.bin), or folder of token files (default: the end of the "
             "shipped text, that --validate-every judges by)")
      .input("tokenizer", "FILE",
             "tokenizer.json, or a folder that has it, that a text is cut by (default: that of "
             "DIR, else a byte a token)")
      .value("sequence", "T", "tokens of a sample (default: the model's)")
      .value("samples", "N", "samples at most, spread over all of the data (default: all)");
  add_depth_option(options);
  add_kernel_options(options);
  return options;
}

int run_evaluate(const Options& options) {
  choose_kernels(options, true);
  std::optional<std::int32_t> sequence;
  if (options.has("sequence"))
    sequence = static_cast<std::int32_t>(options.integer("sequence", 1, kLongestSequence, 1));
  const ModelFolder folder = open_model_folder(options.words()[0], sequence);
  for (const std::string& note : folder.notes) print_note(note);
  Tokens tokens =
      options.has("data") ? read_tokens(options.text("data")) : shipped_held_out_tokens();
  // What of the text a token is, in the mean.
  std::optional<double> bytes_a_token;
  if (tokens.are_bytes()) {
    const double bytes = static_cast<double>(tokens.size());
    if (const auto own = text_tokenizer(options, folder.path))
      tokens = own->tokens_of(std::move(tokens));
    bytes_a_token = bytes / static_cast<double>(tokens.size());
  }
  const Data data(folder.model, 1, 0, std::move(tokens), SampleOrder::spread);
  const Evaluated evaluated =
      evaluate(folder, stages_of(options, folder.model), data,
               options.integer("samples", 1, 1'000'000'000'000, 1'000'000'000'000));
  if (!std::isfinite(evaluated.loss)) {
    throw InputError(
        fmt::format("{}: the loss is not a number: the weights hold numbers that are "
                    "not finite",
                    folder.path));
  }
  const double bits = evaluated.loss / std::log(2.0) / bytes_a_token.value_or(1.0);
  if (options.has("json")) {
    print_result("evaluate", {{"folder", folder.path}, {"sequence", folder.model.sequence}},
                 Json::object(),
                 {{"loss", evaluated.loss},
                  {"perplexity", std::exp(evaluated.loss)},
                  {"bits_per_byte", bytes_a_token ? Json(bits) : Json()},
                  {"samples", evaluated.samples},
                  {"tokens", evaluated.tokens}});
    return 0;
  }
  fmt::print("{}: loss {:.4f}, perplexity {:.3f}", folder.path, evaluated.loss,
             std::exp(evaluated.loss));
  if (bytes_a_token) fmt::print(", {:.4f} bits a byte", bits);
  fmt::print("; {} tokens in {}\n", evaluated.tokens, counted(evaluated.samples, "sample"));
  return 0;
}

}  // namespace tandem::tools
