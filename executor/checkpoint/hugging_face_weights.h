#pragma once
// HuggingFaceWeights: the weights of a folder of Hugging Face's library, for a run to begin with.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "executor/checkpoint/named_parts.h"
#include "executor/checkpoint/safetensors.h"
#include "executor/stage/plane.h"

namespace tandem {

/// Immutable: may be shared by threads. Its files must not change while it lives.
class HuggingFaceWeights final : public TrainingStart<float> {
 public:
  /// The tensors of `folder`'s model.safetensors, or of the files that model.safetensors.index.json
  /// names, for `model`: float32, bfloat16 or float16. Names may stand without the prefix of the
  /// class ("transformer.", "model."), masks of attention that old files have beside the weights
  /// are passed over, and so is the head's copy of a tied table. Of a table of positions the first
  /// rows count, where the model has fewer. Throws InputError that lists every tensor that is
  /// missing, not known, of another shape or of a type that is no float; or says that an index
  /// names a file outside the folder.
  HuggingFaceWeights(const std::string& folder, const ModelSpec& model);

  std::int64_t batches() const override { return 0; }
  std::int64_t steps(const Tensor& /*tensor*/) const override { return 0; }
  bool read(Plane plane, const Tensor& tensor, std::span<float> values) const override;

  /// What was read otherwise than it stands there; for people.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  struct Found {
    const SafetensorsFile* file = nullptr;
    const StoredTensor* tensor = nullptr;
  };
  /// By the name of the library, or that without its prefix.
  Found find(const std::string& name) const;
  std::string fault_of(const NamedPart& part, const Tensor& tensor);
  std::vector<std::string> missing_and_wrong();
  std::vector<std::string> unknown() const;

  ModelSpec model_;
  std::vector<SafetensorsFile> files_;
  std::vector<std::string> notes_;
};

}  // namespace tandem
