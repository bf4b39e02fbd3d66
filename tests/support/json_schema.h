#pragma once
// What commands print, held against the schemas of tools/schemas/.

#include <string>

#include <nlohmann/json.hpp>

namespace tandem::testing {

/// Whether this build can: valijson was there when it was configured.
bool checks_schemas();

/// What of `printed` the schema, such as "simulate", or "plan.schema" of core/files/, does not
/// allow, in words. Empty: nothing, or this build can't tell.
std::string schema_faults(const std::string& schema, const nlohmann::ordered_json& printed);

/// By the schema of the command that the object names.
std::string schema_faults(const nlohmann::ordered_json& printed);

}  // namespace tandem::testing
