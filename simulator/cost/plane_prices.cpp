#include "simulator/cost/plane_prices.h"

#include <cmath>

#include "core/base/check.h"

namespace tandem {

static constexpr double kWide = 4.0;  // bytes of states and master copies

UpdateBytes update_bytes_on_cpu(Optimizer optimizer) {
  constexpr double kRead = kWide, kWritten = 2 * kWide, kBoth = 2 * kWide;  // to and from memory
  return {.plain = 2 * kRead + kWritten + kBoth * optimizer_states(optimizer),
          .plane = kWritten,
          .drift = kBoth};
}

double stateless_update_bytes(double element) {
  const bool narrow = element < kWide;
  return (narrow ? 2 * kWide : 0.0) + (narrow ? 3 : 4) * element;
}

UpdateBytes update_bytes(Optimizer optimizer, NumberFormat format) {
  const auto element = static_cast<double>(bytes_of(format));
  return {.plain = stateless_update_bytes(element) + 2 * kWide * optimizer_states(optimizer),
          .plane = element,
          .drift = 2 * kWide};
}

static double added_bytes(const Reading& reading, const UpdateBytes& bytes) {
  const int planes = (reading.predicts_forward() ? 1 : 0) + (reading.has_backward_plane() ? 1 : 0);
  return planes * bytes.plane + (reading.corrects() ? bytes.drift : 0.0);
}

void add_planes(StageCosts& costs, const Plan& plan, const UpdateBytes& bytes) {
  const Table<StageId, Reading> readings = readings_of(plan);
  if (readings.empty()) return;
  const std::vector<LayerKind> kinds = layers_of(plan.model);
  TANDEM_CHECK(costs.layers.size() == kinds.size(), costs.layers.size(), kinds.size());
  const bool muon = plan.optimizer.kind == OptimizerKind::muon;
  for (const StageId stage : ids(costs.stages)) {
    const double share = added_bytes(readings[stage], bytes) / bytes.plain;
    const LayerRange& range = plan.stages[index(stage)];
    for (std::int32_t layer = range.first; layer < range.last; ++layer) {
      const auto at = static_cast<std::size_t>(layer);
      if (muon && !hidden_matrices(plan.model, kinds[at]).empty()) continue;
      Duration& update = costs.layers[at].update;
      const Duration more(std::llround(share * static_cast<double>(update.count())));
      update += more;
      costs.stages[stage].update += more;
    }
  }
}

}  // namespace tandem
