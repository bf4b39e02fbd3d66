#include "tools/cli/json_output.h"

#include <cstdio>

#include <fmt/format.h>

namespace tandem::tools {

std::string indented(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

std::string line_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string result_text(std::string_view command, Json config, Json assumptions, Json result,
                        const std::vector<std::string>& warnings) {
  Json object;
  object["schema_version"] = 1;
  object["command"] = command;
  object["config"] = std::move(config);
  object["assumptions"] = std::move(assumptions);
  object["result"] = std::move(result);
  object["warnings"] = warnings;
  return indented(object);
}

void print_result(std::string_view command, Json config, Json assumptions, Json result,
                  const std::vector<std::string>& warnings) {
  fmt::print("{}\n", result_text(command, std::move(config), std::move(assumptions),
                                 std::move(result), warnings));
}

Json failure_json(ExitCode code, std::string_view message,
                  const std::vector<Diagnostic>& diagnostics) {
  const SourcePlace place = diagnostics.empty() ? SourcePlace{} : diagnostics.front().place;
  return {{"code", static_cast<int>(code)},
          {"message", diagnostics.empty() ? std::string(message) : diagnostics.front().message},
          {"pointer", place.pointer},
          {"file", place.file},
          {"line", place.line},
          {"column", place.column}};
}

int report_failure(ExitCode code, std::string_view message,
                   const std::vector<Diagnostic>& diagnostics, bool json) {
  // A diagnostic with a place already opens with `file:line:column: error:`.
  const bool placed = !diagnostics.empty() && !diagnostics.front().place.file.empty();
  // Not print(), which throws: stderr may be a full disk, and there is nobody left to tell.
  const std::string text = fmt::format("{}{}\n", placed ? "" : "error: ", message);
  std::fwrite(text.data(), 1, text.size(), stderr);
  if (!json) return static_cast<int>(code);
  Json object;
  object["error"] = failure_json(code, message, diagnostics);
  const std::string printed = indented(object) + "\n";
  std::fwrite(printed.data(), 1, printed.size(), stdout);
  return static_cast<int>(code);
}

}  // namespace tandem::tools
