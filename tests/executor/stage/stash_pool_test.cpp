#include "executor/stage/stash_pool.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem {
namespace {

using ::testing::HasSubstr;

/// A backend as far as pools know one.
struct Vectors {
  using Scalar = float;
  template <class T>
  struct Buffer {
    std::vector<T> values;
    std::span<T> elements() { return values; }
    Bytes bytes() const { return static_cast<Bytes>(values.size() * sizeof(T)); }
  };
};

struct Pool {
  explicit Pool(const Pieces& pieces)
      : stashes(pieces, meter, [](std::int64_t size) {
          return Vectors::Buffer<float>{std::vector<float>(static_cast<std::size_t>(size))};
        }) {}
  const auto& acquire(std::uint16_t replica, std::int64_t microbatch,
                      const std::vector<std::int64_t>& sizes, std::int32_t most = 9) {
    return stashes.acquire(ReplicaId{replica}, microbatch, sizes, most);
  }

  MemoryMeter meter;
  StashPool<Vectors> stashes;
};

TEST(StashPool, GivesPiecesOfTheSizesAndTakesThemBack) {
  Pool pool({{3, 2}, {5, 1}});
  const auto& first = pool.acquire(0, 7, {5, 3});
  EXPECT_EQ(first[0].size(), 5U);
  EXPECT_EQ(first[1].size(), 3U);
  const float* const piece = first[1].data();
  EXPECT_EQ(pool.stashes.held(ReplicaId{0}, 7)[1].data(), piece);
  EXPECT_NE(pool.acquire(1, 7, {3})[0].data(), piece);
  pool.stashes.release(ReplicaId{0}, 7);
  EXPECT_EQ(pool.acquire(1, 8, {3})[0].data(), piece);  // of another stage
}

TEST(StashPool, CountsWhatWasEverUsedAndWhatIs) {
  Pool pool({{3, 2}, {5, 1}});
  pool.acquire(0, 0, {3});
  pool.stashes.release(ReplicaId{0}, 0);
  pool.acquire(0, 1, {3});
  EXPECT_EQ(pool.meter.high_water().activations, 12);
  pool.acquire(0, 2, {3, 5});
  EXPECT_EQ(pool.meter.high_water().activations, 44);
  EXPECT_EQ(pool.meter.peak_held().activations, 44);
}

/// What a DeviceError says.
template <class Use>
std::string refusal_of(const Use& use) {
  try {
    use();
  } catch (const DeviceError& error) {
    return error.what();
  }
  return "none";
}

// What stays of a stash that is made again is held beside it.
TEST(StashPool, TellsContextsFromStashes) {
  Pool pool(Pieces{{3, 2}});
  const auto& context =
      pool.stashes.acquire({ReplicaId{0}, SlotKind::context}, 7, std::vector<std::int64_t>{3}, 1);
  EXPECT_NE(pool.acquire(0, 7, {3})[0].data(), context[0].data());
  pool.stashes.release(ReplicaId{0}, 7);
  EXPECT_EQ(pool.stashes.held({ReplicaId{0}, SlotKind::context}, 7)[0].data(), context[0].data());
  EXPECT_THAT(refusal_of([&] {
                pool.stashes.acquire({ReplicaId{0}, SlotKind::context}, 8,
                                     std::vector<std::int64_t>{3}, 1);
              }),
              HasSubstr("all 1 context slots"));
  EXPECT_THAT(refusal_of([&] { pool.stashes.held({ReplicaId{0}, SlotKind::context}, 8); }),
              HasSubstr("there is no context of microbatch 8"));
}

TEST(StashPool, RefusesWhatWasNotCounted) {
  Pool pool(Pieces{{3, 2}});
  pool.acquire(4, 0, {3}, 1);
  EXPECT_THAT(refusal_of([&] { pool.acquire(4, 1, {3}, 1); }), HasSubstr("all 1 stash slots"));
  pool.acquire(5, 0, {3});
  EXPECT_THAT(refusal_of([&] { pool.acquire(5, 1, {3}); }), HasSubstr("all pieces of 3 numbers"));
  EXPECT_THAT(refusal_of([&] { pool.stashes.held(ReplicaId{5}, 2); }),
              HasSubstr("stage 5: there is no stash of microbatch 2"));
  EXPECT_THAT(refusal_of([&] { pool.stashes.release(ReplicaId{6}, 0); }), HasSubstr("no stash"));
}

}  // namespace
}  // namespace tandem
