#include "executor/checkpoint/checkpoint_image.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/check.h"
#include "executor/checkpoint/checkpoint_info.h"

namespace tandem {

std::string stored_name(Plane plane, const NamedPart& part) {
  return plane == kNewestWeights ? part.name : fmt::format("{}.{}", name(plane), part.name);
}

std::string file_of(Plane plane) { return plane == kNewestWeights ? kWeightsName : kStateName; }

CheckpointImage::CheckpointImage(const ModelSpec& model, const std::vector<KeptTensor>& tensors) {
  files_.push_back({.name = kWeightsName, .tensors = {}, .values = {}});
  files_.push_back({.name = kStateName, .tensors = {}, .values = {}});
  for (const KeptTensor& kept : tensors) {
    const std::vector<NamedPart> parts = named_parts(model, kept.tensor);
    for (const Plane plane : kept.planes) {
      const std::size_t file = file_of(plane) == kWeightsName ? 0 : 1;
      std::vector<Place>& places = places_[{plane, kept.tensor.name}];
      for (const NamedPart& part : parts) {
        const std::uint64_t begin = files_[file].bytes();
        const std::uint64_t end = begin + static_cast<std::uint64_t>(part.size()) * sizeof(float);
        files_[file].tensors.push_back({stored_name(plane, part), "F32", part.shape, begin, end});
        places.push_back({file, begin, part});
      }
    }
  }
  for (ImageFile& file : files_)
    file.values = std::make_unique_for_overwrite<float[]>(file.bytes() / sizeof(float));
}

void CheckpointImage::put(Plane plane, const Tensor& tensor, std::span<const float> values) {
  const auto found = places_.find({plane, tensor.name});
  TANDEM_CHECK(found != places_.end(), tensor.name, name(plane));
  for (const Place& place : found->second) {
    float* const at = files_[place.file].values.get() + place.begin / sizeof(float);
    take_part(place.part, values, {at, static_cast<std::size_t>(place.part.size())});
  }
}

std::uint64_t CheckpointImage::bytes() const {
  std::uint64_t bytes = 0;
  for (const ImageFile& file : files_) bytes += file.bytes();
  return bytes;
}

}  // namespace tandem
