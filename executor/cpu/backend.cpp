#include "executor/cpu/backend.h"

#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace tandem::cpu {

namespace {

constexpr std::size_t kHugePage = std::size_t{1} << 21;

}  // namespace

/// Asks for huge pages where whole ones fit: what would be a part of one stays small pages, so that
/// no more is resident than is used.
void* allocate_aligned(std::size_t bytes) {
  const std::size_t alignment = bytes < kHugePage ? 64 : kHugePage;
  void* memory = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
#if defined(__linux__)
  if (bytes >= kHugePage) madvise(memory, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
#endif
  return memory;
}

template <class T>
void Backend<T>::progress(std::size_t most_queued) {
  while (true) {
    const std::uint32_t seen = wakeup_.wakes();
    if (stop_.stop_requested()) throw Stopped{};
    if (tasks_.take_up_one()) continue;
    if (tasks_.size() <= most_queued) return;
    slept_ = true;
    wakeup_.wait_beyond(seen, spin_);
  }
}

template class Backend<float>;
template class Backend<double>;

}  // namespace tandem::cpu
