#pragma once
// Times and bytes of a transformer's layers from their shapes and a device's data sheet: a roofline
// of each kernel. What it is not told, it assumes, and says so (prices.md, "Analytic costs").

#include <cstdint>
#include <vector>

#include "core/memory/cluster_assumptions.h"
#include "core/memory/memory.h"
#include "core/model/calibration.h"
#include "core/model/cluster.h"
#include "core/model/model.h"
#include "core/model/slice_lengths.h"
#include "core/schedule/schedule.h"
#include "simulator/cost/layer_times.h"

namespace tandem {

/// What a device reaches, and what it takes beside, under these assumptions.
Calibration constants_of(const AnalyticAssumptions& assumptions, const DeviceSpec& device);

/// Time of layers on one kind of device. Of each layer a device has the share that
/// `assumptions.tensor` leaves it; `tensor_sum` is the time to sum a boundary's values over those
/// that share it. A whole backward is the sum of its halves, or less, where the host's launches
/// hold up one half and not the other; `recompute` is the forward. Throws InputError where the
/// device has no peak for the format, the model is no transformer, its heads can't be shared
/// evenly, or a layer would take more than a day. Of that part of each sequence: attention takes
/// longer the more tokens stand before it.
LayerTimes analytic_layers(const ModelSpec& model, std::int32_t microbatch_size,
                           Recompute recompute, Optimizer optimizer, const DeviceSpec& device,
                           const AnalyticAssumptions& assumptions, Duration tensor_sum = {},
                           SequencePart part = {});

/// Of a device's time for a block's forward and backward, the share in kernels that are shorter
/// than the host takes to launch one. REQUIRES: analytic_layers() takes these.
double short_kernel_share(const ModelSpec& model, std::int32_t microbatch_size,
                          const DeviceSpec& device, const AnalyticAssumptions& assumptions);

/// Bytes of a stage of layers on each of the devices that share it. With 16-bit numbers weights and
/// gradients take 2 bytes a parameter, and the optimizer keeps a master copy of 4 beside its states
/// of 4 (ZeRO, arXiv 1910.02054). In fp8 numbers are stored as bf16, and beside them attention and
/// mlp have their weights in fp8, itself and transposed, and keep in fp8 what only products read.
/// Activations as in arXiv 2205.05198, table 2, masks of dropout included. Throws InputError where
/// a layer, or a slot, takes 2^42 bytes or more. Of the optimizer a device has one of `shards`
/// parts. `slices`: of the sequences, where they are not whole; a slot then has room for any.
StageBytes analytic_stage_bytes(const ModelSpec& model, LayerRange layers,
                                std::int32_t microbatch_size, Optimizer optimizer,
                                Recompute recompute, const AnalyticAssumptions& assumptions,
                                std::int32_t shards = 1,
                                const std::vector<SequencePart>& slices = {});

/// Floating-point operations of products in a sample's forward and backward, nothing computed
/// again, all pairs of tokens counted: three quarters of equation 3 of arXiv 2104.04473.
double model_flops(const ModelSpec& model);
/// Those of its forward alone, and of one of its layers.
double forward_flops(const ModelSpec& model);
double forward_flops(const ModelSpec& model, LayerKind kind);

/// Time of so many latencies and of bytes at a rate. Throws InputError where it is above a day.
Duration moving_time(double bytes, double bytes_per_s, std::int64_t steps, Duration latency);

}  // namespace tandem
