// Faults on purpose: whatever happens to a frame, a run ends right, or says what was wrong.

#include "executor/ranks/fault.h"

#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/rank_threads.h"
#include "tests/support/sanitizers.h"
#include "tests/support/training.h"

namespace tandem {
namespace {

using testing::RankEnd;
using testing::RankThreads;
using testing::TrainingCase;
using namespace std::chrono_literals;

/// TANDEM_FAULT_RUNS asks for more than a test has time for.
int runs() {
  const char* const asked = std::getenv("TANDEM_FAULT_RUNS");
  return asked == nullptr ? 12 : std::atoi(asked);
}

/// Under sanitizers all takes longer.
int patience_ms() { return testing::kSanitized ? 1'000 : 400; }

bool is_named(const std::string& error) {
  for (const char* what : {"frame", "checksum", "rank", "deadlock", "closed"}) {
    if (error.find(what) != std::string::npos) return true;
  }
  return false;
}

TEST(Faults, EndRightOrAreNamed) {
  TrainingCase test{.schedule = "2bw", .devices = 3, .width = 2};
  test.guard = {.clip = ClipScope::global, .most_norm = 0.5};
  const Program program = lower(test.make());
  const Data data = testing::data_of(test);
  const std::vector<double> losses =
      train_on_cpu<float>(program, testing::setup_of<float>(test, program, data)).losses;
  std::mt19937_64 random(11);
  int harmless = 0, named = 0;
  for (int run = 0; run < runs(); ++run) {
    constexpr const char* kinds[] = {"drop", "delay", "duplicate", "corrupt", "stall"};
    const std::string fault = fmt::format("{}:frame={}", kinds[run % 5], random() % 60);
    const auto culprit = static_cast<std::int32_t>(random() % 3);
    SCOPED_TRACE(fmt::format("{} on rank {}", fault, culprit));
    FaultInjector faults(parse_fault(fault));
    // Stalls wait for the watchdog, and runs of this size for no longer than this.
    const auto watchdog = std::chrono::milliseconds(patience_ms());
    const RankThreads threads{
        .ranks = 3,
        .change_group =
            [&](std::int32_t rank, RankGroupSetup& group) {
              group.doubt = 100ms;
              group.beat = 20ms;
              if (rank == culprit) group.faults = &faults;
            },
        .change = [watchdog](std::int32_t,
                             TrainingSetup<float>& setup) { setup.watchdog = watchdog; }};
    const std::vector<RankEnd> ends = threads.train(test, program);
    if (ends.front().error.empty()) {
      EXPECT_EQ(ends.front().report.losses, losses);
      ++harmless;
      continue;
    }
    for (const RankEnd& end : ends) EXPECT_TRUE(is_named(end.error)) << '"' << end.error << '"';
    ++named;
  }
  EXPECT_GT(harmless, 0);  // delays
  EXPECT_GT(named, 0);
}

TEST(Faults, AreReadOrRefused) {
  EXPECT_EQ(parse_fault("corrupt:frame=17").at, 17);
  EXPECT_EQ(parse_fault("kill:op=0").kind, FaultKind::kill);
  for (const char* wrong : {"corrupt", "corrupt:frame=", "corrupt:frame=-1", "kill:frame=3", "x"})
    EXPECT_THROW(parse_fault(wrong), InputError) << wrong;
}

}  // namespace
}  // namespace tandem
