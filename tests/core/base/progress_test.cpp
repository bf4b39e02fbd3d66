// Work that is told to end.

#include "core/base/progress.h"

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/lower/lower.h"
#include "core/schedules/search/order_search.h"
#include "core/verify/verify.h"
#include "tests/support/pipelines.h"

namespace tandem {
namespace {

/// Writes down what it hears, and asks for an end when told to.
class Listener : public ProgressListener {
 public:
  Listener() { listen_to_progress(this); }
  ~Listener() override { listen_to_progress(nullptr); }

  void began(const Activity&, const std::string& what, std::int64_t) override {
    heard.push_back(what);
  }
  void stepped(const Activity&, std::int64_t more) override { steps += more; }
  void said(const Activity&, const std::function<std::string()>& words) override {
    heard.push_back(words());
  }
  void ended(const Activity&) override { heard.emplace_back("ended"); }
  void keep_going() override {
    if (questions++ >= ends_after) throw Interrupted("interrupted");
  }

  std::vector<std::string> heard;
  std::int64_t steps = 0, questions = 0, ends_after = 1'000'000'000;
};

TEST(ProgressOfWork, NobodyNeedsToListen) {
  const Activity progress("work", 3);
  progress.step();
  progress.say([]() -> std::string { throw std::logic_error("nobody asked"); });
  keep_going();
}

TEST(ProgressOfWork, IsHeard) {
  Listener listener;
  {
    const Activity progress("work", 3);
    progress.step(2);
    progress.say([] { return std::string("words"); });
  }
  EXPECT_EQ(listener.heard, (std::vector<std::string>{"work", "words", "ended"}));
  EXPECT_EQ(listener.steps, 2);
}

TEST(ProgressOfWork, EndsWhereItIsAskedTo) {
  Listener listener;
  listener.ends_after = 0;
  EXPECT_THROW(keep_going(), Interrupted);
  EXPECT_THROW(Activity("work").step(), Interrupted);
}

TEST(ProgressOfWork, AThreadsOwnStopIsAskedInstead) {
  Listener listener;
  listener.ends_after = 0;
  bool stop = false;
  const std::function<bool()> stops = [&] { return stop; }, never;
  {
    const StopWhen outer(stops);
    keep_going();
    stop = true;
    EXPECT_THROW(keep_going(), EndedEarly);
    const StopWhen inner(never);
    keep_going();
  }
  EXPECT_THROW(keep_going(), Interrupted);
}

TEST(ProgressOfWork, LongWorkAsks) {
  const Schedule schedule = testing::schedule_of(testing::pipeline("1f1b", 8, 2000));
  const Program program = lower(schedule);
  Listener listener;
  listener.ends_after = 0;
  EXPECT_THROW(lower(schedule), Interrupted);
  EXPECT_THROW(verify(program), Interrupted);
  ScheduleRequest request;
  request.devices = 4;
  request.microbatches = 64;
  EXPECT_THROW(make_schedule(find_schedule("v-adaptive"), request), Interrupted);
}

/// Whenever it is told to: among the named schedules, in the bound, or later.
TEST(ProgressOfWork, TheSearchEndsWithWhatItHas) {
  ScheduleRequest request;
  request.devices = 4;
  request.microbatches = 300;
  request.orders = 20;
  for (const std::int64_t after : {0, 1, 3, 10, 100, 1000, 3000}) {
    std::int64_t questions = 0;
    const SearchedOrder found =
        search_order(request, {.stop = [&] { return questions++ >= after; }, .progress = {}});
    EXPECT_EQ(found.stopped, questions > after) << after;
    EXPECT_LE(questions, after + 4) << after;  // once told to, it asks no further
    EXPECT_LE(found.bound, found.makespan) << after;
    EXPECT_TRUE(verify(lower(found.schedule)).empty()) << after;
  }
}

}  // namespace
}  // namespace tandem
