#pragma once
// Times of layers from a profile's rows: as measured, on the line between the microbatch sizes
// around, and on a + b / T between the tensor degrees around.

#include <cstdint>
#include <string>
#include <vector>

#include "core/model/tensor_degrees.h"
#include "core/schedule/schedule.h"
#include "simulator/cost/layer_times.h"

namespace tandem {

/// Throws InputError where the profile is of a model whose layers are others.
void check_same_layers(const Profile& profile, const ModelSpec& model);

/// Throws InputError as check_same_layers() does, and where the profile lacks a layer kind at this
/// microbatch size and on either side of it. Selective recomputation is part of the backward.
LayerTimes measured_layers(const Profile& profile, const ModelSpec& model,
                           std::int32_t microbatch_size, Recompute recompute);
/// Of layers that `tensor` devices share; what sums over these take is part of a layer. Throws
/// InputError beyond the degrees measured too. REQUIRES: not empty.
LayerTimes measured_layers(const TensorProfiles& profiles, const ModelSpec& model,
                           std::int32_t microbatch_size, Recompute recompute, std::int32_t tensor);

/// What measured_layers() found between rows, in words; empty: all is as measured.
std::vector<std::string> interpolations(const TensorProfiles& profiles, const ModelSpec& model,
                                        std::int32_t microbatch_size, std::int32_t tensor);

}  // namespace tandem
