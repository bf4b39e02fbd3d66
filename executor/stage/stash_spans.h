#pragma once
// StashSpans: where a stage finds the parts of a stash, whole or in pieces.

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/check.h"

namespace tandem {

template <class U>
std::span<U> part(std::span<U> whole, std::int64_t first, std::int64_t size) {
  TANDEM_CHECK(0 <= first && first + size <= static_cast<std::int64_t>(whole.size()), first, size,
               whole.size());
  return whole.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(size));
}

/// A part of the stash, or of its block's: where it begins, and which piece it is.
struct StashPlace {
  std::int64_t first = 0;
  std::size_t piece = 0;
};

/// The memory of stashes: of a microbatch, whole or in pieces, and of the block at hand.
template <class T>
struct StashSpans {
  std::span<T> whole;
  std::span<const std::span<T>> pieces;
  std::span<T> block;

  std::span<T> part_of_stage(const StashPlace& place, std::int64_t size) const {
    if (pieces.empty()) return part(whole, place.first, size);
    return size > 0 ? part(pieces[place.piece], 0, size) : std::span<T>();
  }
};

}  // namespace tandem
