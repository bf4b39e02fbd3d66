#pragma once
// The search space: what a plan may be for a request, and what it may not be and why.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/memory/memory.h"
#include "core/memory/storage.h"
#include "core/model/model.h"
#include "core/model/plan.h"
#include "core/schedule/schedule.h"

namespace tandem {

/// Larger models are not cut: the planner would take minutes where it should take a second.
inline constexpr std::int32_t kMostPlannedLayers = 2048;
inline constexpr std::uint16_t kMostPlannedDevices = 256;
/// Stages × microbatches of a program that is simulated.
inline constexpr std::int64_t kMostPlannedCells = 262'144;
/// Microbatches of a batch, per pipeline.
inline constexpr std::int32_t kMostPlannedMicrobatches = 65'535;

/// What plans are looked for. `profile` has measured `model`'s layers, for the optimizer and in the
/// microbatch sizes that may be used; its times are nanoseconds.
struct PlanRequest {
  ModelSpec model;
  Profile profile;
  std::uint16_t devices = 1;           // at most; a plan may use fewer
  std::int32_t global_batch = 1;       // samples of one update
  std::optional<Bytes> memory;         // of each device; empty: no limit
  std::vector<std::string> schedules;  // names or aliases; empty: all that can be trained and stash
                                       // no weights
  /// A user schedule instead of those, read from `schedule_file`: its devices, microbatches and
  /// width.
  std::shared_ptr<const Schedule> user_schedule;
  std::string schedule_file;
  bool vanilla_only = false;  // no delayed weights
  bool global_norm = false;   // updates wait for the norm of all gradients
  Optimizer optimizer = {};
  Storage storage = Storage::f32;  // in which memory is counted
  std::size_t keep =
      10;  // as many ranked plans are exact, what is surely worse is left out; 0: all
};

/// One shape of a plan: all but the extra microbatches in flight and the cut into stages, which the
/// search finds for each.
struct Shape {
  const ScheduleTraits* schedule = nullptr;  // null: the request's own
  std::uint16_t depth = 1, width = 1, chunks = 1;
  std::int32_t microbatch_size = 1;
  std::int32_t microbatches = 1;
  Recompute recompute = Recompute::none;
  bool single_backwards = false;
  Slicing slices = {};                  // of each sequence
  std::vector<std::int32_t> extras{0};  // microbatches in flight beyond the minimum; ascending
};

/// Why a part of the search space holds no plan.
enum class RejectCause : std::uint8_t {
  copies,         // a pipeline holds several copies of the model: not searched
  semantics,      // a schedule whose weights are delayed, where that was excluded
  not_measured,   // a microbatch size for which the profile lacks a layer
  not_divisible,  // a microbatch size that does not divide the global batch
  few_layers,     // more stages than layers
  too_long,       // a program beyond kMostPlannedCells
  schedule,       // the schedule's own reason
  memory,         // no cut fits
};
/// In words: "does not fit in memory".
std::string_view name(RejectCause cause);

/// The device that misses most, in the cut that misses least.
struct MemoryMiss {
  Bytes needed = 0;
  Bytes excess = 0;
  DeviceId device{};
  std::string_view largest;  // class of memory
  Bytes largest_bytes = 0;
};

/// A part of the search space that holds no plan.
struct Rejected {
  RejectCause cause{};
  std::string
      what;  // the part of the space: "2bw, 4 stages, microbatches 2 x 1", "microbatch size 3"
  std::string reason;
  std::optional<MemoryMiss> miss{};  // where memory is the cause; and the plan of which it is
  std::shared_ptr<const Plan> plan{};
};

/// All that is looked at for a request, and what is not.
struct SearchSpace {
  std::vector<Shape> shapes;  // schedules in registry order, then by depth, width, chunks,
                              // microbatch size, recompute
  std::vector<Rejected> rejected;
};

/// Every shape that the request allows, whether or not it fits in memory: depth × width up to the
/// devices, widths that divide the microbatches, 2 to 4 chunks where the schedule has them,
/// microbatch sizes that the profile measured for all of the model's layers and that divide the
/// global batch, with and without recomputation, extra in flight 0 … 2(depth − 1) where the
/// schedule has it. Where the profile times slices, schedules that cut sequences take these, those
/// of TeraPipe's programme by times fitted to them, and 2, 4, 8 and 16 equal ones down to half as
/// long as the shortest timed. Throws UsageError for an unknown schedule, InputError for a model or
/// a number of devices beyond the limits above.
SearchSpace search_space(const PlanRequest& request);

/// Which schedules are looked at.
struct ScheduleChoice {
  std::vector<std::string> names = {};  // or aliases; empty: all that can be trained and whose
                                        // weights are of one age on all stages
  bool vanilla_only = false;
  DelayCorrection correction = DelayCorrection::none;
  bool slices_are_priced = false;  // else, unasked, sequences stay whole
};

/// These, in the order of the registry; why others are not is added to `rejected`. Throws
/// UsageError for a name that no schedule has.
std::vector<const ScheduleTraits*> chosen_schedules(const ScheduleChoice& choice,
                                                    std::vector<Rejected>& rejected);

/// The plan of a shape, without stages and predictions.
Plan plan_of(const PlanRequest& request, const Shape& shape, std::int32_t extra_in_flight);

/// "2bw, 4 stages, width 2, microbatches 2 x 8, recompute full, 3 extra in flight": size x number.
std::string describe(const Plan& plan);

}  // namespace tandem
