// What cublasLt is told in whole runs: how many multiprocessors a share of a GPU has, and nothing
// where a device has all that there are.

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/executor/cuda/fake_cublaslt.h"
#include "tests/executor/cuda/recorded/recorded_run.h"

namespace tandem::cuda::recorded {
namespace {

using cuda::testing::cublaslt_fake::fake;
using tandem::testing::TrainingCase;

TEST(CudaShares, TellProductsTheirMultiprocessors) {
  const TrainingCase test = TrainingCase::on("1f1b", 3);
  const Program program = lower(test.make());
  using Told = std::set<std::int32_t>;  // 0: nothing
  for (const auto& [machine, told] : std::vector<std::pair<MachineSetup, Told>>{
           {{.gpus = 1}, {40}},
           {{.gpus = 2}, {0, 64}},  // a whole one, and shares
           {{.gpus = 3}, {0}},
           {{.gpus = 1, .has_green_contexts = false}, {0}}}) {
    SCOPED_TRACE(fmt::format("{} GPUs", machine.gpus));
    fake.multiprocessors_asked.clear();
    fake.multiprocessors_multiplied.clear();
    const RecordedRun run = run_recorded(test, program, machine);
    ASSERT_TRUE(run.report) << run.error;
    EXPECT_EQ(fake.multiprocessors_asked, told);
    EXPECT_EQ(fake.multiprocessors_multiplied, told);
  }
}

}  // namespace
}  // namespace tandem::cuda::recorded
