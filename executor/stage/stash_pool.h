#pragma once
// StashPool: what the stages of a device keep for their backwards, in pieces that they take from
// one another's. Allocated once before the first batch; a program that holds more at once than was
// counted fails instead of computing on.

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/memory/memory.h"
#include "executor/stage/memory_meter.h"

namespace tandem {

/// Used by its device's thread only. `B` is the backend.
template <class B>
class StashPool {
 public:
  using T = typename B::Scalar;
  /// A stash: its pieces, in the order of StageSizes::stash_pieces.
  using Stash = std::vector<std::span<T>>;

  StashPool() = default;
  /// `pieces`: how many of each size, in elements.
  template <class Allocate>
  StashPool(const Pieces& pieces, MemoryMeter& meter, Allocate allocate) : meter_(&meter) {
    for (const auto& [size, count] : pieces) {
      for (std::int64_t i = 0; i < count; ++i) free_[size].push_back({.buffer = allocate(size)});
    }
  }

  /// Whose pieces, and for what: a stash, or the context that stays where that is made again.
  struct Owner {
    // NOLINTNEXTLINE(google-explicit-constructor): mostly its stash
    Owner(ReplicaId of, SlotKind what = SlotKind::stash) : replica(of), kind(what) {}
    ReplicaId replica;
    SlotKind kind;
    friend auto operator<=>(const Owner&, const Owner&) = default;
  };

  /// Pieces for the stash of a microbatch. Throws DeviceError where the owner holds `most` already,
  /// or no piece of a size is free.
  const Stash& acquire(Owner owner, std::int64_t microbatch, std::span<const std::int64_t> sizes,
                       std::int32_t most) {
    std::map<std::int64_t, Held>& of_owner = held_[owner];
    if (std::ssize(of_owner) >= most) {
      throw DeviceError(
          fmt::format("stage {}: all {} {} slots are taken as microbatch {} needs one",
                      index(owner.replica), most, name(owner.kind), microbatch));
    }
    Held& held = of_owner[microbatch];
    for (const std::int64_t size : sizes) held.pieces.push_back(take(size));
    for (Piece& piece : held.pieces) held.spans.push_back(piece.buffer.elements());
    return held.spans;
  }

  /// Throws DeviceError when the microbatch has none.
  const Stash& held(Owner owner, std::int64_t microbatch) const {
    const auto of_owner = held_.find(owner);
    if (of_owner != held_.end()) {
      const auto found = of_owner->second.find(microbatch);
      if (found != of_owner->second.end()) return found->second.spans;
    }
    throw DeviceError(fmt::format("stage {}: there is no {} of microbatch {}", index(owner.replica),
                                  name(owner.kind), microbatch));
  }

  void release(Owner owner, std::int64_t microbatch) {
    held(owner, microbatch);
    std::map<std::int64_t, Held>& of_owner = held_[owner];
    for (Piece& piece : of_owner[microbatch].pieces) {
      const auto size = std::ssize(piece.buffer.elements());
      meter_->release(&MemoryByClass::activations, piece.buffer.bytes());
      free_[size].push_back(std::move(piece));
    }
    of_owner.erase(microbatch);
  }

 private:
  struct Piece {
    typename B::template Buffer<T> buffer;
    bool committed = false;
  };
  struct Held {
    std::vector<Piece> pieces;
    Stash spans;
  };

  /// The one that was free last: it may still be in a cache.
  Piece take(std::int64_t size) {
    std::vector<Piece>& free = free_[size];
    if (free.empty())
      throw DeviceError(fmt::format("all pieces of {} numbers of stashes are taken", size));
    Piece piece = std::move(free.back());
    free.pop_back();
    if (!piece.committed) meter_->commit(&MemoryByClass::activations, piece.buffer.bytes());
    piece.committed = true;
    meter_->acquire(&MemoryByClass::activations, piece.buffer.bytes());
    return piece;
  }

  MemoryMeter* meter_ = nullptr;
  std::map<std::int64_t, std::vector<Piece>> free_;  // by size
  std::map<Owner, std::map<std::int64_t, Held>> held_;
};

}  // namespace tandem
