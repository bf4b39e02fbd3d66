#pragma once
// The CPU as a device: one thread that owns several in-order queues (streams) and runs whatever
// heads them is ready. Streams and events mean what they mean on a GPU: issuing is asynchronous, a
// wait holds back only its own stream, and waiting for an event that was never recorded is no wait.

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <stop_token>
#include <utility>

#include "core/base/units.h"
#include "executor/backend/backend.h"
#include "executor/backend/task_queues.h"
#include "executor/backend/wakeup.h"
#include "executor/cpu/kernels.h"

namespace tandem::cpu {

/// How long a device that has a core to itself looks for work before it sleeps: longer than most
/// waits of a pipeline in its steady state, shorter than its bubbles.
inline constexpr Duration kSpin = std::chrono::milliseconds(1);

/// Memory for a buffer, 64-byte aligned, to be freed by std::free().
void* allocate_aligned(std::size_t bytes);

/// Memory of `T`, 64-byte aligned, zeroed. Empty: none.
template <class T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::int64_t elements) : size_(static_cast<std::size_t>(elements)) {
    if (elements == 0) return;
    auto* memory = static_cast<T*>(allocate_aligned(size_ * sizeof(T)));
    std::fill_n(memory, size_, T{});
    data_.reset(memory);
  }
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

/// A moment at which a stream was somewhere.
struct Mark {
  std::chrono::steady_clock::time_point when{};
  static Mark at(std::chrono::steady_clock::time_point time) { return {time}; }
  std::chrono::steady_clock::time_point time() const { return when; }
};

/// The contract is tandem::Backend. Used by its own thread only, but for the wakeup.
template <class T>
class Backend {
 public:
  using Scalar = T;
  using Kernels = cpu::Kernels<T>;
  template <class U>
  using Buffer = cpu::Buffer<U>;
  using Event = TaskEvent;
  using Mark = cpu::Mark;
  struct Fence {};
  using Range = NoRange;
  using Stream = TaskQueues::Queue;

  Backend(Wakeup& wakeup, std::stop_token stop, Duration spin = {})
      : wakeup_(wakeup), stop_(std::move(stop)), spin_(spin) {}

  /// A further stream; earlier ones go first when several are ready.
  Stream& add_stream(StreamUse /*use*/) { return tasks_.add(); }
  template <class U>
  Buffer<U> allocate(std::int64_t elements) {
    return Buffer<U>(elements);
  }
  void commit() {}
  static constexpr Bytes workspace_bytes() { return 0; }
  template <class U>
  std::shared_ptr<U[]> results(std::size_t count) {
    return std::make_shared<U[]>(count);
  }
  template <class U>
  std::shared_ptr<U[]> kernel_numbers(std::size_t count) {
    return results<U>(count);
  }
  template <class U, std::invocable<std::span<U>> Fill>
  void write(std::span<U> memory, const Fill& fill) {
    fill(memory);
  }
  /// The memory itself.
  template <class U>
  struct Fetched {
    std::span<const U> values;
    std::span<const U> span() const { return values; }
  };
  template <class U>
  Fetched<U> fetch(std::span<const U> values) const {
    return {values};
  }
  template <class U>
  std::span<const U> readable(Stream&, std::span<const U> values) const {
    return values;
  }
  Kernels kernels(Stream&) const { return kernels_; }

  // A task runs when all that is before it has ended.
  void wait(Stream& stream, Event& event) { tasks_.wait(stream, event); }
  void record(Stream& stream, Event& event) { tasks_.record(stream, event); }
  void enqueue(Stream& stream, TaskQueues::Run run) { tasks_.enqueue(stream, std::move(run)); }
  void enqueue_when(Stream& stream, TaskQueues::Ready ready, TaskQueues::Run run) {
    tasks_.enqueue_when(stream, std::move(ready), std::move(run));
  }

  void raise(Stream&, Fence&) const {}
  void follow(Stream&, Fence&) const {}
  template <std::invocable Call>
  void when_done(Stream&, const Call& call) const {
    call();
  }
  Mark mark(Stream&) const { return Mark::at(std::chrono::steady_clock::now()); }
  Mark moment(Stream& stream) const { return mark(stream); }

  /// Runs what is ready; then, while more than `most_queued` tasks are left, sleeps until something
  /// is. Throws Stopped when stop was requested; what a task throws passes through.
  void progress(std::size_t most_queued);

  /// The device slept for lack of work since this was asked last: what comes next was waited for.
  bool slept() { return std::exchange(slept_, false); }

 private:
  Wakeup& wakeup_;
  std::stop_token stop_;
  Duration spin_;
  TaskQueues tasks_;
  const Kernels kernels_{};  // chosen, and checked, before any device starts
  bool slept_ = false;
};

extern template class Backend<float>;
extern template class Backend<double>;

static_assert(tandem::Backend<Backend<float>> && tandem::Backend<Backend<double>>);

}  // namespace tandem::cpu
