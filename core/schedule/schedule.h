#pragma once
// Schedule: what a generator emits — computation only, per device, in the order the device will run
// it — and the registry row that describes a generator.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/units.h"
#include "core/schedule/op.h"
#include "core/schedule/placement.h"
#include "core/schedule/reading.h"
#include "core/schedule/recompute.h"
#include "core/schedule/slicing.h"
#include "core/schedule/version_rule.h"

namespace tandem {

/// A loop body: repeated once a batch, its microbatch offsets shifted by `microbatches` each time.
/// INVARIANT: for each (kind, stage) the offsets of all its replicas together are one complete
/// residue system modulo `microbatches` (backward and backward_input count as one kind, as do
/// backward and backward_weight); a span never crosses a batch boundary.
struct Schedule {
  std::string name;
  std::int32_t microbatches =
      1;  // m: per batch, all replicas and both directions counted; the loop's period. Where
          // sequences are sliced, slices: those of a microbatch one after the other
  std::uint16_t width = 1;  // replicas of the whole pipeline: a price of reduce_gradient, no ops
  std::int32_t slices = 1;  // n, of each microbatch: it divides `microbatches`
  Placement placement;
  Table<DeviceId, std::vector<Op>> order;
  VersionRule version_rule = VersionRule::same;
  /// Of each stage, what its passes read instead of the weights; empty: these.
  Table<StageId, Reading> readings = {};
  bool forwards_alone = false;  // nothing is trained: keep_forwards() (core/schedule/passes.h)
  /// Of a batch, as data counts them: whole.
  std::int32_t whole_microbatches() const { return microbatches / slices; }
  friend bool operator==(const Schedule&, const Schedule&) = default;
};

/// The times of a microbatch on one stage, and the share of its activation that is kept between the
/// gradients of the input and of the weights; by default one unit of time each, and all of it.
struct StageOrderCosts {
  Duration forward{1}, backward_input{1}, backward_weight{1};
  double kept = 1.0;  // 0 … 1
  Duration update{};  // once a batch; only the search counts it
  friend bool operator==(const StageOrderCosts&, const StageOrderCosts&) = default;
};

/// The costs that automatic schedules order by.
struct OrderCosts {
  Table<StageId, StageOrderCosts> stages;
  Duration transfer{};               // over each edge between devices
  std::vector<Duration> links = {};  // instead, from each device to the next, where they differ
  bool shared_links = true;          // a transfer occupies its link; only the search asks
  /// From a device to the next one, or back.
  Duration transfer_after(std::size_t device) const {
    return links.empty() ? transfer : links[device];
  }
  friend bool operator==(const OrderCosts&, const OrderCosts&) = default;
};

/// What is asked of a schedule. Some options only some schedules take, as `tandem schedule --list`
/// shows; the others refuse them.
struct ScheduleRequest {
  std::uint16_t devices = 1;
  std::int32_t microbatches = 1;  // whole, however sequences are sliced
  std::uint16_t chunks = 1;       // stages a device
  std::int32_t group = 0;  // microbatches in a row: interleaved, of a chunk; gpipe, of all; or 0
  std::int32_t extra_in_flight =
      0;  // beyond the minimum, on the first stage, falling to 0 on the last; only the
          // slope hides latency (facts: 2BW and link latency)
  std::vector<std::uint16_t> replicas = {};  // of each stage: {2, 1, 1} is 2-1-1; empty: one each
  std::uint16_t directions = 2;              // chimera: pipelines, half of them each way
  bool vertical_sync = false;  // pipedream: a microbatch uses one version on all stages
  /// pipemare: the share of an old change of the weights that is left in the correction after the
  /// time from forward to backward (D, about e⁻²); 1: none is made.
  double correction_decay = 0.135;
  /// pipemare: corrects for the paper's delays, (2(p − s) − 1)/m updates on stage s from 0, those
  /// of a pipeline that does a forward and a backward of different microbatches in each tick. Those
  /// of 1F1B are (p − 1 − s)/m.
  bool published_delays = false;
  Slicing slices = {};  // of each sequence
  /// timeprest: the backwards of a mini-batch are ops of their own, and not one.
  bool single_backwards = false;
  std::uint16_t width = 1;  // replicas of the whole pipeline
  Recompute recompute = Recompute::none;
  bool tied_embeddings = false;  // the first and the last stage share the token embedding
  bool global_norm = false;      // updates wait for the norm of all gradients: clipping, NaN guard
  bool post_validation = false;  // … or step before it is known, and are validated in the warm-up
                                 // of the next batch
  /// In activations of all stages of a device: one for all devices, or (search) one for each;
  /// empty: what the schedule has by itself.
  std::vector<double> activation_caps = {};
  std::optional<OrderCosts> costs = {};     // a row for each stage; empty: unit times
  std::int64_t seed = 1;                    // search: the same seed finds the same order
  std::optional<std::int64_t> orders = {};  // search: looked at, at most; empty: about a second's
  std::optional<Duration> time_limit = {};  // search: the best so far after this long

  /// What a schedule counts as its microbatches: slices of them all.
  std::int64_t units() const { return std::int64_t{microbatches} * slices.count; }
  /// Empty: the schedule's own.
  std::optional<double> activation_cap(std::size_t device) const {
    if (activation_caps.empty()) return std::nullopt;
    return activation_caps[activation_caps.size() == 1 ? 0 : device];
  }
  StageOrderCosts costs_of(StageId stage) const {
    return costs ? costs->stages[stage] : StageOrderCosts{};
  }
  friend bool operator==(const ScheduleRequest&, const ScheduleRequest&) = default;
};

/// Flush is not a barrier: a forward waits for its own stage's update, which its device's order
/// already implies.
enum class WeightSemantics : std::uint8_t {
  vanilla,         // W(t+1) = W(t) − ν∇f(W(t))
  delayed_by_one,  // W(t+1) = W(t) − ν∇f(W(t−1)), on every stage alike (2BW)
  stashed,         // each microbatch keeps the version its forward found (PipeDream)
  latest,          // a backward reads the newest, whatever its forward read: a gradient by two
                   // versions (PACI)
};
inline constexpr std::size_t kWeightSemantics = 4;
/// "vanilla", "delayed by one", "stashed", "latest".
std::string_view name(WeightSemantics semantics);

/// Whether a report's page shows what other schedules would have taken, this one among them.
enum class PageComparison : std::uint8_t {
  never,
  same_stages,  // with schedules that cut the model into as many stages
  always,       // with any, where its stages can be cut anew
};

/// What is said of a schedule.
struct ScheduleWords {
  std::string_view name, summary, source;
};

/// In closed form, for p equal stages without latency.
struct ScheduleFigures {
  std::string_view bubble;
  std::string_view activations;  // peak on device d
  std::string_view constraints = "none";
};

/// What it is, where that differs from the defaults.
struct ScheduleNature {
  std::vector<std::string_view> aliases = {};
  WeightSemantics weights = WeightSemantics::vanilla;
  std::uint16_t replicas_per_device = 1;       // of any stages; 0: as `chunks` asks
  std::vector<std::string_view> options = {};  // beyond those every schedule takes: "chunks", …
  std::uint16_t replicas_per_stage = 1;        // 2: both directions pass every stage of the model
  std::uint16_t only_devices = 0;              // the one number of devices that it takes; 0: any
  /// All stages update for the same microbatches, so that a norm over all of them is defined.
  bool updates_together = true;
  /// Passes read weights that are predicted or corrected, of each stage for a time of its own.
  bool reads_planes = false;
  /// The order depends on the costs of the request.
  bool orders_by_costs = false;
  /// Takes an activation cap of each device, too.
  bool caps_each_device = false;
  /// Some stashes go to other devices and come back.
  bool evicts = false;
  /// Every so many microbatches (`group`) it drains the pipeline: fewer hold less.
  bool drains_groups = false;
  /// The definition is our own, for that of the source is not public: reports say so.
  bool own_definition = false;
  /// Of a schedule of slices: what it is, or nearly, where sequences are whole.
  std::string_view whole = {};
  /// What stands where nothing is said: see plain_schedule(). Of one row.
  bool plain = false;
  PageComparison compared = PageComparison::never;
  /// How long it takes to find the order, in times that a stage's ops of one microbatch take to be
  /// made, about; null: as long as to make it.
  std::int64_t (*effort)(const ScheduleRequest&) = nullptr;
  /// Its own reason against a request; null: it has none.
  std::optional<std::string> (*reject)(const ScheduleRequest&) = nullptr;
  Schedule (*make)(const ScheduleRequest&);
};

/// A row of the registry. Adding a schedule is adding a row: there is no base class of schedules,
/// and no static initialiser.
struct ScheduleTraits : ScheduleWords, ScheduleFigures, ScheduleNature {};

/// All schedules, in the order they are listed.
std::span<const ScheduleTraits> schedules();

/// By name or alias. Throws UsageError with the nearest name when there is none.
const ScheduleTraits& find_schedule(std::string_view name);

/// In a heading: "1f1b"; "timeprest-i (our own definition)". The name may be of no row.
std::string schedule_heading(std::string_view name);
/// In a row of a table: "timeprest-i (ours)".
std::string schedule_in_table(std::string_view name);

/// The one that any other can be replaced by: any number of devices, a stage on each, whole
/// backwards, flush, and no activations more than that needs.
const ScheduleTraits& plain_schedule();

/// Replicas of stages that each device holds for a request.
std::size_t replicas_per_device(const ScheduleTraits& traits, const ScheduleRequest& request);
/// Stages that the schedule cuts the model into for a request.
std::size_t stage_count(const ScheduleTraits& traits, const ScheduleRequest& request);

/// Why the schedule can't serve a request; empty: it can.
std::optional<std::string> reason_against(const ScheduleTraits& traits,
                                          const ScheduleRequest& request);

/// The schedule for a request, with recomputation, tied sums, reductions and the norm inserted as
/// asked. Throws InputError with the reason when the schedule can't serve the request.
Schedule make_schedule(const ScheduleTraits& traits, const ScheduleRequest& request);

}  // namespace tandem
