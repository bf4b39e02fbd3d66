#include "executor/checkpoint/checkpoint_info.h"

#include <charconv>
#include <cstddef>
#include <limits>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <xxhash.h>

#include "core/base/error.h"
#include "core/files/model_file.h"
#include "core/files/optimizer_json.h"
#include "core/text/json_reader.h"
#include "core/text/json_text.h"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kManifestVersion = 1;
constexpr std::int64_t kMostCounted = std::int64_t{1} << 60;
constexpr std::int64_t kMostBatches = 100'000'000;  // as --steps takes
constexpr std::string_view kSumLine = "// xxh3 of all above: ";

std::string hex(std::uint64_t number) { return fmt::format("{:016x}", number); }

std::uint64_t read_hex(const JsonReader& reader) {
  const std::string text = reader.line();
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  if (text.size() != 16 || error != std::errc() || end != text.data() + text.size())
    reader.diagnose("expected 16 hexadecimal digits");
  return number;
}

std::uint64_t read_seed(const JsonReader& reader) {
  return static_cast<std::uint64_t>(reader.integer(0, std::numeric_limits<std::int64_t>::max()));
}

Json info_json(const CheckpointInfo& info) {
  Json settings = Json::object();
  for (const auto& [name, value] : info.settings) settings[name] = value;
  Json json{{"version", kManifestVersion},
            {"written_by", info.written_by},
            {"batches", info.batches},
            {"samples", info.samples},
            {"samples_a_batch", info.samples_a_batch},
            {"seed", info.seed},
            {"schedule", info.schedule}};
  write_optimizer(info.optimizer, json);
  json["semantics"] = hex(info.semantics);
  json["summation"] = hex(info.summation);
  json["settings"] = std::move(settings);
  json["steps"] = info.steps;
  json["model"] = model_json(info.model);
  return json;
}

/// What no run can have counted, though each number by itself may be one: the last batch took its
/// samples, those before it one each or more, and each step of the optimizer was for some.
void check_counts(const JsonReader& root, const CheckpointInfo& info) {
  if (info.samples - info.samples_a_batch < info.batches - 1) {
    root["samples"].diagnose(
        fmt::format("{} batches, the last one of {} samples, took more than {}", info.batches,
                    info.samples_a_batch, info.samples));
  }
  for (const JsonReader& steps : root["steps"].array()) {
    if (steps.integer(0, kMostCounted) > info.samples)
      steps.diagnose(fmt::format("expected no more steps than the {} samples", info.samples));
  }
}

CheckpointInfo read_info(const JsonReader& root) {
  CheckpointInfo info;
  root["version"].integer(kManifestVersion, kManifestVersion);
  info.written_by = root["written_by"].line();
  info.batches = root["batches"].integer(1, kMostBatches);
  info.samples = root["samples"].integer(1, kMostCounted);
  info.samples_a_batch = root["samples_a_batch"].integer(1, kMostCounted);
  info.seed = read_seed(root["seed"]);
  info.schedule = root["schedule"].line();
  info.optimizer = read_optimizer(root);
  info.semantics = read_hex(root["semantics"]);
  info.summation = read_hex(root["summation"]);
  for (const auto& [name, value] : root["settings"].members())
    info.settings.emplace_back(name, value.line());
  for (const JsonReader& steps : root["steps"].array())
    info.steps.push_back(steps.integer(0, kMostCounted));
  info.model = read_trainable_model(root["model"]);
  check_counts(root, info);
  return info;
}

/// The text before the line of its checksum. Throws InputError where that is not right.
std::string_view checked_text(const std::string& path, std::string_view text) {
  const std::size_t line = text.rfind(kSumLine);
  if (line == text.npos || with_checksum(text.substr(0, line)) != text) {
    throw InputError(fmt::format("{}: the manifest is not as it was written", path));
  }
  return text.substr(0, line);
}

}  // namespace

std::uint64_t checksum(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == name.npos &&
         name.find('\0') == name.npos;
}

std::string with_checksum(std::string_view text) {
  return fmt::format("{}{}{}\n", text, kSumLine, hex(checksum(text)));
}

std::string manifest_text(const CheckpointManifest& manifest) {
  Json json = info_json(manifest.info);
  json["files"] = Json::object();
  for (const auto& [file, bytes] : manifest.bytes) {
    Json sums = Json::object();
    for (const auto& [part, sum] : manifest.sums.at(file)) sums[part] = hex(sum);
    json["files"][file] = {{"bytes", bytes}, {"xxh3", std::move(sums)}};
  }
  return with_checksum(json_text(json));
}

CheckpointManifest parse_manifest(const std::string& path, const std::string& text) {
  JsonFile file(path, std::string(checked_text(path, text)));
  CheckpointManifest manifest;
  const JsonReader root = file.root();
  if (root.object({"version", "written_by", "batches", "samples", "samples_a_batch", "seed",
                   "schedule", "optimizer", "delay_correction", "semantics", "summation",
                   "settings", "steps", "model", "files"})) {
    manifest.info = read_info(root);
    for (const auto& [name, entry] : root["files"].members()) {
      if (!entry.object({"bytes", "xxh3"})) continue;
      if (!is_plain_name(name)) entry.diagnose("expected the name of a file in the same folder");
      manifest.bytes[name] = entry["bytes"].bytes();
      for (const auto& [part, sum] : entry["xxh3"].members())
        manifest.sums[name][part] = read_hex(sum);
    }
  }
  file.finish();
  return manifest;
}

}  // namespace tandem
