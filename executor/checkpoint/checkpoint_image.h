#pragma once
// CheckpointImage: the tensors of a checkpoint in memory, as its files will have them, filled by
// the threads of a run.

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "executor/checkpoint/kept_tensors.h"
#include "executor/checkpoint/named_parts.h"
#include "executor/checkpoint/safetensors.h"

namespace tandem {

/// Of one file.
struct ImageFile {
  std::string name;
  std::vector<StoredTensor> tensors;
  std::unique_ptr<float[]> values;

  std::uint64_t bytes() const { return tensors.empty() ? 0 : tensors.back().end; }
  std::string_view all_bytes() const {
    return {reinterpret_cast<const char*>(values.get()), bytes()};
  }
  std::string_view bytes_of(const StoredTensor& tensor) const {
    return all_bytes().substr(tensor.begin, tensor.end - tensor.begin);
  }
};

/// The name in a file of a part's plane: the part's own for the weights, with the plane's before it
/// for all others.
std::string stored_name(Plane plane, const NamedPart& part);
/// The file that has a plane.
std::string file_of(Plane plane);

class CheckpointImage {
 public:
  CheckpointImage(const ModelSpec& model, const std::vector<KeptTensor>& tensors);

  /// Copies a plane of a tensor. Threads may copy different ones at a time.
  void put(Plane plane, const Tensor& tensor, std::span<const float> values);
  const std::vector<ImageFile>& files() const { return files_; }
  std::uint64_t bytes() const;

 private:
  /// Where a part lies.
  struct Place {
    std::size_t file = 0;
    std::uint64_t begin = 0;
    NamedPart part;
  };
  std::vector<ImageFile> files_;
  std::map<std::pair<Plane, std::string>, std::vector<Place>> places_;
};

}  // namespace tandem
