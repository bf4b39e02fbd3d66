#pragma once
// Models from files of ours and of other programs, told apart by their content.

#include <string>
#include <vector>

#include "core/model/model.h"

namespace tandem {

/// Throw InputError with every diagnostic found.
ModelSpec read_model(const std::string& path);
ModelSpec parse_model(const std::string& file, std::string text);

/// The same with what of another program's file was left out or guessed: lines for people.
struct NotedModel {
  ModelSpec model = {};
  std::vector<std::string> notes = {};
};
NotedModel read_noted_model(const std::string& path);
NotedModel parse_noted_model(const std::string& file, std::string text);

}  // namespace tandem
