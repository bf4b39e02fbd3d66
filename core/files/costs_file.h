#pragma once
// The JSON of costs.json, whose text core/files/read.h writes.

#include <nlohmann/json_fwd.hpp>

#include "core/files/read.h"

namespace tandem {

nlohmann::ordered_json costs_json(const StageCostFile& costs);

}  // namespace tandem
