#pragma once
// Models from the arguments of Megatron-LM (FORMATS.md, "Arguments of Megatron-LM").

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/import/models.h"

namespace tandem {

/// Whether a text that is no JSON holds such arguments.
bool is_megatron(std::string_view text);

/// Reads a list of arguments, or a script that holds one. Those that say nothing of the
/// layers are for parse_megatron_run(). Throws InputError with every diagnostic found.
ModelSpec parse_megatron(const std::string& file, std::string_view text);
/// The same, with the options of the run that it describes as a note.
NotedModel parse_noted_megatron(const std::string& file, std::string text);

/// How the model was trained there.
struct MegatronRun {
  std::vector<std::pair<std::string, std::string>> options;  // of simulate: {"depth", "4"}
  std::vector<std::string> passed_over;  // arguments that nothing here takes, without "--"
};

/// " --depth 4 --chunks 2"; empty: the arguments say nothing of it.
std::string options_text(const MegatronRun& run);

MegatronRun parse_megatron_run(const std::string& file, std::string_view text);

}  // namespace tandem
