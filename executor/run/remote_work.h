#pragma once
// RemoteWork: transfers between a device here and one that another rank runs. The sender's slot is
// in use until it is sent, the receiver's is filled from the wire; the lanes of both wait, and no
// other lane does.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "core/program/program.h"
#include "core/program/run.h"
#include "executor/run/boundaries.h"
#include "executor/run/run_state.h"
#include "executor/run/stage_work.h"
#include "executor/run/work_log.h"

namespace tandem {

/// Used by its device's thread only.
template <class B>
class RemoteWork {
 public:
  using Stream = typename B::Stream;
  using Mark = typename B::Mark;
  using AtWork = typename WorkLog<B>::AtWork;

  RemoteWork(RunState<B>& run_state, std::uint16_t pipeline, DeviceId me, B& backend,
             StageWork<B>& stages, WorkLog<B>& log)
      : run_(run_state),
        program_(run_state.program),
        pipeline_(pipeline),
        me_(run_state.device_of(pipeline, me)),
        backend_(backend),
        stages_(stages),
        log_(log) {}

  /// Whether an instruction's transfer crosses from rank to rank.
  bool takes(InstructionId id) const { return communicator(id).has_value(); }

  /// `from` is the sender's.
  void queue_send(Stream& stream, Instance instance) {
    const OpKind kind = program_[instance.id].op.kind;
    StageState<B>& s = stages_.state_of(program_[instance.id].op.replica);
    const auto from = stages_.boundaries().sent_from(s, kind, instance.microbatch);
    const auto sent = std::make_shared<std::atomic<bool>>(false);
    backend_.enqueue(stream, [this, instance, from, sent] {
      const AtWork at_work(log_, instance, LaneKind::send_activation);
      run_.others->send(*communicator(instance.id), std::as_bytes(from.held()), [this, sent] {
        sent->store(true, std::memory_order_release);
        run_.wake(me_);
      });
    });
    backend_.enqueue_when(
        stream, [sent] { return sent->load(std::memory_order_acquire); },
        [kind, from, alone = program_.forwards_alone()] {
          if (!carries_output(kind) || alone) from.release();
        });
  }

  /// Lets what the sender gives land in its slot, once that is free.
  void queue_arrival(Stream& stream, Instance instance) {
    const Op& op = program_[instance.id].op;
    StageState<B>& s = stages_.state_of(run_.neighbours.receiver(op, instance.microbatch));
    const auto into = stages_.boundaries().sent_to(s, op.kind, instance.microbatch);
    backend_.enqueue_when(
        stream, [into, kind = op.kind] { return Boundaries<B>::has_room(into, kind); },
        [this, into, instance, kind = op.kind] {
          run_.others->receive(*communicator(instance.id),
                               std::as_writable_bytes(Boundaries<B>::make_room(into, kind)),
                               [this, into](OtherRanks::Time left) {
                                 into.ring.land(into.use, Mark::at(left),
                                                Mark::at(std::chrono::steady_clock::now()));
                                 run_.wake(me_);
                               });
        });
  }

 private:
  std::optional<std::size_t> communicator(InstructionId id) const {
    if (run_.others == nullptr || !is_transfer(program_[id].op.kind)) return std::nullopt;
    return run_.others->plans().of(pipeline_, id);
  }

  RunState<B>& run_;
  const Program& program_;
  const std::uint16_t pipeline_;
  const DeviceId me_;  // through all pipelines
  B& backend_;
  StageWork<B>& stages_;
  WorkLog<B>& log_;
};

}  // namespace tandem
