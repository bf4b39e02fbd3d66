#pragma once
// PostValidation: what a device does where updates are validated (executor/README.md, "How it
// runs"). What a rollback hands on again is not slowed by --link-rate and has no span of the
// timeline: the validate is as long as its rollback. Losses of the forwards, and what observers see
// of an update, come when it stays.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "executor/run/run_state.h"
#include "executor/run/stage_work.h"
#include "executor/run/work_log.h"

namespace tandem {

/// Used by its device's thread only.
template <class B>
class PostValidation {
 public:
  using Stream = typename B::Stream;
  using Mark = typename B::Mark;

  PostValidation(RunState<B>& run_state, std::uint16_t pipeline, DeviceId me, B& backend,
                 StageWork<B>& stages, WorkLog<B>& log)
      : program_(run_state.program),
        pipeline_(pipeline),
        me_(me),
        run_(run_state),
        backend_(backend),
        stages_(stages),
        log_(log),
        ahead_(program_.placement().replicas()) {}

  /// Of a forward that is queued.
  void note_forward(const Instance& forward) {
    const ReplicaId replica = program_[forward.id].op.replica;
    if (stages_.state_of(replica).validates) ahead_[replica].push_back(forward);
  }

  /// What a rollback would do stands in the queue from the start, and is passed over where there is
  /// none. A stage does its forwards again when the one above has done them, and writes into the
  /// one below when that one's device has come to its first validate; it goes on when the one above
  /// has ended. Nobody waits for itself: what is done again is fed by what is done again, all of it
  /// has run before the first validate, and validates keep to the order of the model (verify()).
  void queue(Stream& stream, Instance instance) {
    StageState<B>& s = stages_.state_of(program_[instance.id].op.replica);
    const std::int64_t number = update_of(s.id, instance);
    const auto start = std::make_shared<Mark>();
    const auto begin = [this, &s, number, instance, start, &stream] {
      *start = backend_.mark(stream);
      if (!stages_.is_wrong(s, number)) return;
      reach(instance, stream);
      const AtWork at_work(log_, instance);
      stages_.redo_update(s, instance.microbatch, stream);
    };
    backend_.enqueue_when(
        stream, [this, &s, number] { return stages_.is_known(s, number); }, begin);
    for (const Instance& forward : take_ahead(s.id, number)) {
      backend_.enqueue_when(
          stream,
          [this, &s, number, k = forward.microbatch] {
            return !stages_.is_wrong(s, number) || may_redo(s, number, k);
          },
          [this, &s, number, forward, &stream] {
            if (stages_.is_wrong(s, number)) redo_forward(s, forward, stream);
          });
    }
    backend_.enqueue_when(
        stream,
        [this, &s, number] {
          return !stages_.is_wrong(s, number) || is_fed_by_validated(s, number);
        },
        [this, &s, number, instance, start, &stream] {
          settle(s, number, instance, *start, stream);
        });
  }

 private:
  using AtWork = typename WorkLog<B>::AtWork;

  /// The device has come to the validate of a wrong update, and so to that of each of its stages.
  void reach(const Instance& instance, Stream& stream) {
    for (const ReplicaId replica : program_.placement().replicas_on(me_)) {
      StageState<B>& s = stages_.state_of(replica);
      const std::int64_t number = update_of(replica, instance);
      if (s.rollback.reached.load(std::memory_order_relaxed) == number) continue;  // by another
      backend_.raise(stream, s.rollback.at_validate);
      s.rollback.reached.store(number, std::memory_order_release);
      ring_neighbours(s);
    }
  }

  /// The forwards queued so far that read what update `number` made, in ascending order.
  std::vector<Instance> take_ahead(ReplicaId replica, std::int64_t number) {
    std::vector<Instance> forwards = std::exchange(ahead_[replica], {});
    std::erase_if(forwards,
                  [&](const Instance& each) { return *run_.versions(each) != number + 1; });
    std::ranges::sort(forwards, {}, &Instance::microbatch);
    return forwards;
  }

  /// Null: the model ends.
  StageState<B>* above(const StageState<B>& s, std::int64_t microbatch) const {
    const auto found = run_.neighbours.above(s.id, microbatch);
    return found ? &stages_.state_of(*found) : nullptr;
  }
  StageState<B>* below(const StageState<B>& s, std::int64_t microbatch) const {
    const auto found = run_.neighbours.below(s.id, microbatch);
    return found ? &stages_.state_of(*found) : nullptr;
  }

  bool may_redo(const StageState<B>& s, std::int64_t number, std::int64_t microbatch) const {
    const StageState<B>*from = above(s, microbatch), *to = below(s, microbatch);
    const bool fed =
        from == nullptr || from->rollback.redone.load(std::memory_order_acquire) >= microbatch;
    return fed && (to == nullptr || run_.neighbours.share_device(s.id, to->id) ||
                   to->rollback.reached.load(std::memory_order_acquire) >= number);
  }
  /// All stages above have validated update `number`.
  bool is_fed_by_validated(const StageState<B>& s, std::int64_t number) const {
    bool all = true;
    run_.neighbours.for_each_above(s.id, [&](ReplicaId above) {
      all = all && stages_.state_of(above).rollback.ended.load(std::memory_order_acquire) >= number;
    });
    return all;
  }

  void redo_forward(StageState<B>& s, const Instance& forward, Stream& stream) {
    const AtWork at_work(log_, forward);
    const std::int64_t k = forward.microbatch;
    const auto is_elsewhere = [&](const StageState<B>* neighbour) {
      return neighbour != nullptr && !run_.neighbours.share_device(s.id, neighbour->id);
    };
    if (is_elsewhere(above(s, k))) backend_.follow(stream, s.input_again(run_.sequence(s.id, k)));
    if (StageState<B>* const to = below(s, k); is_elsewhere(to)) {
      redo_and_hand_on(s, *to, forward, stream);
    } else {
      stages_.redo_forward(forward, stream);
    }
    s.rollback.redone.store(k, std::memory_order_release);
    ring_neighbours(s);
  }

  /// What the stage below holds of the output is replaced; what it does not hold yet, the transfer
  /// will bring.
  void redo_and_hand_on(StageState<B>& s, StageState<B>& below, const Instance& forward,
                        Stream& stream) {
    const std::int64_t taken = run_.sequence(below.id, forward.microbatch);
    const bool is_there = below.input.holds(taken);
    if (is_there) {
      backend_.follow(stream, below.input.fence(taken));  // the transfer has read the output
      backend_.follow(stream, below.rollback.at_validate);
    }
    stages_.redo_forward(forward, stream);
    if (is_there) {
      const std::int64_t q = run_.sequence(s.id, forward.microbatch);
      backend_.kernels(stream).copy(s.output.held(q), below.input.held(taken));
      backend_.raise(stream, below.input_again(taken));
    }
    backend_.raise(stream, s.rollback.output);
  }

  void settle(StageState<B>& s, std::int64_t number, const Instance& instance, const Mark& start,
              Stream& stream) {
    const AtWork at_work(log_, instance);
    const bool wrong = stages_.is_wrong(s, number);
    stages_.settle(s, instance.microbatch, wrong, stream);
    if (wrong) {
      // What this one goes on with may be an input that was made again.
      run_.neighbours.for_each_above(s.id, [&](ReplicaId above) {
        backend_.follow(stream, stages_.state_of(above).rollback.end);
      });
      backend_.raise(stream, s.rollback.end);
    }
    s.rollback.ended.store(number, std::memory_order_release);
    if (wrong) ring_neighbours(s);
    log_.note(instance, start, backend_.mark(stream), stream);
  }

  void ring_neighbours(const StageState<B>& s) {
    run_.neighbours.for_each(s.id, [this](ReplicaId neighbour) {
      run_.wake(run_.device_of(pipeline_, program_.placement().device[neighbour]));
    });
  }

  std::int64_t update_of(ReplicaId replica, const Instance& instance) const {
    return run_.versions.covering_update(replica, instance.microbatch);
  }

  const Program& program_;
  const std::uint16_t pipeline_;
  const DeviceId me_;
  RunState<B>& run_;
  B& backend_;
  StageWork<B>& stages_;
  WorkLog<B>& log_;
  Table<ReplicaId, std::vector<Instance>> ahead_;  // forwards queued since the last validate
};

}  // namespace tandem
