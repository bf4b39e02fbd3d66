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

#include "core/base/units.h"

namespace tandem {

/// One thread, which delivers. Wakes up some tens of microseconds late, as a network does.
class LinkEmulator {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// REQUIRES: bytes_per_second > 0.
  explicit LinkEmulator(double bytes_per_second);

  /// How long `bytes` occupy a link.
  Duration time_of(Bytes bytes) const;

  /// Calls `land` at `when`, on the emulator's thread; among equal times, in the order given.
  /// What is still on its way when the emulator ends is dropped. From any thread.
  void deliver(Time when, std::function<void()> land);

 private:
  struct Parcel {
    Time when;
    std::uint64_t number;
    std::function<void()> land;
    bool operator<(const Parcel& other) const {  // the next one stands at the top
      return when != other.when ? when > other.when : number > other.number;
    }
  };
  void run(const std::stop_token& stop);

  double bytes_per_second_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::priority_queue<Parcel> parcels_;
  std::uint64_t sent_ = 0;
  std::jthread thread_;  // last: it ends before what it uses
};

}  // namespace tandem
