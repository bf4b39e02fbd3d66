#pragma once
// What several reports say in the same words: of weights, of stored numbers, of memory in reserve.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/memory/memory.h"
#include "core/memory/reserve.h"
#include "core/memory/storage.h"
#include "core/model/plan.h"
#include "core/schedule/schedule.h"
#include "simulator/scenario.h"
#include "tools/cli/json_output.h"

namespace tandem::tools {

/// Empty: no semantics have this name.
std::optional<WeightSemantics> semantics_named(std::string_view name);

/// For a column: "vanilla", "delayed", "stashed", "latest".
std::string_view short_name(WeightSemantics weights);
/// Behind a schedule's name: ", delayed weights"; empty where there is nothing to say.
std::string weights_mark(WeightSemantics weights);
/// What the other words of the column mean, a line; empty: vanilla.
std::string_view weights_note(WeightSemantics weights);

/// Of a plan whose times are of f32: which times they are, and how to train it. Empty for f32.
std::vector<std::string> storage_warnings(Storage storage);

/// What "fits" means, a line with its end.
std::string fits_line(const Scenario& scenario);
/// "what a framework takes", "what tandem's executor takes".
std::string_view taker(FitsBy by);
Json reserve_json(const Reserve& reserve);
/// Both figures of a device: {"framework_bytes", "tandem_bytes"}.
Json figures_json(const MemoryFigures& figures, DeviceId device);

/// The classes of a device's memory: {"weights_bytes", …}.
Json classes_json(const MemoryByClass& memory);
/// The layers of each stage: [[0, 4], …].
Json stages_json(const Plan& plan);

}  // namespace tandem::tools
