// Arena: where buffers lie before there is memory.

#include "executor/arena.h"

#include <array>

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(Arena, PlacesBuffersApartAndAligned) {
  Arena<float> arena;
  const auto one = arena.place(1), none = arena.place(0), full = arena.place(64),
             more = arena.place(65), last = arena.place(3);
  EXPECT_EQ(arena.size(), 5 * 256);
  EXPECT_EQ(more.bytes(), 260);
  EXPECT_EQ(none.bytes(), 0);
  alignas(256) std::array<std::byte, 5 * 256> memory{};
  arena.put_at(memory.data());
  const auto offset = [&](const Arena<float>::Buffer& buffer) {
    return std::as_bytes(buffer.elements()).data() - memory.data();
  };
  EXPECT_EQ(offset(one), 0);
  EXPECT_EQ(offset(full), 256);
  EXPECT_EQ(offset(more), 512);
  EXPECT_EQ(offset(last), 1024);
  EXPECT_EQ(last.elements().size(), 3u);
  EXPECT_TRUE(none.elements().empty());
}

TEST(ArenaDeathTest, HasNoMemoryBeforeItIsThereAndNoPlaceAfter) {
  Arena<float> arena;
  const auto buffer = arena.place(4);
  EXPECT_DEATH(static_cast<void>(buffer.elements()), "check failed");
  alignas(256) std::array<std::byte, 256> memory{};
  arena.put_at(memory.data());
  EXPECT_DEATH(arena.place(4), "check failed");
}

}  // namespace
}  // namespace tandem
