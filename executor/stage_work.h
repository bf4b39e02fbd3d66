#pragma once
// StageWork: what the compute ops and updates of a program do to their stages' slots, on one device
// of one pipeline.

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/error.h"
#include "executor/optimizer.h"
#include "executor/world.h"

namespace tandem {

/// Used by its device's thread only.
template <class B>
class StageWork {
 public:
  using T = typename B::Scalar;
  using State = StageState<B>;

  StageWork(World<B>& world, std::uint16_t pipeline, typename B::Buffer scratch)
      : world_(world), pipeline_(pipeline), scratch_(std::move(scratch)) {}

  State& state_of(StageId stage) const { return *world_.stages[pipeline_][stage]; }

  /// A slot that holds a microbatch's stash, and which use of its ring that is.
  struct StashUse {
    typename State::Ring& ring;
    std::int64_t use;
    std::span<T> acquire() const { return ring.acquire(use); }
    std::span<T> held() const { return ring.held(use); }
    void release() const { ring.release(use); }
  };
  /// Where its stage works on it.
  StashUse stash_of(State& s, std::int64_t microbatch) const {
    // Those that are evicted have one slot in turn, so that any number tells them apart.
    if (world_.sequence.evicts(s.id, microbatch)) return {s.transit, microbatch};
    return {s.stash, world_.sequence.among_alike(s.id, microbatch)};
  }
  /// Where it is with the partner.
  StashUse guest_of(State& s, std::int64_t microbatch) const {
    return {s.guest, world_.sequence.among_alike(s.id, microbatch)};
  }

  template <class Kernels>
  void forward(const Instance& instance, Kernels kernels) {
    State& s = state_of(op_of(instance).stage);
    const std::int64_t k = instance.microbatch, q = world_.sequence(s.id, k),
                       version = *world_.versions(instance);
    ForwardSpans<T> spans = forward_spans(s, instance);
    if (!s.forwards_in_scratch) spans.stash = stash_of(s, k).acquire();
    if (s.below(k) != nullptr) spans.output = s.output.acquire(q);
    const std::optional<double> loss = s.stage.forward(kernels, spans);
    if (s.recomputes && !s.forwards_in_scratch) stash_of(s, k).release();
    ++readers(s, version);
    note_version(instance, version);
    if (!loss) return;
    if (s.validates && version > s.settled) {
      s.open_losses.emplace_back(k, *loss);
    } else {
      report_loss(k, *loss);
    }
  }

  template <class Kernels>
  void recompute(const Instance& instance, Kernels kernels) {
    State& s = state_of(op_of(instance).stage);
    const std::int64_t k = instance.microbatch, version = *world_.versions(instance);
    s.stage.recompute(kernels, {.weights = s.weights.held(version),
                                .input = input_of(s, k),
                                .sample = s.sample(world_.sample_of(pipeline_, k)),
                                .stash = stash_of(s, k).acquire(),
                                .output = {},
                                .scratch = scratch_for(s)});
    note_version(instance, version);
  }

  template <class Kernels>
  void backward(const Instance& instance, Kernels kernels) {
    State& s = state_of(op_of(instance).stage);
    const std::int64_t k = instance.microbatch;
    BackwardSpans<T> spans = input_half_spans(s, instance);
    spans.scratch = scratch_for(s);
    spans.gradients = gradients_for(s, k, kernels);
    s.stage.backward(kernels, spans);
    release_after_backward(s, k);
    end_reading(s, instance);
  }

  template <class Kernels>
  void backward_input(const Instance& instance, Kernels kernels) {
    State& s = state_of(op_of(instance).stage);
    BackwardSpans<T> spans = input_half_spans(s, instance);
    spans.scratch = s.kept_gradients.acquire(world_.sequence(s.id, instance.microbatch));
    s.stage.backward_input(kernels, spans);
    end_reading(s, instance);
  }

  template <class Kernels>
  void backward_weight(const Instance& instance, Kernels kernels) {
    const Op& op = op_of(instance);
    State& s = state_of(op.stage);
    // One after another, as ops of their own would: the sums are the same to the bit.
    for (std::int64_t k = instance.microbatch - op.span + 1; k <= instance.microbatch; ++k) {
      const std::int64_t q = world_.sequence(s.id, k);
      BackwardSpans<T> spans = backward_spans(s, k);
      spans.scratch = s.kept_gradients.held(q);
      spans.gradients = gradients_for(s, k, kernels);
      s.stage.backward_weight(kernels, spans);
      s.kept_gradients.release(q);
      release_after_backward(s, k);
    }
  }

  template <class Kernels>
  void update(const Instance& instance, Kernels kernels) {
    State& s = state_of(op_of(instance).stage);
    const std::int64_t number = update_of(s, instance.microbatch);
    note_version(instance, number + 1);
    const std::span<const T> read = s.weights.held(number);
    if (s.validates) {
      finished_gradients(s, number, kernels);
      const Versions versions{read, take_version(s, number + 1)};
      return step(s, instance.microbatch, versions, {.writes = StepWrites::weights}, kernels);
    }
    const GuardDecision decision = decision_of(s, number, kernels);
    make_version(s, instance.microbatch, {read, take_version(s, number + 1)}, decision, kernels);
    end_update(s, number, decision.skip, false);
  }

  // ---- What a validate does, in this order ----

  /// Whether the update stepped otherwise than all stages decided since.
  bool is_wrong(const State& s, std::int64_t number) const {
    const GuardDecision decision = kept_decision(s, number);
    return decision.skip || decision.scale != 1.0;
  }

  /// Makes the version of the update that covers `microbatch` again, as was decided.
  template <class Kernels>
  void redo_update(State& s, std::int64_t microbatch, Kernels kernels) {
    const std::int64_t number = update_of(s, microbatch);
    make_version(s, microbatch, versions_of(s, number), kept_decision(s, number), kernels);
  }

  /// Runs a forward again, whose input is made again. What the stage below holds of its output is
  /// replaced; what it does not hold yet, the transfer will bring.
  template <class Kernels>
  void redo_forward(const Instance& instance, Kernels kernels) {
    State& s = state_of(op_of(instance).stage);
    const std::int64_t k = instance.microbatch, q = world_.sequence(s.id, k);
    const bool drops = s.recomputes && !s.forwards_in_scratch;
    ForwardSpans<T> spans = forward_spans(s, instance);
    if (!s.forwards_in_scratch)
      spans.stash = drops ? stash_of(s, k).acquire() : stash_of(s, k).held();
    State* below = s.below(k);
    if (below != nullptr) spans.output = s.output.held(q);
    if (const std::optional<double> loss = s.stage.forward(kernels, spans)) {
      for (auto& [microbatch, open] : s.open_losses) {
        if (microbatch == k) open = *loss;
      }
    }
    if (drops) stash_of(s, k).release();
    if (below == nullptr || below->shares_device_with(s)) return;
    const std::int64_t taken = world_.sequence(below->id, k);
    if (below->input.holds(taken)) kernels.copy(spans.output, below->input.held(taken));
  }

  /// The update stays as it now is.
  template <class Kernels>
  void settle(State& s, std::int64_t microbatch, bool rolled_back, Kernels kernels) {
    const std::int64_t number = update_of(s, microbatch);
    if (!rolled_back) {
      step(s, microbatch, versions_of(s, number), {.writes = StepWrites::state}, kernels);
      ++s.steps;
    }
    end_update(s, number, kept_decision(s, number).skip, rolled_back);
    s.settled = number + 1;
    for (const auto& [k, loss] : s.open_losses) report_loss(k, loss);
    s.open_losses.clear();
  }

  /// The gradients of update `number` of this stage alone, whole: where it holds both ends of a
  /// tied embedding these are summed, embedding + head.
  template <class Kernels>
  std::span<T> finished_gradients(State& s, std::int64_t number, Kernels& kernels) {
    const std::span<T> gradients = s.gradients.held(number);
    const TiedRanges& tied = s.stage.tied();
    if (tied.embedding && tied.head && s.tied_sums == number) {
      const std::span<T> embedding = part(gradients, *tied.embedding);
      const std::span<T> head = part(gradients, *tied.head);
      kernels.add(embedding, head, embedding);
      kernels.copy(embedding, head);
      s.tied_sums = number + 1;
    }
    return gradients;
  }

  /// Sums the squares of update `number`'s gradients, tensor by tensor.
  template <class Kernels>
  std::span<const double> square_gradients(State& s, std::int64_t number, Kernels& kernels) {
    const bool tied = s.stage.tied().embedding || s.stage.tied().head;
    sum_squares(kernels, std::span<const Tensor>(s.stage.parameters()), tied,
                s.place.gradient_factor, std::span<const T>(finished_gradients(s, number, kernels)),
                s.squares);
    return s.squares;
  }

  /// What all stages decided together about update `number`.
  void keep_decision(State& s, std::int64_t number, const GuardDecision& decision) {
    s.decisions[static_cast<std::size_t>(number) % s.decisions.size()] = {number, decision};
  }

  /// Throws DeviceError naming update and tensor when the decision is to skip what may not be.
  void check_finite(const GuardDecision& decision, std::int64_t number, std::size_t first_tensor,
                    std::span<const double> squares) const {
    if (!decision.skip || world_.guard.on_nan == NonFinite::skip) return;
    const std::size_t tensor = first_tensor + first_non_finite(squares).value_or(0);
    throw DeviceError(
        fmt::format("update {}: the gradient of {} is not finite", number, world_.tensors[tensor]));
  }

  static std::span<T> part(std::span<T> whole, const ElementRange& range) {
    return whole.subspan(static_cast<std::size_t>(range.first),
                         static_cast<std::size_t>(range.size()));
  }

  const std::vector<LedgerEntry>& ledger() const { return ledger_; }

 private:
  const Op& op_of(const Instance& instance) const { return world_.program[instance.id].op; }
  std::int64_t update_of(const State& s, std::int64_t microbatch) const {
    return world_.versions.covering_update(s.id, microbatch);
  }

  std::span<T> part_of_scratch(std::int64_t size) {
    return scratch_.elements().first(static_cast<std::size_t>(size));
  }
  std::span<T> scratch_for(const State& s) { return part_of_scratch(s.stage.sizes().scratch); }

  std::span<const T> input_of(State& s, std::int64_t microbatch) {
    State* above = s.above(microbatch);
    if (above == nullptr) return {};
    if (above->shares_device_with(s))
      return above->output.held(world_.sequence(above->id, microbatch));
    const std::int64_t q = world_.sequence(s.id, microbatch);
    if (!s.input.has_landed(q)) {
      throw DeviceError(fmt::format("stage {}: the input of microbatch {} has not arrived",
                                    index(s.id), microbatch));
    }
    return s.input.held(q);
  }

  std::span<const T> output_gradient_of(State& s, std::int64_t microbatch) {
    State* below = s.below(microbatch);
    if (below == nullptr) return {};
    if (below->shares_device_with(s))
      return below->input_gradient.held(world_.sequence(below->id, microbatch));
    const std::int64_t q = world_.sequence(s.id, microbatch);
    if (!s.output_gradient.has_landed(q)) {
      throw DeviceError(fmt::format("stage {}: the gradient of microbatch {} has not arrived",
                                    index(s.id), microbatch));
    }
    return s.output_gradient.held(q);
  }

  /// What both halves of a backward read.
  BackwardSpans<T> backward_spans(State& s, std::int64_t microbatch) {
    return {.weights = {},
            .input = input_of(s, microbatch),
            .stash = stash_of(s, microbatch).held(),
            .output_gradient = output_gradient_of(s, microbatch),
            .scratch = {},
            .input_gradient = {},
            .gradients = {}};
  }

  /// What making the gradient of the input reads, and where that goes.
  BackwardSpans<T> input_half_spans(State& s, const Instance& instance) {
    const std::int64_t k = instance.microbatch;
    BackwardSpans<T> spans = backward_spans(s, k);
    spans.weights = s.weights.held(*world_.versions(instance));
    if (s.above(k) != nullptr)
      spans.input_gradient = s.input_gradient.acquire(world_.sequence(s.id, k));
    return spans;
  }

  /// A microbatch reads its version of the weights no more.
  void end_reading(State& s, const Instance& instance) {
    const std::int64_t version = *world_.versions(instance);
    --readers(s, version);
    note_version(instance, version);
  }

  /// The sum that this microbatch adds to: zeroed at the first weight gradient of its update.
  template <class Kernels>
  std::span<T> gradients_for(State& s, std::int64_t microbatch, Kernels& kernels) {
    const std::int64_t update = world_.versions.covering_update(s.id, microbatch);
    if (s.gradients.holds(update)) return s.gradients.held(update);
    const std::span<T> sum = s.gradients.acquire(update);
    kernels.fill(sum, 0.0);
    return sum;
  }

  void release_after_backward(State& s, std::int64_t microbatch) {
    const std::int64_t q = world_.sequence(s.id, microbatch);
    stash_of(s, microbatch).release();
    if (State* above = s.above(microbatch); above && !above->shares_device_with(s))
      s.input.release(q);
    State* below = s.below(microbatch);
    if (below == nullptr) return;
    s.output.release(q);  // its transfer has ended: the gradient came back
    if (below->shares_device_with(s))
      below->input_gradient.release(world_.sequence(below->id, microbatch));
    else
      s.output_gradient.release(q);
  }

  /// Of a forward; without stash, but where it is made in scratch, and without output.
  ForwardSpans<T> forward_spans(State& s, const Instance& instance) {
    const std::int64_t k = instance.microbatch;
    return {
        .weights = s.weights.held(*world_.versions(instance)),
        .input = input_of(s, k),
        .sample = s.sample(world_.sample_of(pipeline_, k)),
        .stash = s.forwards_in_scratch ? part_of_scratch(s.stage.sizes().stash) : std::span<T>(),
        .output = {},
        .scratch = scratch_for(s)};
  }

  void report_loss(std::int64_t microbatch, double loss) const {
    if (world_.on_loss) world_.on_loss(world_.sample_of(pipeline_, microbatch), loss);
  }

  /// The weights that an update reads and makes; may be the same memory.
  struct Versions {
    std::span<const T> read;
    std::span<T> made;
  };
  static Versions versions_of(State& s, std::int64_t update) {
    return {s.weights.held(update), s.weights.held(update + 1)};
  }

  /// Writes what a decision makes of the gradients of the update that covers `microbatch`.
  template <class Kernels>
  void make_version(State& s, std::int64_t microbatch, const Versions& versions,
                    const GuardDecision& decision, Kernels& kernels) {
    if (!decision.skip) {
      step(s, microbatch, versions, {.gradient_scale = decision.scale}, kernels);
      ++s.steps;
    } else if (versions.made.data() != versions.read.data()) {
      kernels.copy(versions.read, versions.made);
    }
  }

  /// The optimizer's next step, which `s.steps` does not count yet. Of `how` the scale, and what is
  /// written.
  template <class Kernels>
  void step(State& s, std::int64_t microbatch, const Versions& versions, OptimizerStep how,
            Kernels& kernels) {
    how.number = s.steps + 1;
    how.batch = microbatch / world_.program.microbatches() + 1;
    how.gradient_scale *= s.place.gradient_factor;
    tandem::update(kernels, s.optimizer, how, s.stage.parameters(),
                   {.weights = versions.read,
                    .gradients = s.gradients.held(update_of(s, microbatch)),
                    .state = s.state.elements(),
                    .weights_out = versions.made});
  }

  void end_update(State& s, std::int64_t number, bool skipped, bool rolled_back) {
    s.gradients.release(number);
    if (world_.on_norm) world_.on_norm(s, number, skipped, rolled_back);
    if (!world_.on_update) return;
    world_.on_update({.pipeline = pipeline_,
                      .stage = s.id,
                      .version = number + 1,
                      .weights = s.weights.held(number + 1),
                      .state = s.state.elements()});
  }

  /// What all stages have decided.
  GuardDecision kept_decision(const State& s, std::int64_t number) const {
    const auto& [update, decision] =
        s.decisions[static_cast<std::size_t>(number) % s.decisions.size()];
    if (update == number) return decision;
    throw DeviceError(
        fmt::format("stage {}: update {} comes before its norm is known", index(s.id), number));
  }

  template <class Kernels>
  GuardDecision decision_of(State& s, std::int64_t number, Kernels& kernels) {
    if (!s.decides_alone) return kept_decision(s, number);
    const std::span<const double> squares = square_gradients(s, number, kernels);
    const GuardDecision decision = decide(world_.guard, squares);
    check_finite(decision, number, s.place.first_tensor, squares);
    return decision;
  }

  /// The slot of a version that is about to be made; what it held must have no readers left.
  std::span<T> take_version(State& s, std::int64_t version) {
    const std::int64_t overwritten = version - s.versions;
    if (overwritten >= 0) {
      if (const std::int64_t busy = readers(s, overwritten); busy != 0) {
        throw DeviceError(fmt::format(
            "stage {}: update {} overwrites version {}, which {} microbatches still use",
            index(s.id), version - 1, overwritten, busy));
      }
      s.weights.release(overwritten);
    }
    return s.weights.acquire(version);
  }

  static std::int64_t& readers(State& s, std::int64_t version) {
    return s.readers[static_cast<std::size_t>(version % s.versions)];
  }

  void note_version(const Instance& instance, std::int64_t version) {
    if (!world_.keep_ledger) return;
    const Op& op = op_of(instance);
    ledger_.push_back(
        {op.stage, op.kind, world_.sample_of(pipeline_, instance.microbatch), version});
  }

  World<B>& world_;
  const std::uint16_t pipeline_;
  typename B::Buffer scratch_;
  std::vector<LedgerEntry> ledger_;
};

}  // namespace tandem
