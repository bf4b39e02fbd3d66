#include "simulator/cost/tiles.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace tandem {

namespace {

/// Sides of a tile, and the share of the peak that multiprocessors reach with it: the smaller it
/// is, the more often each number is read.
struct Tile {
  double rows, columns, reached;
};
constexpr std::array kTiles{Tile{256, 128, 1.0}, Tile{128, 256, 1.0}, Tile{128, 128, 0.95},
                            Tile{128, 64, 0.8},  Tile{64, 128, 0.8},  Tile{64, 64, 0.65}};
constexpr std::array kSplits{1.0, 2.0, 4.0, 8.0};  // of the depth
constexpr double kLeastDepth = 512;                // of a part
constexpr double kSplitCost = 1.05;                // parts are added up
/// To begin a tile and to end it takes as long as so much more of depth: on an A100 4 stages of 32
/// are filled before the first product, and a tile of 256 x 128 is written in 3.5 us, in which a
/// multiprocessor computes 150 more of it; the rest are latencies.
constexpr double kEnds = 384;

}  // namespace

double tile_waste(const ProductShape& shape, double count, std::int32_t multiprocessors) {
  if (multiprocessors == 0) return 1.0;
  double least = std::numeric_limits<double>::infinity();
  for (const Tile& tile : kTiles) {
    const double tiles =
        count * std::ceil(shape.rows / tile.rows) * std::ceil(shape.columns / tile.columns);
    for (const double split : kSplits) {
      if (split > 1.0 && shape.depth / split < kLeastDepth) break;
      const double each = tile.rows * tile.columns * (shape.depth / split + kEnds) / tile.reached *
                          (split > 1.0 ? kSplitCost : 1.0);
      if (tiles * split * each >= least) continue;  // without a last wave that is part empty
      least = std::min(least, std::ceil(tiles * split / multiprocessors) * multiprocessors * each);
    }
  }
  return least / (count * shape.rows * shape.columns * shape.depth);
}

}  // namespace tandem
