#pragma once
// WorkLog: what one device is at, and when it did what.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "core/program/run.h"
#include "core/program/timeline.h"
#include "core/program/title.h"
#include "executor/backend/notice.h"
#include "executor/run/run_state.h"
#include "executor/run/watchdog.h"

namespace tandem {

/// "device 2, f9 (microbatch 17)". `device`: numbered through all pipelines.
inline std::string describe_work(const Program& program, DeviceId device, InstructionId id,
                                 std::int64_t microbatch) {
  return fmt::format("device {}, {} (microbatch {})", index(device), describe(program, id),
                     microbatch);
}

/// Used by its device's thread only, but for the progress, which the watchdog reads.
template <class B>
class WorkLog {
 public:
  using Stream = typename B::Stream;
  using Mark = typename B::Mark;

  /// `device`: numbered through all pipelines. REQUIRES: `backend` and `run_state` outlive this.
  WorkLog(B& backend, const RunState<B>& run_state, DeviceId device)
      : backend_(backend), run_(run_state), device_(device) {}

  Duration now() const { return std::chrono::steady_clock::now() - run_.start; }

  /// While it lives the device is at this instance's work, and a profiler is told so. `lane`: what
  /// the work is on, where a transfer is either sent or received.
  class AtWork {
   public:
    AtWork(WorkLog& log, const Instance& instance, LaneKind lane = LaneKind::compute)
        : log_(log), shown_([&log, &instance, lane] {
            return title_of(log.run_.program, log.run_.versions, instance, lane);
          }) {
      log_.progress_.begin(instance.id, instance.microbatch, log_.now());
      if (log_.run_.setup.before_work) log_.run_.setup.before_work(log_.device_, instance);
    }
    ~AtWork() { log_.progress_.end(log_.now()); }
    AtWork(const AtWork&) = delete;
    AtWork& operator=(const AtWork&) = delete;

   private:
    WorkLog& log_;
    [[no_unique_address]] typename B::Range shown_;
  };

  /// Of work on the stream that began and ended at these marks, once that is known.
  void note(Instance instance, const Mark& start, const Mark& end, Stream& stream) {
    backend_.when_done(stream, [this, instance, start, end] {
      progress_.get_on();
      ended_ = instance;
      if (on_compute_lane(run_.program[instance.id].op.kind)) {
        const Duration took = end.time() - start.time();
        run_.computed.fetch_add(took.count(), std::memory_order_relaxed);
      }
      if (run_.setup.keep_timeline)
        add(instance, start.time() - run_.start, end.time() - run_.start);
    });
  }

  /// Of a transfer that the stream has received, sent between two marks. Had this device to wait,
  /// it lasted until the device could go on. The sender may have begun the next one by then: on one
  /// lane that comes after. `lane_end`: of the one before.
  void note_transfer(Instance instance, const Mark& start, const Mark& end, bool waited,
                     Duration& lane_end, Stream& stream) {
    if (!run_.setup.keep_timeline) return;
    const Mark here = backend_.mark(stream);
    backend_.when_done(stream, [this, instance, start, end, here, waited, &lane_end] {
      const Duration begin = std::max<Duration>(start.time() - run_.start, lane_end);
      ended_ = instance;
      lane_end = std::max<Duration>(begin, (waited ? here : end).time() - run_.start);
      add(instance, begin, lane_end);
    });
  }

  const std::vector<Span>& spans() const { return spans_; }
  const Progress& progress() const { return progress_; }

  /// "device 2, f9 (microbatch 17)": this device and the work it began last, for error messages.
  std::string describe_last_work() const {
    return tandem::describe_work(run_.program, device_, progress_.id(), progress_.microbatch());
  }
  /// Where an error showed, on the device's own thread; and what is known where it may be of
  /// earlier work.
  std::string describe_failure(const DeviceError& error) const {
    std::string text = fmt::format("{}: {}", describe_last_work(), error.what());
    if (dynamic_cast<const LateError*>(&error) == nullptr) return text;
    return text + fmt::format("; it showed here, but earlier work may have failed: {}",
                              ended_ ? fmt::format("the last work known to have ended is {}",
                                                   work_text(ended_->id, ended_->microbatch))
                                     : "none is known to have ended");
  }

 private:
  void add(Instance instance, Duration start, Duration end) {
    spans_.push_back({instance.id, instance.body, start, end});
  }

  std::string work_text(InstructionId id, std::int64_t microbatch) const {
    return fmt::format("{} (microbatch {})", describe(run_.program, id), microbatch);
  }

  B& backend_;
  const RunState<B>& run_;
  const DeviceId device_;
  std::vector<Span> spans_;
  std::optional<Instance> ended_;  // of all that is known to have ended, what was found last
  Progress progress_;
};

}  // namespace tandem
