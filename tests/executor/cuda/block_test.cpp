// The frame of the kernels: sums over a block, and that a race in a body shows on the CPU.

#include "executor/cuda/kernels/block.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "tests/executor/cuda/machines.h"
#include "tests/executor/cuda/planted_races.h"

namespace tandem::cuda::testing {
namespace {

/// Sum and maximum of a row, by a block each.
struct RowSums {
  std::int64_t width;
  const float* x;
  float *sums, *peaks;
  template <class Block>
  void operator()(Block& block) const {
    float* scratch = block.template shared<float>(block.threads());
    const auto value = [&](std::int64_t i) { return x[block.index() * width + i]; };
    const float sum = sum_all(block, scratch, width, value);
    const float peak = largest_of_all(block, scratch, width, -1000.0F, value);
    block.each_thread([&](int thread) {
      if (thread == 0) sums[block.index()] = sum, peaks[block.index()] = peak;
    });
  }
};

TEST(Block, SumsAndMaximaInAnOrderOfTheirOwn) {
  for (const std::int64_t width : {0, 1, 2, 255, 256, 257, 1000}) {
    const auto x = random_numbers<float>(3 * width, 1);
    EXPECT_TRUE(same_bits_in_all_runs<CpuMachine>([&](CpuMachine& machine, Outputs& outputs) {
      auto sums = machine.poisoned<float>(3), peaks = machine.poisoned<float>(3);
      machine.grid().run({.blocks = 3, .shared_bytes = shared_bytes<float>(kThreads)},
                         RowSums{width, x.data(), sums.values.data(), peaks.values.data()});
      for (std::size_t row = 0; row < 3; ++row) {
        double sum = 0.0;
        float peak = -1000.0F;
        for (std::int64_t i = 0; i < width; ++i) {
          const float value =
              x[row * static_cast<std::size_t>(width) + static_cast<std::size_t>(i)];
          sum += static_cast<double>(value);
          peak = std::max(peak, value);
        }
        EXPECT_NEAR(static_cast<double>(sums.values[row]), sum, 1e-4);
        EXPECT_EQ(peaks.values[row], peak);
      }
      outputs.keep(sums.values);
    }));
  }
}

TEST(Block, EachElementIsVisitedOnceWhateverTheGrid) {
  struct Count {
    int* visits;
    void operator()(std::int64_t i) const { ++visits[i]; }
  };
  for (const std::int64_t count : {0, 1, 256, 257, 5000}) {
    for (const std::int64_t blocks : {1, 2, 7}) {
      std::vector<int> visits(static_cast<std::size_t>(count));
      CpuGrid(Order::shuffled).run({.blocks = blocks}, EachElement<Count>{count, {visits.data()}});
      EXPECT_EQ(visits, std::vector<int>(visits.size(), 1));
    }
  }
}

template <class Body>
bool runs_alike(std::int64_t blocks) {
  return same_bits_in_all_runs<CpuMachine>([blocks](CpuMachine& machine, Outputs& outputs) {
    auto y = machine.put(std::vector<float>(kThreads));
    machine.grid().run({.blocks = blocks, .shared_bytes = shared_bytes<float>(kThreads)},
                       Body{y.values.data()});
    outputs.keep(y.values);
  });
}

TEST(Block, RacesShow) {
  EXPECT_FALSE(runs_alike<ForgetsABarrier>(1));
  EXPECT_FALSE(runs_alike<WritesOnePlace>(1));
  EXPECT_FALSE(runs_alike<BlocksAddToOnePlace>(100));
}

/// Takes what no thread has written.
struct ReadsTheUnwritten {
  float* y;
  template <class Block>
  void operator()(Block& block) const {
    const float* shared = block.template shared<float>(1);
    const auto kept = block.template per_thread<float>();
    block.each_thread([&](int thread) { y[thread] = thread == 0 ? shared[0] : kept[thread]; });
  }
};

TEST(Block, MemoryThatNobodyWroteIsNotANumber) {
  std::vector<float> y(kThreads);
  CpuGrid grid(Order::ascending);
  grid.run({.blocks = 1, .shared_bytes = 16}, ReadsTheUnwritten{y.data()});
  for (const float value : y) EXPECT_TRUE(std::isnan(value));
  EXPECT_TRUE(std::isnan(grid.workspace<double>(1)[0]));
  EXPECT_TRUE(std::isnan(to_float(CpuMachine(Order::ascending).poisoned<Bf16>(1).values[0])));
}

TEST(BlockDeathTest, SharedMemoryIsWhatTheShapeSays) {
  std::vector<float> y(kThreads);
  CpuGrid grid(Order::ascending);
  EXPECT_DEATH(grid.run({.blocks = 1}, ReadsTheUnwritten{y.data()}), "check failed");
}

}  // namespace
}  // namespace tandem::cuda::testing
