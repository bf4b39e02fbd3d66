#include "executor/checkpoint/model_folder.h"

#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/import/models.h"
#include "executor/checkpoint/checkpoint.h"
#include "executor/checkpoint/checkpoint_folder.h"
#include "executor/checkpoint/hugging_face_weights.h"
#include "executor/checkpoint/named_parts.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

/// Where it has learned positions, a model reads no more tokens than it has of them.
void set_sequence(ModelSpec& model, std::int32_t sequence, const std::string& path) {
  if (shape_of(model).positions > 0 && sequence > model.sequence) {
    throw InputError(fmt::format("{}: the model has {} positions, fewer than {}", path,
                                 model.sequence, sequence));
  }
  model.sequence = sequence;
}

}  // namespace

ModelFolder open_model_folder(const std::string& path, std::optional<std::int32_t> sequence) {
  if (holds_checkpoint(path)) {
    auto checkpoint = std::make_unique<Checkpoint>(path);
    ModelFolder folder{.path = checkpoint->path(), .model = checkpoint->info().model};
    if (sequence && *sequence != folder.model.sequence) {
      // Its weights lie as those of the library do: of fewer positions the first are read.
      set_sequence(folder.model, *sequence, path);
      auto weights = std::make_unique<HuggingFaceWeights>(folder.path, folder.model);
      folder.weights = std::move(weights);
    } else {
      folder.weights = std::move(checkpoint);
    }
    return folder;
  }
  NotedModel noted = read_noted_model((fs::path(path) / kConfigName).string());
  check_trainable(noted.model);
  ModelFolder folder{
      .path = path, .model = std::move(noted.model), .notes = std::move(noted.notes)};
  if (sequence) set_sequence(folder.model, *sequence, path);
  auto weights = std::make_unique<HuggingFaceWeights>(path, folder.model);
  folder.notes.insert(folder.notes.end(), weights->notes().begin(), weights->notes().end());
  folder.weights = std::move(weights);
  return folder;
}

}  // namespace tandem
