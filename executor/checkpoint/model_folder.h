#pragma once
// A folder that has a model and its weights: a checkpoint, or one of Hugging Face's library.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/model/model.h"
#include "executor/stage/plane.h"

namespace tandem {

struct ModelFolder {
  std::string path;
  ModelSpec model = {};
  std::unique_ptr<TrainingStart<float>> weights = {};
  std::vector<std::string> notes = {};  // what was read otherwise than it stands there
};

/// Of a folder of checkpoints the newest. `sequence`: tokens that the model is to read at once, in
/// place of what the folder says; a table of learned positions has no more rows than it has. Throws
/// InputError where the folder is neither, or not as it should be: every byte of a checkpoint is
/// checked.
ModelFolder open_model_folder(const std::string& path, std::optional<std::int32_t> sequence = {});

}  // namespace tandem
