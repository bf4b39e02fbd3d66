#pragma once
// Plane: what lasts of a tensor from batch to batch — its weights, older versions of them, as
// passes read them, and what its optimizer keeps. A set of planes is all that training goes on
// from, whatever the layout: checkpoints keep it.

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "core/memory/memory.h"
#include "core/program/program.h"
#include "executor/stage/state_layout.h"

namespace tandem {

enum class PlaneKind : std::uint8_t {
  weights,           // as they are trained
  forward_weights,   // as forwards read them, where that differs (core/schedule/reading.h)
  backward_weights,  // as backwards do
  first_moment,
  second_moment,
  last_step,  // of a correction of delay
  drift,      // δ of backward weights that are corrected
};
inline constexpr std::array<std::string_view, 7> kPlaneKinds = {
    "weights", "forward_weights", "backward_weights", "first_moment", "second_moment", "last_step",
    "drift"};

/// `age`: of versions, updates since they were the newest.
struct Plane {
  PlaneKind kind = PlaneKind::weights;
  std::int32_t age = 0;
  friend auto operator<=>(const Plane&, const Plane&) = default;
};
inline constexpr Plane kNewestWeights = {};

/// "weights", "weights-1" (one update older), "first_moment".
inline std::string name(Plane plane) {
  const std::string_view kind = kPlaneKinds[static_cast<std::size_t>(plane.kind)];
  return plane.age == 0 ? std::string(kind) : fmt::format("{}-{}", kind, plane.age);
}

/// The slots that hold versions of a plane's kind.
constexpr SlotKind slot_of(PlaneKind kind) {
  if (kind == PlaneKind::forward_weights) return SlotKind::forward_weights;
  return kind == PlaneKind::backward_weights ? SlotKind::backward_weights : SlotKind::weights;
}
inline constexpr std::array kVersionKinds = {PlaneKind::weights, PlaneKind::forward_weights,
                                             PlaneKind::backward_weights};

/// Elements of an optimizer's state that are a plane; empty: it has none.
inline ElementRange range_of(const StateRanges& ranges, PlaneKind kind) {
  if (kind == PlaneKind::first_moment) return ranges.first;
  return kind == PlaneKind::second_moment ? ranges.second : ranges.last_step;
}
inline constexpr std::array kOptimizerKinds = {PlaneKind::first_moment, PlaneKind::second_moment,
                                               PlaneKind::last_step};

/// Of a tensor of a stage with these slots: as many versions as there are slots, for each may still
/// be read after a batch.
inline std::vector<Plane> planes_of(const StageSlots& slots, Optimizer optimizer,
                                    const Tensor& tensor) {
  std::vector<Plane> planes;
  for (const PlaneKind kind : kVersionKinds) {
    for (std::int32_t age = 0; age < slots[slot_of(kind)]; ++age) planes.push_back({kind, age});
  }
  const Tensor alone = by_itself(tensor);
  const StateRanges ranges =
      StateLayout(optimizer, std::span(&alone, 1)).of({0, tensor.size()}, alone);
  for (const PlaneKind kind : kOptimizerKinds) {
    if (range_of(ranges, kind).size() > 0) planes.push_back({kind});
  }
  if (slots.keeps_drift) planes.push_back({PlaneKind::drift});
  return planes;
}

/// The replica of a stage whose planes a run shows: that with the most versions, for all have the
/// same.
inline ReplicaId shown_replica(const Program& program, const SlotCounts& slots, StageId stage) {
  const auto versions = [&](ReplicaId replica) {
    std::int32_t count = 0;
    for (const PlaneKind kind : kVersionKinds) count += slots[replica][slot_of(kind)];
    return count;
  };
  const std::vector<ReplicaId> replicas = program.placement().replicas_of(stage);
  return *std::ranges::max_element(replicas, {}, versions);
}

/// What a run begins with. Immutable: may be shared by threads.
template <class W>
class TrainingStart {
 public:
  virtual ~TrainingStart() = default;
  /// Batches trained before.
  virtual std::int64_t batches() const = 0;
  /// Steps that were taken of the tensor: its updates that were not skipped.
  virtual std::int64_t steps(const Tensor& tensor) const = 0;
  /// Writes the plane's numbers; false: there is none. REQUIRES: `values` is as long as the tensor.
  virtual bool read(Plane plane, const Tensor& tensor, std::span<W> values) const = 0;
};

/// A plane to begin with. One that there is none of is, of versions, the next younger one, weights
/// themselves where passes read others, and else zeros.
template <class W>
void begin_plane(const TrainingStart<W>& start, Plane plane, const Tensor& tensor,
                 std::span<W> values) {
  if (start.read(plane, tensor, values)) return;
  TANDEM_CHECK(plane != kNewestWeights, tensor.name);
  if (std::ranges::find(kVersionKinds, plane.kind) == kVersionKinds.end()) {
    std::ranges::fill(values, W{0});
  } else if (plane.kind == PlaneKind::weights) {
    begin_plane(start, {plane.kind, plane.age - 1}, tensor, values);
  } else {
    begin_plane(start, {PlaneKind::weights, plane.age}, tensor, values);
  }
}

/// The initial weights, before any batch. A pure function of the seed.
template <class W>
class InitialWeights final : public TrainingStart<W> {
 public:
  explicit InitialWeights(std::uint64_t seed) : seed_(seed) {}
  std::int64_t batches() const override { return 0; }
  std::int64_t steps(const Tensor& /*tensor*/) const override { return 0; }
  bool read(Plane plane, const Tensor& tensor, std::span<W> values) const override {
    if (plane != kNewestWeights) return false;
    initialise(tensor, seed_, values);
    return true;
  }

 private:
  std::uint64_t seed_;
};

/// What a run shows of a stage's state when it has ended a batch.
template <class W>
struct ShownPlane {
  std::int64_t batches = 0;  // that have ended
  Plane plane;
  const Tensor& tensor;  // its offset is the stage's
  std::span<const W> values;
};

/// Takes the state of a run from its devices' threads, while it goes on.
template <class W>
class StateKeeper {
 public:
  virtual ~StateKeeper() = default;
  /// Whether the state after so many batches is wanted. All stages are told the same.
  virtual bool wants(std::int64_t batches) = 0;
  /// Copies what is shown.
  virtual void keep(const ShownPlane<W>& shown) = 0;
  /// All planes of the tensors have been shown, whose optimizer has taken so many steps.
  virtual void end_stage(std::int64_t batches, std::span<const Tensor> tensors,
                         std::int64_t steps) = 0;
};

}  // namespace tandem
