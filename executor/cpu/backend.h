#pragma once
// The CPU as a device: one thread that owns several in-order queues (streams) and runs whatever
// heads them is ready. Streams and events mean what they mean on a GPU: issuing is asynchronous, a
// wait holds back only its own stream, and waiting for an event that was never recorded is no wait.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <utility>

#include "core/units.h"
#include "executor/cpu/kernels.h"

namespace tandem::cpu {

/// Wakes a device thread: rung by whoever may have made something ready.
class Doorbell {
 public:
  void ring() {
    rings_.fetch_add(1, std::memory_order_release);
    rings_.notify_one();
  }
  std::uint32_t rings() const { return rings_.load(std::memory_order_acquire); }
  /// Returns when the bell has been rung since rings() gave `seen`; goes to sleep for it after
  /// `spin`.
  void wait_beyond(std::uint32_t seen, Duration spin = {}) const;

 private:
  std::atomic<std::uint32_t> rings_{0};
};

/// How long a device that has a core to itself looks for work before it sleeps: longer than most
/// waits of a pipeline in its steady state, shorter than its bubbles.
inline constexpr Duration kSpin = std::chrono::milliseconds(1);

/// Memory of `T`, 64-byte aligned, zeroed. Empty: none.
template <class T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::int64_t elements);
  std::span<T> elements() { return {data_.get(), size_}; }
  std::span<const T> elements() const { return {data_.get(), size_}; }
  Bytes bytes() const { return static_cast<Bytes>(size_ * sizeof(T)); }

 private:
  struct Free {
    void operator()(T* memory) const { std::free(memory); }
  };
  std::unique_ptr<T[], Free> data_;
  std::size_t size_ = 0;
};

extern template class Buffer<float>;
extern template class Buffer<double>;

/// Counts its records: a wait is for the last record issued before it, as on a GPU.
class Event {
 private:
  template <class>
  friend class Backend;
  std::uint64_t issued_ = 0, completed_ = 0;
};

/// Used by its own thread only, but for the doorbell.
template <class T>
class Backend {
 public:
  using Scalar = T;
  using Kernels = cpu::Kernels<T>;
  using Buffer = cpu::Buffer<T>;
  using Event = cpu::Event;
  /// An in-order queue. REQUIRES: outlives its tasks.
  class Stream {
   private:
    friend class Backend;
    struct Task {
      std::function<bool()> ready;  // empty: at once
      std::function<void()> run;
    };
    std::deque<Task> tasks_;
  };

  Backend(Doorbell& bell, std::stop_token stop, Duration spin = {})
      : bell_(bell), stop_(std::move(stop)), spin_(spin) {}

  /// A further stream; earlier ones go first when several are ready.
  Stream& add_stream() { return streams_.emplace_back(); }
  Buffer allocate(std::int64_t elements) { return Buffer(elements); }
  Kernels kernels(Stream&) const { return kernels_; }

  void wait(Stream& stream, Event& event);
  void record(Stream& stream, Event& event);
  void enqueue(Stream& stream, std::function<void()> run);
  /// `ready` is asked again whenever the doorbell rings.
  void enqueue_when(Stream& stream, std::function<bool()> ready, std::function<void()> run);

  /// Runs what is ready; then, while more than `most_queued` tasks are left, sleeps until something
  /// is. Throws Stopped when stop was requested; what a task throws passes through.
  void progress(std::size_t most_queued);

  /// The device slept for lack of work since this was asked last: what comes next was waited for.
  bool slept() { return std::exchange(slept_, false); }

 private:
  bool run_one();

  Doorbell& bell_;
  std::stop_token stop_;
  Duration spin_;
  std::deque<Stream> streams_;
  std::size_t queued_ = 0;
  const Kernels kernels_{};  // chosen, and checked, before any device starts
  bool slept_ = false;
};

extern template class Backend<float>;
extern template class Backend<double>;

/// Another device failed, or the user interrupted: this one has nothing to say.
struct Stopped {};

}  // namespace tandem::cpu
