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

  /// Pieces for the stash of a microbatch. Throws DeviceError where `most` stashes of the stage are
  /// held already, or no piece of a size is free.
  const Stash& acquire(ReplicaId replica, std::int64_t microbatch,
                       std::span<const std::int64_t> sizes, std::int32_t most) {
    std::map<std::int64_t, Held>& of_replica = held_[replica];
    if (std::ssize(of_replica) >= most) {
      throw DeviceError(
          fmt::format("stage {}: all {} stash slots are taken as microbatch {} needs one",
                      index(replica), most, microbatch));
    }
    Held& held = of_replica[microbatch];
    for (const std::int64_t size : sizes) held.pieces.push_back(take(size));
    for (Piece& piece : held.pieces) held.spans.push_back(piece.buffer.elements());
    return held.spans;
  }

  /// Throws DeviceError when the microbatch has none.
  const Stash& held(ReplicaId replica, std::int64_t microbatch) const {
    const auto of_replica = held_.find(replica);
    if (of_replica != held_.end()) {
      const auto found = of_replica->second.find(microbatch);
      if (found != of_replica->second.end()) return found->second.spans;
    }
    throw DeviceError(
        fmt::format("stage {}: there is no stash of microbatch {}", index(replica), microbatch));
  }

  void release(ReplicaId replica, std::int64_t microbatch) {
    held(replica, microbatch);
    std::map<std::int64_t, Held>& of_replica = held_[replica];
    for (Piece& piece : of_replica[microbatch].pieces) {
      const auto size = std::ssize(piece.buffer.elements());
      meter_->release(&MemoryByClass::activations, piece.buffer.bytes());
      free_[size].push_back(std::move(piece));
    }
    of_replica.erase(microbatch);
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
  std::map<ReplicaId, std::map<std::int64_t, Held>> held_;
};

}  // namespace tandem
