#pragma once
// StageWork: what the compute ops and updates of a program do to their stages' slots, on one device
// of one pipeline.

#include <concepts>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/base/error.h"
#include "executor/run/boundaries.h"
#include "executor/run/run_state.h"
#include "executor/run/stash_use.h"
#include "executor/stage/lasting_state.h"
#include "executor/stage/optimizer.h"

namespace tandem {

/// Used by its device's thread only.
template <class B>
class StageWork {
 public:
  using T = typename B::Scalar;
  using W = typename B::Kernels::Wide;
  using State = StageState<B>;
  using Stream = typename B::Stream;
  using Kernels = typename B::Kernels;
  using Norm = std::shared_ptr<UpdateNorm>;

  StageWork(RunState<B>& run_state, std::uint16_t pipeline, B& backend,
            typename B::template Buffer<T> scratch)
      : run_(run_state),
        boundaries_(run_state.sequence, run_state.neighbours, run_state.replicas[pipeline]),
        pipeline_(pipeline),
        backend_(backend),
        scratch_(std::move(scratch)) {}

  State& state_of(ReplicaId replica) const { return *run_.replicas[pipeline_][replica]; }
  const Boundaries<B>& boundaries() const { return boundaries_; }

  StashUse<B> stash_of(State& s, std::int64_t microbatch) const {
    return {s, microbatch, run_.sequence.evicts(s.id, microbatch)};
  }
  /// Where it is with the partner.
  typename SlotRing<B>::Use hosted_stash_of(State& s, std::int64_t microbatch) const {
    return {s.hosted_stash, run_.sequence.among_evicted(s.id, microbatch)};
  }

  void forward(const Instance& instance, Stream& stream) {
    State& s = state_of(op_of(instance).replica);
    const std::int64_t k = instance.microbatch, version = *run_.versions(instance);
    ForwardSpans<T, W> spans = forward_spans(s, instance, stream);
    spans.context = s.take_context(k);
    if (!s.forwards_in_scratch) stash_of(s, k).acquire(spans);
    if (run_.neighbours.below(s.id, k)) spans.output = boundaries_.take_output(s, k);
    auto kernels = backend_.kernels(stream);
    Loss loss = s.stage.is_last() ? backend_.template results<double>(1) : nullptr;
    spans.loss = loss.get();
    s.stage_of(k).forward(kernels, spans);
    show_logits(s, spans, k);
    if (s.recomputes && !s.forwards_in_scratch) stash_of(s, k).release();
    if (run_.program.forwards_alone()) boundaries_.release_after_forward(s, k);
    s.begin_reading(version);
    note_version(instance, version);
    if (!loss) return;
    if (s.validates && version > s.settled) {
      s.open_losses.emplace_back(k, std::move(loss));
    } else {
      report_loss(k, std::move(loss), stream);
    }
  }

  void recompute(const Instance& instance, Stream& stream) {
    State& s = state_of(op_of(instance).replica);
    const std::int64_t k = instance.microbatch, version = *run_.versions(instance);
    auto kernels = backend_.kernels(stream);
    ForwardSpans<T, W> spans{.weights = s.read_forward().held(version),
                             .input = boundaries_.input_of(s, k),
                             .sample = sample_of(s, k, stream),
                             .scratch = scratch_for(s, k),
                             .earlier_pieces = s.earlier_slices(k)};
    stash_of(s, k).acquire(spans);
    s.stage_of(k).recompute(kernels, spans);
    note_version(instance, version);
  }

  void backward(const Instance& instance, Stream& stream) {
    State& s = state_of(op_of(instance).replica);
    const std::int64_t k = instance.microbatch;
    BackwardSpans<T, W> spans = input_half_spans(s, instance);
    spans.scratch = scratch_for(s, k);
    auto kernels = backend_.kernels(stream);
    spans.gradients = gradients_for(s, k, kernels);
    s.stage_of(k).backward(kernels, spans);
    s.release_context(k);
    release_after_backward(s, k);
    end_reading(s, instance);
  }

  void backward_input(const Instance& instance, Stream& stream) {
    State& s = state_of(op_of(instance).replica);
    const std::int64_t k = instance.microbatch;
    const Stage<Kernels>& stage = s.stage_of(k);
    BackwardSpans<T, W> spans = input_half_spans(s, instance);
    spans.scratch = kept_gradients_of(s, k).acquire();
    spans.inner_gradient = part_of_scratch(stage.sizes().inner_gradient);
    auto kernels = backend_.kernels(stream);
    stage.backward_input(kernels, spans);
    s.release_context(k);
    end_reading(s, instance);
  }

  void backward_weight(const Instance& instance, Stream& stream) {
    const Op& op = op_of(instance);
    State& s = state_of(op.replica);
    auto kernels = backend_.kernels(stream);
    // One after another, as ops of their own would: the sums are the same to the bit.
    for (std::int64_t k = instance.microbatch - op.span + 1; k <= instance.microbatch; ++k) {
      BackwardSpans<T, W> spans = backward_spans(s, k);
      spans.scratch = kept_gradients_of(s, k).held();
      spans.gradients = gradients_for(s, k, kernels);
      s.stage_of(k).backward_weight(kernels, spans);
      kept_gradients_of(s, k).release();
      release_after_backward(s, k);
    }
  }

  void update(const Instance& instance, Stream& stream) {
    State& s = state_of(op_of(instance).replica);
    const std::int64_t number = update_of(s, instance.microbatch);
    note_version(instance, number + 1);
    const std::span<const T> read = s.weights.held(number);
    auto kernels = backend_.kernels(stream);
    if (s.validates) {
      finished_gradients(s, number, stream);
      return step(s, instance.microbatch, {read, s.take_version(number + 1)},
                  {.number = s.steps + 1, .writes = StepWrites::weights}, kernels);
    }
    const Norm norm = norm_of(s, number, stream);
    const Versions versions{read, s.take_version(number + 1)};
    step(s, instance.microbatch, versions, {.decision = norm->decision.get()}, kernels);
    end_update(s, number, norm, false, stream);
  }

  // ---- What a validate does, in this order ----

  /// Whether the host knows what all stages decided.
  bool is_known(const State& s, std::int64_t number) const {
    return kept_norm(s, number)->is_known.load(std::memory_order_acquire);
  }

  /// Whether the update stepped otherwise than all stages decided since. REQUIRES: is_known().
  bool is_wrong(const State& s, std::int64_t number) const {
    const UpdateDecision& decision = kept_norm(s, number)->seen();
    return decision.skip != 0.0 || decision.scale != 1.0;
  }

  /// Makes the version of the update that covers `microbatch` again, as was decided.
  void redo_update(State& s, std::int64_t microbatch, Stream& stream) {
    const std::int64_t number = update_of(s, microbatch);
    auto kernels = backend_.kernels(stream);
    step(s, microbatch, versions_of(s, number), {.decision = kept_norm(s, number)->decision.get()},
         kernels);
  }

  /// Runs a forward again, whose input is made again.
  void redo_forward(const Instance& instance, Stream& stream) {
    State& s = state_of(op_of(instance).replica);
    const std::int64_t k = instance.microbatch;
    const bool drops = s.recomputes && !s.forwards_in_scratch;
    ForwardSpans<T, W> spans = forward_spans(s, instance, stream);
    spans.context = s.context_of(k);
    if (drops) stash_of(s, k).acquire(spans);
    if (!drops && !s.forwards_in_scratch) stash_of(s, k).read(spans);
    if (run_.neighbours.below(s.id, k)) spans.output = boundaries_.output_of(s, k);
    for (auto& [microbatch, open] : s.open_losses) {
      if (microbatch == k) spans.loss = open.get();
    }
    auto kernels = backend_.kernels(stream);
    s.stage_of(k).forward(kernels, spans);
    if (drops) stash_of(s, k).release();
  }

  /// The update stays as it now is.
  void settle(State& s, std::int64_t microbatch, bool rolled_back, Stream& stream) {
    const std::int64_t number = update_of(s, microbatch);
    const Norm norm = kept_norm(s, number);
    auto kernels = backend_.kernels(stream);
    if (!rolled_back) {
      step(s, microbatch, versions_of(s, number),
           {.number = s.steps + 1, .writes = StepWrites::state}, kernels);
    }
    if (norm->seen().skip == 0.0) ++s.steps;
    end_update(s, number, norm, rolled_back, stream);
    s.settled = number + 1;
    for (auto& [k, loss] : s.open_losses) report_loss(k, std::move(loss), stream);
    s.open_losses.clear();
  }

  /// The gradients of update `number` of this stage alone, whole: where it holds both ends of a
  /// tied embedding these are summed, embedding + head, by the stream that asks first.
  std::span<W> finished_gradients(State& s, std::int64_t number, Stream& stream) {
    const std::span<W> gradients = s.gradients.held(number);
    const TiedRanges& tied = s.stage.tied();
    if (!tied.embedding || !tied.head) return gradients;
    if (s.tied_sums == number) {
      const std::span<W> embedding = part(gradients, *tied.embedding);
      const std::span<W> head = part(gradients, *tied.head);
      auto kernels = backend_.kernels(stream);
      kernels.add(embedding, head, embedding);
      kernels.copy(embedding, head);
      backend_.raise(stream, s.tied_sum);
      s.tied_sums = number + 1;
    } else {
      backend_.follow(stream, s.tied_sum);
    }
    return gradients;
  }

  /// What a stage brings to a sum over devices: the gradients of the update that the sum serves,
  /// all of them, or of what is tied.
  std::span<W> summed_gradients(const Instance& instance, ReplicaId replica, Stream& stream) {
    State& s = state_of(replica);
    const std::span<W> gradients = finished_gradients(s, update_of(s, instance.microbatch), stream);
    if (!sums_tied(op_of(instance).kind)) return gradients;
    const TiedRanges& ranges = s.stage.tied();
    return part(gradients, ranges.embedding ? *ranges.embedding : *ranges.head);
  }

  /// Sums the squares of update `number`'s gradients, tensor by tensor.
  void square_gradients(State& s, std::int64_t number, std::span<double> squares, Stream& stream) {
    const bool tied = s.stage.tied().embedding || s.stage.tied().head;
    const std::span<const W> gradients = finished_gradients(s, number, stream);
    if (!s.brings_squares) return;
    auto kernels = backend_.kernels(stream);
    sum_squares(kernels, s.stage.parameters(), tied, s.place.gradient_factor, gradients, squares);
  }

  /// What all stages decided together about update `number`.
  void keep_norm(State& s, std::int64_t number, Norm norm) {
    s.norms[static_cast<std::size_t>(number) % s.norms.size()] = {number, std::move(norm)};
  }

  /// Throws DeviceError naming update and tensor when the decision is to skip what may not be: once
  /// it is made. `first_tensor`: which of the model's tensors the norm's first one is.
  void check_finite(const Norm& norm, std::int64_t number, std::size_t first_tensor,
                    Stream& stream) {
    if (run_.setup.stage.guard.on_nan == NonFinite::skip) return;
    backend_.when_done(stream, [this, norm, number, first_tensor] {
      if (norm->seen().skip == 0.0) return;
      const std::size_t at = first_tensor + first_non_finite(norm->all_seen()).value_or(0);
      throw DeviceError(
          fmt::format("update {}: the gradient of {} is not finite", number, run_.tensors[at]));
    });
  }

  const std::vector<LedgerEntry>& ledger() const { return ledger_; }

 private:
  const Op& op_of(const Instance& instance) const { return run_.program[instance.id].op; }
  std::int64_t update_of(const State& s, std::int64_t microbatch) const {
    return run_.versions.covering_update(s.id, microbatch);
  }

  std::span<T> part_of_scratch(std::int64_t size) {
    return scratch_.elements().first(static_cast<std::size_t>(size));
  }
  std::span<T> scratch_for(const State& s, std::int64_t microbatch) {
    return part_of_scratch(s.stage_of(microbatch).sizes().scratch);
  }
  typename State::Ring::Use kept_gradients_of(State& s, std::int64_t microbatch) const {
    return {s.kept_gradients, run_.sequence(s.id, microbatch),
            static_cast<std::size_t>(s.stage_of(microbatch).sizes().kept_gradients)};
  }
  /// What both halves of a backward read.
  BackwardSpans<T, W> backward_spans(State& s, std::int64_t microbatch) {
    BackwardSpans<T, W> spans{.input = boundaries_.input_of(s, microbatch),
                              .output_gradient = boundaries_.output_gradient_of(s, microbatch)};
    stash_of(s, microbatch).read(spans);
    return spans;
  }

  /// What making the gradient of the input reads, and where that goes.
  BackwardSpans<T, W> input_half_spans(State& s, const Instance& instance) {
    const std::int64_t k = instance.microbatch;
    BackwardSpans<T, W> spans = backward_spans(s, k);
    spans.weights = s.read_backward().held(*run_.versions(instance));
    if (run_.neighbours.above(s.id, k))
      spans.input_gradient = boundaries_.take_input_gradient(s, k);
    spans.earlier_pieces = s.earlier_slices(k);
    spans.context_gradient = s.take_context_gradient(k);
    return spans;
  }

  /// A microbatch reads its version of the weights no more.
  void end_reading(State& s, const Instance& instance) {
    const std::int64_t version = *run_.versions(instance);
    s.end_reading(version);
    note_version(instance, version);
  }

  /// The sum that this microbatch adds to: zeroed at the first weight gradient of its update.
  std::span<W> gradients_for(State& s, std::int64_t microbatch, Kernels& kernels) {
    const std::int64_t update = update_of(s, microbatch);
    if (s.gradients.holds(update)) return s.gradients.held(update);
    const std::span<W> sum = s.gradients.acquire(update);
    kernels.fill(sum, 0.0);
    return sum;
  }

  void release_after_backward(State& s, std::int64_t microbatch) {
    stash_of(s, microbatch).release();
    boundaries_.release_after_backward(s, microbatch);
  }

  SampleSpans<W> sample_of(State& s, std::int64_t microbatch, Stream& stream) {
    return s.sample(run_.sample_of(pipeline_, microbatch), backend_, stream);
  }

  /// Of a forward; without stash, but where it is made in scratch, and without output.
  ForwardSpans<T, W> forward_spans(State& s, const Instance& instance, Stream& stream) {
    const std::int64_t k = instance.microbatch;
    return {.weights = s.read_forward().held(*run_.versions(instance)),
            .input = boundaries_.input_of(s, k),
            .sample = sample_of(s, k, stream),
            .stash = s.forwards_in_scratch ? part_of_scratch(s.stage_of(k).sizes().stash)
                                           : std::span<T>(),
            .scratch = scratch_for(s, k),
            .earlier_pieces = s.earlier_slices(k),
            .kept = s.kept.elements()};
  }

  /// Where data has no targets: what the model says of each token's successor.
  void show_logits(const State& s, const ForwardSpans<T, W>& spans, std::int64_t microbatch) {
    if constexpr (std::same_as<T, W>) {
      if (!run_.setup.on_logits || !s.stage.is_last()) return;
      run_.setup.on_logits(microbatch, backend_.fetch(s.stage_of(microbatch).logits(spans)).span());
    }
  }

  using Loss = std::shared_ptr<double[]>;
  void report_loss(std::int64_t microbatch, Loss loss, Stream& stream) {
    if (!run_.on_loss) return;
    backend_.when_done(
        stream, [this, sample = run_.sample_of(pipeline_, microbatch), held = std::move(loss),
                 at = backend_.moment(stream)] { run_.on_loss(sample, held[0], at.time()); });
  }

  /// The weights that an update reads and makes; may be the same memory.
  struct Versions {
    std::span<const T> read;
    std::span<T> made;
  };
  static Versions versions_of(State& s, std::int64_t update) {
    return {s.weights.held(update), s.weights.held(update + 1)};
  }

  /// The optimizer's next step. Of `how` its number or a decision, and what is written.
  void step(State& s, std::int64_t microbatch, const Versions& versions, OptimizerStep how,
            Kernels& kernels) {
    how.batch = microbatch / run_.program.microbatches() + 1;
    how.gradient_scale *= s.place.gradient_factor;
    how.reading = s.place.reading;
    const std::int64_t number = update_of(s, microbatch);
    UpdateSpans<T, W> spans = s.step_spans(number + 1, versions.read, versions.made);
    spans.gradients = s.gradients.held(number);
    spans.scratch = part_of_scratch(s.update_scratch_size());
    tandem::update(kernels, s.optimizer, how, s.stage.parameters(), spans);
  }

  void end_update(State& s, std::int64_t number, const Norm& norm, bool rolled_back,
                  Stream& stream) {
    s.gradients.release(number);
    // The step reads the decision, so it is held until then.
    backend_.when_done(stream, [this, &s, number, norm, rolled_back, at = backend_.moment(stream)] {
      if (!run_.on_norm) return;
      const std::size_t first = s.decides_alone ? 0 : s.place.first_tensor;
      run_.on_norm(s, number,
                   {norm->all_seen().subspan(first, s.stage.parameters().size()),
                    norm->seen().skip != 0.0, rolled_back, at.time()});
    });
    keep_state(s, number + 1);
    if (!run_.on_update) return;
    const auto weights = backend_.fetch(std::span<const W>(s.trained(number + 1)));
    const auto state = backend_.fetch(std::span<const W>(s.state.elements()));
    run_.on_update({.pipeline = pipeline_,
                    .replica = s.id,
                    .version = number + 1,
                    .weights = weights.span(),
                    .state = state.span()});
  }

  /// Shows the run's keeper what lasts of the stage, where its last update of a batch makes
  /// `version`. Of the run's end that is done when all have ended.
  void keep_state(State& s, std::int64_t version) {
    const std::int64_t batches = version / s.place.updates_a_batch;
    if (!s.is_kept || version % s.place.updates_a_batch != 0 || batches == run_.setup.batches)
      return;
    if (run_.setup.keeper->wants(batches)) show_state(s, backend_, version, *run_.setup.keeper);
  }

  /// What all stages have decided.
  const Norm& kept_norm(const State& s, std::int64_t number) const {
    const auto& [update, norm] = s.norms[static_cast<std::size_t>(number) % s.norms.size()];
    if (update == number) return norm;
    throw DeviceError(
        fmt::format("stage {}: update {} comes before its norm is known", index(s.id), number));
  }

  Norm norm_of(State& s, std::int64_t number, Stream& stream) {
    if (!s.decides_alone) return kept_norm(s, number);
    const auto norm = std::make_shared<UpdateNorm>(backend_, s.stage.parameters().size());
    square_gradients(s, number, norm->squares_of(0, norm->tensors), stream);
    const Norm before = std::exchange(s.last_norm, norm);
    auto kernels = backend_.kernels(stream);
    DecideNumbers numbers = run_.decide_numbers;
    numbers.steps_before = static_cast<double>(s.steps);
    norm->decide(kernels, numbers, before.get());
    backend_.when_done(stream, [before] {});  // until then it is read
    check_finite(norm, number, s.place.first_tensor, stream);
    return norm;
  }

  void note_version(const Instance& instance, std::int64_t version) {
    if (!run_.setup.keep_ledger) return;
    const Op& op = op_of(instance);
    ledger_.push_back(
        {op.replica, op.kind, run_.sample_of(pipeline_, instance.microbatch), version});
  }

  RunState<B>& run_;
  const Boundaries<B> boundaries_;
  const std::uint16_t pipeline_;
  B& backend_;
  typename B::template Buffer<T> scratch_;
  std::vector<LedgerEntry> ledger_;
};

}  // namespace tandem
