// Arena: where buffers lie before there is memory.

#include "executor/backend/arena.h"

#include <array>
#include <cstdint>

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(Arena, PlacesBuffersApartAndAligned) {
  Arena arena;
  const auto one = arena.place<float>(1), none = arena.place<float>(0),
             full = arena.place<float>(64), more = arena.place<float>(65);
  const auto last = arena.place<std::uint16_t>(3);
  EXPECT_EQ(arena.size(), 5 * 256);
  EXPECT_EQ(more.bytes(), 260);
  EXPECT_EQ(none.bytes(), 0);
  alignas(256) std::array<std::byte, 5 * 256> memory{};
  arena.put_at(memory.data());
  const auto offset = [&](const auto& buffer) {
    return std::as_bytes(buffer.elements()).data() - memory.data();
  };
  EXPECT_EQ(offset(one), 0);
  EXPECT_EQ(offset(full), 256);
  EXPECT_EQ(offset(more), 512);
  EXPECT_EQ(offset(last), 1024);
  EXPECT_EQ(last.elements().size(), 3u);
  EXPECT_EQ(last.bytes(), 6);
  EXPECT_TRUE(none.elements().empty());
}

TEST(ArenaDeathTest, HasNoMemoryBeforeItIsThereAndNoPlaceAfter) {
  Arena arena;
  const auto buffer = arena.place<float>(4);
  EXPECT_DEATH(static_cast<void>(buffer.elements()), "check failed");
  alignas(256) std::array<std::byte, 256> memory{};
  arena.put_at(memory.data());
  EXPECT_DEATH(arena.place<float>(4), "check failed");
}

}  // namespace
}  // namespace tandem
