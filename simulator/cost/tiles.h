#pragma once
// How much of a device a matrix product can use, by its shape: products are computed in tiles, and
// tiles in waves.

#include <cstdint>

namespace tandem {

/// (rows × depth)(depth × columns).
struct ProductShape {
  double rows = 0, columns = 0, depth = 0;
};

/// Work of `count` such products on `multiprocessors` over that of the products themselves: of the
/// last wave some multiprocessors have nothing to do, tiles at the edges are part empty, small
/// tiles reach less of the peak, and each takes a while to begin and end. The best of the tiles
/// that libraries choose from, the depth split among several where there are few. 1 where
/// `multiprocessors` is 0: not known. (NVIDIA, "Matrix Multiplication Background User's Guide":
/// tile and wave quantization.)
double tile_waste(const ProductShape& shape, double count, std::int32_t multiprocessors);

}  // namespace tandem
