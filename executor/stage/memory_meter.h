#pragma once
// MemoryMeter: what the slots of one device cost, counted while training.

#include <algorithm>
#include <cstdint>
#include <mutex>

#include "core/memory/memory.h"

namespace tandem {

using MemoryClass = Bytes MemoryByClass::*;

/// The class that a slot of this kind counts in; `position` is its place in the ring: the first
/// weight slot is the weights, the others are further versions.
constexpr MemoryClass class_of(SlotKind kind, std::int64_t position) {
  if (kind == SlotKind::weights)
    return position == 0 ? &MemoryByClass::weights : &MemoryByClass::versions;
  if (is_version(kind)) return &MemoryByClass::versions;
  if (kind == SlotKind::gradients) return &MemoryByClass::gradients;
  const bool stashes = kind == SlotKind::stash || kind == SlotKind::eviction_buffer ||
                       kind == SlotKind::hosted_stash;
  return stashes ? &MemoryByClass::activations : &MemoryByClass::buffers;
}

/// A slot is memory from its first use on: it is counted as committed then, and never given back
/// while training. `held` counts only what is in use at a time. May be used by several threads.
class MemoryMeter {
 public:
  void commit(MemoryClass kind, Bytes bytes) {
    const std::lock_guard lock(mutex_);
    committed_.*kind += bytes;
  }
  void acquire(MemoryClass kind, Bytes bytes) {
    const std::lock_guard lock(mutex_);
    held_.*kind += bytes;
    peak_.*kind = std::max(peak_.*kind, held_.*kind);
  }
  void release(MemoryClass kind, Bytes bytes) {
    const std::lock_guard lock(mutex_);
    held_.*kind -= bytes;
  }

  // When nobody counts any longer.
  /// High-water mark of committed slots: what the plan must equal to the byte.
  const MemoryByClass& high_water() const { return committed_; }
  /// Peak of what was in use at once; less than the high-water mark where timing left a slot idle.
  const MemoryByClass& peak_held() const { return peak_; }

 private:
  std::mutex mutex_;
  MemoryByClass committed_, held_, peak_;
};

}  // namespace tandem
