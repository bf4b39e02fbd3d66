// Communicators that never block: what has not ended is asked for until it has, or until patience
// ends; what fails is aborted once. NCCL is played by fake_nccl.h.

#include "executor/cuda/communicator.h"

#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "executor/backend/notice.h"
#include "executor/cuda/nccl_transport.h"
#include "tests/executor/cuda/fake_nccl.h"
#include "tests/support/training.h"

namespace tandem::cuda {
namespace {

using ::testing::ElementsAre;
using testing::FakeNccl;
using ::testing::HasSubstr;

/// One rank, made, whose patience ends after so many looks.
struct Made {
  explicit Made(int most_looks = 1000) : library(FakeNccl::reset()) {
    communicator = std::make_unique<Communicator>(
        library, Communicator::Place{.name = "send activation 0→1", .ranks = 2, .rank = 1},
        [this, most_looks](const std::string& what, Duration) {
          waited.push_back(what);
          if (static_cast<int>(waited.size()) >= most_looks) throw Stopped{};
        });
    Communicator* const member = communicator.get();
    Communicator::together({&member, 1}, "ncclCommInitRankConfig",
                           [](Communicator& each) { return each.issue_init(ncclUniqueId{}); });
    FakeNccl::state().calls.clear();
  }
  void send() { communicator->send(nullptr, 12, 0, nullptr); }
  std::string failure_of_send() {
    try {
      send();
    } catch (const DeviceError& error) {
      return error.what();
    }
    return "none";
  }
  std::size_t aborts() const { return FakeNccl::state().count("abort 1"); }

  const Nccl& library;
  std::vector<std::string> waited;
  std::unique_ptr<Communicator> communicator;
};

TEST(Communicator, GroupsWhatItSendsAndReceives) {
  Made made;
  made.send();
  made.communicator->receive(nullptr, 8, 0, nullptr);
  made.communicator->sum(nullptr, 5, nullptr);
  EXPECT_THAT(FakeNccl::state().calls, ElementsAre("{", "send 12 to 0", "}", "{",
                                                   "receive 8 from 0", "}", "{", "sum 5", "}"));
  EXPECT_TRUE(made.waited.empty());
}

TEST(Communicator, AsksUntilItHasEnded) {
  Made made;
  FakeNccl::state().to_send = {ncclInProgress};
  FakeNccl::state().to_group_end = {ncclInProgress};
  FakeNccl::state().to_async_error = {ncclInProgress, ncclInProgress, ncclSuccess};
  made.send();
  EXPECT_EQ(FakeNccl::state().count("ask 1"), 3u);
  EXPECT_THAT(made.waited,
              ElementsAre("send activation 0→1: ncclSend", "send activation 0→1: ncclSend"));
  EXPECT_EQ(made.aborts(), 0u);
}

TEST(Communicator, AbortsOnceWhatFailsLater) {
  Made made;
  FakeNccl::state().to_group_end = {ncclInProgress};
  FakeNccl::state().to_async_error = {ncclInProgress, ncclRemoteError};
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
  FakeNccl::state().to_send = {ncclInvalidUsage};
  EXPECT_THAT(made.failure_of_send(), HasSubstr("ncclSend: some error"));
  EXPECT_THAT(FakeNccl::state().calls, ElementsAre("{", "send 12 to 0", "}", "abort 1"));
}

TEST(Communicator, GivesUpWherePatienceEnds) {
  Made made(3);
  FakeNccl::state().to_group_end = {ncclInProgress};
  FakeNccl::state().to_async_error.assign(100, ncclInProgress);
  EXPECT_THROW(made.send(), Stopped);
  EXPECT_EQ(made.waited.size(), 3u);
  EXPECT_EQ(made.aborts(), 0u) << "whoever gives up decides";
  made.communicator.reset();
  EXPECT_EQ(made.aborts(), 1u);
}

TEST(Communicator, FindsWhatFailedMeanwhile) {
  Made made;
  made.communicator->look();
  FakeNccl::state().to_async_error = {ncclInProgress};
  made.communicator->look();
  EXPECT_EQ(made.aborts(), 0u);
  FakeNccl::state().to_async_error = {ncclRemoteError};
  EXPECT_THROW(made.communicator->look(), DeviceError);
  EXPECT_EQ(made.aborts(), 1u);
  made.communicator->look();  // and says it no more
}

// NCCL then found the GPU in error, which earlier work may have left.
TEST(Communicator, TellsErrorsOfTheGpuFromItsOwn) {
  Made made;
  FakeNccl::state().to_all_reduce = {ncclUnhandledCudaError};
  EXPECT_THROW(made.communicator->sum(nullptr, 1, nullptr), LateError);
  EXPECT_EQ(made.aborts(), 1u);
}

TEST(Communicator, ClosesWhatHasEnded) {
  Made made;
  FakeNccl::state().to_async_error = {ncclInProgress, ncclSuccess};
  made.communicator->begin_closing();
  made.communicator->close();
  made.communicator.reset();
  EXPECT_THAT(FakeNccl::state().calls, ElementsAre("finalize 1", "ask 1", "ask 1", "destroy 1"));
}

CommunicatorPlans plans_of(std::uint16_t devices) {
  const tandem::testing::TrainingCase test{.schedule = "1f1b", .devices = devices};
  return CommunicatorPlans(lower(test.make()), 1);
}

TEST(NcclTransport, MakesCommunicatorsInTheOrderOfThePlans) {
  const Nccl& library = FakeNccl::reset();
  const CommunicatorPlans plans = plans_of(2);
  std::vector<std::size_t> entered;
  FakeNccl::state().to_group_end = {ncclInProgress, ncclInProgress, ncclInProgress};
  const Communicators made = make_communicators(
      library, plans, [&](DeviceId device) { entered.push_back(index(device)); },
      [](const std::string&, Duration) {});
  ASSERT_EQ(made.size(), 3u);
  const FakeNccl& state = FakeNccl::state();
  EXPECT_THAT(state.names,
              ElementsAre("send activation 0→1", "send activation 0→1", "send gradient 1→0",
                          "send gradient 1→0", "sum 0 1", "sum 0 1"));
  EXPECT_THAT(state.ids, ElementsAre(1, 1, 2, 2, 3, 3));
  EXPECT_THAT(entered, ElementsAre(0, 1, 1, 0, 0, 1));
  EXPECT_THAT(state.calls, ElementsAre("{", "init 0 of 2", "init 1 of 2", "}", "ask 1", "ask 2",
                                       "{", "init 0 of 2", "init 1 of 2", "}", "ask 3", "ask 4",
                                       "{", "init 0 of 2", "init 1 of 2", "}", "ask 5", "ask 6"));
  for (std::size_t i = 0; i < state.configurations.size(); ++i) {
    EXPECT_EQ(state.configurations[i].blocking, 0);
    EXPECT_EQ(state.configurations[i].maxCTAs, i < 4 ? 4 : NCCL_CONFIG_UNDEF_INT);
  }
}

TEST(NcclTransport, AbortsAllWhereOneIsNotMade) {
  const Nccl& library = FakeNccl::reset();
  const CommunicatorPlans plans = plans_of(2);
  FakeNccl::state().to_init = {ncclSuccess, ncclSuccess, ncclSuccess, ncclSystemError};
  try {
    make_communicators(library, plans, [](DeviceId) {}, [](const std::string&, Duration) {});
    ADD_FAILURE() << "no failure";
  } catch (const DeviceError& error) {
    EXPECT_STREQ(error.what(),
                 "send gradient 1→0, rank 1 of 2: ncclCommInitRankConfig: some error (the link is "
                 "down)");
  }
  for (const char* call : {"abort 1", "abort 2", "abort 3", "abort 4"})
    EXPECT_EQ(FakeNccl::state().count(call), 1u) << call;
}

TEST(NcclTransport, RefusesTwoDevicesOnAGpuBeforeAnythingIsMade) {
  FakeNccl::reset();
  const CommunicatorPlans plans = plans_of(3);
  check_one_gpu_each(plans, {0, 1, 2});
  try {
    make_nccl_transport(plans, {0, 1, 1}, {});
    ADD_FAILURE() << "not refused";
  } catch (const AbsentError& error) {
    EXPECT_STREQ(error.what(),
                 "transport nccl: devices 1 and 2 are both on GPU 1, and NCCL takes one device of "
                 "a communicator a GPU; use --transport peer, or as many GPUs as devices");
    EXPECT_EQ(error.code(), ExitCode::environment);
  }
}

}  // namespace
}  // namespace tandem::cuda
