#pragma once
// LinkEmulator: links of a chosen rate inside one process. What is sent lands only when it would
// have arrived over such a link, so that predictions for slow links can be held against real runs.

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <queue>
#include <stop_token>
#include <thread>
#include <utility>

#include "core/base/check.h"
#include "core/base/units.h"
#include "core/program/cost.h"

namespace tandem {

/// One thread, which delivers. Wakes up some tens of microseconds late, as a network does.
class LinkEmulator {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// REQUIRES: bytes_per_second > 0.
  explicit LinkEmulator(double bytes_per_second)
      : bytes_per_second_(bytes_per_second),
        thread_([this](const std::stop_token& stop) { run(stop); }) {
    TANDEM_CHECK(bytes_per_second > 0.0, bytes_per_second);
  }

  /// How long `bytes` occupy a link.
  Duration time_of(Bytes bytes) const { return transmission_time(bytes, bytes_per_second_); }

  /// Calls `land` at `when`, on the emulator's thread; among equal times, in the order given.
  /// What is still on its way when the emulator ends is dropped. From any thread.
  void deliver(Time when, std::function<void()> land) {
    {
      const std::lock_guard lock(mutex_);
      parcels_.push({when, sent_++, std::move(land)});
    }
    changed_.notify_one();
  }

 private:
  struct Parcel {
    Time when;
    std::uint64_t number;
    std::function<void()> land;
    bool operator<(const Parcel& other) const {  // the next one stands at the top
      return when != other.when ? when > other.when : number > other.number;
    }
  };
  void run(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
      if (parcels_.empty()) {
        changed_.wait(lock, stop, [this] { return !parcels_.empty(); });
        continue;
      }
      const Time next = parcels_.top().when;
      if (std::chrono::steady_clock::now() < next) {
        changed_.wait_until(lock, stop, next, [this, next] { return parcels_.top().when < next; });
        continue;
      }
      const std::function<void()> land = parcels_.top().land;
      parcels_.pop();
      lock.unlock();
      land();
      lock.lock();
    }
  }

  double bytes_per_second_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::priority_queue<Parcel> parcels_;
  std::uint64_t sent_ = 0;
  std::jthread thread_;  // last: it ends before what it uses
};

}  // namespace tandem
