#pragma once
// Watchdog: a thread that sees whether the devices of a run get on, and says who holds them up.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <numeric>
#include <stop_token>
#include <thread>
#include <vector>

#include "core/base/ids.h"
#include "core/base/units.h"

namespace tandem {

/// What one device is at, written by its thread and read by the watchdog.
class Progress {
 public:
  void begin(InstructionId id, std::int64_t microbatch, Duration now) {
    id_.store(id, std::memory_order_relaxed);
    microbatch_.store(microbatch, std::memory_order_relaxed);
    since_.store(now.count(), std::memory_order_release);
  }
  void end(Duration now) {
    const std::int64_t took = now.count() - since_.load(std::memory_order_relaxed);
    if (took > longest_.load(std::memory_order_relaxed))
      longest_.store(took, std::memory_order_relaxed);
    since_.store(kIdle, std::memory_order_release);
    ended_.fetch_add(1, std::memory_order_release);
  }

  /// What another process tells of a device there.
  struct Told {
    bool works = false;
    InstructionId id{};
    std::int64_t microbatch = 0, ended = 0;
    Duration since{}, longest{};
  };
  void mirror(const Told& told) {
    id_.store(told.id, std::memory_order_relaxed);
    microbatch_.store(told.microbatch, std::memory_order_relaxed);
    longest_.store(told.longest.count(), std::memory_order_relaxed);
    since_.store(told.works ? told.since.count() : kIdle, std::memory_order_release);
    ended_.store(told.ended, std::memory_order_release);
  }

  /// Some work that was launched before has run.
  void get_on() { ended_.fetch_add(1, std::memory_order_release); }

  bool working() const { return since_.load(std::memory_order_acquire) != kIdle; }
  Duration since() const { return Duration(since_.load(std::memory_order_acquire)); }
  Duration longest() const { return Duration(longest_.load(std::memory_order_relaxed)); }
  std::int64_t ended() const { return ended_.load(std::memory_order_acquire); }
  InstructionId id() const { return id_.load(std::memory_order_relaxed); }
  std::int64_t microbatch() const { return microbatch_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::int64_t kIdle = -1;
  std::atomic<InstructionId> id_{};
  std::atomic<std::int64_t> microbatch_{0}, since_{kIdle}, longest_{0}, ended_{0};
};

/// Watches from its construction to its destruction.
class Watchdog {
 public:
  struct Setup {
    std::vector<const Progress*> devices;
    /// No device may end nothing for longer than this, or than 20 times the longest work so far.
    Duration limit{};
    /// Called once, with the device that has been at its work for longest, or none if all wait.
    std::function<void(const Progress* culprit, Duration waited)> on_stall;
    /// Called once, this long after on_stall, if the watchdog still lives.
    Duration grace{};
    std::function<void()> on_stuck;
  };

  explicit Watchdog(Setup setup)
      : setup_(std::move(setup)), thread_([this](const std::stop_token& stop) { watch(stop); }) {}

 private:
  using Clock = std::chrono::steady_clock;

  void watch(const std::stop_token& stop) {
    std::int64_t seen = -1;
    Clock::time_point last_change = Clock::now();
    while (sleep(stop, std::clamp<Duration>(limit() / 8, std::chrono::milliseconds(1),
                                            std::chrono::seconds(1)))) {
      const std::int64_t ended = std::accumulate(
          setup_.devices.begin(), setup_.devices.end(), std::int64_t{0},
          [](std::int64_t sum, const Progress* device) { return sum + device->ended(); });
      const Clock::time_point now = Clock::now();
      if (ended != seen) {
        seen = ended;
        last_change = now;
      }
      if (now - last_change < limit()) continue;
      setup_.on_stall(culprit(), now - last_change);
      if (sleep(stop, setup_.grace)) setup_.on_stuck();
      return;
    }
  }
  /// False when the watch is over.
  bool sleep(const std::stop_token& stop, Duration time) {
    std::unique_lock lock(mutex_);
    over_.wait_for(lock, stop, time, [] { return false; });
    return !stop.stop_requested();
  }
  Duration limit() const {
    Duration longest{};
    for (const Progress* device : setup_.devices) longest = std::max(longest, device->longest());
    return std::max(setup_.limit, 20 * longest);
  }
  const Progress* culprit() const {
    const Progress* found = nullptr;
    for (const Progress* device : setup_.devices) {
      if (device->working() && (found == nullptr || device->since() < found->since()))
        found = device;
    }
    return found;
  }

  Setup setup_;
  std::mutex mutex_;
  std::condition_variable_any over_;
  std::jthread thread_;
};

}  // namespace tandem
