#pragma once
// What --json prints: exactly one object on stdout, for a result or for a failure.

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/base/error.h"

namespace tandem::tools {

using Json = nlohmann::ordered_json;

/// The value, or null where there is none.
template <class Value>
Json or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

/// An array of what `of` makes of each row.
template <class Rows, class Of>
Json array_of(const Rows& rows, const Of& of) {
  Json array = Json::array();
  for (const auto& row : rows) array.push_back(std::invoke(of, row));
  return array;
}

/// As print_result() prints it, whatever bytes its strings hold; in one line.
std::string indented(const Json& json);
std::string line_of(const Json& json);

/// {"schema_version", "command", "config", "assumptions", "result", "warnings"}.
std::string result_text(std::string_view command, Json config, Json assumptions, Json result,
                        const std::vector<std::string>& warnings = {});
/// The same on stdout, with an end of line.
void print_result(std::string_view command, Json config, Json assumptions, Json result,
                  const std::vector<std::string>& warnings = {});

/// {"code", "message", "pointer", "file", "line", "column"}.
Json failure_json(ExitCode code, std::string_view message,
                  const std::vector<Diagnostic>& diagnostics);

/// The message on stderr, and with `json` {"error": failure_json()} on stdout. Returns the code.
int report_failure(ExitCode code, std::string_view message,
                   const std::vector<Diagnostic>& diagnostics, bool json);

}  // namespace tandem::tools
