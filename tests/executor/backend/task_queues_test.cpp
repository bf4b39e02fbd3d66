// What a device's host takes up, and in which order.

#include "executor/backend/task_queues.h"

#include <string>
#include <utility>

#include <gtest/gtest.h>

namespace tandem {
namespace {

class TaskQueuesTest : public ::testing::Test {
 protected:
  TaskQueues::Run say(const char* word) {
    return [this, word] { said_ += word; };
  }
  /// All that is taken up before nothing more is ready.
  std::string taken_up() {
    while (tasks_.take_up_one()) {
    }
    return std::exchange(said_, {});
  }

  TaskQueues tasks_;
  TaskQueues::Queue& first_ = tasks_.add();
  TaskQueues::Queue& second_ = tasks_.add();
  std::string said_;
};

TEST_F(TaskQueuesTest, HoldBackOneQueueAlone) {
  bool is_ready = false;
  tasks_.enqueue(first_, say("a"));
  tasks_.enqueue_when(first_, [&] { return is_ready; }, say("b"));
  tasks_.enqueue(first_, say("c"));
  tasks_.enqueue(second_, say("x"));
  tasks_.enqueue(second_, say("y"));
  EXPECT_EQ(said_, "") << "nothing is taken up unasked";
  EXPECT_EQ(tasks_.size(), 5u);
  EXPECT_EQ(taken_up(), "axy");
  EXPECT_EQ(tasks_.size(), 2u);
  is_ready = true;
  EXPECT_EQ(taken_up(), "bc");
  EXPECT_EQ(tasks_.size(), 0u);
}

// The record is behind what is held back: a wait for it must not be taken for one of the record
// before.
TEST_F(TaskQueuesTest, WaitForRecordsThatAreStillToBeTakenUp) {
  TaskEvent event;
  tasks_.record(first_, event, say("r"));
  EXPECT_EQ(taken_up(), "r");
  bool is_ready = false;
  tasks_.enqueue_when(first_, [&] { return is_ready; }, say("a"));
  tasks_.record(first_, event, say("r"));
  tasks_.wait(second_, event, say("w"));
  tasks_.enqueue(second_, say("x"));
  EXPECT_EQ(taken_up(), "");
  is_ready = true;
  EXPECT_EQ(taken_up(), "arwx");
  tasks_.wait(second_, event, say("w"));
  EXPECT_EQ(taken_up(), "w") << "the record is there, but the device must be told";
}

TEST_F(TaskQueuesTest, WaitForNothingWhereNothingWasRecorded) {
  TaskEvent event;
  tasks_.wait(first_, event, say("w"));
  tasks_.enqueue(first_, say("a"));
  tasks_.record(second_, event);
  EXPECT_EQ(taken_up(), "a");
}

TEST_F(TaskQueuesTest, MayBeGivenMoreByWhatTheyTakeUp) {
  tasks_.enqueue(first_, [this] {
    said_ += "a";
    tasks_.enqueue(first_, say("c"));
  });
  tasks_.enqueue(first_, say("b"));
  EXPECT_EQ(taken_up(), "abc");
}

}  // namespace
}  // namespace tandem
