#pragma once
// What a checkpoint is of, beside its tensors, and the manifest that says it.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/model/model.h"

namespace tandem {

inline constexpr const char* kManifestName = "checkpoint.json";
inline constexpr const char* kConfigName = "config.json";
inline constexpr const char* kWeightsName = "model.safetensors";
inline constexpr const char* kStateName = "state.safetensors";

inline constexpr const char* kTokenizerName = "tokenizer.json";
inline constexpr const char* kTokenizerConfigName = "tokenizer_config.json";

/// A small file that is kept as it is.
struct KeptFile {
  std::string name, content;
};

/// A run, and how far it has come.
struct CheckpointInfo {
  std::string written_by = {};  // program and version
  ModelSpec model = {};
  std::string schedule = {};
  Optimizer optimizer = {};
  std::uint64_t seed = 0;
  /// Of how each layer's weights are read and updated (semantics_digest()): runs of one digest
  /// train the same, and make the same bits where the other one, of the order of sums, is the
  /// same, too.
  std::uint64_t semantics = 0, summation = 0;
  std::int64_t samples_a_batch = 1;
  /// Further options of the run that its numbers depend on, by name.
  std::vector<std::pair<std::string, std::string>> settings = {};

  std::int64_t batches = 0;              // trained
  std::int64_t samples = 0;              // taken of the data
  std::vector<std::int64_t> steps = {};  // that the optimizer took of each layer of the model
};

/// Checksums of a file's parts: of safetensors its head, "", and its tensors; of others the whole
/// of it, "".
using FileSums = std::map<std::string, std::uint64_t>;

struct CheckpointManifest {
  CheckpointInfo info;
  std::map<std::string, std::int64_t> bytes;  // of each file
  std::map<std::string, FileSums> sums;
};

/// XXH3 of 64 bits (https://xxhash.com).
std::uint64_t checksum(std::string_view bytes);

/// Whether a name is that of a file in the same folder, and leads nowhere else.
bool is_plain_name(std::string_view name);

/// With a line behind it that has the checksum of all before it.
std::string with_checksum(std::string_view text);

/// Ends with such a line.
std::string manifest_text(const CheckpointManifest& manifest);
/// Throws InputError naming `path` where the text is no manifest, or not as it was written.
CheckpointManifest parse_manifest(const std::string& path, const std::string& text);

}  // namespace tandem
