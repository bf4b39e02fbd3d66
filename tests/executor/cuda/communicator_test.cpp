// A communicator that never blocks: what has not ended is asked for until it has, or until patience
// ends; what fails is aborted once. NCCL is played by fake_nccl.h.

#include "executor/cuda/communicator.h"

#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "executor/backend/backend.h"
#include "executor/backend/notice.h"
#include "tests/executor/cuda/fake_nccl.h"

namespace tandem::cuda {
namespace {

using ::testing::ElementsAre;
using testing::FakeNccl;
using ::testing::HasSubstr;

constexpr NcclResult kInProgress = NcclResult::in_progress;

/// One rank, made, whose patience ends after so many looks.
struct Made {
  explicit Made(int most_looks = 1000) {
    communicator = std::make_unique<Communicator>(
        library, CommunicatorPlace{.name = "send activation 0→1", .ranks = 2, .rank = 1},
        [this, most_looks](const std::string& what, Duration) {
          waited.push_back(what);
          if (static_cast<int>(waited.size()) >= most_looks) throw Stopped{};
        });
    Communicator* const member = communicator.get();
    Communicator::together({&member, 1}, "ncclCommInitRankConfig",
                           [](Communicator& each) { return each.issue_init(NcclId{}); });
    library.calls.clear();
  }
  void send() { communicator->send(std::span(bytes), 0, nullptr); }
  std::string failure_of_send() {
    try {
      send();
    } catch (const DeviceError& error) {
      return error.what();
    }
    return "none";
  }
  std::size_t aborts() const { return library.count("abort 1"); }

  FakeNccl library;
  std::array<std::byte, 12> bytes{};
  std::array<float, 5> numbers{};
  std::vector<std::string> waited;
  std::unique_ptr<Communicator> communicator;
};

TEST(Communicator, GroupsWhatItSendsAndReceives) {
  Made made;
  made.send();
  made.communicator->receive(std::span(made.bytes).first(8), 0, nullptr);
  made.communicator->sum(made.numbers, nullptr);
  EXPECT_THAT(made.library.calls, ElementsAre("{", "send 12 to 0", "}", "{", "receive 8 from 0",
                                              "}", "{", "sum 5", "}"));
  EXPECT_TRUE(made.waited.empty());
}

TEST(Communicator, AsksUntilItHasEnded) {
  Made made;
  made.library.to_send = {kInProgress};
  made.library.to_group_end = {kInProgress};
  made.library.to_async_error = {kInProgress, kInProgress, NcclResult::success};
  made.send();
  EXPECT_EQ(made.library.count("ask 1"), 3u);
  EXPECT_THAT(made.waited,
              ElementsAre("send activation 0→1: ncclSend", "send activation 0→1: ncclSend"));
  EXPECT_EQ(made.aborts(), 0u);
}

TEST(Communicator, AbortsOnceWhatFailsLater) {
  Made made;
  made.library.to_group_end = {kInProgress};
  made.library.to_async_error = {kInProgress, NcclResult::remote_failed};
  EXPECT_EQ(made.failure_of_send(),
            "send activation 0→1, rank 1 of 2: ncclSend: remote error (the link is down)");
  EXPECT_EQ(made.aborts(), 1u);
  EXPECT_EQ(made.failure_of_send(), "send activation 0→1: ncclSend after it was aborted");
  made.communicator->abort();
  made.communicator.reset();
  EXPECT_EQ(made.aborts(), 1u);
}

TEST(Communicator, EndsTheGroupOfACallThatFails) {
  Made made;
  made.library.to_send = {NcclResult::invalid_usage};
  EXPECT_THAT(made.failure_of_send(), HasSubstr("ncclSend: some error"));
  EXPECT_THAT(made.library.calls, ElementsAre("{", "send 12 to 0", "}", "abort 1"));
}

TEST(Communicator, GivesUpWherePatienceEnds) {
  Made made(3);
  made.library.to_group_end = {kInProgress};
  made.library.to_async_error.assign(100, kInProgress);
  EXPECT_THROW(made.send(), Stopped);
  EXPECT_EQ(made.waited.size(), 3u);
  EXPECT_EQ(made.aborts(), 0u) << "whoever gives up decides";
  made.communicator.reset();
  EXPECT_EQ(made.aborts(), 1u);
}

TEST(Communicator, FindsWhatFailedMeanwhile) {
  Made made;
  made.communicator->look();
  made.library.to_async_error = {kInProgress};
  made.communicator->look();
  EXPECT_EQ(made.aborts(), 0u);
  made.library.to_async_error = {NcclResult::remote_failed};
  EXPECT_THROW(made.communicator->look(), DeviceError);
  EXPECT_EQ(made.aborts(), 1u);
  made.communicator->look();  // and says it no more
}

// NCCL then found the GPU in error, which earlier work may have left.
TEST(Communicator, TellsErrorsOfTheGpuFromItsOwn) {
  Made made;
  made.library.to_sum = {NcclResult::gpu_failed};
  EXPECT_THROW(made.communicator->sum(made.numbers, nullptr), LateError);
  EXPECT_EQ(made.aborts(), 1u);
}

TEST(Communicator, ClosesWhatHasEnded) {
  Made made;
  made.library.to_async_error = {kInProgress, NcclResult::success};
  made.communicator->begin_closing();
  made.communicator->close();
  made.communicator.reset();
  EXPECT_THAT(made.library.calls, ElementsAre("finalize 1", "ask 1", "ask 1", "destroy 1"));
}

}  // namespace
}  // namespace tandem::cuda
