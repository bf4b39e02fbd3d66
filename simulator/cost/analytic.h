#pragma once
// Times and bytes of a transformer's layers from their shapes and a device's data sheet: a roofline
// of each kernel. What it is not told, it assumes, and says so (prices.md, "Analytic costs").

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/memory/framework_memory.h"
#include "core/memory/memory.h"
#include "core/memory/reserve.h"
#include "core/model/calibration.h"
#include "core/model/cluster.h"
#include "core/model/collectives.h"
#include "core/model/model.h"
#include "core/model/slice_lengths.h"
#include "core/model/tensor_degrees.h"
#include "core/schedule/schedule.h"
#include "simulator/cost/layer_times.h"

namespace tandem {

struct AnalyticAssumptions {
  /// Of weights, gradients and activations; fp8: of attention's and mlp's products with weights
  /// alone, the rest bf16, as Transformer Engine does it.
  NumberFormat format = NumberFormat::fp16;
  AttentionKernel attention = AttentionKernel::plain;
  std::int32_t tensor = 1;  // devices that share each layer: Megatron's split
  /// They share what else a layer does, too, a part of the sequence each: norms, dropout, sums with
  /// the residual, and what crosses stages (Korthikanti et al., arXiv:2205.05198, section 4.2).
  bool sequence_parallel = false;
  bool sharded_optimizer = false;  // its state is shared out over the width (ZeRO-1)
  /// Of a device's peak, by matrix products; of its memory's rate; of any link's rate. Empty: as
  /// the constants below say.
  std::optional<double> product_fraction = {}, memory_fraction = {}, link_fraction = {};
  std::optional<CollectiveConstants> collectives = {};  // measured: sums by these, not by links
  Reserve reserve = {};                // of each device's memory, that no stage may fill
  FitsBy fits_by = FitsBy::framework;  // what is counted into the rest of it
  /// What data sheets don't say. Empty: what is typical of each device; where that is not known,
  /// nothing.
  std::optional<Calibration> calibration = {};
  /// Layers take what was measured, the sums of those that share them included; on one kind of
  /// device. Null: what data sheets say.
  std::shared_ptr<const TensorProfiles> measured = {};
};

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
