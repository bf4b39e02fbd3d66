#include "executor/cpu/backend.h"

#include <algorithm>
#include <new>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace tandem::cpu {

namespace {

constexpr std::size_t kHugePage = std::size_t{1} << 21;

/// Asks for huge pages where whole ones fit: what would be a part of one stays small pages, so that
/// no more is resident than is used.
void* allocate(std::size_t bytes) {
  const std::size_t alignment = bytes < kHugePage ? 64 : kHugePage;
  void* memory = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
#if defined(__linux__)
  if (bytes >= kHugePage) madvise(memory, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
#endif
  return memory;
}

}  // namespace

template <class T>
Buffer<T>::Buffer(std::int64_t elements) : size_(static_cast<std::size_t>(elements)) {
  if (elements == 0) return;
  auto* memory = static_cast<T*>(allocate(size_ * sizeof(T)));
  std::fill_n(memory, size_, T{});
  data_.reset(memory);
}

template <class T>
void Backend<T>::wait(Stream& stream, Event& event) {
  const std::uint64_t ticket = event.issued_;
  if (event.completed_ >= ticket) return;
  enqueue_when(stream, [&event, ticket] { return event.completed_ >= ticket; }, {});
}

template <class T>
void Backend<T>::record(Stream& stream, Event& event) {
  const std::uint64_t ticket = ++event.issued_;
  enqueue(stream, [&event, ticket] { event.completed_ = ticket; });
}

template <class T>
void Backend<T>::enqueue(Stream& stream, std::function<void()> run) {
  enqueue_when(stream, {}, std::move(run));
}

template <class T>
void Backend<T>::enqueue_when(Stream& stream, std::function<bool()> ready,
                              std::function<void()> run) {
  stream.tasks_.push_back({std::move(ready), std::move(run)});
  ++queued_;
}

template <class T>
bool Backend<T>::run_one() {
  for (Stream& stream : streams_) {
    if (stream.tasks_.empty()) continue;
    auto& head = stream.tasks_.front();
    if (head.ready && !head.ready()) continue;
    const auto task = std::move(head);
    stream.tasks_.pop_front();
    --queued_;
    if (task.run) task.run();
    return true;
  }
  return false;
}

template <class T>
void Backend<T>::progress(std::size_t most_queued) {
  while (true) {
    const std::uint32_t seen = bell_.rings();
    if (stop_.stop_requested()) throw Stopped{};
    if (run_one()) continue;
    if (queued_ <= most_queued) return;
    slept_ = true;
    bell_.wait_beyond(seen, spin_);
  }
}

template class Buffer<float>;
template class Buffer<double>;
template class Backend<float>;
template class Backend<double>;

}  // namespace tandem::cpu
