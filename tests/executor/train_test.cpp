// What the executor promises beside right weights: the ledger of versions, memory as planned to the
// byte, and that a broken program is caught instead of trained.

#include "executor/train.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/memory/storage.h"
#include "core/verify/verify.h"
#include "executor/backends.h"
#include "tests/support/sanitizers.h"
#include "tests/support/training.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;
using testing::TrainingCase;
using namespace std::chrono_literals;

TrainingReport<float> train(const TrainingCase& test, const Program& program,
                            const SlotCounts& slots,
                            std::function<void(DeviceId, Instance)> before_work = {}) {
  const Data data = testing::data_of(test);
  TrainingSetup<float> setup = testing::setup_of<float>(test, program, data);
  setup.slots = slots;
  setup.keep_ledger = true;
  setup.before_work = std::move(before_work);
  return train_on_cpu<float>(program, setup);
}

std::string failure_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const DeviceError& error) {
    return error.what();
  }
  return "no failure";
}

/// Sleeps before each op of one kind on one device.
std::function<void(DeviceId, Instance)> slow(const Program& program, DeviceId device, OpKind kind) {
  return [&program, device, kind](DeviceId here, Instance instance) {
    if (here == device && program[instance.id].op.kind == kind) std::this_thread::sleep_for(15ms);
  };
}

// The k-th microbatch (from 1) uses version max(⌊(k−1)/m⌋−1, 0), forward and backward, on every
// stage; never over 2 live.
TEST(Ledger, HoldsTheVersionsThatThePaperSays) {
  for (const Recompute recompute : {Recompute::none, Recompute::stage}) {
    for (const std::int32_t m : {3, 4, 5, 8}) {
      const TrainingCase test{
          .schedule = "2bw", .devices = 3, .microbatches = m, .batches = 5, .recompute = recompute};
      const Program program = lower(test.make());
      const TrainingReport<float> report =
          train(test, program, count_slots(program), testing::seeded_delays(5, 200us));
      std::size_t read = 0;
      for (const LedgerEntry& entry : report.ledger) {
        if (entry.kind == OpKind::update) {
          EXPECT_EQ(entry.version, entry.microbatch / m + 1);
          continue;
        }
        const std::int64_t k = entry.microbatch + 1;
        EXPECT_EQ(entry.version, std::max<std::int64_t>((k - 1) / m - 1, 0))
            << name(entry.kind) << " " << k;
        ++read;
      }
      const std::size_t ops = recompute == Recompute::stage ? 3 : 2;
      EXPECT_EQ(read, ops * 3 * static_cast<std::size_t>(m * test.batches));
    }
  }
}

/// The high water of every device, and of a device's only stage what it holds at once.
void expect_memory_as_planned(const TrainingCase& test) {
  const Program program = lower(test.make());
  const SlotCounts slots = count_slots(program);
  const TrainingReport<float> report =
      train(test, program, slots, testing::seeded_delays(test.devices, 200us));
  const auto planned = testing::planned_memory(test, program, slots);
  for (const DeviceId device : ids(planned)) {
    EXPECT_EQ(report.high_water[device], planned[device])
        << test.schedule << " device " << index(device);
    // Stashes and versions of a device's only stage are held all at once: no slot of theirs is
    // spare. Several stages, and hosted stashes, need theirs at different times.
    if (program.placement().replicas() != program.placement().devices) continue;
    if (program.placement().partner.empty()) {
      EXPECT_EQ(report.peak_held[device].activations, planned[device].activations) << test.schedule;
    }
    EXPECT_EQ(report.peak_held[device].versions, planned[device].versions) << test.schedule;
  }
}

TEST(Memory, HighWaterEqualsThePlanToTheByte) {
  for (const ScheduleTraits& row : schedules()) {
    for (const std::uint16_t devices : {std::uint16_t{1}, std::uint16_t{2}, std::uint16_t{4}}) {
      for (const Recompute recompute :
           {Recompute::none, Recompute::selective, Recompute::full, Recompute::uniform(2),
            Recompute::blocks(1), Recompute::stage}) {
        // Bytes are counted alike with a sanitizer: on one device it runs the others.
        const bool is_sample =
            devices != 2 && (recompute == Recompute::none || recompute == Recompute::blocks(1));
        if (testing::kSanitized && devices > 1 && !is_sample) continue;
        TrainingCase test = TrainingCase::on(std::string(row.name), devices);
        test.microbatches = 8;
        test.recompute = recompute;
        if (devices > 1 && test.semantics() == WeightSemantics::delayed_by_one)
          test.optimizer.correction = DelayCorrection::error_feedback;
        if (test.is_served()) expect_memory_as_planned(test);
      }
    }
  }
}

/// Versions and planes of all stages that are held beside the newest weights, as planned.
Bytes old_versions(const TrainingCase& test) {
  const Program program = lower(test.make());
  Bytes sum = 0;
  for (const MemoryByClass& of : testing::planned_memory(test, program, count_slots(program)))
    sum += of.versions;
  return sum;
}

// With few microbatches an update, stages hold weights of several updates before.
TEST(Memory, HighWaterEqualsThePlanWhereManyVersionsAreHeld) {
  std::size_t more = 0;
  for (const ScheduleTraits& row : schedules()) {
    if (row.weights == WeightSemantics::vanilla) continue;
    TrainingCase few = TrainingCase::on(std::string(row.name), 4), many = few;
    few.batches = 12;  // until the pipeline is full, and its versions are old
    many.microbatches = 8;
    std::set<std::int32_t> tried;
    for (const std::int32_t least : {1, 2}) {
      if (!few.take_microbatches(least) || !tried.insert(few.microbatches).second) continue;
      SCOPED_TRACE(fmt::format("{} m {}", row.name, few.microbatches));
      expect_memory_as_planned(few);
      more += old_versions(few) > old_versions(many);
    }
  }
  // paci, pipemare and the four that predict, for 1 and 2; timeprest and timeprest-i for 3.
  EXPECT_EQ(more, 2u * 6u + 2u);
}

TEST(Memory, OneOldVersionLessFails) {
  for (const auto& [schedule, kind] : {std::pair{"pipedream", SlotKind::weights},
                                       std::pair{"spectrain-v2", SlotKind::forward_weights}}) {
    TrainingCase test = TrainingCase::on(schedule, 4);
    test.microbatches = 1;
    test.batches = 12;
    const Program program = lower(test.make());
    SlotCounts slots = count_slots(program);
    EXPECT_EQ(slots[ReplicaId{0}][kind], 4);
    EXPECT_EQ(failure_of([&] { train(test, program, slots); }), "no failure");
    --slots[ReplicaId{0}][kind];
    EXPECT_FALSE(verify(program, slots).empty());
    EXPECT_NE(failure_of([&] { train(test, program, slots); }), "no failure");
  }
}

TEST(Memory, WithEvictionsIsThatOfHalfTheDevicesAndOneMore) {
  for (const std::int32_t m : {5, 9}) {
    const TrainingCase test{.schedule = "bpipe", .devices = 6, .microbatches = m, .batches = 2};
    const Program program = lower(test.make());
    const SlotCounts slots = count_slots(program);
    const TrainingReport<float> report =
        train(test, program, slots, testing::seeded_delays(6, 100us));
    Table<ReplicaId, StageBytes> bytes;
    for (const LayerRange layers : testing::even_stages(test.model, 6)) {
      bytes.push_back(stage_bytes(test.model, layers, test.microbatch_size, test.optimizer.kind,
                                  test.recompute));
    }
    const auto planned = memory_by_class(program, slots, bytes);
    // Device 0 keeps three of m and has one slot in turn; those that are away are with device 5.
    const Bytes own = bytes[ReplicaId{0}][SlotKind::stash];
    const Bytes last = bytes[ReplicaId{5}][SlotKind::stash];
    const std::int32_t away = std::min(m, 6) - 3;
    EXPECT_EQ(planned[DeviceId{0}].activations, 4 * own);
    EXPECT_EQ(planned[DeviceId{5}].activations, last + away * own);
    for (const DeviceId device : ids(planned)) {
      EXPECT_EQ(report.high_water[device], planned[device]) << "m " << m << " " << index(device);
      EXPECT_LE(report.peak_held[device].activations, planned[device].activations);
    }
    EXPECT_EQ(report.peak_held[DeviceId{0}].activations, 4 * own);
  }
}

// A load that does not wait for its turn finds the slot taken; one that does not wait for its
// eviction finds nothing there.
TEST(Memory, AMoveOutOfTurnFails) {
  const TrainingCase test{.schedule = "bpipe", .devices = 4, .microbatches = 6, .batches = 2};
  const Program good = lower(test.make());
  const SlotCounts slots = count_slots(good);
  EXPECT_EQ(failure_of([&] { train(test, good, slots); }), "no failure");
  ProgramParts parts = good.parts();
  for (Instruction& instruction : parts.instructions) {
    if (instruction.op.kind == OpKind::load) instruction.wait_count = 0;
  }
  const Program broken(std::move(parts));
  EXPECT_FALSE(verify(broken, slots).empty());
  EXPECT_NE(failure_of([&] { train(test, broken, slots); }), "no failure");
  SlotCounts fewer = slots;
  --fewer[ReplicaId{0}][SlotKind::hosted_stash];
  EXPECT_FALSE(verify(good, fewer).empty());
  EXPECT_THAT(failure_of([&] { train(test, good, fewer); }), HasSubstr("hosted_stash slot"));
}

struct SlotFault {
  SlotKind kind;
  ReplicaId replica;
  DeviceId slow_device;
  OpKind slow_kind;
};

// With one slot less than planned the run fails. Rings that another device fills need a device that
// lags for it to show. A sent gradient leaves at once on this backend, whatever the others do:
// there only verify() can object.
TEST(Memory, OneSlotLessFails) {
  const TrainingCase test{.schedule = "2bw", .devices = 3, .microbatches = 4, .batches = 3};
  const Program program = lower(test.make());
  const SlotCounts planned = count_slots(program);
  const SlotFault faults[] = {
      {SlotKind::weights, ReplicaId{0}, DeviceId{0}, OpKind::update},
      {SlotKind::stash, ReplicaId{0}, DeviceId{0}, OpKind::update},
      {SlotKind::gradients, ReplicaId{2}, DeviceId{0}, OpKind::backward},
      {SlotKind::input, ReplicaId{1}, DeviceId{1}, OpKind::backward},
      {SlotKind::output, ReplicaId{0}, DeviceId{0}, OpKind::update},
  };
  for (const SlotFault& fault : faults) {
    SlotCounts slots = planned;
    ASSERT_GT(slots[fault.replica][fault.kind], 0) << name(fault.kind);
    --slots[fault.replica][fault.kind];
    const auto slowed = slow(program, fault.slow_device, fault.slow_kind);
    EXPECT_EQ(failure_of([&] { train(test, program, planned, slowed); }), "no failure")
        << name(fault.kind);
    EXPECT_NE(failure_of([&] { train(test, program, slots, slowed); }), "no failure")
        << name(fault.kind) << ", one of " << planned[fault.replica][fault.kind];
    EXPECT_FALSE(verify(program, slots).empty()) << name(fault.kind);
  }
  SlotCounts slots = planned;
  --slots[ReplicaId{2}][SlotKind::input_gradient];
  EXPECT_FALSE(verify(program, slots).empty());
}

/// The first instruction of a kind on a stage.
std::size_t find(const ProgramParts& parts, OpKind kind, ReplicaId replica) {
  for (std::size_t i = 0; i < parts.instructions.size(); ++i) {
    if (parts.instructions[i].op.kind == kind && parts.instructions[i].op.replica == replica)
      return i;
  }
  ADD_FAILURE() << "no " << name(kind);
  return 0;
}

TEST(Fault, ABackwardThatReadsTheNewestVersionIsCaught) {
  TrainingCase test{.schedule = "2bw", .devices = 2, .microbatches = 4};
  test.model.tied = false;  // with tied embeddings the newest version is made later
  const Program good = lower(test.make());
  ProgramParts parts = good.parts();
  for (Instruction& instruction : parts.instructions) {
    if (instruction.op.kind == OpKind::backward && instruction.op.replica == ReplicaId{0})
      instruction.op.staleness = 0;
  }
  const Program broken(std::move(parts));
  EXPECT_FALSE(verify(broken, count_slots(good)).empty());
  EXPECT_THAT(failure_of([&] { train(test, broken, count_slots(good)); }),
              HasSubstr("overwrites version"));
}

TEST(Fault, AForwardWithoutItsWaitIsCaught) {
  const TrainingCase test{.schedule = "1f1b", .devices = 2, .microbatches = 4};
  const Program good = lower(test.make());
  ProgramParts parts = good.parts();
  parts.instructions[find(parts, OpKind::forward, ReplicaId{1})].wait_count = 0;
  const Program broken(std::move(parts));
  EXPECT_FALSE(verify(broken, count_slots(good)).empty());
  EXPECT_THAT(failure_of([&] {
                train(test, broken, count_slots(good), slow(good, DeviceId{0}, OpKind::forward));
              }),
              HasSubstr("the input of microbatch 0 has not arrived"));
}

TEST(Fault, AnUpdateBeforeTheLastBackwardIsCaught) {
  const TrainingCase test{.schedule = "gpipe", .devices = 1, .microbatches = 2};
  const Program good = lower(test.make());
  ProgramParts parts = good.parts();
  const std::size_t at = find(parts, OpKind::update, ReplicaId{0});
  ASSERT_EQ(parts.instructions[at - 1].op.kind, OpKind::backward);
  std::swap(parts.instructions[at], parts.instructions[at - 1]);
  const Program broken(std::move(parts));
  EXPECT_FALSE(verify(broken, count_slots(good)).empty());
  EXPECT_NE(failure_of([&] { train(test, broken, count_slots(good)); }), "no failure");
}

TEST(Fault, AMissingTiedSumChangesTheWeights) {
  TrainingCase test{.schedule = "1f1b", .devices = 2, .microbatches = 2, .batches = 1};
  const Program with_sum = lower(test.make());
  const auto right = train(test, with_sum, count_slots(with_sum));
  const Program without = lower(
      make_schedule(find_schedule("1f1b"), {.devices = 2, .microbatches = 2, .replicas = {}}));
  const auto wrong = train(test, without, count_slots(without));
  ASSERT_EQ(right.weights.front().name, "embedding.token.weight");
  EXPECT_NE(right.weights.front().values, wrong.weights.front().values);
}

// A lane is in order: what a trace shows on it must not overlap, however late a receiver wakes up.
TEST(Timeline, HoldsOneSpanAnInstanceAndNoOverlapOnALane) {
  const TrainingCase test{.schedule = "2bw", .devices = 4, .microbatches = 5, .batches = 20};
  const Program program = lower(test.make());
  const std::vector<Span> spans =
      train(test, program, count_slots(program)).timelines.front().spans;
  EXPECT_EQ(spans.size(), program.size() * static_cast<std::size_t>(test.batches));
  std::map<LaneId, std::vector<std::pair<Duration, Duration>>> lanes;
  for (const Span& span : spans) {
    EXPECT_LE(span.start, span.end);
    for (const LaneId lane : program.lanes(program[span.instruction])) {
      lanes[lane].emplace_back(span.start, span.end);
    }
  }
  for (auto& [lane, times] : lanes) {
    std::sort(times.begin(), times.end());
    for (std::size_t i = 1; i < times.size(); ++i) EXPECT_LE(times[i - 1].second, times[i].first);
  }
}

TEST(Train, NamesTheDeviceThatFailsAndEndsTheOthers) {
  const TrainingCase test{.schedule = "1f1b", .devices = 4, .microbatches = 4, .batches = 1000};
  const Program program = lower(test.make());
  const auto fail_late = [&](DeviceId device, Instance instance) {
    if (device == DeviceId{2} && instance.microbatch == 9)
      throw DeviceError("the disk of this device is gone");
  };
  EXPECT_THAT(
      failure_of([&] { train(test, program, count_slots(program), fail_late); }),
      ::testing::AllOf(HasSubstr("device 2"), HasSubstr("the disk of this device is gone")));
}

/// Trains with a device that stands still before one op, for as long as `stays` says so.
void train_with_a_stall(const std::function<bool()>& stays,
                        const std::function<void(TrainingSetup<float>&)>& change = {}) {
  const TrainingCase test{.schedule = "2bw", .devices = 3, .microbatches = 4, .batches = 1000};
  const Program program = lower(test.make());
  const Data data = testing::data_of(test);
  TrainingSetup<float> setup = testing::setup_of<float>(test, program, data);
  setup.watchdog = 100ms;
  setup.before_work = [&](DeviceId device, Instance instance) {
    if (device != DeviceId{1} || instance.microbatch != 9) return;
    if (program[instance.id].op.kind != OpKind::backward) return;
    while (stays()) std::this_thread::sleep_for(5ms);
  };
  if (change) change(setup);
  train_on_cpu<float>(program, setup);
}

TEST(Watchdog, NamesTheOpThatDoesNotEnd) {
  std::optional<std::chrono::steady_clock::time_point> start;
  const auto stays = [&] {
    const auto now = std::chrono::steady_clock::now();
    return now - *(start = start.value_or(now)) < 1s;
  };
  EXPECT_THAT(failure_of([&] { train_with_a_stall(stays); }),
              ::testing::AllOf(HasSubstr("device 1, "), HasSubstr("(microbatch 9): does not end"),
                               HasSubstr("nothing has ended anywhere for ")));
}

TEST(Watchdog, LetsWorkBeThatIsOnlySlow) {
  std::atomic<int> waits = 0;
  const auto stays = [&] { return ++waits < 10; };  // 50 ms
  EXPECT_EQ(failure_of([&] {
              train_with_a_stall(stays, [](TrainingSetup<float>& setup) {
                setup.batches = 4;
                setup.watchdog = 5s;
              });
            }),
            "no failure");
}

TEST(WatchdogDeathTest, EndsTheProcessWhenAThreadHeedsNothing) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto says_so = [](TrainingSetup<float>& setup) {
    setup.on_stuck = [](const std::string& error) { fmt::print(stderr, "{}", error); };
  };
  EXPECT_EXIT(train_with_a_stall([] { return true; }, says_so), ::testing::ExitedWithCode(1),
              "device 1, .*microbatch 9.*does not end");
}

TEST(Train, NamesDeviceOpAndMicrobatchOfAThrow) {
  const TrainingCase test{.schedule = "gpipe", .devices = 2, .microbatches = 3, .batches = 4};
  const Program program = lower(test.make());
  const auto fail = [&](DeviceId device, Instance instance) {
    if (device == DeviceId{1} && instance.microbatch == 7 &&
        program[instance.id].op.kind == OpKind::forward)
      throw DeviceError("gone");
  };
  EXPECT_EQ(failure_of([&] { train(test, program, count_slots(program), fail); }),
            "device 1, f1 (microbatch 7): gone");
}

TEST(Train, StopsWhenAsked) {
  const TrainingCase test{.schedule = "2bw", .devices = 2, .microbatches = 4, .batches = 1'000'000};
  const Program program = lower(test.make());
  const Data data = testing::data_of(test);
  TrainingSetup<float> setup = testing::setup_of<float>(test, program, data);
  std::stop_source stop;
  setup.stop = stop.get_token();
  setup.on_step = [&](const StepReport& step) {
    if (step.batch == 3) stop.request_stop();
  };
  EXPECT_TRUE(train_on_cpu<float>(program, setup).interrupted);
}

TEST(Train, KnowsOnlyTheBackendsItHas) {
  EXPECT_NE(find_backend("cpu").make(), nullptr);
  if (why_no_cuda().empty()) GTEST_SKIP() << "there is a GPU";
  EXPECT_THROW(find_backend("cuda").make(), AbsentError);
}

}  // namespace
}  // namespace tandem
