#include "tools/commands/training_need.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/memory/storage.h"
#include "core/program/timeline.h"
#include "executor/cpu/kernels.h"
#include "executor/stage/reference_stages.h"
#include "executor/stage/stage.h"
#include "tools/cli/memory_limit.h"
#include "tools/options/training_options.h"

namespace tandem::tools {

namespace {

std::vector<ReferenceStage> stages_of(const PreparedPlan& prepared) {
  return reference_stages(prepared.schedule, prepared.plan.stages, weight_semantics(prepared.plan));
}

/// Bytes as numbers that don't overflow, however large a model is.
double of_pipelines(const PreparedPlan& prepared) {
  double bytes = 0;
  for (const MemoryByClass& device : planned_memory(prepared))
    bytes += static_cast<double>(device.total()) * prepared.plan.request.width;
  return bytes;
}

/// What is copied for its turn is smaller, and left out.
double of_reference(const PreparedPlan& prepared) {
  const Plan& plan = prepared.plan;
  const double width = plan.request.width;
  double bytes = 0;
  for (const ReferenceStage& stage : stages_of(prepared)) {
    const StageBytes one = stage_bytes(plan.model, stage.layers, plan.microbatch_size,
                                       plan.optimizer, Recompute::none);
    const auto of = [&one](SlotKind kind) { return static_cast<double>(one[kind]); };
    // The newest, those in use, and those that are still read, the newest again among them.
    const double versions = 3 + most_stale(stage) + (stage.backward_staleness.empty() ? 0 : 1);
    const Reading& reading = stage.reading;
    const double planes = (reading.predicts_forward() ? versions : 0) +
                          (reading.predicts_backward() ? versions : 0) +
                          (reading.corrects() ? versions + 1 : 0);  // and δ
    bytes += (versions + planes) * of(SlotKind::weights) + static_cast<double>(one.optimizer) +
             width * (stage.replicas * of(SlotKind::gradients) + of(SlotKind::stash));
  }
  return bytes;
}

/// A node of a map each.
double of_hashes(const PreparedPlan& prepared, std::int64_t steps) {
  using Node = std::pair<const std::pair<std::int64_t, std::string>, std::uint64_t>;
  constexpr double kNode = sizeof(Node) + 4 * sizeof(void*);  // its links
  const Plan& plan = prepared.plan;
  double bytes = 0;
  for (const ReferenceStage& stage : stages_of(prepared)) {
    const Stage<cpu::Kernels<float>> layout(plan.model, stage.layers, plan.microbatch_size, 1.0);
    const double updates =
        1.0 * prepared.schedule.microbatches / stage.microbatches * static_cast<double>(steps);
    bytes += kNode * updates * static_cast<double>(layout.parameters().size());
  }
  return bytes;
}

}  // namespace

void check_training_need(const PreparedPlan& prepared, std::int64_t steps, const Options& options,
                         const std::vector<KeptTensor>& kept, double share, double in_memory) {
  constexpr double kMost = 0x1p62;  // beyond any machine
  const bool alone = options.has("reference"), both = options.has("verify");
  double bytes = backend_of(options).on_host && !alone ? share * of_pipelines(prepared) : 0;
  if (alone || both) bytes = std::max(bytes, of_reference(prepared));
  if (both) bytes += 2 * of_hashes(prepared, steps);
  // As the devices note them and as the trace is written from; the simulated one.
  const double timeline =
      static_cast<double>(prepared.program.size() * sizeof(Span)) * static_cast<double>(steps);
  if (options.has("trace")) bytes += 2 * timeline * prepared.plan.request.width;
  if (options.has("with-prediction")) bytes += timeline;
  if (options.has("checkpoint")) bytes += copied_bytes(prepared.plan.model, kept);
  bytes += in_memory;
  const auto needed = static_cast<Bytes>(std::min(bytes, kMost));
  check_fits_memory(needed, "training this plan");
  tell_memory(needed, "training this plan");
}

}  // namespace tandem::tools
