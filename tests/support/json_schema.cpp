#include "tests/support/json_schema.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <variant>
#include <vector>

#include "core/schedule/options.h"
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
  const bool of_file = name.ends_with(".schema.json");  // and not of what a command prints
  const auto path = source_folder() / (of_file ? "core/files" : "tools/schemas") / name;
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

/// Whether a value is of the type that a request holds there.
struct IsOfMember {
  const Document& value;

  template <class Whole>
  bool operator()(Whole ScheduleRequest::*) const {
    return value.is_number_integer();
  }
  template <class Number>
  bool operator()(std::optional<Number> ScheduleRequest::*) const {
    return value.is_number_integer() || value.is_null();
  }
  bool operator()(bool ScheduleRequest::*) const { return value.is_boolean(); }
  bool operator()(double ScheduleRequest::*) const { return value.is_number(); }
  bool operator()(Recompute ScheduleRequest::*) const { return value.is_string(); }
  bool operator()(Slicing ScheduleRequest::*) const { return value.is_string(); }
  bool operator()(std::vector<std::uint16_t> ScheduleRequest::*) const { return value.is_array(); }
  bool operator()(std::vector<double> ScheduleRequest::*) const {
    return value.is_number() || value.is_array() || value.is_null();
  }
};

/// What the schema of a configuration leaves open: its other keys are the options of schedules, a
/// row each, and no more.
std::string option_faults(const Document& config) {
  static const Document known = document("common.json")["definitions"]["config"]["properties"];
  std::string faults;
  std::set<std::string> keys;
  for (const ScheduleOption& option : schedule_options()) {
    const std::string key(option.key);
    if (key.empty()) continue;
    keys.insert(key);
    const auto found = config.find(key);
    if (found == config.end()) {
      faults += "\n  config lacks " + key;
    } else if (!std::visit(IsOfMember{*found}, option.member)) {
      faults += "\n  config: another type of " + key;
    }
  }
  for (const auto& [key, value] : config.items()) {
    if (!known.contains(key) && !keys.contains(key)) faults += "\n  config: no option " + key;
  }
  return faults;
}

/// Of what is printed by a schema that takes the shared definition.
std::string config_faults(const std::string& schema, const Document& printed) {
  const Document properties = document(schema + ".json");
  const bool shared =
      properties.dump().find("common.json#/definitions/config") != std::string::npos;
  const auto config = printed.find("config");
  return shared && config != printed.end() ? option_faults(*config) : std::string();
}

}  // namespace

bool checks_schemas() { return true; }

std::string schema_faults(const std::string& schema, const nlohmann::ordered_json& printed) {
  const Document plain = Document::parse(printed.dump());
  valijson::ValidationResults results;
  const bool holds = valijson::Validator().validate(schema_of(schema), Adapter(plain), &results);
  const std::string more = config_faults(schema, plain);
  if (holds && more.empty()) return "";
  std::string faults = "not as tools/schemas/" + schema + ".json says:" + more;
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
