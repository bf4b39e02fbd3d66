#pragma once
// collectives.json, as core/files/read.h describes it for every file (FORMATS.md here).

#include <string>

#include "core/model/collectives.h"

namespace tandem {

CollectiveConstants read_collectives(const std::string& path);
CollectiveConstants parse_collectives(const std::string& file, std::string text);
std::string collectives_text(const CollectiveConstants& constants);

}  // namespace tandem
