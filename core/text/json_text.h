#pragma once
// JSON as tandem writes it: keys in the order given, what fits a line on one line, numbers that
// read back exactly.

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace tandem {

/// Ends with a newline. Bytes that aren't UTF-8 become U+FFFD. REQUIRES: numbers finite.
std::string json_text(const nlohmann::ordered_json& value);

}  // namespace tandem
