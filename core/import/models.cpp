#include "core/import/models.h"

#include <utility>

#include "core/files/model_file.h"
#include "core/import/hugging_face.h"
#include "core/import/megatron_arguments.h"
#include "core/text/files.h"
#include "core/text/json_reader.h"

namespace tandem {

NotedModel parse_noted_model(const std::string& file, std::string text) {
  if (is_megatron(text)) {
    NotedModel read{.model = parse_megatron(file, text), .notes = {}};
    const std::string options = options_text(parse_megatron_run(file, text));
    if (!options.empty())
      read.notes.push_back("only its layers are taken; the run it describes has the options" +
                           options);
    return read;
  }
  JsonFile json(file, std::move(text));
  const JsonReader root = json.root();
  NotedModel read;
  read.model =
      is_hugging_face(root) ? read_hugging_face(root, read.notes) : read_model_object(root);
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
