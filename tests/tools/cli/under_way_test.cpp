// What the process says it is working at.

#include "tools/cli/under_way.h"

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "core/base/error.h"

namespace tandem::tools {
namespace {

class ProcessUnderWay : public ::testing::Test {
 protected:
  ProcessUnderWay() { listen_to_progress(&under_way_); }
  ~ProcessUnderWay() override { listen_to_progress(nullptr); }

  std::string look() {
    std::string text;
    under_way_.look([&](const std::string& what) { text = what; });
    return text;
  }

  int idle_ = 0;
  UnderWay under_way_{[this] { ++idle_; }};
};

TEST_F(ProcessUnderWay, ShowsTheFirstThatCountsElseTheLast) {
  EXPECT_EQ(look(), "");
  {
    const Activity outer("checking");
    EXPECT_EQ(look(), "checking");
    const Activity inner("reading");
    EXPECT_EQ(look(), "reading");
    {
      const Activity counts("trying plans", 20);
      const Activity also("trying cuts", 5);
      counts.step(3);
      EXPECT_EQ(look(), "trying plans: 3 of 20");
    }
    EXPECT_EQ(idle_, 0);
    outer.say([] { return std::string("3 of 4, 1.2 a second"); });
    EXPECT_EQ(look(), "3 of 4, 1.2 a second");
  }
  EXPECT_EQ(look(), "");
  EXPECT_EQ(idle_, 1);
}

TEST_F(ProcessUnderWay, EndsWhereItIsAskedTo) {
  const Activity progress("writing");
  progress.step();
  under_way_.ask_for_end();
  EXPECT_THROW(progress.step(), Interrupted);
}

TEST(SilenceOfACommand, IsBrokenAgainAndAgain) {
  std::atomic<int> spoken = 0;
  const Silence silence(std::chrono::milliseconds(1), [&] { ++spoken; });
  while (spoken < 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST(SilenceOfACommand, EndsAtOnce) {
  std::atomic<int> spoken = 0;
  {
    Silence silence(std::chrono::hours(1), [&] { ++spoken; });
    silence.broken();
  }
  EXPECT_EQ(spoken, 0);
}

}  // namespace
}  // namespace tandem::tools
