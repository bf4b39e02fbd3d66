#pragma once
// A GPU, or a part of one, as a device: the contract is tandem::Backend. Tasks are taken up as soon
// as what they wait for is, and only launch: what runs, the host waits for only where a task asks.

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <stop_token>
#include <utility>
#include <vector>

#include "executor/backend/arena.h"
#include "executor/backend/backend.h"
#include "executor/backend/task_queues.h"
#include "executor/backend/wakeup.h"
#include "executor/cuda/kernels/kernels.h"
#include "executor/cuda/partition.h"
#include "executor/cuda/pool.h"
#include "executor/cuda/profiler_range.h"
#include "executor/cuda/runtime/raii.h"
#include "executor/cuda/stock.h"

namespace tandem::cuda {

/// How long a thread that waits for its GPU sleeps between two looks.
inline constexpr auto kLook = std::chrono::microseconds(20);

/// When the events of one GPU were, by the host's clock. Used by several threads.
class EventClock {
 public:
  /// Of the current device; waits for it.
  EventClock();
  /// REQUIRES: the event is of the same GPU, and has come.
  std::chrono::steady_clock::time_point time_of(const std::shared_ptr<OwnedEvent>& event);

 private:
  std::mutex mutex_;
  // Events tell the time between two of them in float: so a new one is taken now and then.
  std::shared_ptr<OwnedEvent> event_;
  std::chrono::steady_clock::time_point time_;
};

/// A moment at which a stream was somewhere.
class Mark {
 public:
  Mark() = default;
  Mark(std::shared_ptr<EventClock> clock, std::shared_ptr<OwnedEvent> event)
      : clock_(std::move(clock)), event_(std::move(event)) {}
  static Mark at(std::chrono::steady_clock::time_point time) {
    Mark mark;
    mark.time_ = time;
    return mark;
  }
  /// REQUIRES: the stream has come there.
  std::chrono::steady_clock::time_point time() const;

 private:
  std::shared_ptr<EventClock> clock_;  // null: the time is known
  std::shared_ptr<OwnedEvent> event_;
  std::chrono::steady_clock::time_point time_{};
};

/// Lent when it is first recorded, by the device that records it; waited for by streams of any.
class Fence {
 private:
  friend class Backend;
  std::shared_ptr<OwnedEvent> event_;
  int gpu_ = -1;
};

/// Its record is given to a GPU when it is taken up, which waits for it must be behind.
class Event {
 private:
  friend class Backend;
  TaskEvent tasks_;
  Fence fence_;
};

/// What the kernels of a device's streams work with.
struct StreamKernels {
  KernelSettings computation;
  Bytes sums_workspace = 0;

  /// Sums multiply nothing, and copies need no memory besides.
  KernelSettings of(StreamUse use) const {
    if (use == StreamUse::computation) return computation;
    return {.products = {.engine = "portable", .precision = {}},
            .workspace = use == StreamUse::sums ? sums_workspace : 0};
  }
};

/// The streams of all devices of a run: each may work with the others' memory, so nobody's is freed
/// before all have ended. Used by the thread that makes and destroys the devices.
class RunStreams {
 public:
  void add(cudaStream_t stream) { streams_.push_back(stream); }
  void remove(cudaStream_t stream) { std::erase(streams_, stream); }
  /// Whatever they end with.
  void await() const {
    for (const cudaStream_t stream : streams_) forget(cudaStreamSynchronize(stream));
  }

 private:
  std::vector<cudaStream_t> streams_;
};

struct BackendSetup {
  std::shared_ptr<Partition> partition;
  StreamKernels kernels;
  bool keeps_times = true;  // of marks: two timed events a piece of work
  /// Whether kernels of the run's other devices reach this one's memory.
  bool is_reached = true;
  /// Called while the host waits; throws what has failed. Empty: nothing else can.
  std::function<void()> look = {};
  /// Made with the arena: what the run takes beyond it is made as it is needed.
  Stock stock = {};
  /// What the devices of a run share. Null: the device is alone.
  std::shared_ptr<RunStreams> streams = {};
};

/// Used by its own thread only, but before and after the run.
class Backend {
 public:
  using Scalar = float;
  using Kernels = cuda::Kernels<float>;
  template <class U>
  using Buffer = Arena::Buffer<U>;
  using Event = cuda::Event;
  using Fence = cuda::Fence;
  using Mark = cuda::Mark;
  using Range = ProfilerRange;

  struct Call {
    std::shared_ptr<OwnedEvent> event;
    std::function<void()> call;
  };
  class Stream {
   private:
    friend class Backend;
    StreamUse use{};
    TaskQueues::Queue* tasks = nullptr;
    OwnedStream stream;
    std::unique_ptr<KernelContext> context;
    std::vector<std::shared_ptr<void>> read;  // host memory that the task at hand reads
    std::deque<Call> calls;
  };

  Backend(BackendSetup setup, Wakeup& wakeup, std::stop_token stop);
  ~Backend();
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  template <class U>
  Buffer<U> allocate(std::int64_t elements) {
    return arena_.place<U>(elements);
  }
  void commit();
  Bytes workspace_bytes() const;
  template <class U>
  std::shared_ptr<U[]> results(std::size_t count) {
    std::shared_ptr<std::byte[]> memory = pinned(count * sizeof(U));
    auto* first = new (memory.get()) U[count]();
    return {std::move(memory), first};
  }
  template <class U>
  std::shared_ptr<U[]> kernel_numbers(std::size_t count) {
    std::shared_ptr<std::byte[]> memory = numbers(count * sizeof(U));
    auto* first = reinterpret_cast<U*>(memory.get());
    return {std::move(memory), first};
  }
  template <class U, std::invocable<std::span<U>> Fill>
  void write(std::span<U> memory, const Fill& fill) {
    std::vector<U> values(memory.size());
    fill(std::span<U>(values));
    upload(std::as_bytes(std::span(values)), memory.data());
  }
  template <class U>
  struct Fetched {
    std::vector<U> values;
    std::span<const U> span() const { return values; }
  };
  template <class U>
  Fetched<U> fetch(std::span<const U> values) {
    Fetched<U> fetched{std::vector<U>(values.size())};
    download(values.data(), std::as_writable_bytes(std::span(fetched.values)));
    return fetched;
  }
  template <class U>
  std::span<const U> readable(Stream& stream, std::span<const U> values) {
    if (values.empty()) return {};
    std::shared_ptr<std::byte[]> memory = pinned(values.size_bytes());
    std::memcpy(memory.get(), values.data(), values.size_bytes());
    const auto* first = reinterpret_cast<const U*>(memory.get());
    stream.read.push_back(std::move(memory));
    return {first, values.size()};
  }

  /// For what launches on it besides kernels.
  static cudaStream_t handle(const Stream& stream) { return stream.stream.get(); }

  Stream& add_stream(StreamUse use);
  Kernels kernels(Stream& stream) { return Kernels(*stream.context); }

  void enqueue(Stream& stream, TaskQueues::Run run) {
    tasks_.enqueue(*stream.tasks, std::move(run));
  }
  void enqueue_when(Stream& stream, TaskQueues::Ready ready, TaskQueues::Run run) {
    tasks_.enqueue_when(*stream.tasks, std::move(ready), std::move(run));
  }
  void wait(Stream& stream, Event& event) {
    tasks_.wait(*stream.tasks, event.tasks_,
                [this, &stream, &event] { follow(stream, event.fence_); });
  }
  void record(Stream& stream, Event& event) {
    tasks_.record(*stream.tasks, event.tasks_,
                  [this, &stream, &event] { raise(stream, event.fence_); });
  }
  void raise(Stream& stream, Fence& fence);
  void follow(Stream& stream, Fence& fence);
  void when_done(Stream& stream, std::function<void()> call);
  Mark moment(Stream& stream);
  Mark mark(Stream& stream) {
    return setup_.keeps_times ? moment(stream) : Mark::at(std::chrono::steady_clock::now());
  }
  bool slept() { return false; }
  void progress(std::size_t most_left);

 protected:
  static KernelContext& context_of(Stream& stream) { return *stream.context; }

 private:
  void enter() const;
  std::shared_ptr<std::byte[]> pinned(std::size_t bytes);
  /// Of the device where others reach it, else of the host.
  std::shared_ptr<std::byte[]> numbers(std::size_t bytes);
  void fill_pools();
  void upload(std::span<const std::byte> values, void* memory);
  /// When all that the streams were given has ended.
  void download(const void* memory, std::span<std::byte> values);
  /// Whether all before it has ended.
  static bool has_ended(cudaError_t status, const char* call);
  bool take_up_one();
  bool call_one();
  void pause() const;

  BackendSetup setup_;
  Wakeup& wakeup_;
  std::stop_token stop_;
  Arena arena_;
  DeviceMemory memory_;
  Pool<OwnedEvent> events_, timed_events_;
  std::vector<Pool<Piece>> pinned_;  // by the power of two of their size
  std::vector<Pool<Piece>> numbers_;
  std::shared_ptr<EventClock> clock_;
  std::deque<Stream> streams_;
  TaskQueues tasks_;
  std::size_t calls_ = 0;  // of all streams
};

/// The same, with activations and the weights that products read stored in bfloat16.
class Bf16Backend : public Backend {
 public:
  using Scalar = Bf16;
  using Kernels = cuda::Kernels<Bf16>;
  using Backend::Backend;
  Kernels kernels(Stream& stream) { return Kernels(context_of(stream)); }
};

static_assert(tandem::Backend<Backend> && tandem::Backend<Bf16Backend>);

}  // namespace tandem::cuda
