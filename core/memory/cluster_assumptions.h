#pragma once
// What is assumed of a cluster's devices where nobody has measured them, and which of them is
// which: simulator/cost prices by it, plan files hold it.

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "core/memory/framework_memory.h"
#include "core/memory/reserve.h"
#include "core/model/calibration.h"
#include "core/model/cluster.h"
#include "core/model/collectives.h"
#include "core/model/tensor_degrees.h"

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

/// Which device of a cluster is which of a plan.
enum class DeviceOrder : std::uint8_t {
  replicas_first,  // the replicas of a stage stand together: stage s, replica r on s · width + r
  stages_first,    // the stages of a pipeline do: on r · depth + s
};
inline constexpr std::size_t kDeviceOrders = 2;
/// "replicas-first", "stages-first".
constexpr std::string_view name(DeviceOrder order) {
  return order == DeviceOrder::replicas_first ? "replicas-first" : "stages-first";
}

}  // namespace tandem
