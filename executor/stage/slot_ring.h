#pragma once
// SlotRing: the buffers of one kind of one stage, allocated once before the first batch. Use q
// takes slot q mod count; taking a slot that is still in use is an error, so a program with a wait
// or a slot too few fails instead of computing on.

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/base/error.h"
#include "executor/stage/memory_meter.h"

namespace tandem {

/// One slot may be taken, landed and released by different threads; each of these happens-before
/// what the program orders after it. `B` is the backend, `U` what the slots hold.
template <class B, class U = typename B::Scalar>
class SlotRing {
 public:
  using Elements = std::span<U>;
  using Mark = typename B::Mark;

  /// One use of a slot.
  struct Use {
    SlotRing& ring;
    std::int64_t use;
    Elements acquire() const { return ring.acquire(use); }
    Elements held() const { return ring.held(use); }
    void release() const { ring.release(use); }
  };

  SlotRing() = default;
  template <class Allocate>
  SlotRing(SlotKind kind, ReplicaId replica, std::int32_t count, std::int64_t elements,
           MemoryMeter& meter, Allocate allocate)
      : kind_(kind), replica_(replica), meter_(&meter) {
    for (std::int32_t i = 0; i < count; ++i)
      slots_.push_back(std::make_unique<Slot>(allocate(elements)));
  }

  std::int64_t slots() const { return std::ssize(slots_); }

  /// The slot of use `q`, free until now. Throws DeviceError when its last use has not ended.
  Elements acquire(std::int64_t q) {
    Slot& slot = of(q);
    std::int64_t holder = kFree;
    if (!slot.holder.compare_exchange_strong(holder, q, std::memory_order_acq_rel)) {
      throw DeviceError(
          fmt::format("stage {}: {} slot {} of {} is taken for use {} while use {} still needs it",
                      index(replica_), name(kind_), position(q), slots_.size(), q, holder));
    }
    const MemoryClass kind = class_of(kind_, static_cast<std::int64_t>(position(q)));
    if (!slot.committed) meter_->commit(kind, slot.buffer.bytes());
    slot.committed = true;
    meter_->acquire(kind, slot.buffer.bytes());
    return slot.buffer.elements();
  }

  /// Whether use `q` may acquire its slot.
  bool is_free(std::int64_t q) const {
    return of(q).holder.load(std::memory_order_acquire) == kFree;
  }
  bool holds(std::int64_t q) const { return of(q).holder.load(std::memory_order_acquire) == q; }

  /// The slot that use `q` holds. Throws DeviceError when it does not.
  Elements held(std::int64_t q) {
    Slot& slot = of(q);
    const std::int64_t holder = slot.holder.load(std::memory_order_acquire);
    if (holder != q) {
      throw DeviceError(fmt::format(
          "stage {}: {} of use {} is not in its slot, which {}", index(replica_), name(kind_), q,
          holder == kFree ? "is free" : fmt::format("holds use {}", holder)));
    }
    return slot.buffer.elements();
  }

  void release(std::int64_t q) {
    held(q);
    Slot& slot = of(q);
    slot.landed.store(kFree, std::memory_order_relaxed);
    meter_->release(class_of(kind_, static_cast<std::int64_t>(position(q))), slot.buffer.bytes());
    slot.holder.store(kFree, std::memory_order_release);
  }

  /// Ends the need of one of `users`, all on one thread; that of the last frees the slot.
  void release(std::int64_t q, std::int32_t users) {
    held(q);
    Slot& slot = of(q);
    if (++slot.ended < users) return;
    slot.ended = 0;
    release(q);
  }

  /// What another device sends to use `q`'s slot lands there behind the fence, which that device
  /// has raised; start and end of the sending are kept for the timeline.
  typename B::Fence& fence(std::int64_t q) { return of(q).fence; }
  void land(std::int64_t q, const Mark& start, const Mark& end) {
    Slot& slot = of(q);
    slot.sent_start = start;
    slot.sent_end = end;
    slot.landed.store(q, std::memory_order_release);
  }
  bool has_landed(std::int64_t q) const {
    return of(q).landed.load(std::memory_order_acquire) == q;
  }
  const Mark& sent_start(std::int64_t q) const { return of(q).sent_start; }
  const Mark& sent_end(std::int64_t q) const { return of(q).sent_end; }

 private:
  static constexpr std::int64_t kFree = -1;
  struct Slot {
    using Buffer = typename B::template Buffer<U>;
    explicit Slot(Buffer memory) : buffer(std::move(memory)) {}
    Buffer buffer;
    typename B::Fence fence;
    std::atomic<std::int64_t> holder{kFree}, landed{kFree};
    bool committed = false;  // written only by the holder
    std::int32_t ended = 0;  // of the needs of several
    Mark sent_start{}, sent_end{};
  };

  std::size_t position(std::int64_t q) const { return static_cast<std::size_t>(q) % slots_.size(); }
  Slot& of(std::int64_t q) const {
    if (slots_.empty()) {
      throw DeviceError(
          fmt::format("stage {}: no {} slots were planned", index(replica_), name(kind_)));
    }
    return *slots_[position(q)];
  }

  SlotKind kind_ = SlotKind::stash;
  ReplicaId replica_{};
  MemoryMeter* meter_ = nullptr;
  std::vector<std::unique_ptr<Slot>> slots_;
};

}  // namespace tandem
