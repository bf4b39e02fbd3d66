#pragma once
// Checkpoint: one that is open, every byte of which has been checked. A run may begin with it.

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "executor/checkpoint/checkpoint_info.h"
#include "executor/checkpoint/named_parts.h"
#include "executor/checkpoint/safetensors.h"
#include "executor/stage/plane.h"

namespace tandem {

/// Immutable: may be shared by threads. Its files must not change while it lives.
class Checkpoint final : public TrainingStart<float> {
 public:
  /// `path`: a checkpoint, or a folder of them, of which the newest is taken. Throws InputError
  /// that lists every file and tensor that is missing or not as it was written, and what to do.
  explicit Checkpoint(const std::string& path);

  const std::string& path() const { return path_; }
  const CheckpointInfo& info() const { return manifest_.info; }
  const CheckpointManifest& manifest() const { return manifest_; }
  std::span<const SafetensorsFile> files() const { return files_; }
  /// Planes that it has of a tensor of the model; none of a tied copy, which is another's.
  std::vector<Plane> planes_of(const Tensor& tensor) const;

  std::int64_t batches() const override { return info().batches; }
  std::int64_t steps(const Tensor& tensor) const override;
  bool read(Plane plane, const Tensor& tensor, std::span<float> values) const override;

 private:
  /// Whole: all parts of it. A tied copy has none, which are all there.
  bool has(Plane plane, const Tensor& tensor) const;
  /// Those without which no run can go on.
  std::vector<Plane> needed_planes(const Tensor& tensor) const;
  const StoredTensor* find(Plane plane, const NamedPart& part, const SafetensorsFile*& file) const;

  std::string path_;
  CheckpointManifest manifest_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, std::int32_t> layers_;  // of tensors
};

}  // namespace tandem
