#pragma once
// MemoryMeter: what the slots of one device cost, counted while training.

#include <array>
#include <atomic>
#include <cstdint>

#include "core/memory/memory.h"

namespace tandem {

enum class MemoryClass : std::uint8_t {
  weights,
  versions,
  gradients,
  optimizer,
  activations,
  buffers
};
inline constexpr std::size_t kMemoryClasses = 6;

/// The class that a slot of this kind counts in; `position` is its place in the ring: the first
/// weight slot is the weights, the others are further versions.
constexpr MemoryClass class_of(SlotKind kind, std::int64_t position) {
  if (kind == SlotKind::weights)
    return position == 0 ? MemoryClass::weights : MemoryClass::versions;
  if (kind == SlotKind::gradients) return MemoryClass::gradients;
  const bool stashes = kind == SlotKind::stash || kind == SlotKind::eviction_buffer ||
                       kind == SlotKind::hosted_stash;
  return stashes ? MemoryClass::activations : MemoryClass::buffers;
}

/// A slot is memory from its first use on: it is counted as committed then, and never given back
/// while training. `held` counts only what is in use at a time. May be used by several threads.
class MemoryMeter {
 public:
  void commit(MemoryClass kind, Bytes bytes) { committed_[index(kind)] += bytes; }
  void acquire(MemoryClass kind, Bytes bytes) {
    const Bytes now = held_[index(kind)] += bytes;
    Bytes peak = peak_[index(kind)];
    while (peak < now && !peak_[index(kind)].compare_exchange_weak(peak, now)) {
    }
  }
  void release(MemoryClass kind, Bytes bytes) { held_[index(kind)] -= bytes; }

  /// High-water mark of committed slots: what the plan must equal to the byte.
  MemoryByClass high_water() const { return as_classes(committed_); }
  /// Peak of what was in use at once; less than the high-water mark where timing left a slot idle.
  MemoryByClass peak_held() const { return as_classes(peak_); }

 private:
  using Counters = std::array<std::atomic<Bytes>, kMemoryClasses>;
  static MemoryByClass as_classes(const Counters& counters) {
    const auto of = [&](MemoryClass kind) { return counters[index(kind)].load(); };
    return {.weights = of(MemoryClass::weights),
            .versions = of(MemoryClass::versions),
            .gradients = of(MemoryClass::gradients),
            .optimizer = of(MemoryClass::optimizer),
            .activations = of(MemoryClass::activations),
            .buffers = of(MemoryClass::buffers)};
  }
  Counters committed_{}, held_{}, peak_{};
};

}  // namespace tandem
