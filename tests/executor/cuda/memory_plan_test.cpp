// What a run plans of the memory of GPUs, and that one that does not fit is refused: by shortages
// planted to the byte.

#include "executor/cuda/memory_plan.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/support/training.h"

namespace tandem::cuda {
namespace {

using tandem::testing::TrainingCase;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr Bytes kMiB = Bytes{1} << 20;

TEST(MemoryPlan, GivesKernelsOfComputationAndOfSumsWhatTheyWorkWith) {
  TrainingCase test{.schedule = "1f1b", .devices = 3};
  test.model.tied = false;
  const StreamWorkspace each{.sums = 3, .computation = 1000};
  for (const Bytes bytes : planned_workspace(lower(test.make()), each)) EXPECT_EQ(bytes, 1000);
  test.guard = {.clip = ClipScope::global};
  for (const Bytes bytes : planned_workspace(lower(test.make()), each)) EXPECT_EQ(bytes, 1003);
}

/// Two devices on GPU 0, one on GPU 2.
std::vector<PlannedDevice> three_devices() {
  return {{.gpu = 0, .slots = {.weights = 10 * kMiB, .versions = 20 * kMiB}, .workspace = 1 * kMiB},
          {.gpu = 2, .slots = {.optimizer = 7 * kMiB}},
          {.gpu = 0, .slots = {.gradients = 3 * kMiB, .buffers = 2 * kMiB}, .workspace = 4 * kMiB}};
}

std::string refusal(const std::vector<Bytes>& free) {
  try {
    check_room(three_devices(), free);
  } catch (const InfeasibleError& error) {
    return error.what();
  }
  return "";
}

TEST(MemoryPlan, FitsToTheByte) {
  const Bytes first = 40 * kMiB + kBesidePlan, last = 7 * kMiB + kBesidePlan;
  EXPECT_EQ(refusal({first, 0, last}), "") << "nothing is wanted of GPU 1";
  EXPECT_THAT(refusal({first - 1, 0, last}), HasSubstr("GPU 0: 2 devices need 40.0 MiB"));
  EXPECT_THAT(refusal({first - 1, 0, last}), Not(HasSubstr("GPU 2:")));
  EXPECT_THAT(refusal({first, 0, last - 1}), HasSubstr("GPU 2: 1 device needs 7.0 MiB"));
  EXPECT_THAT(refusal({first - 1, 0, last - 1}),
              ::testing::AllOf(HasSubstr("GPU 0: 2"), HasSubstr("\nGPU 2: 1")));
}

TEST(MemoryPlan, ShowsTheClassesOfEveryDeviceWhereItDoesNotFit) {
  // Each of the two would fit alone.
  const std::string text = refusal({31 * kMiB + kBesidePlan, 0, 7 * kMiB + kBesidePlan});
  std::vector<std::string> rows;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    rows.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  ASSERT_EQ(rows.size(), 5u);
  EXPECT_EQ(
      rows[0],
      "GPU 0: 2 devices need 40.0 MiB, and 512.0 MiB beside the plan, but 543.0 MiB are free");
  EXPECT_THAT(rows[1], HasSubstr("device  GPU     weights"));
  EXPECT_THAT(rows[1], HasSubstr("workspace"));
  for (const char* part : {"10.0 MiB", "20.0 MiB", " 0 B", "31.0 MiB"})
    EXPECT_THAT(rows[2], HasSubstr(part));
  EXPECT_THAT(rows[3], ::testing::MatchesRegex(" +1 +2 .*7.0 MiB.* 7.0 MiB"));
  EXPECT_THAT(rows[4], HasSubstr("9.0 MiB"));
}

}  // namespace
}  // namespace tandem::cuda
