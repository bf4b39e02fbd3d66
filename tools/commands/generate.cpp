// tandem generate DIR --prompt TEXT: a text that a folder's weights go on with.

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/progress.h"
#include "executor/checkpoint/model_folder.h"
#include "executor/data/sampling.h"
#include "executor/data/tokenizer/tokenizer.h"
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

constexpr std::int32_t kMostTokens = 1'000'000;

/// Text to tokens and back: by a tokenizer, or a byte each.
class TextTokens {
 public:
  /// `folder`'s own tokenizer.json, where none is given.
  TextTokens(const Options& options, const std::string& folder) {
    if (const auto found = text_tokenizer(options, folder)) tokenizer_ = found->tokenizer;
  }
  std::vector<std::int32_t> encode(const std::string& text) const {
    std::vector<std::int32_t> tokens;
    if (tokenizer_) {
      Tokenizer::Encoder(*tokenizer_).encode(text, tokens);
    } else {
      for (const char byte : text) tokens.push_back(static_cast<unsigned char>(byte));
    }
    return tokens;
  }
  std::string decode(std::span<const std::int32_t> tokens) const {
    if (tokenizer_) return tokenizer_->decode(tokens);
    std::string text;
    for (const std::int32_t token : tokens) {
      if (token > 0xFF)
        throw InputError(fmt::format("token {} is no byte: --tokenizer says what it is", token));
      text.push_back(static_cast<char>(token));
    }
    return text;
  }
  /// One more than the highest token that has a text.
  std::int32_t known() const { return tokenizer_ ? tokenizer_->vocabulary() : 0x100; }
  /// The token that ends a text.
  std::optional<std::int32_t> end() const {
    return tokenizer_ ? tokenizer_->end_of_text() : std::nullopt;
  }

 private:
  std::optional<Tokenizer> tokenizer_;
};

/// The prompt must have tokens, which the model knows, and it must read as many as are asked for.
void check_tokens(const std::vector<std::int32_t>& tokens, std::int64_t more,
                  const ModelSpec& model) {
  if (tokens.empty()) throw InputError("--prompt: there is no token to go on from");
  for (const std::int32_t token : tokens) {
    if (token >= model.vocabulary) {
      throw InputError(
          fmt::format("--prompt: token {} is beyond the vocabulary of {}: is the "
                      "tokenizer the model's?",
                      token, model.vocabulary));
    }
  }
  if (shape_of(model).positions > 0 && std::ssize(tokens) + more > model.sequence) {
    throw InputError(
        fmt::format("--tokens: {} of the prompt and {} further ones are more than the "
                    "{} positions of the model",
                    tokens.size(), more, model.sequence));
  }
}

/// Appends up to `more` tokens, only those that have a text.
void generate(const ModelFolder& folder, const std::vector<LayerRange>& stages,
              const TextTokens& text, const SamplingConfig& sampling, std::int64_t more,
              std::vector<std::int32_t>& tokens) {
  const Activity activity("generating tokens", more);
  go_on(folder, stages, tokens, std::ssize(tokens) + more, [&](std::span<const float> logits) {
    logits = logits.first(std::min(logits.size(), static_cast<std::size_t>(text.known())));
    const std::int32_t next = next_token(logits, std::ssize(tokens), sampling);
    activity.step();
    if (next == text.end()) return false;
    tokens.push_back(next);
    return true;
  });
}

}  // namespace

Options options_of_generate() {
  Options options("generate", "DIR --prompt TEXT [options]",
                  "A text that a checkpoint's weights go on with, or those of a folder of Hugging "
                  "Face's library. The same folder, prompt and seed give the same text.");
  options.words("DIR", 1, 1);
  options.value("prompt", "TEXT", "the text to go on from")
      .value("tokens", "N", "tokens to add (default 64)")
      .value("temperature", "T", "divides logits; 0: always the likeliest token (default 0)")
      .value("top-k", "K", "choose among the K likeliest tokens (default: all)")
      .value("seed", "N", "seed of the choices (default 1)")
      .input("tokenizer", "FILE",
             "tokenizer.json, or a folder that has it (default: that of DIR, else a byte a token)");
  add_depth_option(options);
  add_kernel_options(options);
  return options;
}

int run_generate(const Options& options) {
  if (!options.has("prompt")) refuse(options, "--prompt is missing");
  choose_kernels(options, true);
  const SamplingConfig sampling{
      .temperature = options.number("temperature", 0.0, 1e6, 0.0),
      .top_k = static_cast<std::int32_t>(options.integer("top-k", 1, kMostTokens, 0)),
      .seed = static_cast<std::uint64_t>(options.integer("seed", 0, 1'000'000'000'000, 1))};
  const std::int64_t more = options.integer("tokens", 1, kMostTokens, 64);
  const ModelFolder folder = open_model_folder(options.words()[0]);
  const TextTokens text(options, folder.path);
  const std::vector<std::int32_t> prompt = text.encode(options.text("prompt"));
  for (const std::string& note : folder.notes) print_note(note);
  check_tokens(prompt, more, folder.model);
  std::vector<std::int32_t> tokens = prompt;
  const auto show = [&] { fmt::print("{}\n", text.decode(tokens)); };
  try {
    generate(folder, stages_of(options, folder.model), text, sampling, more, tokens);
  } catch (const Interrupted&) {
    if (!options.has("json")) show();
    throw;
  }
  if (options.has("json")) {
    print_result(
        "generate", {{"folder", folder.path}, {"seed", sampling.seed}}, Json::object(),
        {{"text", text.decode(tokens)}, {"tokens", tokens}, {"prompt_tokens", prompt.size()}});
  } else {
    show();
  }
  return 0;
}

}  // namespace tandem::tools
