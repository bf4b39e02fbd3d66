// Links of a chosen rate: nothing lands early, order holds, and training over them keeps its bits.

#include "executor/run/link_emulator.h"

#include <atomic>
#include <latch>

#include <gtest/gtest.h>

#include "tests/support/training.h"

namespace tandem {
namespace {

using testing::TrainingCase;
using namespace std::chrono_literals;

TEST(LinkEmulator, TakesBytesByTheRate) {
  EXPECT_EQ(LinkEmulator(125e6).time_of(125'000), Duration(1ms));  // 1 Gb/s
  EXPECT_EQ(LinkEmulator(25e6).time_of(125'000), Duration(5ms));   // 200 Mb/s
}

TEST(LinkEmulator, DeliversInOrderOfTimeAndNeverEarly) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<int> order;
  std::vector<LinkEmulator::Time> landed;
  std::latch all(3);
  LinkEmulator link_emulator(1e9);
  const auto land = [&](int which) {
    return [&, which] {
      order.push_back(which);
      landed.push_back(std::chrono::steady_clock::now());
      all.count_down();
    };
  };
  link_emulator.deliver(start + 20ms, land(2));
  link_emulator.deliver(start + 5ms, land(0));
  link_emulator.deliver(start + 20ms, land(3));
  all.wait();
  EXPECT_EQ(order, (std::vector<int>{0, 2, 3}));
  EXPECT_GE(landed[0], start + 5ms);
  EXPECT_GE(landed[1], start + 20ms);
}

TEST(LinkEmulator, DropsWhatIsOnItsWayWhenItEnds) {
  std::atomic<bool> landed = false;
  {
    LinkEmulator(1e9).deliver(std::chrono::steady_clock::now() + 1h, [&] { landed = true; });
  }
  EXPECT_FALSE(landed);
}

TrainingReport<float> train(const TrainingCase& test, const Program& program,
                            std::optional<double> link_rate) {
  const Data data = testing::data_of(test);
  TrainingSetup<float> setup = testing::setup_of<float>(test, program, data);
  setup.link_rate = link_rate;
  return train_on_cpu<float>(program, setup);
}

TEST(SlowLinks, ChangeWhenThingsArriveAndNoBitOfThem) {
  for (const char* schedule : {"1f1b", "2bw"}) {
    const TrainingCase test{.schedule = schedule, .devices = 3, .microbatches = 4, .batches = 3};
    const Program program = lower(test.make());
    const auto bytes = static_cast<double>(boundary_bytes(test.model, test.microbatch_size));
    const double rate = bytes / 2e-3;  // a transfer takes 2 ms
    const TrainingReport<float> fast = train(test, program, std::nullopt),
                                slow = train(test, program, rate);
    EXPECT_EQ(fast.losses, slow.losses);
    ASSERT_EQ(fast.weights.size(), slow.weights.size());
    for (std::size_t i = 0; i < fast.weights.size(); ++i)
      EXPECT_EQ(fast.weights[i].values, slow.weights[i].values) << fast.weights[i].name;
    // A flush takes a way down and up, 4 hops, for each batch; without, 12 activations pass one
    // link, one after another.
    Duration last{};
    for (const Span& span : slow.timelines.front().spans) last = std::max(last, span.end);
    EXPECT_GE(last, Duration(24ms));
  }
}

}  // namespace
}  // namespace tandem
