// Tiles and waves of products, counted by hand.

#include "simulator/cost/tiles.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

constexpr double kDeep = 1e9;  // what tiles take to begin and end is nothing beside it

TEST(TileWaste, IsNothingWhereNobodyKnowsTheDevice) {
  EXPECT_EQ(tile_waste({100, 100, 100}, 1, 0), 1.0);
}

TEST(TileWaste, IsNothingOfWholeWavesOfLargeTiles) {
  EXPECT_NEAR(tile_waste({256 * 10, 128 * 10, kDeep}, 1, 100), 1.0, 1e-6);
  EXPECT_NEAR(tile_waste({256 * 10, 128 * 5, kDeep}, 2, 100), 1.0, 1e-6);
}

TEST(TileWaste, AWaveThatIsHardlyBegunCostsAWhole) {
  // 101 tiles in waves of 100: with the depth in eight parts, the 8.08 waves are 9.
  EXPECT_NEAR(tile_waste({256 * 101, 128, kDeep}, 1, 100), 1.05 * 9 / 8.08, 1e-2);
  // Too shallow to be split: two waves, or smaller tiles that fill three of them better.
  const double whole = tile_waste({256 * 101, 128, 512}, 1, 100);
  EXPECT_GT(whole, 1.3);
  EXPECT_GT(whole, tile_waste({256 * 100, 128, 512}, 1, 100));
}

TEST(TileWaste, ShallowProductsArePartlyBeginningsAndEnds) {
  const double shallow = tile_waste({25600, 12800, 384}, 1, 100);
  const double deep = tile_waste({25600, 12800, 3840}, 1, 100);
  EXPECT_NEAR(shallow, 2.0, 1e-6);
  EXPECT_NEAR(deep, 1.1, 1e-6);
}

TEST(TileWaste, TilesAtTheEdgeArePartEmpty) {
  EXPECT_GT(tile_waste({65, 64, kDeep}, 1, 1), 1.5);
  EXPECT_LT(tile_waste({64, 64, kDeep}, 1, 1), 1.7);
}

}  // namespace
}  // namespace tandem
