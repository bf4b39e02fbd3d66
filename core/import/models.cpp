#include "core/import/models.h"

#include "core/files/model_file.h"
#include "core/import/importers.h"
#include "core/text/files.h"
#include "core/text/json_reader.h"

namespace tandem {

NotedModel parse_noted_model(const std::string& file, std::string text) {
  if (const Importer* importer = importer_of<ReadModel>(text))
    return std::get<ReadModel>(importer->read)(file, std::move(text));
  JsonFile json(file, std::move(text));
  NotedModel read{.model = read_model_object(json.root())};
  json.finish();
  return read;
}

NotedModel read_noted_model(const std::string& path) {
  return parse_noted_model(path, read_file(path, kLargestJson));
}

ModelSpec parse_model(const std::string& file, std::string text) {
  return parse_noted_model(file, std::move(text)).model;
}

ModelSpec read_model(const std::string& path) { return read_noted_model(path).model; }

}  // namespace tandem
