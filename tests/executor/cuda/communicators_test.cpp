// Which communicators a process makes, of what, and on which GPUs its devices are.

#include "executor/cuda/communicators.h"

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/executor/cuda/fake_nccl.h"
#include "tests/support/rank_threads.h"
#include "tests/support/training.h"

namespace tandem::cuda {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using testing::FakeNccl;
using ::testing::HasSubstr;

/// GPUs that are done at once, and say whose was entered.
class QuickGpus final : public CommunicatorGpus {
 public:
  std::vector<std::size_t> entered;
  void enter(DeviceId device) override { entered.push_back(index(device)); }
  GpuStream stream(DeviceId) override { return nullptr; }
  std::span<float> number(DeviceId) override { return std::span(&number_, 1); }
  bool is_idle(DeviceId) override { return true; }

 private:
  float number_ = 0.0F;
};

CommunicatorPlans plans_of(std::uint16_t devices) {
  const tandem::testing::TrainingCase test{.schedule = "1f1b", .devices = devices};
  return CommunicatorPlans(lower(test.make()), 1);
}

TEST(Communicators, AreSplitFromOneOfAllDevices) {
  FakeNccl nccl;
  QuickGpus gpus;
  const CommunicatorPlans plans = plans_of(3);  // 0→1, 1→2, 1→0, 2→1, sum 0 2
  {
    Communicators made(nccl, plans, gpus, {.devices = 3});
    std::vector<std::string> names;
    for (const CommunicatorPlace& place : nccl.places) names.push_back(place.name);
    EXPECT_EQ(nccl.ids, 1);
    EXPECT_EQ(nccl.made, 3 + 2 * 5);
    std::size_t at = 3;
    for (const CommunicatorPlan& plan : plans.all()) {
      std::vector<DeviceId> members = plan.devices;
      std::ranges::sort(members);  // each by its own communicator of all, in their order
      for (const DeviceId member : members) {
        EXPECT_EQ(nccl.places[at].name, plan.name);
        EXPECT_EQ(nccl.places[at].rank, static_cast<int>(plan.rank_of(member)));
        EXPECT_EQ(nccl.places[at].most_blocks, plan.sums ? 0 : 4);
        ++at;
      }
    }
    const std::vector<std::string> first(nccl.calls.begin(), nccl.calls.begin() + 5);
    EXPECT_THAT(first,
                ElementsAre("{", "init 0 of 3 by 1", "init 1 of 3 by 1", "init 2 of 3 by 1", "}"));
    const std::vector<std::string> second(nccl.calls.begin() + 5, nccl.calls.begin() + 10);
    EXPECT_THAT(second, ElementsAre("{", "part 0 of 1", "part 0 of 2", "no part of 3", "}"));
    EXPECT_EQ(nccl.count("send 4 to 1"), 4u);
    EXPECT_EQ(nccl.count("sum 1"), 2u);
    made.close();
  }
  for (int i = 1; i <= nccl.made; ++i) {
    EXPECT_EQ(nccl.count("finalize " + std::to_string(i)), 1u);
    EXPECT_EQ(nccl.count("destroy " + std::to_string(i)), 1u);
    EXPECT_EQ(nccl.count("abort " + std::to_string(i)), 0u);
  }
}

void expect_all_aborted(const FakeNccl& nccl) {
  for (int i = 1; i <= nccl.made; ++i) EXPECT_EQ(nccl.count("abort " + std::to_string(i)), 1u) << i;
}

std::string failure_of(FakeNccl& nccl) {
  QuickGpus gpus;
  const CommunicatorPlans plans = plans_of(3);
  try {
    Communicators(nccl, plans, gpus, {.devices = 3});
  } catch (const DeviceError& error) {
    return error.what();
  }
  return "none";
}

TEST(Communicators, AreAllAbortedWhereOneIsNotMade) {
  FakeNccl nccl;
  nccl.to_split = {NcclResult::success, NcclResult::success, NcclResult::success,
                   NcclResult::success, NcclResult::system_failed};
  EXPECT_EQ(failure_of(nccl),
            "all devices, rank 1 of 3: ncclCommSplit of send gradient 1→0: some error (the link is "
            "down)");
  expect_all_aborted(nccl);
}

TEST(Communicators, AreHeldAgainstTheirPlans) {
  FakeNccl nccl;
  nccl.wrong_size = 4;
  EXPECT_EQ(failure_of(nccl),
            "send activation 0→1, rank 0 of 2, was made rank 0 of 3: devices make communicators in "
            "different orders");
  expect_all_aborted(nccl);
}

TEST(Gpus, AreOneADevice) {
  EXPECT_THAT(choose_gpus(2, {"a", "b", "c"}, nullptr).rows(), ElementsAre(0, 1));
  try {
    choose_gpus(3, {"a", "b"}, nullptr);
    ADD_FAILURE() << "not refused";
  } catch (const AbsentError& error) {
    EXPECT_STREQ(error.what(),
                 "transport nccl: no GPU is left for device 2: NCCL takes one device a GPU, and 2 "
                 "are seen there; use as many GPUs as devices, or --transport peer");
    EXPECT_EQ(error.code(), ExitCode::environment);
  }
}

struct Choice {
  std::vector<int> gpus;
  std::string error;
};

/// Of ranks that see these, with the devices of each.
std::vector<Choice> choices(const std::vector<std::vector<std::string>>& seen,
                            const DeviceRanks& rank_of) {
  const std::uint16_t port = tandem::testing::free_port();
  std::vector<Choice> chosen(seen.size());
  std::vector<std::jthread> threads;
  for (std::size_t rank = 0; rank < seen.size(); ++rank) {
    threads.emplace_back([&, rank] {
      RankGroup group({.rank = static_cast<std::int32_t>(rank),
                       .ranks = static_cast<std::int32_t>(seen.size()),
                       .rendezvous_port = port,
                       .secret = "a secret of tests"});
      RankRun others(group, CommunicatorPlans(std::vector<CommunicatorPlan>{}), rank_of);
      try {
        chosen[rank].gpus = choose_gpus(rank_of.size(), seen[rank], &others).rows();
      } catch (const std::exception& error) {
        chosen[rank].error = group.fail(error.what());
      }
      try {
        group.barrier();
      } catch (const DeviceError&) {
      }
    });
  }
  threads.clear();
  return chosen;
}

// Two on a host whose ranks see all GPUs, two on one where each sees its own.
TEST(Gpus, AreSharedAmongRanksThatSeeTheSame) {
  for (const Choice& each :
       choices({{"a", "b", "c"}, {"a", "b", "c"}, {"d"}, {"e"}}, {0, 0, 1, 2, 3})) {
    EXPECT_EQ(each.error, "");
    EXPECT_THAT(each.gpus, ElementsAre(0, 1, 2, 0, 0));
  }
}

TEST(Gpus, AreMissedOnAllRanks) {
  for (const Choice& each : choices({{"a"}, {"a"}}, {0, 1})) {
    EXPECT_THAT(each.error, HasSubstr("no GPU is left for device 1 of rank 1: NCCL takes one "
                                      "device a GPU, and 1 is seen there"));
  }
}

// Ranks have the same plan and options: this is for whoever calls it otherwise.
TEST(Communicators, AreRefusedWhereRanksHaveOtherPlans) {
  const std::uint16_t port = tandem::testing::free_port();
  std::vector<std::string> errors(2);
  std::vector<std::size_t> made(2);
  std::vector<std::jthread> threads;
  for (const std::int32_t rank : {0, 1}) {
    threads.emplace_back([&, rank] {
      RankGroup group(
          {.rank = rank, .ranks = 2, .rendezvous_port = port, .secret = "a secret of tests"});
      const DeviceRanks rank_of{0, 1, 1};
      RankRun others(group, CommunicatorPlans(std::vector<CommunicatorPlan>{}), rank_of);
      FakeNccl nccl;
      QuickGpus gpus;
      const CommunicatorPlans plans =
          rank == 0 ? plans_of(3) : CommunicatorPlans({{"another", {DeviceId{0}, DeviceId{1}}}});
      const auto at = static_cast<std::size_t>(rank);
      try {
        Communicators(nccl, plans, gpus, {.devices = 3, .others = &others});
      } catch (const InputError& error) {
        errors[at] = error.what();
      }
      made[at] = static_cast<std::size_t>(nccl.made);
    });
  }
  threads.clear();
  EXPECT_THAT(errors, Each(HasSubstr("has another set of communicators than")));
  EXPECT_THAT(made, Each(0u));
}

}  // namespace
}  // namespace tandem::cuda
