#include "executor/checkpoint/checkpoint.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/text/files.h"
#include "executor/checkpoint/checkpoint_folder.h"
#include "executor/checkpoint/checkpoint_image.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestManifest = 256U << 20U;
constexpr std::size_t kMostFaults = 20;

/// What to do about a checkpoint that is not whole.
std::string advice(const std::string& path) {
  const fs::path folder = fs::path(path).lexically_normal();
  std::string older;
  for (const FoundCheckpoint& each : checkpoints_in(folder.parent_path().string())) {
    if (fs::path(each.path).filename() < folder.filename()) older = each.path;
  }
  return older.empty() ? "copy the files again from where they are whole"
                       : fmt::format(
                             "copy the files again from where they are whole, or resume "
                             "from {}, which is older",
                             older);
}

/// What is not as it was written: a line each.
class Faults {
 public:
  void add(const std::string& file, const std::string& part, std::string_view reason) {
    lines_.push_back(part.empty() ? fmt::format("{}: {}", file, reason)
                                  : fmt::format("{}: tensor \"{}\" {}", file, part, reason));
  }
  /// Throws InputError where there are any.
  void finish(const std::string& path) {
    if (lines_.empty()) return;
    const std::size_t all = lines_.size();
    if (all > kMostFaults) {
      lines_.resize(kMostFaults);
      lines_.push_back(fmt::format("and {} further ones", all - kMostFaults));
    }
    throw InputError(fmt::format("{}: the checkpoint is damaged: {}\n  {}", path, advice(path),
                                 fmt::join(lines_, "\n  ")));
  }

 private:
  std::vector<std::string> lines_;
};

constexpr std::string_view kDiffers = "is not as it was written";

/// Before it is read: what is damaged is not taken for what it says.
bool has_its_head(const std::string& path, const FileSums& sums) {
  const MappedFile file(path);
  return checksum(safetensors_head_of(file.bytes())) == sums.at("");
}

void check_tensors(const SafetensorsFile& file, const std::string& name, const FileSums& sums,
                   Faults& faults) {
  for (const auto& [part, sum] : sums) {
    if (part.empty()) continue;
    const StoredTensor* const tensor = file.find(part);
    if (tensor == nullptr) {
      faults.add(name, part, "is missing");
    } else if (checksum(file.bytes(*tensor)) != sum) {
      faults.add(name, part, kDiffers);
    }
  }
}

}  // namespace

Checkpoint::Checkpoint(const std::string& path) : path_(newest_checkpoint(path)) {
  const fs::path folder(path_);
  const std::string manifest_path = (folder / kManifestName).string();
  try {
    manifest_ = parse_manifest(manifest_path, read_file(manifest_path, kLongestManifest));
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}\n  {}", error.what(), advice(path_)));
  }
  Faults faults;
  for (const auto& [name, bytes] : manifest_.bytes) {
    const fs::path file = folder / name;
    const FileSums& sums = manifest_.sums[name];
    std::error_code error;
    const auto found = fs::file_size(file, error);
    if (error || !sums.contains("")) {
      faults.add(name, "", "is missing");
    } else if (static_cast<std::int64_t>(found) != bytes) {
      faults.add(name, "", fmt::format("has {} bytes, of {}", found, bytes));
    } else if (!name.ends_with(".safetensors")) {
      if (checksum(read_file(file.string(), kLongestManifest)) != sums.at(""))
        faults.add(name, "", kDiffers);
    } else if (!has_its_head(file.string(), sums)) {
      faults.add(name, "", "its header is not as it was written");
    } else {
      files_.emplace_back(file.string());
      check_tensors(files_.back(), name, sums, faults);
    }
  }
  faults.finish(path_);
  for (const LayerTensor& each : tensors_of(info().model)) {
    layers_[each.tensor.name] = each.layer;
    for (const Plane plane : needed_planes(each.tensor)) {
      if (!has(plane, each.tensor))
        faults.add(file_of(plane), fmt::format("{}.{}", name(plane), each.tensor.name),
                   "is missing");
    }
  }
  if (info().steps.size() != layers_of(info().model).size())
    faults.add(kManifestName, "", "does not say the steps of every layer");
  faults.finish(path_);
}

std::vector<Plane> Checkpoint::needed_planes(const Tensor& tensor) const {
  StageSlots slots;
  slots[SlotKind::weights] = 1;  // older versions depend on the schedule
  return tandem::planes_of(slots, info().optimizer, tensor);
}

const StoredTensor* Checkpoint::find(Plane plane, const NamedPart& part,
                                     const SafetensorsFile*& file) const {
  for (const SafetensorsFile& each : files_) {
    const StoredTensor* const found = each.find(stored_name(plane, part));
    if (found == nullptr) continue;
    file = &each;
    return found->type == "F32" && found->shape == part.shape ? found : nullptr;
  }
  return nullptr;
}

bool Checkpoint::has(Plane plane, const Tensor& tensor) const {
  return std::ranges::all_of(named_parts(info().model, tensor), [&](const NamedPart& part) {
    const SafetensorsFile* file = nullptr;
    return find(plane, part, file) != nullptr;
  });
}

std::vector<Plane> Checkpoint::planes_of(const Tensor& tensor) const {
  std::vector<Plane> planes;
  if (is_tied_copy(info().model, tensor)) return planes;
  for (std::size_t kind = 0; kind < kPlaneKinds.size(); ++kind) {
    for (Plane plane{static_cast<PlaneKind>(kind)}; has(plane, tensor); ++plane.age)
      planes.push_back(plane);
  }
  return planes;
}

std::int64_t Checkpoint::steps(const Tensor& tensor) const {
  return info().steps[static_cast<std::size_t>(layers_.at(tensor.name))];
}

bool Checkpoint::read(Plane plane, const Tensor& tensor, std::span<float> values) const {
  if (is_tied_copy(info().model, tensor)) {
    Tensor table = tensor;
    table.name = kTokenTable;
    return read(plane, table, values);
  }
  for (const NamedPart& part : named_parts(info().model, tensor)) {
    const SafetensorsFile* file = nullptr;
    const StoredTensor* const stored = find(plane, part, file);
    if (stored == nullptr) return false;
    std::vector<float> taken(static_cast<std::size_t>(part.size()));
    file->read(*stored, 0, taken);
    put_part(part, taken, values);
  }
  return true;
}

}  // namespace tandem
