// The kernels of executor/cuda by threads that work at once. Built with the thread sanitizer this
// is a check for races; else it compares results and bits alone.

#include "tests/executor/cuda/racing_grid.h"

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "tests/executor/cuda/kernel_tests.h"
#include "tests/executor/cuda/machines.h"
#include "tests/executor/cuda/planted_races.h"

namespace tandem::cuda::testing {
namespace {

using RacingMachine = MachineOfCpu<RacingGrid>;
using RacingSettings = ::testing::Types<Setting<RacingMachine, float>>;
INSTANTIATE_TYPED_TEST_SUITE_P(AtOnce, CudaKernels, RacingSettings);

template <class Body>
void race(std::int64_t blocks) {
  std::vector<float> y(kThreads);
  for (const int workers : RacingGrid::runs()) {
    RacingGrid(workers).run({.blocks = blocks, .shared_bytes = shared_bytes<float>(kThreads)},
                            Body{y.data()});
  }
}

TEST(RacingGridDeathTest, PlantedRacesAreSeen) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(race<ForgetsABarrier>(1), "data race");
  EXPECT_DEATH(race<WritesOnePlace>(1), "data race");
  EXPECT_DEATH(race<WritesTheSame>(1), "data race");
  EXPECT_DEATH(race<ForgetsTheBarrierOfRead>(1), "data race");
  EXPECT_DEATH(race<BlocksAddToOnePlace>(2), "data race");
}

}  // namespace
}  // namespace tandem::cuda::testing
