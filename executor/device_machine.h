#pragma once
// DeviceMachine: the real machine. issue() queues an instruction's work on its lanes' streams,
// after its waits; what a GPU does with kernels, the CPU backend does with its own thread.
// Simulation and reality run the same program through the same loop (core/run.h), and differ only
// in how long an instruction takes and what it leaves behind.

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "core/program.h"
#include "core/run.h"
#include "core/timeline.h"
#include "core/versions.h"
#include "executor/meeting.h"
#include "executor/stage_state.h"

namespace tandem {

/// One read or making of a weight version, as it happened.
struct LedgerEntry {
  StageId stage{};
  OpKind kind{};
  std::int64_t microbatch = 0;
  std::int64_t version = 0;
  friend auto operator<=>(const LedgerEntry&, const LedgerEntry&) = default;
};

/// What an observer of updates sees: stage, number of the version made, its weights, and the
/// optimizer state.
template <class T>
using UpdateObserver = std::function<void(StageId, std::int64_t, std::span<const T> weights,
                                          std::span<const T> state)>;

/// What the devices of a run share. Built before the threads start; then only what is atomic or
/// guarded changes.
template <class B>
struct World {
  using T = typename B::Scalar;
  Table<StageId, StageState<B>*> stages;
  std::map<InstructionId, std::unique_ptr<Meeting<T>>> meetings;
  std::function<void(DeviceId)> ring;  // wakes a device
  std::chrono::steady_clock::time_point start;
  /// Called before each piece of work: seeded delays in tests. May be empty.
  std::function<void(DeviceId, Instance)> before_work;
  std::function<void(std::int64_t microbatch, double loss)> on_loss;
  UpdateObserver<T> on_update;
  bool keep_ledger = false, keep_timeline = true;
};

template <class B>
class DeviceMachine {
 public:
  using T = typename B::Scalar;
  using Stream = typename B::Stream;

  DeviceMachine(const Program& program, DeviceId me, World<B>& world, B& backend,
                typename B::Buffer scratch)
      : program_(program),
        me_(me),
        world_(world),
        backend_(backend),
        scratch_(std::move(scratch)),
        sequence_(program),
        versions_(program),
        most_queued_(64 + 8 * program.on(me).size()),
        events_(program.depth() * program.size()) {
    streams_.resize(program.lanes().size());
    lane_end_.resize(program.lanes().size());
    // What others wait for goes first: transfers and sums, then computation.
    for (const bool computes : {false, true}) {
      for (const LaneId lane : ids(program.lanes())) {
        const Lane& row = program.lanes()[lane];
        if (row.device == me && (row.kind == LaneKind::compute) == computes) {
          streams_[lane] = &backend.add_stream();
        }
      }
    }
  }

  void issue(const Program& program, Instance instance) {
    const Instruction& instruction = program[instance.id];
    for (const LaneId lane : program.lanes(instruction)) {
      if (streams_[lane] == nullptr) continue;
      Stream& stream = *streams_[lane];
      for (const Wait& wait : program.waits(instruction)) {
        if (runs_here(wait.producer))
          backend_.wait(stream, event(instance.body - wait.lag, wait.producer));
      }
      queue_work(stream, lane, instance);
      if (program.awaited(instance.id)) backend_.record(stream, event(instance.body, instance.id));
    }
    backend_.progress(most_queued_);
  }

  /// Returns when all that was issued has run.
  void drain() { backend_.progress(0); }

  const std::vector<Span>& spans() const { return spans_; }
  const std::vector<LedgerEntry>& ledger() const { return ledger_; }
  /// The instance whose work ran last, for error messages.
  InstructionId last_worked() const { return last_worked_; }

 private:
  bool runs_here(InstructionId id) const {
    for (const LaneId lane : program_.lanes(program_[id])) {
      if (streams_[lane] != nullptr) return true;
    }
    return false;
  }

  typename B::Event& event(std::int64_t body, InstructionId id) {
    const auto depth = static_cast<std::int64_t>(program_.depth());
    const auto row = static_cast<std::size_t>((body + program_.ramp() + depth) % depth);
    return events_[row * program_.size() + index(id)];
  }

  Duration now() const { return std::chrono::steady_clock::now() - world_.start; }

  void queue_work(Stream& stream, LaneId lane, Instance instance) {
    const Instruction& instruction = program_[instance.id];
    if (is_collective(instruction.op.kind)) return queue_sum(stream, instance);
    if (is_transfer(instruction.op.kind)) {
      const LaneKind kind = program_.lanes()[lane].kind;
      if (kind == LaneKind::receive_activation || kind == LaneKind::receive_gradient) {
        return queue_receive(stream, lane, instance);
      }
    }
    backend_.enqueue(stream, [this, instance, &stream] { work(instance, stream); });
  }

  void prepare(Instance instance) {
    last_worked_ = instance.id;
    if (world_.before_work) world_.before_work(me_, instance);
  }

  void note(Instance instance, Duration start, Duration end) {
    if (world_.keep_timeline) spans_.push_back({instance.id, instance.body, start, end});
  }

  void note_version(const Op& op, std::int64_t microbatch, std::int64_t version) {
    if (world_.keep_ledger) ledger_.push_back({op.stage, op.kind, microbatch, version});
  }

  /// The only switch over op kinds in the executor.
  void work(Instance instance, Stream& stream) {
    backend_.slept();  // whoever waited, waited for this
    prepare(instance);
    const Op& op = program_[instance.id].op;
    const Duration start = now();
    switch (op.kind) {
      case OpKind::forward:
        forward(instance, stream);
        break;
      case OpKind::recompute:
        recompute(instance, stream);
        break;
      case OpKind::backward:
        backward(instance, stream);
        break;
      case OpKind::update:
        update(instance, stream);
        break;
      case OpKind::send_activation:
      case OpKind::send_gradient:
        return send(instance, stream);
      case OpKind::backward_input:
      case OpKind::backward_weight:
      case OpKind::reduce_tied:
      case OpKind::reduce_gradient:
        TANDEM_CHECK(false, name(op.kind));
        break;
    }
    note(instance, start, now());
  }

  StageState<B>& state_of(StageId stage) { return *world_.stages[stage]; }

  std::span<const T> input_of(StageState<B>& s, std::int64_t microbatch) {
    if (!s.above) return {};
    if (s.above_is_here) return state_of(*s.above).output.held(sequence_(*s.above, microbatch));
    const std::int64_t q = sequence_(s.id, microbatch);
    if (!s.input.has_landed(q)) {
      throw DeviceError(fmt::format("stage {}: the input of microbatch {} has not arrived",
                                    index(s.id), microbatch));
    }
    return s.input.held(q);
  }

  std::span<const T> output_gradient_of(StageState<B>& s, std::int64_t microbatch) {
    if (!s.below) return {};
    if (s.below_is_here)
      return state_of(*s.below).input_gradient.held(sequence_(*s.below, microbatch));
    const std::int64_t q = sequence_(s.id, microbatch);
    if (!s.output_gradient.has_landed(q)) {
      throw DeviceError(fmt::format("stage {}: the gradient of microbatch {} has not arrived",
                                    index(s.id), microbatch));
    }
    return s.output_gradient.held(q);
  }

  std::int64_t& readers(StageState<B>& s, std::int64_t version) {
    return s.readers[static_cast<std::size_t>(version % s.versions)];
  }

  void forward(Instance instance, Stream& stream) {
    const Op& op = program_[instance.id].op;
    StageState<B>& s = state_of(op.stage);
    const std::int64_t k = instance.microbatch, q = sequence_(op.stage, k),
                       version = *versions_(instance);
    ForwardSpans<T> spans{.weights = s.weights.held(version),
                          .input = input_of(s, k),
                          .sample = s.sample(k),
                          .stash = s.stash.acquire(q),
                          .output = {}};
    if (s.below) spans.output = s.output.acquire(q);
    auto kernels = backend_.kernels(stream);
    const std::optional<double> loss = s.stage.forward(kernels, spans);
    if (s.recomputes) s.stash.release(q);
    ++readers(s, version);
    note_version(op, k, version);
    if (loss && world_.on_loss) world_.on_loss(k, *loss);
  }

  void recompute(Instance instance, Stream& stream) {
    const Op& op = program_[instance.id].op;
    StageState<B>& s = state_of(op.stage);
    const std::int64_t k = instance.microbatch, version = *versions_(instance);
    auto kernels = backend_.kernels(stream);
    s.stage.recompute(kernels, {.weights = s.weights.held(version),
                                .input = input_of(s, k),
                                .sample = s.sample(k),
                                .stash = s.stash.acquire(sequence_(op.stage, k)),
                                .output = {}});
    note_version(op, k, version);
  }

  void backward(Instance instance, Stream& stream) {
    const Op& op = program_[instance.id].op;
    StageState<B>& s = state_of(op.stage);
    const std::int64_t k = instance.microbatch, q = sequence_(op.stage, k),
                       version = *versions_(instance);
    auto kernels = backend_.kernels(stream);
    BackwardSpans<T> spans{.weights = s.weights.held(version),
                           .input = input_of(s, k),
                           .stash = s.stash.held(q),
                           .output_gradient = output_gradient_of(s, k),
                           .scratch = scratch_for(s),
                           .input_gradient = {},
                           .gradients = gradients_for(s, k, kernels)};
    if (s.above) spans.input_gradient = s.input_gradient.acquire(q);
    s.stage.backward(kernels, spans);
    release_after_backward(s, k);
    --readers(s, version);
    note_version(op, k, version);
  }

  std::span<T> scratch_for(StageState<B>& s) {
    return scratch_.elements().first(static_cast<std::size_t>(s.stage.sizes().scratch));
  }

  /// The sum that this microbatch adds to: zeroed at the first weight gradient of its update.
  template <class Kernels>
  std::span<T> gradients_for(StageState<B>& s, std::int64_t microbatch, Kernels& kernels) {
    const std::int64_t update = versions_.covering_update(s.id, microbatch);
    if (s.gradients.holds(update)) return s.gradients.held(update);
    const std::span<T> sum = s.gradients.acquire(update);
    kernels.fill(sum, 0.0);
    return sum;
  }

  void release_after_backward(StageState<B>& s, std::int64_t microbatch) {
    const std::int64_t q = sequence_(s.id, microbatch);
    s.stash.release(q);
    if (s.above && !s.above_is_here) s.input.release(q);
    if (s.below) {
      s.output.release(q);  // its transfer has ended: the gradient came back
      if (s.below_is_here)
        state_of(*s.below).input_gradient.release(sequence_(*s.below, microbatch));
      else
        s.output_gradient.release(q);
    }
  }

  void update(Instance instance, Stream& stream) {
    const Op& op = program_[instance.id].op;
    StageState<B>& s = state_of(op.stage);
    const std::int64_t number = versions_.covering_update(op.stage, instance.microbatch);
    auto kernels = backend_.kernels(stream);
    const std::span<T> gradients = s.gradients.held(number);
    if (s.stage.tied().embedding && s.stage.tied().head) {
      const std::span<T> embedding = part(gradients, *s.stage.tied().embedding);
      const std::span<T> head = part(gradients, *s.stage.tied().head);
      kernels.add(embedding, head, embedding);
      kernels.copy(embedding, head);
    }
    const std::span<const T> read = s.weights.held(number);
    const std::int64_t overwritten = number + 1 - s.versions;
    if (overwritten >= 0) {
      if (const std::int64_t busy = readers(s, overwritten); busy != 0) {
        throw DeviceError(fmt::format(
            "stage {}: update {} overwrites version {}, which {} microbatches still use",
            index(op.stage), number, overwritten, busy));
      }
      s.weights.release(overwritten);
    }
    const std::span<T> made = s.weights.acquire(number + 1);
    tandem::update(kernels, s.optimizer, number + 1, s.stage.parameters(),
                   {.weights = read,
                    .gradients = gradients,
                    .state = s.state.elements(),
                    .weights_out = made});
    s.gradients.release(number);
    note_version(op, instance.microbatch, number + 1);
    if (world_.on_update) world_.on_update(op.stage, number + 1, made, s.state.elements());
  }

  static std::span<T> part(std::span<T> whole, const ElementRange& range) {
    return whole.subspan(static_cast<std::size_t>(range.first),
                         static_cast<std::size_t>(range.size()));
  }

  /// The sender copies into the receiver's slot: the program's waits guarantee that it is free.
  void send(Instance instance, Stream& stream) {
    const Op& op = program_[instance.id].op;
    StageState<B>& s = state_of(op.stage);
    const bool activation = op.kind == OpKind::send_activation;
    StageState<B>& target = state_of(activation ? *s.below : *s.above);
    auto& from = activation ? s.output : s.input_gradient;
    auto& into = activation ? target.input : target.output_gradient;
    const std::int64_t q = sequence_(s.id, instance.microbatch);
    const std::int64_t target_q = sequence_(target.id, instance.microbatch);
    const Duration start = now();
    auto kernels = backend_.kernels(stream);
    kernels.copy(from.held(q), into.acquire(target_q));
    if (!activation) from.release(q);
    into.land(target_q, start, now());
    world_.ring(program_.placement().device[target.id]);
  }

  void queue_receive(Stream& stream, LaneId lane, Instance instance) {
    const Op& op = program_[instance.id].op;
    const StageState<B>& sender = state_of(op.stage);
    const bool activation = op.kind == OpKind::send_activation;
    StageState<B>& s = state_of(activation ? *sender.below : *sender.above);
    auto& into = activation ? s.input : s.output_gradient;
    const std::int64_t q = sequence_(s.id, instance.microbatch);
    backend_.enqueue_when(
        stream, [&into, q] { return into.has_landed(q); },
        [this, &into, q, lane, instance] {
          // Had this device to wait, the transfer lasted until it could go on. The sender may have
          // begun the next one by then: on one lane that comes after.
          const bool waited = backend_.slept();
          prepare(instance);
          const Duration start = std::max(into.sent_start(q), lane_end_[lane]);
          lane_end_[lane] = std::max(start, waited ? now() : into.sent_end(q));
          note(instance, start, lane_end_[lane]);
        });
  }

  void queue_sum(Stream& stream, Instance instance) {
    Meeting<T>& meeting = *world_.meetings.at(instance.id);
    backend_.enqueue(stream,
                     [this, &meeting, instance, &stream] { bring(meeting, instance, stream); });
    backend_.enqueue_when(stream,
                          [&meeting, instance] { return meeting.done(instance.microbatch); }, {});
  }

  void bring(Meeting<T>& meeting, Instance instance, Stream& stream) {
    prepare(instance);
    const Placement& placement = program_.placement();
    const std::vector<PartId> tied =
        placement.tied_with(placement.part[program_[instance.id].op.stage]);
    const Duration start = now();
    for (const StageId stage : placement.stages_on(me_)) {
      if (std::find(tied.begin(), tied.end(), placement.part[stage]) == tied.end()) continue;
      StageState<B>& s = state_of(stage);
      const std::span<T> gradients =
          s.gradients.held(versions_.covering_update(stage, instance.microbatch));
      const TiedRanges& ranges = s.stage.tied();
      const std::span<T> shared =
          part(gradients, ranges.embedding ? *ranges.embedding : *ranges.head);
      if (!meeting.arrive(stage, shared, instance.microbatch, backend_.kernels(stream))) continue;
      note(instance, start, now());
      for (const LaneId lane : program_.lanes(program_[instance.id])) {
        world_.ring(program_.lanes()[lane].device);
      }
    }
  }

  const Program& program_;
  const DeviceId me_;
  World<B>& world_;
  B& backend_;
  typename B::Buffer scratch_;
  const MicrobatchSequence sequence_;
  const WeightVersions versions_;
  const std::size_t most_queued_;
  std::vector<typename B::Event> events_;
  Table<LaneId, Stream*> streams_;    // null: another device's
  Table<LaneId, Duration> lane_end_;  // of receiving lanes: of the last transfer
  std::vector<Span> spans_;
  std::vector<LedgerEntry> ledger_;
  InstructionId last_worked_{};
};

}  // namespace tandem
