#pragma once
// collectives.json, as core/files/read.h describes it for every file (FORMATS.md here).

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "core/model/collectives.h"

namespace tandem {

CollectiveConstants read_collectives(const std::string& path);
CollectiveConstants parse_collectives(const std::string& file, std::string text);
nlohmann::ordered_json collectives_json(const CollectiveConstants& constants);
std::string collectives_text(const CollectiveConstants& constants);

}  // namespace tandem
