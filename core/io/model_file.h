#pragma once
// The model object, alone in model.json and inside plan.json and profile.json.

#include <nlohmann/json_fwd.hpp>

#include "core/io/json_reader.h"
#include "core/model.h"

namespace tandem {

/// Complains to the reader's file; the model returned is sound if there was no complaint.
ModelSpec read_model_object(const JsonReader& reader);
nlohmann::ordered_json model_json(const ModelSpec& model);

OptimizerKind read_optimizer(const JsonReader& reader);

}  // namespace tandem
