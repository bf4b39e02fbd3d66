#pragma once
// Models from files of ours and of other programs, told apart by their content.

#include <string>
#include <vector>

#include "core/model/model.h"

namespace tandem {

/// From a model.json, or a config.json as the transformers of Hugging Face have it. `file` is for
/// messages. Throw InputError with every diagnostic found.
ModelSpec read_model(const std::string& path);
ModelSpec parse_model(const std::string& file, std::string text);

/// The same with what of another program's file was left out or guessed: lines for people.
struct NotedModel {
  ModelSpec model = {};
  std::vector<std::string> notes = {};
};
/// Throw InputError with every diagnostic found. `file` is for messages.
NotedModel read_noted_model(const std::string& path);
NotedModel parse_noted_model(const std::string& file, std::string text);

}  // namespace tandem
