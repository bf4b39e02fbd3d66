#pragma once
// An edge of a product, computed through a full tile. Everything is inlined into the caller, and so
// compiled for its instruction set.

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tandem::cpu {

/// Stands in for what a tile at the edge of C has less than others: the tile writes here, and what
/// C has of it is copied. `Tile` has c, c_row, adds and bias, as in gemm_blocked.h.
template <class T, std::int64_t kRows, std::int64_t kColumns>
class EdgeTile {
 public:
  /// Lets `tile`, of which C has `rows` × `columns`, compute here.
  template <class Tile>
  [[gnu::always_inline]] inline EdgeTile(Tile& tile, std::int64_t rows, std::int64_t columns)
      : c_(tile.c),
        c_row_(tile.c_row),
        rows_(rows),
        bytes_(static_cast<std::size_t>(columns) * sizeof(T)) {
    if (tile.adds) {
      for (std::int64_t row = 0; row < rows; ++row)
        std::memcpy(sums_ + row * kColumns, c_ + row * c_row_, bytes_);
    }
    if (tile.bias != nullptr) {
      std::memcpy(bias_, tile.bias, bytes_);
      tile.bias = bias_;
    }
    tile.c = sums_;
    tile.c_row = kColumns;
  }
  EdgeTile(const EdgeTile&) = delete;
  EdgeTile& operator=(const EdgeTile&) = delete;

  /// Once the tile has run.
  [[gnu::always_inline]] inline void copy_back() const {
    for (std::int64_t row = 0; row < rows_; ++row)
      std::memcpy(c_ + row * c_row_, sums_ + row * kColumns, bytes_);
  }

 private:
  alignas(64) T sums_[kRows * kColumns] = {};
  alignas(64) T bias_[kColumns] = {};
  T* const c_;
  const std::int64_t c_row_, rows_;
  const std::size_t bytes_;
};

}  // namespace tandem::cpu
