#include "core/text/json_text.h"

#include <cmath>
#include <cstddef>

#include <nlohmann/json.hpp>

#include "core/base/check.h"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kLineColumns = 100;
constexpr std::size_t kIndent = 2;

std::string scalar(const Json& value) {
  constexpr char kNoFill = ' ';
  if (value.is_number_float()) TANDEM_CHECK(std::isfinite(value.get<double>()));
  return value.dump(-1, kNoFill, false, Json::error_handler_t::replace);
}

std::string one_line(const Json& value) {
  if (!value.is_structured()) return scalar(value);
  std::string text;
  for (const auto& item : value.items()) {
    if (!text.empty()) text += ", ";
    if (value.is_object()) text += scalar(item.key()) + ": ";
    text += one_line(item.value());
  }
  return value.is_object() ? "{" + text + "}" : "[" + text + "]";
}

/// `column`: where the value begins.
void append(std::string& text, const Json& value, std::size_t indent, std::size_t column) {
  const std::string flat = one_line(value);
  const bool outermost = indent == 0;
  if (!value.is_structured() || value.empty() ||
      (!outermost && column + flat.size() < kLineColumns)) {
    text += flat;
    return;
  }
  text += value.is_object() ? "{" : "[";
  bool first = true;
  for (const auto& item : value.items()) {
    const std::string key = value.is_object() ? scalar(item.key()) + ": " : "";
    const std::size_t inside = indent + kIndent;
    text += (first ? "\n" : ",\n") + std::string(inside, ' ') + key;
    append(text, item.value(), inside, inside + key.size());
    first = false;
  }
  text += "\n" + std::string(indent, ' ') + (value.is_object() ? "}" : "]");
}

}  // namespace

std::string json_text(const Json& value) {
  std::string text;
  append(text, value, 0, 0);
  return text + "\n";
}

}  // namespace tandem
