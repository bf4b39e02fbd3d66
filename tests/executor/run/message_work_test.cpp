// Training by a transport that both sides take part in, on devices that behave as GPUs do: what is
// trained is what the CPU trains, bit for bit, though no device looks at another's host.

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "executor/run/training_run.h"
#include "tests/support/deferred_backend.h"
#include "tests/support/pipelines.h"
#include "tests/support/rendezvous_transport.h"
#include "tests/support/sanitizers.h"
#include "tests/support/training.h"

namespace tandem {
namespace {

using testing::DeferredBackend;
using testing::DeferredRunState;
using testing::kRacesAreFound;
using testing::RendezvousTransport;
using testing::TrainingCase;
using Change = std::function<void(TrainingSetup<float>&)>;

TrainingReport<float> train_by(RendezvousTransport& transport, const TrainingCase& test,
                               const Program& program, std::uint64_t seed = 1,
                               const Change& change = {}) {
  using B = DeferredBackend<float>;
  const Data data = testing::data_of(test);
  TrainingSetup<float> setup = testing::setup_of<float>(test, program, data);
  if (change) change(setup);
  DeferredRunState run_state;
  run_state.seed = seed;
  const auto make = [&](DeviceId device, Wakeup& wakeup, std::stop_token stop) {
    auto made = std::make_unique<B>(run_state, index(device), wakeup, std::move(stop));
    transport.add(*made);
    return made;
  };
  return TrainingRun<B>(program, setup, make, &transport).run();
}

TrainingReport<float> train_on_the_cpu(const TrainingCase& test, const Program& program) {
  const Data data = testing::data_of(test);
  return train_on_cpu<float>(program, testing::setup_of<float>(test, program, data));
}

void expect_same_run(const TrainingReport<float>& sent, const TrainingReport<float>& on_cpu) {
  EXPECT_EQ(sent.losses, on_cpu.losses);
  ASSERT_EQ(sent.weights.size(), on_cpu.weights.size());
  for (std::size_t i = 0; i < on_cpu.weights.size(); ++i)
    EXPECT_EQ(sent.weights[i].values, on_cpu.weights[i].values) << on_cpu.weights[i].name;
  EXPECT_EQ(sent.high_water, on_cpu.high_water);
}

bool evicts(const Program& program) {
  return std::ranges::any_of(program.instructions(),
                             [](const auto& each) { return moves_stash(each.op.kind); });
}

/// Sums of more than two are added in ranks' order by both, but not in the same: so of two only.
bool sums_of_more_than_two(const CommunicatorPlans& plans) {
  return std::ranges::any_of(plans.all(),
                             [](const auto& each) { return each.sums && each.devices.size() > 2; });
}

class MessagesOf : public ::testing::TestWithParam<std::string> {};

std::vector<std::string> sent_schedules() {
  std::vector<std::string> names;
  for (const ScheduleTraits& row : schedules()) {
    if (row.name != "bpipe") names.emplace_back(row.name);
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(Schedules, MessagesOf, ::testing::ValuesIn(sent_schedules()),
                         testing::test_name);

TEST_P(MessagesOf, TrainWhatTheCpuTrains) {
  std::uint64_t seed = 0;
  int compared = 0;
  for (const std::uint16_t devices : std::initializer_list<std::uint16_t>{1, 2, 4}) {
    for (const std::uint16_t width : std::initializer_list<std::uint16_t>{1, 2}) {
      if (testing::kSanitized && (devices == 1 || (devices == 2) != (width == 2))) continue;
      TrainingCase test = TrainingCase::on(GetParam(), devices);
      const std::uint16_t only = find_schedule(GetParam()).only_devices;
      if (only != 0) test.devices = only;
      test.width = width;
      test.batches = 3;
      test.microbatches = devices == 2 ? 5 : 4;
      while (!test.is_served() && test.microbatches < 16) ++test.microbatches;
      if (!test.is_served()) continue;
      SCOPED_TRACE(fmt::format("{} devices, width {}", devices, width));
      const Program program = lower(test.make());
      ASSERT_FALSE(evicts(program));
      CommunicatorPlans plans(program, width);
      if (sums_of_more_than_two(plans)) continue;
      RendezvousTransport transport(std::move(plans));
      expect_same_run(train_by(transport, test, program, ++seed), train_on_the_cpu(test, program));
      EXPECT_EQ(transport.messages() > 0, test.devices > 1 && GetParam() != "data-parallel");
      EXPECT_EQ(transport.aborts(), 0);
      ++compared;
    }
  }
  EXPECT_GE(compared, testing::kSanitized ? 1 : 2);
}

TEST(Messages, TrainWhatTheCpuTrainsWhereNormsDecide) {
  for (const char* schedule : {"1f1b", "2bw", "zb-h2"}) {
    TrainingCase test = TrainingCase::on(schedule, 4);
    test.guard = {.clip = ClipScope::global, .most_norm = 0.5};
    test.width = 2;
    SCOPED_TRACE(schedule);
    const Program program = lower(test.make());
    RendezvousTransport transport(CommunicatorPlans(program, 2));
    expect_same_run(train_by(transport, test, program), train_on_the_cpu(test, program));
  }
}

TEST(Messages, HaveTheSendersTimes) {
  const TrainingCase test{.schedule = "1f1b", .devices = 3};
  const Program program = lower(test.make());
  RendezvousTransport transport(CommunicatorPlans(program, 1));
  const TrainingReport<float> report = train_by(transport, test, program);
  std::size_t transfers = 0;
  for (const Span& span : report.timelines.at(0).spans) {
    EXPECT_LE(span.start, span.end);
    if (is_transfer(program[span.instruction].op.kind)) ++transfers;
  }
  EXPECT_EQ(static_cast<std::int64_t>(transfers), transport.messages());
}

// Control: receivers that take what is there before it was sent.
TEST(Messages, AreMissedWhereNobodyWaits) {
  if (kRacesAreFound) GTEST_SKIP() << "the thread sanitizer stops at the first";
  const TrainingCase test{.schedule = "1f1b", .devices = 2};
  const Program program = lower(test.make());
  RendezvousTransport transport(CommunicatorPlans(program, 1), false);
  EXPECT_NE(train_by(transport, test, program).losses, train_on_the_cpu(test, program).losses);
}

// Devices are destroyed after a failure, and would wait for what nobody sends.
TEST(Messages, AreAbortedWhereADeviceFails) {
  const TrainingCase test{.schedule = "2bw", .devices = 3, .batches = 100};
  const Program program = lower(test.make());
  RendezvousTransport transport(CommunicatorPlans(program, 1));
  try {
    train_by(transport, test, program, 1, [](TrainingSetup<float>& setup) {
      setup.before_work = [](DeviceId device, Instance at) {
        if (device == DeviceId{1} && at.microbatch == 9) throw DeviceError("gone");
      };
    });
    ADD_FAILURE() << "no failure";
  } catch (const DeviceError& error) {
    EXPECT_THAT(error.what(),
                ::testing::AllOf(::testing::HasSubstr("device 1"), ::testing::HasSubstr("gone")));
  }
  EXPECT_EQ(transport.aborts(), 1);
}

}  // namespace
}  // namespace tandem
