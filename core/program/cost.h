#pragma once
// Prices: a program asks once for each distinct key; machines index the table.

#include <functional>

#include "core/base/units.h"
#include "core/program/program.h"

namespace tandem {

using CostTable = Table<CostId, Duration>;

/// Called once a key, never in a hot loop. Results are non-negative (checked).
using CostModel = std::function<Duration(const CostKey&)>;

/// How long `bytes` occupy a link of this rate. REQUIRES: bytes_per_second > 0.
Duration transmission_time(Bytes bytes, double bytes_per_second);

CostTable price(const Program& program, const CostModel& model);

}  // namespace tandem
