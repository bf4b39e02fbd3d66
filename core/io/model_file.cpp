#include "core/io/model_file.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/io/files.h"
#include "core/io/json_text.h"
#include "core/io/read.h"

namespace tandem {
namespace {

constexpr std::int64_t kVersion = 1;

// Far beyond any model trained, and small enough that no product of them leaves int64.
constexpr std::int32_t kMostBlocks = 10'000;
constexpr std::int32_t kWidest = 1'048'576;
constexpr std::int32_t kLongestSequence = 1'048'576;
constexpr std::int32_t kLargestVocabulary = 16'777'216;

constexpr std::array<std::pair<std::string_view, Architecture>, 2> kArchitectures{
    {{"gpt2", Architecture::gpt2}, {"linear", Architecture::linear}}};

std::string_view architecture_name(Architecture architecture) {
  return kArchitectures[static_cast<std::size_t>(architecture)].first;
}

void read_width_and_heads(const JsonReader& reader, ModelSpec& model) {
  const std::size_t before = reader.complaints();
  model.width = reader["width"].integer<std::int32_t>(1, kWidest);
  // Heads mean nothing to a linear model.
  const JsonReader heads =
      model.architecture == Architecture::gpt2 ? reader["heads"] : reader.optional("heads");
  model.heads = heads.absent() ? 1 : heads.integer<std::int32_t>(1, kWidest);
  if (reader.complaints() == before && model.width % model.heads != 0) {
    heads.expected(fmt::format("a divisor of the width {}", model.width));
  }
}

}  // namespace

ModelSpec read_model_object(const JsonReader& reader) {
  ModelSpec model;
  if (!reader.object({"version", "name", "architecture", "blocks", "width", "heads", "sequence",
                      "vocabulary", "tied"})) {
    return model;
  }
  read_version(reader, kVersion);
  if (reader.has("name")) model.name = reader["name"].string();
  if (reader.has("architecture")) {
    model.architecture = reader["architecture"].one_of(kArchitectures);
  }
  model.blocks = reader["blocks"].integer<std::int32_t>(1, kMostBlocks);
  read_width_and_heads(reader, model);
  model.sequence = reader["sequence"].integer<std::int32_t>(1, kLongestSequence);
  if (reader.has("vocabulary")) {
    model.vocabulary = reader["vocabulary"].integer<std::int32_t>(1, kLargestVocabulary);
  }
  if (reader.has("tied")) model.tied = reader["tied"].boolean();
  return model;
}

nlohmann::ordered_json model_json(const ModelSpec& model) {
  return {{"version", kVersion},
          {"name", model.name},
          {"architecture", architecture_name(model.architecture)},
          {"blocks", model.blocks},
          {"width", model.width},
          {"heads", model.heads},
          {"sequence", model.sequence},
          {"vocabulary", model.vocabulary},
          {"tied", model.tied}};
}

OptimizerKind read_optimizer(const JsonReader& reader) {
  static const std::array<std::pair<std::string_view, OptimizerKind>, 3> kKinds{
      {{name(OptimizerKind::sgd), OptimizerKind::sgd},
       {name(OptimizerKind::momentum), OptimizerKind::momentum},
       {name(OptimizerKind::adamw), OptimizerKind::adamw}}};
  return reader.one_of(kKinds);
}

ModelSpec parse_model(const std::string& file, std::string text) {
  JsonFile json(file, std::move(text));
  ModelSpec model = read_model_object(json.root());
  json.finish();
  return model;
}

ModelSpec read_model(const std::string& path) {
  return parse_model(path, read_file(path, kLargestJson));
}

std::string model_text(const ModelSpec& model) { return json_text(model_json(model)); }

void write_model(const std::string& path, const ModelSpec& model) {
  write_file(path, model_text(model));
}

}  // namespace tandem
