#pragma once
// StageCosts: the price of every op by stage of the model, whatever its source — plain costs of the
// command line, a file, a measured profile. One price is asked for in one place.

#include <array>
#include <optional>
#include <vector>

#include "core/model/model.h"
#include "core/model/plan.h"
#include "core/program/cost.h"
#include "core/program/program.h"

namespace tandem {

/// Times of one stage for one microbatch. `backward` is the whole backward of schedules that do not
/// split it.
struct StageTimes {
  Duration forward{}, recompute{}, backward{}, backward_input{}, backward_weight{};
  Duration update{}, reduce{};  // once a batch
  /// A forward and a whole backward issued as one unit; their sum, if empty.
  std::optional<Duration> overlapped{};
  /// Its stash over a link, to the partner or back; as any transfer, if empty.
  std::optional<Duration> move{};
  friend bool operator==(const StageTimes&, const StageTimes&) = default;
};

/// Those of ops that layers compute, by their prices: a stage's are the sums of its layers'.
inline constexpr std::array<Duration StageTimes::*, 6> kOpTimes{
    &StageTimes::forward,        &StageTimes::recompute,       &StageTimes::backward,
    &StageTimes::backward_input, &StageTimes::backward_weight, &StageTimes::update};
static_assert(kOpTimes.size() == index(Price::update) + 1);

/// The price of an op that occupies a stage's compute lane; zero for transfers and sums.
Duration compute_lane_time(OpKind kind, const StageTimes& times);

/// The same for one of the ops of a unit (Op::group): what a forward and a backward of the stage
/// take together is shared out as they alone would take.
Duration overlapped_time(OpKind kind, const StageTimes& times);

/// Costs of a whole pipeline.
struct StageCosts {
  Table<StageId, StageTimes> stages;  // a row for each stage of the model
  Duration transfer{};  // every edge between different devices; an edge on one device is free
  std::vector<Duration> links = {};  // instead, from each device to the next, where they differ; an
                                     // edge between others passes all those between
  std::vector<Duration> ways = {};   // instead, from each device to each: row by row
  Duration reduce_tied{};            // sum of the gradients that tied stages share
  Duration norm{};                   // of all gradients of an update, until every stage knows it
  std::vector<StageTimes> layers = {};  // of a model: what each layer takes of its stage's times
  /// Where sequences are sliced, the costs of each slice instead, but for what is done once a
  /// batch; the times of stages and layers are then their sums. Else empty.
  std::vector<StageCosts> slices = {};
};

/// What a transfer between two of so many devices takes when nobody shares its link.
Duration transfer_time(const StageCosts& costs, std::size_t devices, DeviceId source,
                       DeviceId target);

/// The times of stages and layers, and of transfers, as the sums of those of the slices; what is
/// done once a batch stays as it is.
void sum_slices(StageCosts& costs);

/// The same times for each of so many stages; `transfer` over every edge between devices. What
/// `times` leaves out is zero: for a schedule that splits its backward give backward_input and
/// backward_weight, for any other backward.
StageCosts uniform_costs(std::size_t stages, const StageTimes& times, Duration transfer);

/// Costs of the layer ranges `stages` from a measured profile; layers are measured alone, so a
/// stage is their sum plus the executor's own overhead. Throws InputError as measured_layers()
/// does. Recomputation of a stage is an op, priced whether it is used or not. Sums and the norm are
/// priced as the passes over the gradients that they are, each as fast as a hand-over of as many
/// bytes: of `summed` devices (one each, if empty) 2 (summed − 1), of the norm one over the largest
/// stage, and a hand-over of nothing.
StageCosts costs_from_profile(const Profile& profile, const ModelSpec& model,
                              const std::vector<LayerRange>& stages, std::int32_t microbatch_size,
                              Recompute recompute, const std::vector<std::int32_t>& summed = {});
/// The same for all that a plan says.
StageCosts costs_from_profile(const Profile& profile, const Plan& plan);

/// The costs that an automatic schedule orders by. The recomputation of a stage counts with the
/// gradient of the input, before which it runs.
OrderCosts order_costs(const StageCosts& costs, Recompute recompute);

/// For price(). REQUIRES: `costs` has a row for each stage of `placement`.
CostModel cost_model(const Placement& placement, StageCosts costs);

}  // namespace tandem
