#pragma once
// DeviceMachine: the real machine. issue() queues an instruction's work on its lanes' streams,
// after its waits; what a GPU does with kernels, the CPU backend does with its own thread.
// Simulation and reality run the same program through the same loop (core/program/run.h), and
// differ only in how long an instruction takes and what it leaves behind.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/program/program.h"
#include "core/program/run.h"
#include "core/program/timeline.h"
#include "executor/run/message_work.h"
#include "executor/run/post_validation.h"
#include "executor/run/remote_work.h"
#include "executor/run/run_state.h"
#include "executor/run/stage_work.h"
#include "executor/run/work_log.h"

namespace tandem {

/// How many tasks and calls a device with so many instructions a body has before it, at most, when
/// it is given a further one.
constexpr std::size_t most_queued(std::size_t instructions) { return 64 + 8 * instructions; }

/// One device of one pipeline, with its streams. Used by its own thread only.
template <class B>
class DeviceMachine {
 public:
  using T = typename B::Scalar;
  using W = typename B::Kernels::Wide;
  using Stream = typename B::Stream;
  using Mark = typename B::Mark;
  using AtWork = typename WorkLog<B>::AtWork;

  DeviceMachine(RunState<B>& run_state, std::uint16_t pipeline, DeviceId me, B& backend,
                typename B::template Buffer<T> scratch)
      : program_(run_state.program),
        pipeline_(pipeline),
        me_(me),
        run_(run_state),
        backend_(backend),
        stages_(run_state, pipeline, backend, std::move(scratch)),
        log_(backend, run_state, run_state.device_of(pipeline, me)),
        messages_(run_state, pipeline, me, backend, stages_, log_),
        remote_(run_state, pipeline, me, backend, stages_, log_),
        slice_(program_.on(me)),
        awaited_(awaited(program_)),
        most_queued_(most_queued(slice_.size())),
        events_(program_.depth() * program_.size()),
        post_validation_(run_state, pipeline, me, backend, stages_, log_) {
    streams_.resize(program_.lanes().size());
    lane_end_.resize(program_.lanes().size());
    // What others wait for goes first: transfers and sums, then computation.
    for (const bool computes : {false, true}) {
      for (const LaneId lane : ids(program_.lanes())) {
        const Lane& row = program_.lanes()[lane];
        const StreamUse use = stream_use(row.kind);
        if (row.device == me && (use == StreamUse::computation) == computes)
          streams_[lane] = &backend.add_stream(use);
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
      if (awaited_[index(instance.id)]) backend_.record(stream, event(instance.body, instance.id));
    }
    backend_.progress(most_queued_);
  }

  /// Returns when all that was issued has run.
  void drain() { backend_.progress(0); }

  const WorkLog<B>& log() const { return log_; }
  const std::vector<LedgerEntry>& ledger() const { return stages_.ledger(); }
  DeviceId device() const { return me_; }
  /// What it is to run: the program's instructions that occupy a lane of the device.
  const std::vector<InstructionId>& slice() const { return slice_; }

 private:
  bool runs_here(InstructionId id) const {
    return std::ranges::any_of(program_.lanes(program_[id]),
                               [this](LaneId lane) { return streams_[lane] != nullptr; });
  }

  typename B::Event& event(std::int64_t body, InstructionId id) {
    const auto depth = static_cast<std::int64_t>(program_.depth());
    const auto row = static_cast<std::size_t>((body + program_.ramp() + depth) % depth);
    return events_[row * program_.size() + index(id)];
  }

  void queue_work(Stream& stream, LaneId lane, Instance instance) {
    const Instruction& instruction = program_[instance.id];
    if (messages_.takes(instruction.op.kind)) return messages_.queue(stream, lane, instance);
    if (instruction.op.kind == OpKind::reduce_norm) return queue_norm(stream, lane, instance);
    if (instruction.op.kind == OpKind::validate) return post_validation_.queue(stream, instance);
    if (instruction.op.kind == OpKind::forward) post_validation_.note_forward(instance);
    if (is_collective(instruction.op.kind)) return queue_sum(stream, lane, instance);
    if (moves_stash(instruction.op.kind)) return queue_move(stream, lane, instance);
    if (is_transfer(instruction.op.kind)) {
      const LaneKind kind = program_.lanes()[lane].kind;
      const bool is_remote = remote_.takes(instance.id);
      if (kind == LaneKind::receive_activation || kind == LaneKind::receive_gradient) {
        if (is_remote) remote_.queue_arrival(stream, instance);
        return queue_receive(stream, lane, instance);
      }
      if (is_remote) return remote_.queue_send(stream, instance);
    }
    backend_.enqueue(stream, [this, instance, &stream] { work(instance, stream); });
  }

  /// The only switch over op kinds in the executor.
  void work(Instance instance, Stream& stream) {
    backend_.slept();  // whoever waited, waited for this
    const AtWork at_work(log_, instance);
    const Op& op = program_[instance.id].op;
    const Mark start = backend_.mark(stream);
    switch (op.kind) {
      case OpKind::forward:
        stages_.forward(instance, stream);
        break;
      case OpKind::recompute:
        stages_.recompute(instance, stream);
        break;
      case OpKind::backward:
        stages_.backward(instance, stream);
        break;
      case OpKind::backward_input:
        stages_.backward_input(instance, stream);
        break;
      case OpKind::backward_weight:
        stages_.backward_weight(instance, stream);
        break;
      case OpKind::update:
        stages_.update(instance, stream);
        break;
      case OpKind::send_activation:
      case OpKind::send_gradient:
        return send(instance, stream);
      case OpKind::reduce_tied:
      case OpKind::reduce_gradient:
      case OpKind::reduce_norm:
      case OpKind::validate:
      case OpKind::evict:
      case OpKind::load:
        TANDEM_CHECK(false, name(op.kind));
        break;
    }
    log_.note(instance, start, backend_.mark(stream), stream);
  }

  /// The sender copies into the receiver's slot: the program's waits guarantee that it is free.
  void send(Instance instance, Stream& stream) {
    const Op& op = program_[instance.id].op;
    StageState<B>& s = stages_.state_of(op.replica);
    StageState<B>& target = stages_.state_of(run_.neighbours.receiver(op, instance.microbatch));
    const bool activation = op.kind == OpKind::send_activation;
    const auto from = stages_.boundaries().sent_from(s, op.kind, instance.microbatch);
    const auto into = stages_.boundaries().sent_to(target, op.kind, instance.microbatch);
    const bool again =
        activation && s.rollback.redone.load(std::memory_order_relaxed) >= instance.microbatch;
    if (again) backend_.follow(stream, s.rollback.output);
    const Mark start = backend_.mark(stream);
    auto kernels = backend_.kernels(stream);
    const std::span<const T> sent = from.held();
    const auto bytes = static_cast<Bytes>(sent.size_bytes());
    kernels.copy(sent, Boundaries<B>::make_room(into, op.kind));
    if (!activation || program_.forwards_alone()) from.release();
    deliver(instance.id, {into.ring, into.use, target.place.device}, start, bytes, stream);
  }

  /// A use of a slot that something was copied to, and the device that waits for it.
  struct Arrival {
    typename StageState<B>::Ring& into;
    std::int64_t use;
    DeviceId device;
  };
  /// Lets what was copied from `start` on land in its slot: at once, or when a link of the chosen
  /// rate would have brought it.
  void deliver(InstructionId id, const Arrival& arrival, const Mark& start, Bytes bytes,
               Stream& stream) {
    const Mark sent = backend_.mark(stream);  // known to whoever follows the fence
    backend_.raise(stream, arrival.into.fence(arrival.use));
    const auto land = [this, arrival](const Mark& begin, const Mark& end) {
      arrival.into.land(arrival.use, begin, end);
      run_.wake(run_.device_of(pipeline_, arrival.device));
    };
    if (run_.link_emulator == nullptr) return land(start, sent);
    Duration& lane_end = lane_end_[program_.lanes(program_[id]).front()];
    const Duration leaves = std::max<Duration>(start.time() - run_.start, lane_end);
    lane_end = std::max(log_.now(), lane_end) + run_.link_emulator->time_of(bytes);
    const auto at = [this](Duration since) { return Mark::at(run_.start + since); };
    run_.link_emulator->deliver(run_.start + lane_end, [land, begin = at(leaves),
                                                        end = at(lane_end)] { land(begin, end); });
  }

  /// The stage's device copies both ways, there and back, and the partner has nothing to do.
  void queue_move(Stream& stream, LaneId lane, Instance instance) {
    if (program_.lanes(program_[instance.id]).front() != lane) return;
    const Op& op = program_[instance.id].op;
    StageState<B>& s = stages_.state_of(op.replica);
    const bool leaves = op.kind == OpKind::evict;
    const auto home = stages_.stash_of(s, instance.microbatch).evicted();
    const auto hosted_stash = stages_.hosted_stash_of(s, instance.microbatch);
    const auto from = leaves ? home : hosted_stash, into = leaves ? hosted_stash : home;
    backend_.enqueue(stream, [this, instance, from, into, &stream] {
      const AtWork at_work(log_, instance);
      const Mark start = backend_.mark(stream);
      const std::span<const T> moved = from.held();
      backend_.kernels(stream).copy(moved, into.acquire());
      deliver(instance.id, {into.ring, into.use, me_}, start,
              static_cast<Bytes>(moved.size_bytes()), stream);
    });
    backend_.enqueue_when(
        stream, [into] { return into.ring.has_landed(into.use); },
        [this, instance, from, into, &stream] {
          from.release();
          log_.note(instance, into.ring.sent_start(into.use), into.ring.sent_end(into.use), stream);
        });
  }

  void queue_receive(Stream& stream, LaneId lane, Instance instance) {
    const Op& op = program_[instance.id].op;
    StageState<B>& s = stages_.state_of(run_.neighbours.receiver(op, instance.microbatch));
    const auto into = stages_.boundaries().sent_to(s, op.kind, instance.microbatch);
    backend_.enqueue_when(
        stream, [into] { return into.ring.has_landed(into.use); },
        [this, into, lane, instance, &stream] {
          const bool waited = backend_.slept();
          const AtWork at_work(log_, instance, program_.lanes()[lane].kind);
          backend_.follow(stream, into.ring.fence(into.use));
          log_.note_transfer(instance, into.ring.sent_start(into.use), into.ring.sent_end(into.use),
                             waited, lane_end_[lane], stream);
        });
  }

  void queue_sum(Stream& stream, LaneId lane, Instance instance) {
    Collective<B>& collective = run_.collective(pipeline_, instance.id);
    backend_.enqueue(
        stream, [this, &collective, instance, &stream] { bring(collective, instance, stream); });
    const bool notes = program_.lanes(program_[instance.id]).front() == lane;
    backend_.enqueue_when(
        stream, [&collective, instance] { return collective.done(instance.microbatch); },
        [this, &collective, notes, instance, &stream] {
          collective.follow(backend_, stream);
          if (notes) log_.note(instance, collective.start(), collective.end(), stream);
        });
  }

  /// Brings the gradients of this device's stages to a sum. Everyone is woken when that is there.
  void bring(Collective<B>& collective, Instance instance, Stream& stream) {
    const AtWork at_work(log_, instance);
    for (const ReplicaId replica : program_.placement().replicas_on(me_)) {
      if (!run_.takes_part(program_[instance.id].op, replica)) continue;
      const std::span<W> gradients = stages_.summed_gradients(instance, replica, stream);
      const std::size_t place =
          std::size_t{pipeline_} * program_.placement().replicas() + index(replica);
      collective.arrive(place, gradients, instance.microbatch, backend_, stream,
                        [this, instance] { wake_participants(instance); });
    }
  }

  void queue_norm(Stream& stream, LaneId lane, Instance instance) {
    NormCollective<B>& collective = run_.norm_collective(pipeline_, instance.id);
    backend_.enqueue(stream, [this, &collective, instance, &stream] {
      bring_norm(collective, instance, stream);
    });
    const bool notes = program_.lanes(program_[instance.id]).front() == lane;
    backend_.enqueue_when(
        stream, [&collective, instance] { return collective.complete(instance.microbatch); },
        [this, &collective, notes, instance, &stream] {
          if (const auto norm = collective.decide(instance.microbatch, backend_, stream))
            see_decision(norm, instance, stream);
          for (const ReplicaId replica : program_.placement().replicas_on(me_))
            stages_.keep_norm(stages_.state_of(replica), update_of(replica, instance),
                              collective.norm());
          if (notes) log_.note(instance, collective.decided(), collective.decided(), stream);
        });
  }

  /// Brings the squares of this device's gradients. Everyone is woken when all are there.
  void bring_norm(NormCollective<B>& collective, Instance instance, Stream& stream) {
    const AtWork at_work(log_, instance);
    for (const ReplicaId replica : program_.placement().replicas_on(me_)) {
      StageState<B>& s = stages_.state_of(replica);
      const std::int64_t number = update_of(replica, instance);
      const std::shared_ptr<UpdateNorm> norm = collective.enter(backend_);
      stages_.square_gradients(
          s, number, norm->squares_of(s.place.first_tensor, s.stage.parameters().size()), stream);
      collective.arrive(instance.microbatch, backend_, stream,
                        [this, instance] { wake_participants(instance); });
    }
  }

  /// Of a decision that this device has made for all.
  void see_decision(const std::shared_ptr<UpdateNorm>& norm, Instance instance, Stream& stream) {
    const ReplicaId here = program_.placement().replicas_on(me_).front();
    stages_.check_finite(norm, update_of(here, instance), 0, stream);
    wake_participants(instance);
    backend_.when_done(stream, [this, norm, instance] {
      norm->is_known.store(true, std::memory_order_release);
      wake_participants(instance);
    });
  }

  std::int64_t update_of(ReplicaId replica, const Instance& instance) const {
    return run_.versions.covering_update(replica, instance.microbatch);
  }

  void wake_participants(Instance instance) {
    const Instruction& instruction = program_[instance.id];
    const bool everywhere = instruction.op.kind == OpKind::reduce_gradient;
    for (std::uint16_t pipeline = 0; pipeline < run_.width; ++pipeline) {
      if (pipeline != pipeline_ && !everywhere) continue;
      for (const LaneId lane : program_.lanes(instruction))
        run_.wake(run_.device_of(pipeline, program_.lanes()[lane].device));
    }
  }

  const Program& program_;
  const std::uint16_t pipeline_;
  const DeviceId me_;
  RunState<B>& run_;
  B& backend_;
  StageWork<B> stages_;
  WorkLog<B> log_;
  MessageWork<B> messages_;
  RemoteWork<B> remote_;
  const std::vector<InstructionId> slice_;
  const std::vector<bool> awaited_;
  const std::size_t most_queued_;
  std::vector<typename B::Event> events_;
  Table<LaneId, Stream*> streams_;    // null: another device's
  Table<LaneId, Duration> lane_end_;  // of lanes of transfers: of the last one
  PostValidation<B> post_validation_;
};

}  // namespace tandem
