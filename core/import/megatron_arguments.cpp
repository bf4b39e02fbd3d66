#include "core/import/megatron_arguments.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/files/model_file.h"
#include "core/import/megatron_layout.h"
#include "core/notation/notation_words.h"
#include "core/text/json_document.h"

namespace tandem {
namespace {

constexpr std::int32_t kMostArgument = 1'048'576;
constexpr std::int32_t kMostTensor = 1024;
constexpr std::int32_t kVocabularyUnit = 128;  // --make-vocab-size-divisible-by

/// Those that have a value.
constexpr auto kValues = std::to_array<std::string_view>(
    {"num-layers", "hidden-size", "ffn-hidden-size", "num-attention-heads", "num-query-groups",
     "kv-channels", "seq-length", "max-position-embeddings", "vocab-size",
     "make-vocab-size-divisible-by", "tensor-model-parallel-size", "normalization",
     "position-embedding-type", "num-experts", "hidden-dropout"});
constexpr auto kMegatronFlags = std::to_array<std::string_view>(
    {"swiglu", "group-query-attention", "untie-embeddings-and-output-weights",
     "disable-bias-linear", "add-qkv-bias", "qk-layernorm", "use-rotary-position-embeddings",
     "multi-latent-attention"});

/// How it was run rather than what: numbers that options of simulate take, too.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kRun{
    {{"tensor-model-parallel-size", "tensor"},
     {"pipeline-model-parallel-size", "depth"},
     {"micro-batch-size", "microbatch-size"},
     {"global-batch-size", "global-batch"}}};
/// These say more together, and with numbers above.
constexpr std::string_view kLayersOfChunk = "num-layers-per-virtual-pipeline-stage";
constexpr std::string_view kChunks = "num-virtual-stages-per-pipeline-rank";
constexpr std::string_view kLayout = "pipeline-model-parallel-layout";
constexpr std::string_view kGroup = "microbatch-group-size-per-virtual-pipeline-stage";
constexpr std::string_view kRecompute = "recompute-granularity";
constexpr std::string_view kRecomputeMethod = "recompute-method";
constexpr std::string_view kRecomputeLayers = "recompute-num-layers";
constexpr std::string_view kSequenceParallel = "sequence-parallel";
constexpr std::string_view kRecomputeFlag = "recompute-activations";
constexpr std::string_view kSharded = "use-distributed-optimizer";
constexpr std::string_view kStagesFirst = "use-tp-pp-dp-mapping";

template <class List>
bool contains(const List& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

bool has_value(std::string_view name) {
  constexpr std::array kOthers{kLayersOfChunk, kChunks,          kLayout,         kGroup,
                               kRecompute,     kRecomputeMethod, kRecomputeLayers};
  return contains(kValues, name) || contains(kOthers, name) ||
         std::any_of(kRun.begin(), kRun.end(), [&](const auto& row) { return row.first == name; });
}

bool is_flag(std::string_view name) {
  constexpr std::array kOthers{kRecomputeFlag, kSequenceParallel, kSharded, kStagesFirst};
  return contains(kMegatronFlags, name) || contains(kOthers, name);
}

class Arguments {
 public:
  Arguments(std::string_view text, std::string_view file) : in_(text, file) {
    while (in_.next_line()) {
      if (in_.rest().starts_with('#')) continue;
      for (std::string_view word = next_word(); !word.empty(); word = next_word()) read(word);
    }
    if (waiting_) diagnose_missing_value();
  }

  ModelSpec model() {
    ModelSpec model;
    model.architecture = Architecture::transformer;
    model.blocks = number("num-layers", kMostBlocks);
    model.width = number("hidden-size", kMostArgument);
    model.heads = number("num-attention-heads", kMostArgument);
    model.sequence = number("seq-length", kMostArgument);
    model.vocabulary = vocabulary();
    model.tied = !has("untie-embeddings-and-output-weights");
    model.shape = shape(model);
    for (const char* absent : {"num-experts", "multi-latent-attention"}) {
      if (has(absent))
        in_.diagnose(given_.at(absent), fmt::format("--{} has no analytic costs", absent));
    }
    in_.finish();
    if (const std::string fault = shape_fault(model); !fault.empty())
      in_.diagnose(given_.at("num-attention-heads"), fault);
    in_.finish();
    return as_plain_as_it_is(std::move(model));
  }

  MegatronRun run() {
    MegatronRun run;
    for (const auto& [name, option] : kRun) {
      if (const auto value = run_number(name))
        run.options.emplace_back(option, fmt::format("{}", *value));
    }
    add_chunks(run.options, run_number("pipeline-model-parallel-size").value_or(1));
    if (has(kSequenceParallel)) run.options.emplace_back(kSequenceParallel, "");
    if (has(kSharded)) run.options.emplace_back("zero", "1");
    if (has(kStagesFirst)) run.options.emplace_back("device-order", "stages-first");
    add_recompute(run.options);
    run.passed_over = std::move(passed_over_);
    return run;
  }

 private:
  bool has(std::string_view name) const { return given_.contains(name); }

  /// Without a shell's quotes and brackets; a line's last backslash is no word.
  std::string_view next_word() {
    while (true) {
      std::string_view word = in_.next_word();
      if (word.empty()) return word;
      constexpr std::string_view kAround = "\"'()\\";
      const std::size_t first = word.find_first_not_of(kAround);
      if (first == std::string_view::npos) continue;
      return word.substr(first, word.find_last_not_of(kAround) + 1 - first);
    }
  }

  void read(std::string_view word) {
    const bool option = word.starts_with("--");
    if (waiting_ && option) diagnose_missing_value();
    if (waiting_) {
      keep(*std::exchange(waiting_, std::nullopt), word);
      return;
    }
    if (!option) return;
    std::string_view name = word.substr(2);
    const std::size_t equal = name.find('=');
    const std::string_view value =
        equal == std::string_view::npos ? std::string_view() : name.substr(equal + 1);
    name = name.substr(0, equal);
    if (is_flag(name)) return keep(name, word);
    if (!has_value(name)) return pass_over(name);
    if (equal != std::string_view::npos) return keep(name, value);
    waiting_ = name;
    at_ = in_.place_of(word);
  }

  void pass_over(std::string_view name) {
    constexpr std::string_view kOfNames =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    name = name.substr(0, name.find_first_not_of(kOfNames));
    if (!name.empty() && !contains(passed_over_, name)) passed_over_.emplace_back(name);
  }

  /// A number of how it was run; none: not given, or passed over as no number.
  std::optional<std::int32_t> run_number(std::string_view name) {
    if (!has(name)) return std::nullopt;
    const std::optional<std::int32_t> value = integer(given_.at(name).word, kMostArgument);
    if (!value) pass_over(name);
    return value;
  }

  void add_chunks(std::vector<std::pair<std::string, std::string>>& options, std::int32_t depth) {
    std::optional<std::int32_t> chunks = run_number(kChunks);
    const auto layout = layout_of();
    if (layout && !chunks && std::ssize(*layout) % depth == 0)
      chunks = static_cast<std::int32_t>(std::ssize(*layout) / depth);
    if (const auto layers = run_number(kLayersOfChunk); layers && !chunks) {
      const std::int64_t each = std::int64_t{depth} * *layers;
      const std::int32_t all = has("num-layers") ? run_number("num-layers").value_or(0) : 0;
      if (all > 0 && all % each == 0) chunks = static_cast<std::int32_t>(all / each);
      if (!chunks) pass_over(kLayersOfChunk);
    }
    if (depth == 1) return;
    const bool interleaved = chunks.value_or(1) > 1;
    options.emplace_back("schedule", interleaved ? "interleaved" : "1f1b");
    if (interleaved) options.emplace_back("chunks", fmt::format("{}", *chunks));
    if (const auto group = run_number(kGroup); group && interleaved)
      options.emplace_back("group", fmt::format("{}", *group));
    if (!layout) return;
    std::vector<std::string> stages;
    for (const LayerRange range : *layout)
      stages.push_back(fmt::format("{}-{}", range.first, range.last));
    options.emplace_back("stages", fmt::format("{}", fmt::join(stages, ",")));
  }

  /// None given, or passed over as no layout of the model's blocks.
  std::optional<std::vector<LayerRange>> layout_of() {
    if (!has(kLayout)) return std::nullopt;
    const std::int32_t blocks = has("num-layers") ? run_number("num-layers").value_or(0) : 0;
    auto layout = parse_megatron_layout(given_.at(kLayout).word, blocks);
    if (!layout) pass_over(kLayout);
    return layout;
  }

  /// Each block by itself, unless a method and a number say otherwise.
  std::string recomputed_blocks() {
    const std::int32_t count = run_number(kRecomputeLayers).value_or(1);
    if (is(kRecomputeMethod, "block")) return fmt::format("blocks:{}", count);
    if (has(kRecomputeMethod) && !is(kRecomputeMethod, "uniform")) pass_over(kRecomputeMethod);
    return count > 1 ? fmt::format("uniform:{}", count) : "full";
  }

  void add_recompute(std::vector<std::pair<std::string, std::string>>& options) {
    if (is(kRecompute, "full")) {
      options.emplace_back("recompute", recomputed_blocks());
    } else if (is(kRecompute, "selective")) {
      options.emplace_back("recompute", "selective");
    } else if (has(kRecompute)) {
      pass_over(kRecompute);
    } else if (has(kRecomputeFlag)) {
      options.emplace_back("recompute", "selective");
    }
  }

  /// The last one counts, as it does there.
  void keep(std::string_view name, std::string_view value) {
    given_.insert_or_assign(name, in_.place_of(value));
  }

  void diagnose_missing_value() {
    in_.diagnose(at_, fmt::format("--{} has no value", *waiting_));
    waiting_.reset();
  }

  static std::optional<std::int32_t> integer(std::string_view word, std::int32_t most) {
    const std::string_view digits = WordReader::take_digits(word);
    constexpr std::size_t kMostDigits = 9;
    if (digits.empty() || !word.empty() || digits.size() > kMostDigits) return std::nullopt;
    const std::int32_t value = std::stoi(std::string(digits));
    return value >= 1 && value <= most ? std::optional(value) : std::nullopt;
  }

  /// Of an option that must be there, but for `otherwise`.
  std::int32_t number(std::string_view name, std::int32_t most,
                      std::optional<std::int32_t> otherwise = {}) {
    if (!has(name)) {
      if (!otherwise) in_.diagnose_whole_text(fmt::format("no --{}", name));
      return otherwise.value_or(1);
    }
    const WordPlace& place = given_.at(name);
    if (const std::optional<std::int32_t> value = integer(place.word, most)) return *value;
    in_.diagnose(place, fmt::format("--{}: expected an integer from 1 to {}, found \"{}\"", name,
                                    most, shown(place.word)));
    return 1;
  }

  /// As many as a GPU of each group has, all alike.
  std::int32_t vocabulary() {
    const std::int64_t asked = number("vocab-size", kLargestVocabulary);
    const std::int64_t unit =
        std::int64_t{number("make-vocab-size-divisible-by", kMostArgument, kVocabularyUnit)} *
        number("tensor-model-parallel-size", kMostTensor, 1);
    return static_cast<std::int32_t>(
        std::min<std::int64_t>((asked + unit - 1) / unit * unit, kLargestVocabulary));
  }

  bool is(std::string_view name, std::string_view value) const {
    return has(name) && given_.at(name).word == value;
  }

  TransformerShape shape(const ModelSpec& model) {
    TransformerShape shape;
    shape.gated = has("swiglu");
    shape.key_value_heads =
        has("group-query-attention") ? number("num-query-groups", kMostArgument, 1) : model.heads;
    shape.head_width = number("kv-channels", kMostArgument, std::max(1, model.width / model.heads));
    const std::int64_t wide =
        shape.gated ? std::int64_t{model.width} * 8 / 3 / 64 * 64 : 4 * std::int64_t{model.width};
    shape.mlp_width =
        number("ffn-hidden-size", kMostArgument,
               static_cast<std::int32_t>(std::clamp<std::int64_t>(wide, 1, kMostArgument)));
    const bool rotary =
        has("use-rotary-position-embeddings") || is("position-embedding-type", "rope");
    if (!rotary) shape.positions = number("max-position-embeddings", kMostArgument, model.sequence);
    shape.rms_norm = is("normalization", "RMSNorm");
    shape.head_norm = has("qk-layernorm");
    shape.mlp_bias = shape.attention_bias = !has("disable-bias-linear");
    shape.query_bias = shape.mlp_bias || has("add-qkv-bias");
    shape.dropout = !is("hidden-dropout", "0") && !is("hidden-dropout", "0.0");
    return shape;
  }

  WordReader in_;
  std::map<std::string_view, WordPlace> given_;
  std::optional<std::string_view> waiting_;  // for its value
  WordPlace at_;
  std::vector<std::string> passed_over_;
};

}  // namespace

bool is_megatron(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] != '{' && text[first] != '/' &&
         text.find("--num-layers") != std::string_view::npos;
}

ModelSpec parse_megatron(const std::string& file, std::string_view text) {
  ModelSpec model = Arguments(text, file).model();
  model.name = std::filesystem::path(file).stem().string();
  return model;
}

NotedModel parse_noted_megatron(const std::string& file, std::string text) {
  NotedModel read{.model = parse_megatron(file, text)};
  if (const std::string options = options_text(parse_megatron_run(file, text)); !options.empty())
    read.notes.push_back("only its layers are taken; the run it describes has the options" +
                         options);
  return read;
}

std::string options_text(const MegatronRun& run) {
  std::string text;
  for (const auto& [name, value] : run.options)
    text += fmt::format(" --{}{}{}", name, value.empty() ? "" : " ", value);
  return text;
}

MegatronRun parse_megatron_run(const std::string& file, std::string_view text) {
  return Arguments(text, file).run();
}

}  // namespace tandem
