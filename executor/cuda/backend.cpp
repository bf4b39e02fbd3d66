#include "executor/cuda/backend.h"

#include <algorithm>
#include <bit>
#include <thread>

namespace tandem::cuda {
namespace {

/// Float tells a second to 0.1 us.
constexpr float kRebaseMs = 1000.0F;

constexpr std::size_t kFewestPinned = 64;

std::size_t size_of_pieces(std::size_t bytes) {
  return std::bit_ceil(std::max(bytes, kFewestPinned));
}

/// Which of the pools, which are a power of two each.
std::size_t row_of(std::size_t bytes) {
  return static_cast<std::size_t>(std::countr_zero(size_of_pieces(bytes)) -
                                  std::countr_zero(kFewestPinned));
}

std::shared_ptr<std::byte[]> lend(std::vector<Pool<Piece>>& pools, std::size_t bytes) {
  const std::shared_ptr<Piece> lent = pools[row_of(bytes)].lend();
  return {lent, lent->get()};
}

std::shared_ptr<std::byte> pinned_memory(std::size_t bytes) { return allocate_pinned(bytes); }
std::shared_ptr<std::byte> device_memory(std::size_t bytes) {
  return allocate_zeros(static_cast<Bytes>(bytes));
}

}  // namespace

EventClock::EventClock() : event_(std::make_shared<OwnedEvent>(make_event(cudaEventDefault))) {
  check(cudaEventRecord(event_->get(), nullptr), "cudaEventRecord");
  check(cudaEventSynchronize(event_->get()), "cudaEventSynchronize");
  time_ = std::chrono::steady_clock::now();
}

std::chrono::steady_clock::time_point EventClock::time_of(
    const std::shared_ptr<OwnedEvent>& event) {
  const std::lock_guard lock(mutex_);
  float ms = 0.0F;
  check(cudaEventElapsedTime(&ms, event_->get(), event->get()), "cudaEventElapsedTime");
  const std::chrono::duration<double, std::milli> since(ms);
  const auto time = time_ + std::chrono::duration_cast<std::chrono::nanoseconds>(since);
  if (ms > kRebaseMs) {
    event_ = event;
    time_ = time;
  }
  return time;
}

std::chrono::steady_clock::time_point Mark::time() const {
  return clock_ ? clock_->time_of(event_) : time_;
}

Backend::Backend(BackendSetup setup, Wakeup& wakeup, std::stop_token stop)
    : setup_(std::move(setup)),
      wakeup_(wakeup),
      stop_(std::move(stop)),
      events_([] { return make_event(cudaEventDisableTiming); }),
      timed_events_([] { return make_event(cudaEventDefault); }) {
  if (!setup_.streams) setup_.streams = std::make_shared<RunStreams>();
  enter();
  clock_ = std::make_shared<EventClock>();
  for (std::size_t bytes = kFewestPinned; bytes != 0; bytes *= 2) {
    pinned_.emplace_back([bytes] { return cut(bytes, 1, pinned_memory).front(); });
    numbers_.emplace_back([bytes] { return cut(bytes, 1, device_memory).front(); });
  }
}

Backend::~Backend() {
  // What is still running reads and writes memory that is freed next.
  forget(cudaSetDevice(setup_.partition->gpu()));
  setup_.streams->await();
  for (const Stream& stream : streams_) setup_.streams->remove(stream.stream.get());
}

/// The calling thread works on this GPU from now on.
void Backend::enter() const { check(cudaSetDevice(setup_.partition->gpu()), "cudaSetDevice"); }

void Backend::commit() {
  enter();
  memory_ = allocate_zeros(arena_.size());
  arena_.put_at(memory_.get());
  fill_pools();
  for (Stream& stream : streams_) {
    KernelSettings settings = setup_.kernels.of(stream.use);
    settings.multiprocessors = setup_.partition->multiprocessors();
    stream.context = std::make_unique<KernelContext>(stream.stream.get(), settings);
  }
}

void Backend::fill_pools() {
  const Stock& stock = setup_.stock;
  for (std::size_t i = 0; i < stock.events; ++i) events_.add(make_event(cudaEventDisableTiming));
  for (std::size_t i = 0; i < stock.timed_events; ++i)
    timed_events_.add(make_event(cudaEventDefault));
  const auto fill = [](std::vector<Pool<Piece>>& pools, const Stock::Pieces& wanted,
                       const auto& allocate) {
    for (Piece& piece : cut(size_of_pieces(wanted.bytes), wanted.count, allocate))
      pools[row_of(wanted.bytes)].add(std::move(piece));
  };
  for (const Stock::Pieces& wanted : stock.pinned) fill(pinned_, wanted, pinned_memory);
  for (const Stock::Pieces& wanted : stock.numbers) {
    if (setup_.is_reached) {
      fill(numbers_, wanted, device_memory);
    } else {
      fill(pinned_, wanted, pinned_memory);
    }
  }
}

Bytes Backend::workspace_bytes() const {
  Bytes bytes = 0;
  for (const Stream& stream : streams_) bytes += stream.context->bytes();
  return bytes;
}

std::shared_ptr<std::byte[]> Backend::pinned(std::size_t bytes) { return lend(pinned_, bytes); }

std::shared_ptr<std::byte[]> Backend::numbers(std::size_t bytes) {
  return setup_.is_reached ? lend(numbers_, bytes) : pinned(bytes);
}

void Backend::upload(std::span<const std::byte> values, void* memory) {
  enter();
  check(cudaMemcpy(memory, values.data(), values.size(), cudaMemcpyHostToDevice),
        "cudaMemcpy to the device");
  // From pageable memory it returns when all is on its way; streams of ours would not wait.
  check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
}

void Backend::download(const void* memory, std::span<std::byte> values) {
  enter();
  for (const Stream& stream : streams_)
    check(cudaStreamSynchronize(stream.stream.get()), "cudaStreamSynchronize");
  check(cudaMemcpy(values.data(), memory, values.size(), cudaMemcpyDeviceToHost),
        "cudaMemcpy from the device");
}

Backend::Stream& Backend::add_stream(StreamUse use) {
  Stream& stream = streams_.emplace_back();
  stream.use = use;
  stream.tasks = &tasks_.add();
  stream.stream = setup_.partition->make_stream(use);
  setup_.streams->add(stream.stream.get());
  return stream;
}

void Backend::raise(Stream& stream, Fence& fence) {
  if (!fence.event_ || fence.gpu_ != setup_.partition->gpu()) {
    fence.event_ = events_.lend();
    fence.gpu_ = setup_.partition->gpu();
  }
  check(cudaEventRecord(fence.event_->get(), stream.stream.get()), "cudaEventRecord");
}

void Backend::follow(Stream& stream, Fence& fence) {
  if (!fence.event_) return;
  check(cudaStreamWaitEvent(stream.stream.get(), fence.event_->get(), cudaEventWaitDefault),
        "cudaStreamWaitEvent");
}

void Backend::when_done(Stream& stream, std::function<void()> call) {
  std::shared_ptr<OwnedEvent> event = events_.lend();
  check(cudaEventRecord(event->get(), stream.stream.get()), "cudaEventRecord");
  stream.calls.push_back({std::move(event), std::move(call)});
  ++calls_;
}

Mark Backend::moment(Stream& stream) {
  std::shared_ptr<OwnedEvent> event = timed_events_.lend();
  check(cudaEventRecord(event->get(), stream.stream.get()), "cudaEventRecord");
  return {clock_, std::move(event)};
}

bool Backend::has_ended(cudaError_t status, const char* call) {
  if (status == cudaErrorNotReady) {
    forget(status);
    return false;
  }
  check(status, call);
  return true;
}

/// Whether there was one to be taken up.
bool Backend::take_up_one() {
  if (!tasks_.take_up_one()) return false;
  for (Stream& stream : streams_) {
    if (!stream.read.empty()) when_done(stream, [held = std::exchange(stream.read, {})] {});
  }
  return true;
}

/// Whether there was one to be called.
bool Backend::call_one() {
  for (Stream& stream : streams_) {
    if (stream.calls.empty()) continue;
    if (!has_ended(cudaEventQuery(stream.calls.front().event->get()), "cudaEventQuery")) continue;
    const Call first = std::move(stream.calls.front());
    stream.calls.pop_front();
    --calls_;
    first.call();
    return true;
  }
  return false;
}

void Backend::pause() const {
  if (stop_.stop_requested()) throw Stopped{};
  if (setup_.look) setup_.look();
  std::this_thread::sleep_for(kLook);
}

void Backend::progress(std::size_t most_left) {
  enter();
  while (true) {
    const std::uint32_t seen = wakeup_.wakes();
    if (stop_.stop_requested()) throw Stopped{};
    if (take_up_one() || call_one()) continue;
    if (tasks_.size() + calls_ <= most_left) break;
    if (calls_ > 0) {
      pause();  // a GPU wakes nobody
    } else {
      wakeup_.wait_beyond(seen);
    }
  }
  if (most_left > 0) return;
  for (const Stream& stream : streams_) {
    while (!has_ended(cudaStreamQuery(stream.stream.get()), "cudaStreamQuery")) pause();
  }
}

}  // namespace tandem::cuda
