#pragma once
// The model object, alone in model.json and inside plan.json and profile.json.

#include <cstdint>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "core/model/model.h"
#include "core/text/json_reader.h"

namespace tandem {

// Far beyond any model trained, and small enough that no product of them leaves int64.
inline constexpr std::int32_t kMostBlocks = 10'000;
inline constexpr std::int32_t kWidest = 1'048'576;
inline constexpr std::int32_t kMostExperts = 65'536;
inline constexpr std::int32_t kWidestExperts = 16 * kWidest;  // of a layer, together
inline constexpr std::int32_t kLongestSequence = 1'048'576;
inline constexpr std::int32_t kLargestVocabulary = 16'777'216;
inline constexpr double kLeastTheta = 1.0;    // of rotary positions
inline constexpr double kLeastFactor = 1e-3;  // of their scaling

/// Diagnostics go to the reader's file; the model returned is sound if there was no diagnostic.
ModelSpec read_model_object(const JsonReader& reader);
/// The same of what plans and profiles are about: diagnoses a model that can only be priced.
ModelSpec read_trainable_model(const JsonReader& reader);
/// What is wrong with the numbers of heads and experts in model.shape; empty: nothing.
std::string shape_fault(const ModelSpec& model);
/// Architecture::gpt2 of a transformer that is shaped as that is. REQUIRES: shape_fault() is empty.
ModelSpec as_plain_as_it_is(ModelSpec model);
nlohmann::ordered_json model_json(const ModelSpec& model);
nlohmann::ordered_json shape_json(const TransformerShape& shape);

}  // namespace tandem
