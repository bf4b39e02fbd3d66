#pragma once
// StageState: one stage of a run with the memory it works in — its rings of slots, optimizer state
// and sample.

#include <algorithm>
#include <atomic>
#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/memory/memory.h"
#include "core/memory/storage.h"
#include "core/program/program.h"
#include "core/schedule/schedule.h"
#include "executor/data/data.h"
#include "executor/stage/gradient_guard.h"
#include "executor/stage/norm_collective.h"
#include "executor/stage/optimizer.h"
#include "executor/stage/slot_ring.h"
#include "executor/stage/stage.h"
#include "executor/stage/stash_pool.h"

namespace tandem {

/// What every stage of a run is made from.
struct StageSetup {
  ModelSpec model;
  std::int32_t microbatch_size = 1;
  Recompute recompute = Recompute::none;
  Storage storage = Storage::f32;  // bf16: of GPUs alone
  OptimizerConfig optimizer;
  GradientGuard guard = {};
  std::uint64_t seed = 0;
  const Data* data = nullptr;
  std::vector<std::int32_t> slices = {};  // tokens of each slice of a sequence; empty: it is whole
  /// Where microbatches are slices of one text, the next: told before each batch, of one
  /// microbatch. The first has the most tokens. Null: they are not.
  const Slice* text = nullptr;
};

/// A stage for each slice of a sequence.
template <Kernels K>
std::vector<Stage<K>> stage_shapes(const StageSetup& setup, LayerRange layers, double loss_scale) {
  std::vector<Stage<K>> shapes;
  const auto slices = setup.text != nullptr ? std::vector{*setup.text}
                                            : slices_of(setup.model.sequence, setup.slices);
  for (const Slice& slice : slices) {
    shapes.emplace_back(setup.model, layers, setup.microbatch_size, loss_scale, setup.recompute,
                        slice);
  }
  return shapes;
}
/// Of a stage with these slots: only if it makes its stashes again does it keep contexts apart.
inline StageSetup with_contexts(StageSetup setup, const StageSlots& slots) {
  if (setup.recompute == Recompute::stage && slots[SlotKind::context] == 0)
    setup.recompute = Recompute::none;
  return setup;
}
/// That of the most tokens: memory is laid out for it.
template <Kernels K>
const Stage<K>& largest_of(const std::vector<Stage<K>>& shapes) {
  return *std::ranges::max_element(shapes, {},
                                   [](const Stage<K>& shape) { return shape.sizes().boundary; });
}

/// Where a stage stands in a run.
struct StagePlace {
  std::uint16_t pipeline = 0;  // of the width
  ReplicaId id{};
  DeviceId device{};  // within the pipeline
  LayerRange layers;
  bool mixes_versions = false;   // Schedule::version_rule
  Reading reading = {};          // instead of weights
  std::size_t first_tensor = 0;  // which of the model's tensors its first one is
  std::int64_t updates_a_batch = 1;
  double loss_scale = 1.0;
  double gradient_factor = 1.0;  // what its gradients lack to be the mean over its update
};

/// What is trained is one copy beside the versions of the weights, which can't be taken back.
inline void check_master(const Program& program) {
  const auto validates = [](const auto& each) { return settles_step(each.op.kind); };
  if (std::ranges::any_of(program.instructions(), validates))
    throw InputError("post-validation needs weights stored as they are trained: --storage f32");
}

template <class W>
std::span<W> part(std::span<W> whole, const ElementRange& range) {
  return whole.subspan(static_cast<std::size_t>(range.first),
                       static_cast<std::size_t>(range.size()));
}

template <class B>
class StageState {
 public:
  using T = typename B::Scalar;
  using W = typename B::Kernels::Wide;
  using Ring = SlotRing<B>;
  using Pieces = std::span<const std::span<T>>;
  /// Versions of the weights are rounded: one further copy is what is trained.
  static constexpr bool kHasMaster = !std::same_as<T, W>;

  /// Lays out all its memory, but for the stashes that it takes from its device's.
  StageState(const StageSetup& setup, const StagePlace& where, const StageSlots& slots, B& backend,
             MemoryMeter& meter, StashPool<B>& of_device)
      : place(where),
        id(where.id),
        shapes(stage_shapes<typename B::Kernels>(with_contexts(setup, slots), where.layers,
                                                 where.loss_scale)),
        stage(largest_of(shapes)),
        optimizer(setup.optimizer),
        data(setup.data),
        versions(slots[SlotKind::weights]),
        stashes(of_device),
        most_stashes(slots[SlotKind::stash]),
        most_contexts(slots[SlotKind::context]),
        forwards_in_scratch(setup.recompute == Recompute::stage && slots.forwards_in_workspace) {
    const auto allocate = [&](std::int64_t elements) {
      return backend.template allocate<T>(elements);
    };
    const auto wide = [&](std::int64_t n) { return backend.template allocate<W>(n); };
    const StageSizes& sizes = stage.sizes();
    const auto ring = [&](SlotKind kind, std::int64_t elements) {
      return Ring(kind, id, slots[kind], elements, meter, allocate);
    };
    weights = ring(SlotKind::weights, sizes.parameters);
    forward_weights = ring(SlotKind::forward_weights, sizes.parameters);
    backward_weights = ring(SlotKind::backward_weights, sizes.parameters);
    gradients = {SlotKind::gradients, id,    slots[SlotKind::gradients],
                 sizes.parameters,    meter, wide};
    eviction_buffer = ring(SlotKind::eviction_buffer, sizes.stash);
    input = ring(SlotKind::input, sizes.boundary);
    output = ring(SlotKind::output, sizes.boundary);
    input_gradient = ring(SlotKind::input_gradient, sizes.boundary);
    kept_gradients = ring(SlotKind::kept_gradients, sizes.kept_gradients);
    context_gradient = {SlotKind::context_gradient,
                        id,
                        slots[SlotKind::context_gradient],
                        sizes.context_gradient,
                        meter,
                        wide};
    if (setup.text != nullptr) kept = allocate(sizes.context_gradient);
    meter.commit(&MemoryByClass::activations, kept.bytes());
    meter.acquire(&MemoryByClass::activations, kept.bytes());
    state = backend.template allocate<W>(state_size() + (slots.keeps_drift ? sizes.parameters : 0));
    if constexpr (kHasMaster) master = backend.template allocate<W>(sizes.parameters);
    const Bytes optimizer_bytes = state.bytes() + master.bytes();
    meter.commit(&MemoryByClass::optimizer, optimizer_bytes);
    meter.acquire(&MemoryByClass::optimizer, optimizer_bytes);
    readers_.assign(static_cast<std::size_t>(read_forward().slots()), 0);
    norms.resize(static_cast<std::size_t>(slots[SlotKind::gradients]));
    rollback.inputs =
        std::vector<typename B::Fence>(static_cast<std::size_t>(slots[SlotKind::input]));
  }

  /// What the step to `version` reads and writes, but for gradients.
  UpdateSpans<T, W> step_spans(std::int64_t version, std::span<const T> read, std::span<T> made) {
    UpdateSpans<T, W> spans;
    if constexpr (kHasMaster) {
      spans = {.weights = master.elements(), .weights_out = master.elements(), .rounded = made};
    } else {
      spans = {.weights = read, .weights_out = made};
    }
    const std::span<W> all = state.elements();
    const auto states = static_cast<std::size_t>(state_size());
    spans.state = all.first(states);
    spans.forward_weights = take_version(forward_weights, version);
    spans.backward_weights = take_version(backward_weights, version);
    spans.drift = all.subspan(states);
    return spans;
  }

  /// The versions of weights that a forward, its recomputation too, and a backward read.
  Ring& read_forward() { return place.reading.predicts_forward() ? forward_weights : weights; }
  Ring& read_backward() {
    if (place.reading.reads_alike()) return read_forward();
    return place.reading.has_backward_plane() ? backward_weights : weights;
  }

  /// The weights that are trained, when `version` is the newest. Throws DeviceError when it is
  /// none.
  std::span<W> trained(std::int64_t version) {
    const std::span<T> newest = weights.held(version);
    if constexpr (kHasMaster) {
      return master.elements();
    } else {
      return newest;
    }
  }

  /// A microbatch in flight keeps the version that its forward found until its backward ends; where
  /// the backward reads another, it keeps none.
  void begin_reading(std::int64_t version) {
    if (!place.mixes_versions) ++readers(version);
  }
  void end_reading(std::int64_t version) {
    if (!place.mixes_versions) --readers(version);
  }
  /// The slot of a version that is about to be made. Throws DeviceError when what it held has
  /// readers left.
  std::span<T> take_version(std::int64_t version) { return take_version(weights, version); }

  /// Allocates what it has at its partner: the partner's memory.
  void add_hosted_stashes(std::int32_t count, B& partner, MemoryMeter& meter) {
    hosted_stash =
        Ring(SlotKind::hosted_stash, id, count, stage.sizes().stash, meter,
             [&](std::int64_t elements) { return partner.template allocate<T>(elements); });
  }

  /// Elements of the scratch that its work needs.
  std::int64_t scratch_size() const {
    const StageSizes& sizes = stage.sizes();
    const std::int64_t forward = forwards_in_scratch ? sizes.stash : 0;
    return std::max({sizes.scratch, forward, update_scratch_size()});
  }
  std::int64_t update_scratch_size() const {
    return update_scratch<T, W>(optimizer.kind, stage.parameters());
  }

  /// Slices are counted through microbatches.
  std::int64_t slice_count() const { return std::ssize(shapes); }
  std::int64_t slice_of(std::int64_t microbatch) const { return microbatch % slice_count(); }
  /// Whether slices leave keys and values beside their stashes, which are made again.
  bool keeps_context() const { return recomputes && slice_count() > 1; }
  /// As it works on a microbatch, or a slice.
  const Stage<typename B::Kernels>& stage_of(std::int64_t microbatch) const {
    return of_text ? *of_text : shapes[static_cast<std::size_t>(slice_of(microbatch))];
  }
  /// Takes up the next slice of the text, if there is one. While nothing runs.
  void read_on(const StageSetup& setup) {
    if (setup.text == nullptr) return;
    of_text.emplace(setup.model, place.layers, setup.microbatch_size, place.loss_scale,
                    setup.recompute, *setup.text);
  }
  /// What attention adds to while a microbatch's slices go backward, from the last to the first.
  std::span<W> take_context_gradient(std::int64_t microbatch) {
    if (slice_count() == 1) return {};
    const std::int64_t whole = microbatch / slice_count();
    const bool begins = slice_of(microbatch) + 1 == slice_count();
    return begins ? context_gradient.acquire(whole) : context_gradient.held(whole);
  }
  /// What later slices read of one, apart from its stash, which is made again; else nothing.
  Pieces take_context(std::int64_t microbatch) {
    if (!keeps_context()) return {};
    return stashes.acquire({id, SlotKind::context}, microbatch,
                           stage_of(microbatch).sizes().context_pieces, most_contexts);
  }
  Pieces context_of(std::int64_t microbatch) const {
    return keeps_context() ? stashes.held({id, SlotKind::context}, microbatch) : Pieces();
  }
  /// What the microbatch's slices before this one have left for it. Valid until the next call.
  std::span<const Pieces> earlier_slices(std::int64_t microbatch) {
    const SlotKind kind = keeps_context() ? SlotKind::context : SlotKind::stash;
    earlier_.clear();
    for (std::int64_t slice = slice_of(microbatch); slice > 0; --slice)
      earlier_.push_back(stashes.held({id, kind}, microbatch - slice));
    return earlier_;
  }
  /// When a slice has gone backward nobody reads its keys and values, nor adds to their gradients.
  void release_context(std::int64_t microbatch) {
    if (keeps_context()) stashes.release({id, SlotKind::context}, microbatch);
    if (slice_count() > 1 && slice_of(microbatch) == 0)
      context_gradient.release(microbatch / slice_count());
  }

  /// Sample `k` of the data, or slice k, as this stage needs it: none where it is neither first nor
  /// last. In a task of the stream whose kernels read it.
  SampleSpans<W> sample(std::int64_t k, B& backend, typename B::Stream& stream) {
    if (!stage.is_first() && !stage.is_last()) return {};
    data->fill(k / slice_count(), stage_of(k).slice(), sample_);
    return readable_sample(backend, stream, sample_);
  }

  const StagePlace place;
  const ReplicaId id;
  const std::vector<Stage<typename B::Kernels>> shapes;  // of each slice; mostly one
  const Stage<typename B::Kernels>& stage;               // the largest
  std::optional<Stage<typename B::Kernels>> of_text;     // at its slice at hand
  const OptimizerConfig optimizer;
  const Data* data;
  const std::int32_t versions;
  StashPool<B>& stashes;
  const std::int32_t most_stashes, most_contexts;
  const bool forwards_in_scratch;  // see StageSlots::forwards_in_workspace
  SlotRing<B, W> gradients, context_gradient;
  Ring weights, input, output, input_gradient, kept_gradients;
  Ring eviction_buffer, hosted_stash;      // of stashes that are evicted
  Ring forward_weights, backward_weights;  // versions as passes read them, where that differs
  typename B::template Buffer<W> state;    // of the optimizer, and δ of a correction behind it
  typename B::template Buffer<W> master;   // empty: the versions of the weights are not rounded
  typename B::template Buffer<T> kept;     // keys and values of a text
  std::int64_t tied_sums = 0;  // updates whose tied gradients within this stage are summed
  typename B::Fence tied_sum;  // behind the newest of these sums
  /// Of an update whose gradients lie in the slot of the same place; where stages decide together.
  /// The norm's tensors are those of the whole model.
  struct Decided {
    std::int64_t update = -1;
    std::shared_ptr<UpdateNorm> norm;
  };
  std::vector<Decided> norms;
  std::shared_ptr<UpdateNorm> last_norm;  // where it decides alone: of its own tensors
  bool decides_alone = true;
  bool brings_squares = true;  // or another replica of its stage does, which has the same
  bool recomputes = false;     // or has no backward: a forward forgets its stash
  bool is_kept = false;        // its planes are those that a keeper of the run's state is shown
  /// Updates that were not skipped, before the run; so far, where they are validated.
  std::int64_t steps = 0;

  // Where updates are validated.
  bool validates = false;
  std::int64_t settled = 0;  // the newest version that stays
  std::vector<std::pair<std::int64_t, std::shared_ptr<double[]>>>
      open_losses;  // of microbatches whose forward read a newer one
  /// What the neighbours along the model wait for in a rollback, and the fences behind which it is
  /// so on their streams.
  struct Rollback {
    std::atomic<std::int64_t> reached{
        -1};  // the newest wrong update at whose validate the device is
    std::atomic<std::int64_t> redone{-1};        // the newest microbatch done again, and handed on
    std::atomic<std::int64_t> ended{-1};         // the newest update validated
    typename B::Fence at_validate, output, end;  // of `reached`; of `redone`, for its own sends
    std::vector<typename B::Fence> inputs;       // of each input slot that was filled again
  };
  Rollback rollback;
  /// Behind it the input of use `q`, handed on again, is in its slot.
  typename B::Fence& input_again(std::int64_t q) {
    return rollback.inputs[static_cast<std::size_t>(q) % rollback.inputs.size()];
  }

 private:
  /// Numbers of the optimizer's state.
  std::int64_t state_size() const {
    return StateLayout(optimizer.optimizer(), stage.parameters()).size();
  }
  std::int64_t& readers(std::int64_t version) {
    return readers_[static_cast<std::size_t>(version) % readers_.size()];
  }
  /// Of weights or a plane; empty: the stage has none of these.
  std::span<T> take_version(Ring& ring, std::int64_t version) {
    if (ring.slots() == 0) return {};
    if (const std::int64_t overwritten = version - ring.slots(); overwritten >= 0) {
      const std::int64_t busy = &ring == &read_forward() ? readers(overwritten) : 0;
      if (busy != 0) {
        throw DeviceError(fmt::format(
            "stage {}: update {} overwrites version {}, which {} microbatches still use", index(id),
            version - 1, overwritten, busy));
      }
      ring.release(overwritten);
    }
    return ring.acquire(version);
  }
  std::vector<std::int64_t>
      readers_;  // microbatches in flight that keep the version in each weight slot
  Sample<W> sample_;
  std::vector<Pieces> earlier_;
};

}  // namespace tandem
