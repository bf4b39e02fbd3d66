#include "core/files/model_file.h"

#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/files/read.h"
#include "core/text/json_text.h"

namespace tandem {
namespace {

constexpr std::int64_t kModelFileVersion = 1;

constexpr std::array<std::pair<std::string_view, bool TransformerShape::*>, 14> kShapeFlags{
    {{"expert_bias", &TransformerShape::expert_bias},
     {"causal", &TransformerShape::causal},
     {"rms_norm", &TransformerShape::rms_norm},
     {"norm_first", &TransformerShape::norm_first},
     {"output_norm", &TransformerShape::output_norm},
     {"head_norm", &TransformerShape::head_norm},
     {"query_bias", &TransformerShape::query_bias},
     {"attention_bias", &TransformerShape::attention_bias},
     {"mlp_bias", &TransformerShape::mlp_bias},
     {"gated", &TransformerShape::gated},
     {"dropout", &TransformerShape::dropout},
     {"masked_head", &TransformerShape::masked_head},
     {"pooler", &TransformerShape::pooler},
     {"sentence_head", &TransformerShape::sentence_head}}};

void read_width_and_heads(const JsonReader& reader, ModelSpec& model) {
  const std::size_t before = reader.diagnostics();
  model.width = reader["width"].integer<std::int32_t>(1, kWidest);
  // Heads mean nothing to a linear model.
  const JsonReader heads =
      model.architecture == Architecture::linear ? reader.optional("heads") : reader["heads"];
  model.heads = heads.absent() ? 1 : heads.integer<std::int32_t>(1, kWidest);
  const bool split = model.architecture != Architecture::transformer;
  if (reader.diagnostics() == before && split && model.width % model.heads != 0)
    heads.expected(fmt::format("a divisor of the width {}", model.width));
}

/// Keeps what is not given.
void read_number(const JsonReader& value, double low, double& number) {
  if (!value.absent()) number = value.number(low);
}

void read_rotary(const JsonReader& reader, RotaryPositions& rotary) {
  if (reader.absent() || !reader.object({"theta", "scaling", "factor", "low_frequency_factor",
                                         "high_frequency_factor", "original_positions"})) {
    return;
  }
  rotary.theta = reader["theta"].number(kLeastTheta);
  if (reader.has("scaling"))
    rotary.scaling = reader["scaling"].one_of<RotaryScaling>(kRotaryScalings);
  read_number(reader.optional("factor"), kLeastFactor, rotary.factor);
  read_number(reader.optional("low_frequency_factor"), kLeastFactor, rotary.low_frequency_factor);
  read_number(reader.optional("high_frequency_factor"), kLeastFactor, rotary.high_frequency_factor);
  if (reader.has("original_positions")) {
    rotary.original_positions =
        reader["original_positions"].integer<std::int32_t>(1, kLongestSequence);
  }
}

void read_details(const JsonReader& reader, LayerDetails& details) {
  read_number(reader.optional("norm_epsilon"), 0.0, details.norm_epsilon);
  read_number(reader.optional("initial_deviation"), 0.0, details.initial_deviation);
  if (reader.has("activation"))
    details.activation = reader["activation"].one_of<Activation>(kActivations);
  if (reader.has("sliding_window"))
    details.sliding_window = reader["sliding_window"].integer<std::int32_t>(0, kLongestSequence);
  read_rotary(reader.optional("rotary"), details.rotary);
}

/// From `least`, which is what it is where nothing is said.
std::int32_t count(const JsonReader& value, std::int32_t least, std::int32_t most) {
  return value.absent() ? least : value.integer<std::int32_t>(least, most);
}

void read_experts_of_shape(const JsonReader& reader, TransformerShape& shape) {
  shape.experts = count(reader.optional("experts"), 0, kMostExperts);
  shape.experts_per_token = count(reader.optional("experts_per_token"), 0, kMostExperts);
  shape.shared_experts = count(reader.optional("shared_experts"), 0, kMostExperts);
  shape.dense_blocks = count(reader.optional("dense_blocks"), 0, kMostBlocks);
  shape.dense_mlp_width = count(reader.optional("dense_mlp_width"), 0, kWidest);
}

void read_latent(const JsonReader& reader, LatentAttention& latent) {
  if (reader.absent() ||
      !reader.object({"key_value_rank", "query_rank", "rotary_width", "value_width"})) {
    return;
  }
  latent.key_value_rank = count(reader["key_value_rank"], 1, kWidest);
  latent.query_rank = count(reader.optional("query_rank"), 0, kWidest);
  latent.rotary_width = count(reader["rotary_width"], 0, kWidest);
  latent.value_width = count(reader["value_width"], 1, kWidest);
}

void read_shape(const JsonReader& reader, ModelSpec& model) {
  TransformerShape& shape = model.shape;
  std::vector<std::string_view> known{
      "key_value_heads", "head_width",        "mlp_width",      "positions",    "segments",
      "experts",         "experts_per_token", "norm_epsilon",   "activation",   "sliding_window",
      "rotary",          "initial_deviation", "shared_experts", "dense_blocks", "dense_mlp_width",
      "latent"};
  for (const auto& [key, flag] : kShapeFlags) known.push_back(key);
  if (!reader.object(known)) return;
  shape.key_value_heads = count(reader["key_value_heads"], 1, kWidest);
  shape.head_width = count(reader["head_width"], 1, kWidest);
  shape.mlp_width = count(reader["mlp_width"], 1, kWidest);
  shape.positions = count(reader.optional("positions"), 0, 2 * kLongestSequence);
  shape.segments = count(reader.optional("segments"), 0, kLongestSequence);
  read_experts_of_shape(reader, shape);
  read_latent(reader.optional("latent"), shape.latent);
  for (const auto& [key, flag] : kShapeFlags) {
    if (reader.has(key)) shape.*flag = reader[key].boolean();
  }
  read_details(reader, shape.details);
  if (reader.diagnostics() > 0) return;
  if (const std::string fault = shape_fault(model); !fault.empty()) reader.diagnose(fault);
}

std::string fault_of_experts(const ModelSpec& model) {
  const TransformerShape& shape = model.shape;
  if (shape.experts_per_token > shape.experts ||
      (shape.experts > 0 && shape.experts_per_token == 0)) {
    return fmt::format("a token can't take {} of {} experts", shape.experts_per_token,
                       shape.experts);
  }
  if ((std::int64_t{shape.experts} + shape.shared_experts) * shape.mlp_width > kWidestExperts) {
    return fmt::format("{} experts of {} channels: expected at most {} in all",
                       shape.experts + shape.shared_experts, shape.mlp_width, kWidestExperts);
  }
  if (shape.experts == 0 && (shape.shared_experts > 0 || shape.dense_blocks > 0))
    return "shared experts and dense blocks are of a model with experts";
  if (shape.dense_blocks > 0 && shape.dense_blocks >= model.blocks) {
    return fmt::format("{} dense blocks of {}: expected fewer, or no experts", shape.dense_blocks,
                       model.blocks);
  }
  if ((shape.dense_blocks > 0) != (shape.dense_mlp_width > 0))
    return "dense blocks and the width of their mlp are given together";
  return {};
}

std::string fault_of_latent_attention(const ModelSpec& model) {
  const TransformerShape& shape = model.shape;
  if (!shape.is_latent()) return {};
  if (shape.key_value_heads != model.heads) {
    return fmt::format(
        "latent attention has as many heads of keys and values as of queries: {}, "
        "not {}",
        model.heads, shape.key_value_heads);
  }
  if (shape.latent.rotary_width > shape.head_width) {
    return fmt::format("positions can't turn {} of a head's {} channels", shape.latent.rotary_width,
                       shape.head_width);
  }
  if (std::int64_t{model.heads} * shape.latent.value_width > kWidest) {
    return fmt::format("{} heads of {} channels of values: expected at most {} in all", model.heads,
                       shape.latent.value_width, kWidest);
  }
  if (shape.positions > 0 || shape.query_bias || shape.attention_bias || shape.head_norm)
    return "latent attention has rotary positions, no biases, and no norms of heads";
  return {};
}

}  // namespace

std::string shape_fault(const ModelSpec& model) {
  const TransformerShape& shape = model.shape;
  if (model.heads % shape.key_value_heads != 0) {
    return fmt::format("{} heads can't share {} heads of keys and values evenly", model.heads,
                       shape.key_value_heads);
  }
  if (std::int64_t{model.heads} * shape.head_width > kWidest) {
    return fmt::format("{} heads of {} channels: expected at most {} in all", model.heads,
                       shape.head_width, kWidest);
  }
  if (shape.positions > 0 && model.sequence > shape.positions) {
    return fmt::format("a sequence of {} tokens is longer than the {} learned positions",
                       model.sequence, shape.positions);
  }
  if (std::string fault = fault_of_experts(model); !fault.empty()) return fault;
  return fault_of_latent_attention(model);
}

ModelSpec as_plain_as_it_is(ModelSpec model) {
  if (model.width % model.heads != 0) return model;
  ModelSpec gpt2 = model;
  gpt2.architecture = Architecture::gpt2;
  gpt2.shape = {};
  return shape_of(gpt2) == model.shape ? gpt2 : model;
}

ModelSpec read_model_object(const JsonReader& reader) {
  ModelSpec model;
  if (!reader.object({"version", "name", "architecture", "blocks", "width", "heads", "sequence",
                      "vocabulary", "tied", "shape"})) {
    return model;
  }
  read_version(reader, kModelFileVersion);
  if (reader.has("name")) model.name = reader["name"].line();
  if (reader.has("architecture"))
    model.architecture = reader["architecture"].one_of<Architecture>(kArchitectures);
  model.blocks = reader["blocks"].integer<std::int32_t>(1, kMostBlocks);
  read_width_and_heads(reader, model);
  model.sequence = reader["sequence"].integer<std::int32_t>(1, kLongestSequence);
  if (reader.has("vocabulary"))
    model.vocabulary = reader["vocabulary"].integer<std::int32_t>(1, kLargestVocabulary);
  if (reader.has("tied")) model.tied = reader["tied"].boolean();
  if (model.architecture == Architecture::transformer) {
    read_shape(reader["shape"], model);
  } else if (reader.has("shape")) {
    reader["shape"].diagnose("only \"architecture\": \"transformer\" has a shape");
  }
  return model;
}

ModelSpec read_trainable_model(const JsonReader& reader) {
  const std::size_t before = reader.diagnostics();
  const ModelSpec model = read_model_object(reader);
  if (reader.diagnostics() > before) return model;
  if (const std::string reason = why_untrainable(model); !reason.empty()) {
    reader["architecture"].diagnose(fmt::format(
        "this transformer {}: it is priced on a cluster, not measured or trained", reason));
  }
  return model;
}

namespace {

nlohmann::ordered_json rotary_json(const RotaryPositions& rotary) {
  nlohmann::ordered_json json{{"theta", rotary.theta}};
  if (rotary.scaling == RotaryScaling::none) return json;
  json["scaling"] = name(rotary.scaling);
  if (rotary.scaling == RotaryScaling::other) return json;
  json["factor"] = rotary.factor;
  json["low_frequency_factor"] = rotary.low_frequency_factor;
  json["high_frequency_factor"] = rotary.high_frequency_factor;
  json["original_positions"] = rotary.original_positions;
  return json;
}

nlohmann::ordered_json latent_json(const LatentAttention& latent) {
  return {{"key_value_rank", latent.key_value_rank},
          {"query_rank", latent.query_rank},
          {"rotary_width", latent.rotary_width},
          {"value_width", latent.value_width}};
}

}  // namespace

nlohmann::ordered_json shape_json(const TransformerShape& shape) {
  nlohmann::ordered_json json{{"key_value_heads", shape.key_value_heads},
                              {"head_width", shape.head_width},
                              {"mlp_width", shape.mlp_width},
                              {"positions", shape.positions},
                              {"segments", shape.segments}};
  if (shape.experts > 0) {
    json["experts"] = shape.experts;
    json["experts_per_token"] = shape.experts_per_token;
    if (shape.shared_experts > 0) json["shared_experts"] = shape.shared_experts;
    if (shape.dense_blocks > 0) {
      json["dense_blocks"] = shape.dense_blocks;
      json["dense_mlp_width"] = shape.dense_mlp_width;
    }
  }
  if (shape.is_latent()) json["latent"] = latent_json(shape.latent);
  for (const auto& [key, flag] : kShapeFlags) {
    if (shape.experts > 0 || flag != &TransformerShape::expert_bias)
      json[std::string(key)] = shape.*flag;
  }
  const LayerDetails &details = shape.details, usual = {};
  if (details.norm_epsilon != usual.norm_epsilon) json["norm_epsilon"] = details.norm_epsilon;
  if (details.initial_deviation != usual.initial_deviation)
    json["initial_deviation"] = details.initial_deviation;
  if (details.activation != usual.activation) json["activation"] = name(details.activation);
  if (details.sliding_window > 0) json["sliding_window"] = details.sliding_window;
  if (details.rotary.theta > 0.0) json["rotary"] = rotary_json(details.rotary);
  return json;
}

nlohmann::ordered_json model_json(const ModelSpec& model) {
  nlohmann::ordered_json json{{"version", kModelFileVersion},
                              {"name", model.name},
                              {"architecture", name(model.architecture)},
                              {"blocks", model.blocks},
                              {"width", model.width},
                              {"heads", model.heads},
                              {"sequence", model.sequence},
                              {"vocabulary", model.vocabulary},
                              {"tied", model.tied}};
  if (model.architecture == Architecture::transformer) json["shape"] = shape_json(model.shape);
  return json;
}

std::string model_text(const ModelSpec& model) { return json_text(model_json(model)); }

}  // namespace tandem
