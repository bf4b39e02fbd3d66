#include "tests/support/json_schema.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>

#include "tests/support/source_folder.h"

#if TANDEM_VALIJSON
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>
#endif

namespace tandem::testing {

#if TANDEM_VALIJSON

namespace {

using Document = nlohmann::json;
using Adapter = valijson::adapters::NlohmannJsonAdapter;

Document document(const std::string& name) {
  const auto path = source_folder() / "tools/schemas" / name;
  std::ifstream file(path);
  if (!file) throw std::runtime_error("no schema " + path.string());
  return Document::parse(file);
}

/// Parsed once a process.
const valijson::Schema& schema_of(const std::string& name) {
  static std::map<std::string, valijson::Schema> parsed;
  const auto [place, added] = parsed.try_emplace(name);
  if (!added) return place->second;
  const Document text = document(name + ".json");
  valijson::SchemaParser().populateSchema(
      Adapter(text), place->second,
      [](const std::string& other) -> const Document* { return new Document(document(other)); },
      [](const Document* other) { delete other; });
  return place->second;
}

}  // namespace

bool checks_schemas() { return true; }

std::string schema_faults(const std::string& schema, const nlohmann::ordered_json& printed) {
  const Document plain = Document::parse(printed.dump());
  valijson::ValidationResults results;
  if (valijson::Validator().validate(schema_of(schema), Adapter(plain), &results)) return "";
  std::string faults = "not as tools/schemas/" + schema + ".json says:";
  valijson::ValidationResults::Error error;
  while (results.popError(error)) {
    faults += "\n  ";
    for (const std::string& place : error.context) faults += place;
    faults += ": " + error.description;
  }
  return faults;
}

#else

bool checks_schemas() { return false; }

std::string schema_faults(const std::string&, const nlohmann::ordered_json&) { return ""; }

#endif

std::string schema_faults(const nlohmann::ordered_json& printed) {
  std::string command = printed.value("command", "version");  // an error is the same for all
  std::replace(command.begin(), command.end(), ' ', '-');
  return schema_faults(command, printed);
}

}  // namespace tandem::testing
