#pragma once
// MessageWork: transfers and sums of one device by a Transport. Each device sees only its own side:
// it sends from its slots, receives into its slots, and sums in its gradients, and nothing of the
// others' host is asked.

#include <cstdint>
#include <span>

#include "core/program/program.h"
#include "core/program/run.h"
#include "executor/run/boundaries.h"
#include "executor/run/run_state.h"
#include "executor/run/stage_work.h"
#include "executor/run/work_log.h"

namespace tandem {

/// Used by its device's thread only.
template <class B>
class MessageWork {
 public:
  using W = typename B::Kernels::Wide;
  using Stream = typename B::Stream;
  using Mark = typename B::Mark;
  using AtWork = typename WorkLog<B>::AtWork;

  MessageWork(RunState<B>& run_state, std::uint16_t pipeline, DeviceId me, B& backend,
              StageWork<B>& stages, WorkLog<B>& log)
      : run_(run_state),
        program_(run_state.program),
        pipeline_(pipeline),
        me_(me),
        backend_(backend),
        stages_(stages),
        log_(log) {}

  /// Whether the run has a transport, and this goes by it. The norm of all gradients does
  /// not: its numbers lie in memory of the host.
  bool takes(OpKind kind) const {
    return run_.transport != nullptr && !makes_norm(kind) &&
           ((is_transfer(kind) && !moves_stash(kind)) || is_collective(kind));
  }

  void queue(Stream& stream, LaneId lane, Instance instance) {
    const OpKind kind = program_[instance.id].op.kind;
    const LaneKind side = program_.lanes()[lane].kind;
    const bool receives =
        side == LaneKind::receive_activation || side == LaneKind::receive_gradient;
    // All devices give theirs in one order, that of the program, whatever order they take streams
    // up in: messages of several communicators on a GPU may wait for one another.
    const std::int64_t turn = queued_++;
    backend_.enqueue_when(
        stream,
        [this, turn, instance, receives] {
          return taken_up_ == turn && (!receives || has_room(instance));
        },
        [this, instance, lane, kind, receives, &stream] {
          ++taken_up_;
          if (is_collective(kind)) return sum(instance, lane, stream);
          receives ? receive(instance, lane, stream) : send(instance, lane, stream);
        });
  }

 private:
  std::size_t communicator(const Instance& instance) const {
    return run_.transport->plans().of(pipeline_, instance.id).value();
  }

  typename Boundaries<B>::SlotUse target_of(const Instance& instance) {
    const Op& op = program_[instance.id].op;
    StageState<B>& s = stages_.state_of(run_.neighbours.receiver(op, instance.microbatch));
    return stages_.boundaries().sent_to(s, op.kind, instance.microbatch);
  }
  /// The last use of the slot has been given to its stream, though it need not have ended; a
  /// gradient comes to the slot of its output.
  bool has_room(const Instance& instance) {
    return Boundaries<B>::has_room(target_of(instance), program_[instance.id].op.kind);
  }

  /// The transfer is the sender's: it lasts until the receiver has it.
  void send(Instance instance, LaneId lane, Stream& stream) {
    const AtWork at_work(log_, instance, program_.lanes()[lane].kind);
    const Op& op = program_[instance.id].op;
    StageState<B>& s = stages_.state_of(op.replica);
    const auto from = stages_.boundaries().sent_from(s, op.kind, instance.microbatch);
    const Mark start = backend_.mark(stream);
    run_.transport->send(communicator(instance), from.held(), stream);
    if (!carries_output(op.kind) || program_.forwards_alone()) from.release();
    log_.note(instance, start, backend_.mark(stream), stream);
  }

  /// Nothing comes before the sender has sent, and the program's waits, which it obeys, guarantee
  /// that the slot's last reader has ended by then: so it needs no event here.
  void receive(Instance instance, LaneId lane, Stream& stream) {
    const AtWork at_work(log_, instance, program_.lanes()[lane].kind);
    const auto into = target_of(instance);
    const auto room = Boundaries<B>::make_room(into, program_[instance.id].op.kind);
    const Mark start = backend_.mark(stream);
    run_.transport->receive(communicator(instance), room, stream);
    into.ring.land(into.use, start, backend_.mark(stream));
  }

  /// Of this device's stages here, in their order, then over the devices, then to each stage.
  void sum(Instance instance, LaneId lane, Stream& stream) {
    const AtWork at_work(log_, instance);
    auto kernels = backend_.kernels(stream);
    const Mark start = backend_.mark(stream);
    std::span<W> sum;
    std::vector<std::span<W>> others;
    for (const ReplicaId replica : program_.placement().replicas_on(me_)) {
      if (!run_.takes_part(program_[instance.id].op, replica)) continue;
      const std::span<W> brought = stages_.summed_gradients(instance, replica, stream);
      if (sum.empty()) {
        sum = brought;
        continue;
      }
      kernels.add(sum, brought, sum);
      others.push_back(brought);
    }
    if (const auto over = run_.transport->plans().of(pipeline_, instance.id))
      run_.transport->sum(*over, run_.device_of(pipeline_, me_), sum, stream);
    for (const std::span<W> other : others) kernels.copy(sum, other);
    if (program_.lanes(program_[instance.id]).front() == lane)
      log_.note(instance, start, backend_.mark(stream), stream);
  }

  RunState<B>& run_;
  const Program& program_;
  const std::uint16_t pipeline_;
  const DeviceId me_;
  B& backend_;
  StageWork<B>& stages_;
  WorkLog<B>& log_;
  std::int64_t queued_ = 0, taken_up_ = 0;  // messages and sums
};

}  // namespace tandem
