#pragma once
// Digests of a training set-up: what its weights come to, and in which order sums are added.

#include <cstdint>

#include "executor/stage/reference_config.h"

namespace tandem {

/// Of each layer: samples that an update covers, how old the versions are that its passes read, and
/// what they read instead; whose norm clips. The same for every depth, width, size of microbatches
/// and schedule that leaves these as they are.
std::uint64_t semantics_digest(const ModelSpec& model, const ReferenceConfig& config);

/// Of what decides the order in which gradients are added, beside that: width, microbatches, their
/// size, slices, replicas.
std::uint64_t summation_digest(const ModelSpec& model, const ReferenceConfig& config);

}  // namespace tandem
