#include "tools/json_output.h"

#include <cstdio>

#include <fmt/format.h>

namespace tandem::tools {

void print_result(std::string_view command, Json config, Json assumptions, Json result,
                  const std::vector<std::string>& warnings) {
  Json object;
  object["schema_version"] = 1;
  object["command"] = command;
  object["config"] = std::move(config);
  object["assumptions"] = std::move(assumptions);
  object["result"] = std::move(result);
  object["warnings"] = warnings;
  fmt::print("{}\n", object.dump(2, ' ', false, Json::error_handler_t::replace));
}

void report_failure(ExitCode code, std::string_view message,
                    const std::vector<Complaint>& complaints, bool json) {
  // A complaint with a place already opens with `file:line:column: error:`.
  const bool placed = !complaints.empty() && !complaints.front().place.file.empty();
  fmt::print(stderr, "{}{}\n", placed ? "" : "error: ", message);
  if (!json) return;
  Json error;
  error["code"] = static_cast<int>(code);
  error["message"] = complaints.empty() ? std::string(message) : complaints.front().message;
  const SourcePlace place = complaints.empty() ? SourcePlace{} : complaints.front().place;
  error["pointer"] = place.pointer;
  error["file"] = place.file;
  error["line"] = place.line;
  error["column"] = place.column;
  Json object;
  object["error"] = std::move(error);
  fmt::print("{}\n", object.dump(2, ' ', false, Json::error_handler_t::replace));
}

}  // namespace tandem::tools
