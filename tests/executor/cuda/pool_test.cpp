// Pool: what was lent comes back, and is lent again.

#include "executor/cuda/pool.h"

#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace tandem::cuda {
namespace {

TEST(Pool, MakesOnlyWhatIsNotThere) {
  int made = 0;
  Pool<int> pool([&made] { return ++made; });
  std::shared_ptr<int> first = pool.lend();
  EXPECT_EQ(*first, 1);
  EXPECT_EQ(*pool.lend(), 2) << "the first is held";
  EXPECT_EQ(*pool.lend(), 2) << "back again";
  std::shared_ptr<int> also = first;
  first.reset();
  const std::shared_ptr<int> second = pool.lend();
  EXPECT_EQ(*second, 2) << "the first has another holder";
  std::thread([last = std::move(also)]() mutable { last.reset(); }).join();
  EXPECT_EQ(*pool.lend(), 1) << "let go by another thread";
  EXPECT_EQ(made, 2);
}

TEST(Pool, MayEndBeforeWhatItLent) {
  auto pool = std::make_unique<Pool<std::vector<int>>>([] { return std::vector<int>{1, 2}; });
  const std::shared_ptr<std::vector<int>> lent = pool->lend();
  pool.reset();
  EXPECT_EQ(lent->size(), 2u);
}

}  // namespace
}  // namespace tandem::cuda
