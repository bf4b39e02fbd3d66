#pragma once
// How updates step the weights, in JSON: members of plans and of profiles.

#include <nlohmann/json.hpp>

#include "core/model/model.h"
#include "core/text/json_reader.h"

namespace tandem {

/// What `object` holds: a delay correction that is left out is none. Notes what is wrong with it at
/// its place.
inline Optimizer read_optimizer(const JsonReader& object) {
  Optimizer optimizer = object["optimizer"].one_of<OptimizerKind>(kOptimizers);
  if (object.has("delay_correction")) {
    optimizer.correction = object["delay_correction"].one_of<DelayCorrection>(kDelayCorrections);
  }
  return optimizer;
}

/// Adds it; a correction that is none is left out.
inline void write_optimizer(Optimizer optimizer, nlohmann::ordered_json& object) {
  object["optimizer"] = name(optimizer.kind);
  if (optimizer.correction != DelayCorrection::none)
    object["delay_correction"] = name(optimizer.correction);
}

}  // namespace tandem
