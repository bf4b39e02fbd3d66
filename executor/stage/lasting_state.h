#pragma once
// LastingState: what lasts of a stage's state from batch to batch, plane by plane, in the memory
// that the stage works in: filled before a run, and shown after a batch.

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <span>
#include <vector>

#include "executor/stage/plane.h"
#include "executor/stage/stage_state.h"

namespace tandem {

/// Of a stage that outlives it. The newest weights are those of `version`.
template <class B>
class LastingState {
 public:
  using T = typename B::Scalar;
  using W = typename B::Kernels::Wide;

  LastingState(StageState<B>& of, B& backend, std::int64_t version)
      : stage_(of),
        backend_(backend),
        version_(version),
        layout_(of.optimizer.optimizer(), of.stage.parameters()) {}

  /// Once the memory is there.
  void begin(const TrainingStart<W>& start) {
    for (const PlaneKind kind : kVersionKinds) {
      auto& ring = ring_of(kind);
      for (auto age = static_cast<std::int32_t>(ring.slots()); age-- > 0;) {
        if (age > version_) continue;
        write(ring.acquire(version_ - age),
              [&](std::span<W> all) { begin_planes(start, {kind, age}, all); });
      }
    }
    if constexpr (StageState<B>::kHasMaster) {
      write(stage_.master.elements(),
            [&](std::span<W> all) { begin_planes(start, kNewestWeights, all); });
    }
    // Else it is zeros, as it should be.
    if (start.batches() > 0)
      write(stage_.state.elements(), [&](std::span<W> all) { begin_state(start, all); });
    begin_counts(start);
  }

  /// When all that was given to the backend has ended: `show(plane, tensor, numbers)`.
  template <class Show>
  void show(const Show& show) {
    for (const PlaneKind kind : kVersionKinds) {
      for (std::int32_t age = 0; age < ring_of(kind).slots(); ++age)
        show_version({kind, age}, show);
    }
    const auto fetched = backend_.fetch(std::span<const W>(stage_.state.elements()));
    for (const Tensor& tensor : stage_.stage.parameters()) {
      each_state_plane(tensor, [&](Plane plane, const ElementRange& range) {
        show(plane, tensor, part(fetched.span(), range));
      });
    }
  }

  /// The optimizer's steps so far: updates that were not skipped. REQUIRES: as show().
  std::int64_t steps() const {
    const auto place = static_cast<std::size_t>(version_ - 1) % stage_.norms.size();
    const auto& norm = stage_.decides_alone ? stage_.last_norm : stage_.norms[place].norm;
    if (stage_.validates || !norm) return stage_.steps;
    return static_cast<std::int64_t>(norm->seen().steps);
  }

 private:
  static ElementRange place_of(const Tensor& tensor) {
    return {tensor.offset, tensor.offset + tensor.size()};
  }
  typename StageState<B>::Ring& ring_of(PlaneKind kind) {
    if (kind == PlaneKind::forward_weights) return stage_.forward_weights;
    return kind == PlaneKind::backward_weights ? stage_.backward_weights : stage_.weights;
  }

  /// Numbers, rounded where the memory holds rounded ones.
  template <class U, class Fill>
  void write(std::span<U> memory, const Fill& fill) {
    if constexpr (std::same_as<U, W>) {
      backend_.write(memory, fill);
    } else {
      std::vector<W> exact(memory.size());
      fill(std::span<W>(exact));
      backend_.write(memory, [&exact](std::span<U> values) {
        std::ranges::transform(exact, values.begin(), B::Kernels::rounded);
      });
    }
  }

  /// One plane of all tensors.
  void begin_planes(const TrainingStart<W>& start, Plane plane, std::span<W> all) const {
    for (const Tensor& tensor : stage_.stage.parameters())
      begin_plane(start, plane, tensor, part(all, place_of(tensor)));
  }
  void begin_state(const TrainingStart<W>& start, std::span<W> all) const {
    for (const Tensor& tensor : stage_.stage.parameters()) {
      each_state_plane(tensor, [&](Plane plane, const ElementRange& range) {
        begin_plane(start, plane, tensor, part(all, range));
      });
    }
  }
  void begin_counts(const TrainingStart<W>& start) {
    const std::vector<Tensor>& tensors = stage_.stage.parameters();
    // A stage that is a loss alone has none.
    if (!tensors.empty()) stage_.steps = start.steps(tensors.front());
    for (const Tensor& tensor : tensors) {
      if (start.steps(tensor) == stage_.steps) continue;
      throw InputError(fmt::format(
          "{} has been stepped {} times and {} {} times, for stages skipped updates alone: they "
          "can't be of one stage",
          tensors.front().name, stage_.steps, tensor.name, start.steps(tensor)));
    }
    stage_.tied_sums = stage_.settled = version_;
  }

  template <class Show>
  void show_version(Plane plane, const Show& show) {
    // What is before the first version is read as the first.
    const std::int64_t version = std::max<std::int64_t>(version_ - plane.age, 0);
    const auto show_all = [&](std::span<const W> all) {
      for (const Tensor& tensor : stage_.stage.parameters())
        show(plane, tensor, part(all, place_of(tensor)));
    };
    const std::span<T> held = ring_of(plane.kind).held(version);
    if (plane == kNewestWeights) {
      show_all(backend_.fetch(std::span<const W>(stage_.trained(version_))).span());
    } else if constexpr (StageState<B>::kHasMaster) {
      const auto fetched = backend_.fetch(std::span<const T>(held));
      std::vector<W> exact(held.size());
      std::ranges::transform(fetched.span(), exact.begin(), B::Kernels::widened);
      show_all(exact);
    } else {
      show_all(backend_.fetch(std::span<const W>(held)).span());
    }
  }

  /// Where a tensor's planes lie in the state: `visit(plane, range)`.
  template <class Visit>
  void each_state_plane(const Tensor& tensor, const Visit& visit) const {
    const StateRanges ranges = layout_.of(place_of(tensor), tensor);
    for (const PlaneKind kind : kOptimizerKinds) {
      const ElementRange range = range_of(ranges, kind);
      if (range.size() > 0) visit(Plane{kind}, range);
    }
    const std::int64_t drift = layout_.size() + tensor.offset;
    if (std::ssize(stage_.state.elements()) > layout_.size())
      visit(Plane{PlaneKind::drift}, ElementRange{drift, drift + tensor.size()});
  }

  StageState<B>& stage_;
  B& backend_;
  std::int64_t version_;
  StateLayout layout_;
};

/// Steps taken before the run, of stages that decide together; null: run elsewhere. Throws
/// InputError where they differ. REQUIRES: one is here.
template <class B>
std::int64_t common_steps(const Table<ReplicaId, StageState<B>*>& stages) {
  const StageState<B>* first = nullptr;
  for (const StageState<B>* stage : stages) {
    if (stage == nullptr || stage->stage.parameters().empty()) continue;
    if (first == nullptr) first = stage;
    if (stage->steps == first->steps) continue;
    throw InputError(fmt::format(
        "stage {} has taken {} steps and stage {} {}, for they skipped updates alone: they can't "
        "decide together now",
        index(first->id), first->steps, index(stage->id), stage->steps));
  }
  return first == nullptr ? 0 : first->steps;
}

/// Shows a keeper all planes of a stage. REQUIRES: as LastingState::show(); `version` is the newest
/// of a batch.
template <class B>
void show_state(StageState<B>& stage, B& backend, std::int64_t version,
                StateKeeper<typename B::Kernels::Wide>& keeper) {
  const std::int64_t batches = version / stage.place.updates_a_batch;
  LastingState<B> lasting(stage, backend, version);
  lasting.show([&](Plane plane, const Tensor& tensor, auto values) {
    keeper.keep({batches, plane, tensor, values});
  });
  keeper.end_stage(batches, stage.stage.parameters(), lasting.steps());
}

}  // namespace tandem
