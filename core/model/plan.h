#pragma once
// Plan: the contract between planner, simulator and executor, and a file (core/files/read.h).

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/model.h"
#include "core/schedule/schedule.h"

namespace tandem {

/// The planner's prediction; `tandem compare` checks it against a real run.
struct Prediction {
  double period_s = 0.0;
  double samples_per_s = 0.0;
  std::vector<Bytes> peak_bytes;  // one a device
  double bound_s = 0.0;           // no plan that was searched takes less; 0: nobody knows
};

struct PlanCluster;  // what the file of a plan says of its cluster

/// A schedule, what it is asked for, and what it works on.
struct Plan {
  ModelSpec model = {};
  std::string schedule = {};
  /// Where `schedule` is the name of a user schedule: its file, relative to the plan's, and what
  /// that says (null until it is read). Else empty.
  std::string schedule_file = {};
  std::shared_ptr<const Schedule> user_schedule = {};
  /// The schedule's options; their costs make an automatic schedule's order again. The model says
  /// if embeddings are tied: schedule_request().
  ScheduleRequest request = {};
  std::int32_t microbatch_size = 1;
  Optimizer optimizer = {};
  std::vector<LayerRange> stages = {};  // one a stage, in order, covering the model
  std::string profile =
      {};  // path of the profile it was made from, relative to the plan; may be empty
  Prediction predicted = {};
  /// What it was planned for, where that is a cluster and not the machine of the profile, which
  /// then has layers of any tensor degree. Null: that machine.
  std::shared_ptr<const PlanCluster> cluster = {};
};

/// Microbatches of a batch of so many samples on each of `width` pipelines; null: they have not all
/// as many, of that size.
constexpr std::optional<std::int64_t> even_microbatches(std::int64_t samples, std::uint16_t width,
                                                        std::int32_t microbatch_size) {
  const std::int64_t at_once = std::int64_t{width} * microbatch_size;
  return samples % at_once == 0 ? std::optional(samples / at_once) : std::nullopt;
}

/// Ranges that `stages` holds: one for each chunk of each device, or for each entry of the
/// replicas, or for each stage of a user schedule.
std::size_t stage_count(const Plan& plan);

/// Devices that sum the gradients of each stage: its replicas in all pipelines.
std::vector<std::int32_t> summing_devices(const Plan& plan);

/// The request that makes the plan's schedule.
ScheduleRequest schedule_request(const Plan& plan);

/// Why updates of such weights can't be corrected so; empty: they can. `schedule` is its name.
std::optional<std::string> reason_against(DelayCorrection correction, WeightSemantics weights,
                                          std::string_view schedule);

/// The plan's schedule, a registered one or a user schedule. Throws UsageError for an unknown name
/// and InputError with the reason when the schedule can't serve the plan. REQUIRES: a user schedule
/// is read.
Schedule make_schedule(const Plan& plan);

/// The weights that its updates use. Throws and REQUIRES as make_schedule() does.
WeightSemantics weight_semantics(const Plan& plan);

/// What the passes of its stages read instead of the weights; empty: these. Throws and REQUIRES as
/// make_schedule() does.
Table<StageId, Reading> readings_of(const Plan& plan);

}  // namespace tandem
