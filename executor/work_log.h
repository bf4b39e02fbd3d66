#pragma once
// WorkLog: what one device is at, and when it did what.

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>
#include <vector>

#include "core/run.h"
#include "core/timeline.h"
#include "executor/watchdog.h"

namespace tandem {

/// Used by its device's thread only, but for the progress, which the watchdog reads.
template <class B>
class WorkLog {
 public:
  using Stream = typename B::Stream;
  using Mark = typename B::Mark;

  /// `start`: of the run; may still change. `before_work` is called as work begins. REQUIRES: the
  /// former two outlive this.
  WorkLog(B& backend, const std::chrono::steady_clock::time_point& start, bool keep_timeline,
          std::function<void(const Instance&)> before_work)
      : backend_(backend),
        start_(start),
        keeps_(keep_timeline),
        before_work_(std::move(before_work)) {}

  Duration now() const { return std::chrono::steady_clock::now() - start_; }

  /// While it lives the device is at this instance's work.
  class AtWork {
   public:
    AtWork(WorkLog& log, const Instance& instance) : log_(log) {
      log_.progress_.begin(instance.id, instance.microbatch, log_.now());
      log_.before_work_(instance);
    }
    ~AtWork() { log_.progress_.end(log_.now()); }
    AtWork(const AtWork&) = delete;
    AtWork& operator=(const AtWork&) = delete;

   private:
    WorkLog& log_;
  };

  /// Of work on the stream that began and ended at these marks, once that is known.
  void note(Instance instance, const Mark& start, const Mark& end, Stream& stream) {
    backend_.when_done(stream, [this, instance, start, end] {
      progress_.get_on();
      if (keeps_) add(instance, start.time() - start_, end.time() - start_);
    });
  }

  /// Of a transfer that the stream has received, sent between two marks. Had this device to wait,
  /// it lasted until the device could go on. The sender may have begun the next one by then: on one
  /// lane that comes after. `lane_end`: of the one before.
  void note_transfer(Instance instance, const Mark& start, const Mark& end, bool waited,
                     Duration& lane_end, Stream& stream) {
    if (!keeps_) return;
    const Mark here = backend_.mark(stream);
    backend_.when_done(stream, [this, instance, start, end, here, waited, &lane_end] {
      const Duration begin = std::max<Duration>(start.time() - start_, lane_end);
      lane_end = std::max<Duration>(begin, (waited ? here : end).time() - start_);
      add(instance, begin, lane_end);
    });
  }

  const std::vector<Span>& spans() const { return spans_; }
  const Progress& progress() const { return progress_; }

 private:
  void add(Instance instance, Duration start, Duration end) {
    spans_.push_back({instance.id, instance.body, start, end});
  }

  B& backend_;
  const std::chrono::steady_clock::time_point& start_;
  const bool keeps_;
  const std::function<void(const Instance&)> before_work_;
  std::vector<Span> spans_;
  Progress progress_;
};

}  // namespace tandem
