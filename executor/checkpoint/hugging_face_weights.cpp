#include "executor/checkpoint/hugging_face_weights.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/text/files.h"
#include "core/text/json_reader.h"
#include "executor/checkpoint/checkpoint_info.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestIndex = 256U << 20U;
constexpr std::size_t kMostListed = 40;
constexpr std::string_view kIndexName = "model.safetensors.index.json";
constexpr std::array<std::string_view, 2> kClassPrefixes = {"transformer.", "model."};

/// The files that an index names, each once. Throws InputError for a name that leads elsewhere.
std::vector<std::string> files_of_index(const fs::path& index) {
  JsonFile file(index.string(), read_file(index.string(), kLongestIndex));
  std::set<std::string> names;
  const JsonReader root = file.root();
  if (root.any_object()) {
    for (const auto& [tensor, name] : root["weight_map"].members()) {
      const std::string text = name.line();
      if (!is_plain_name(text)) name.diagnose("expected the name of a file in the same folder");
      names.insert(text);
    }
  }
  file.finish();
  std::vector<std::string> paths;
  for (const std::string& name : names) paths.push_back((index.parent_path() / name).string());
  return paths;
}

std::vector<std::string> files_in(const std::string& folder) {
  const fs::path path(folder);
  std::error_code error;
  if (fs::exists(path / kWeightsName, error)) return {(path / kWeightsName).string()};
  if (fs::exists(path / kIndexName, error)) return files_of_index(path / kIndexName);
  throw InputError(
      fmt::format("{}: there is neither {} nor {} here", folder, kWeightsName, kIndexName));
}

std::string_view without_prefix(std::string_view name) {
  for (const std::string_view prefix : kClassPrefixes) {
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  }
  return name;
}

/// GPT-2's buffers: which tokens a token sees.
bool is_mask(std::string_view name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
}

std::string listed(std::vector<std::string> lines) {
  const std::size_t all = lines.size();
  if (all > kMostListed) {
    lines.resize(kMostListed);
    lines.push_back(fmt::format("and {} further ones", all - kMostListed));
  }
  return fmt::format("{}", fmt::join(lines, "\n  "));
}

}  // namespace

HuggingFaceWeights::HuggingFaceWeights(const std::string& folder, const ModelSpec& model)
    : model_(model) {
  if (model.architecture == Architecture::linear)
    throw InputError("a linear model has no weights of Hugging Face's library");
  for (const std::string& path : files_in(folder)) files_.emplace_back(path);
  std::vector<std::string> faults = missing_and_wrong();
  const std::vector<std::string> others = unknown();
  faults.insert(faults.end(), others.begin(), others.end());
  if (!faults.empty()) {
    throw InputError(fmt::format("{}: these are not the weights of model \"{}\"\n  {}", folder,
                                 model.name, listed(std::move(faults))));
  }
}

HuggingFaceWeights::Found HuggingFaceWeights::find(const std::string& name) const {
  for (const std::string_view tried : {std::string_view(name), without_prefix(name)}) {
    for (const SafetensorsFile& file : files_) {
      if (const StoredTensor* const found = file.find(tried)) return {&file, found};
    }
  }
  return {};
}

std::string HuggingFaceWeights::fault_of(const NamedPart& part, const Tensor& tensor) {
  const auto [file, stored] = find(part.name);
  if (stored == nullptr) return fmt::format("{} is missing", part.name);
  if (!is_float_type(stored->type)) {
    return fmt::format("{} is of type {}; F32, BF16 and F16 are read", part.name, stored->type);
  }
  if (stored->shape == part.shape) return {};
  const bool has_more_rows = tensor.name == kPositionTable && stored->shape.size() == 2 &&
                             stored->shape[1] == part.shape[1] && stored->shape[0] > part.shape[0];
  if (!has_more_rows) {
    return fmt::format("{} has the shape {}, not {}", part.name, shape_text(stored->shape),
                       shape_text(part.shape));
  }
  notes_.push_back(fmt::format("{} has {} positions, of which the model takes the first {}",
                               part.name, stored->shape[0], part.shape[0]));
  return {};
}

std::vector<std::string> HuggingFaceWeights::missing_and_wrong() {
  std::vector<std::string> faults;
  for (const LayerTensor& each : tensors_of(model_)) {
    for (const NamedPart& part : named_parts(model_, each.tensor)) {
      if (std::string fault = fault_of(part, each.tensor); !fault.empty())
        faults.push_back(std::move(fault));
    }
  }
  return faults;
}

std::vector<std::string> HuggingFaceWeights::unknown() const {
  std::set<std::string, std::less<>> known;
  for (const LayerTensor& each : tensors_of(model_)) {
    for (const NamedPart& part : named_parts(model_, each.tensor))
      known.insert(std::string(without_prefix(part.name)));
  }
  if (model_.tied) known.insert("lm_head.weight");  // the embedding's table again
  std::set<std::string, std::less<>> seen;
  std::vector<std::string> faults;
  for (const SafetensorsFile& file : files_) {
    for (const StoredTensor& tensor : file.tensors()) {
      if (is_mask(tensor.name)) continue;
      if (!seen.insert(std::string(without_prefix(tensor.name))).second) {
        faults.push_back(fmt::format("{} is there twice: which of them counts?", tensor.name));
        continue;
      }
      if (known.contains(without_prefix(tensor.name))) continue;
      faults.push_back(fmt::format("{} is no tensor of the model", tensor.name));
    }
  }
  return faults;
}

bool HuggingFaceWeights::read(Plane plane, const Tensor& tensor, std::span<float> values) const {
  if (plane != kNewestWeights) return false;
  Tensor held = tensor;
  if (is_tied_copy(model_, tensor)) held.name = kTokenTable;
  for (const NamedPart& part : named_parts(model_, held)) {
    const auto [file, stored] = find(part.name);
    std::vector<float> taken(static_cast<std::size_t>(part.size()));
    file->read(*stored, 0, taken);
    put_part(part, taken, values);
  }
  return true;
}

}  // namespace tandem
