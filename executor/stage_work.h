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
    ForwardSpans<T> spans{.weights = s.weights.held(version),
                          .input = input_of(s, k),
                          .sample = s.sample(world_.sample_of(pipeline_, k)),
                          .stash = s.forwards_in_scratch ? part_of_scratch(s.stage.sizes().stash)
                                                         : stash_of(s, k).acquire(),
                          .output = {},
                          .scratch = scratch_for(s)};
    if (s.below(k) != nullptr) spans.output = s.output.acquire(q);
    const std::optional<double> loss = s.stage.forward(kernels, spans);
    if (s.recomputes && !s.forwards_in_scratch) stash_of(s, k).release();
    ++readers(s, version);
    note_version(instance, version);
    if (loss && world_.on_loss) world_.on_loss(world_.sample_of(pipeline_, k), *loss);
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
    const std::int64_t number = world_.versions.covering_update(s.id, instance.microbatch);
    const GuardDecision decision = decision_of(s, number, kernels);
    const std::span<const T> read = s.weights.held(number);
    const std::span<T> made = take_version(s, number + 1);
    if (decision.skip) {
      if (made.data() != read.data()) kernels.copy(read, made);
    } else {
      tandem::update(kernels, s.optimizer,
                     {.number = ++s.steps,
                      .batch = instance.microbatch / world_.program.microbatches() + 1,
                      .gradient_scale = s.place.gradient_factor * decision.scale},
                     s.stage.parameters(),
                     {.weights = read,
                      .gradients = s.gradients.held(number),
                      .state = s.state.elements(),
                      .weights_out = made});
    }
    s.gradients.release(number);
    note_version(instance, number + 1);
    if (world_.on_norm) world_.on_norm(s, number, decision.skip);
    if (!world_.on_update) return;
    world_.on_update({.pipeline = pipeline_,
                      .stage = s.id,
                      .version = number + 1,
                      .weights = made,
                      .state = s.state.elements()});
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

  template <class Kernels>
  GuardDecision decision_of(State& s, std::int64_t number, Kernels& kernels) {
    if (!s.decides_alone) {
      const auto& [update, decision] =
          s.decisions[static_cast<std::size_t>(number) % s.decisions.size()];
      if (update == number) return decision;
      throw DeviceError(
          fmt::format("stage {}: update {} comes before its norm is known", index(s.id), number));
    }
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
