#pragma once
// Prices: a program asks once for each distinct key; machines index the table. A key says which op
// of which stage on which devices (core/program/program.h, CostKey); cost_model() of
// simulator/cost/stage_costs.h answers by stage, and any function of a key may.

#include <functional>

#include "core/base/units.h"
#include "core/program/program.h"

namespace tandem {

/// The time of each op, in nanoseconds: a row for each of Program::cost_keys().
using CostTable = Table<CostId, Duration>;

/// Called once a key, never in a hot loop. Results are non-negative (checked).
using CostModel = std::function<Duration(const CostKey&)>;

/// How long `bytes` occupy a link of this rate. REQUIRES: bytes_per_second > 0.
Duration transmission_time(Bytes bytes, double bytes_per_second);

/// Asks `model` once for each key of the program. A negative price aborts (a programmer's error);
/// what the model throws passes through.
CostTable price(const Program& program, const CostModel& model);

}  // namespace tandem
