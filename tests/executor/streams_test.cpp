// That events order all that devices give to their streams: runs on devices that take up tasks at
// once, as GPUs do, and compute late. Every access to memory comes behind what it depends on, and
// what is trained is what the CPU trains, bit for bit.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <memory>
#include <regex>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/program/title.h"
#include "executor/run/training_run.h"
#include "executor/stage/stage.h"
#include "tests/support/deferred_backend.h"
#include "tests/support/pipelines.h"
#include "tests/support/sanitizers.h"
#include "tests/support/training.h"
#include "tests/support/validated.h"

namespace tandem {

template class Stage<testing::DeferredKernels<float>>;

namespace {

using testing::DeferredBackend;
using testing::DeferredRunState;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kRacesAreFound;
using testing::TrainingCase;

using Change = std::function<void(TrainingSetup<float>&)>;

TrainingReport<float> train_deferred(const TrainingCase& test, const Program& program,
                                     DeferredRunState& run_state, const Change& change = {}) {
  using B = DeferredBackend<float>;
  const Data data = testing::data_of(test);
  TrainingSetup<float> setup = testing::setup_of<float>(test, program, data);
  if (change) change(setup);
  return TrainingRun<B>(program, setup,
                        [&run_state](DeviceId device, Wakeup& wakeup, std::stop_token stop) {
                          return std::make_unique<B>(run_state, index(device), wakeup,
                                                     std::move(stop));
                        })
      .run();
}

TrainingReport<float> train_on_the_cpu(const TrainingCase& test, const Program& program,
                                       const Change& change = {}) {
  const Data data = testing::data_of(test);
  TrainingSetup<float> setup = testing::setup_of<float>(test, program, data);
  if (change) change(setup);
  return train_on_cpu<float>(program, setup);
}

std::string name_of(const TrainingCase& test) {
  return fmt::format("{} p{} m{} width {} {}", test.schedule, test.devices, test.microbatches,
                     test.width, name(test.recompute));
}

/// Numbers that are none equal themselves.
std::vector<std::uint64_t> bits_of(const std::vector<double>& values) {
  std::vector<std::uint64_t> bits;
  for (const double value : values) bits.push_back(std::bit_cast<std::uint64_t>(value));
  return bits;
}

void expect_equal(const TrainingReport<float>& deferred, const TrainingReport<float>& on_cpu) {
  EXPECT_EQ(bits_of(deferred.losses), bits_of(on_cpu.losses));
  ASSERT_EQ(deferred.weights.size(), on_cpu.weights.size());
  for (std::size_t i = 0; i < on_cpu.weights.size(); ++i) {
    EXPECT_EQ(deferred.weights[i].name, on_cpu.weights[i].name);
    EXPECT_EQ(deferred.weights[i].values, on_cpu.weights[i].values) << on_cpu.weights[i].name;
  }
  EXPECT_EQ(deferred.high_water, on_cpu.high_water);
}

void expect_ordered(const TrainingCase& test, std::uint64_t seed = 1, const Change& change = {}) {
  SCOPED_TRACE(name_of(test));
  const Program program = lower(test.make());
  DeferredRunState run_state;
  run_state.seed = seed;
  const TrainingReport<float> deferred = train_deferred(test, program, run_state, change);
  EXPECT_THAT(run_state.order.violations(), IsEmpty());
  EXPECT_GT(run_state.order.launches(), 0u);
  expect_equal(deferred, train_on_the_cpu(test, program, change));
}

class StreamsOf : public ::testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Schedules, StreamsOf, ::testing::ValuesIn(testing::schedule_names()),
                         testing::test_name);

TEST_P(StreamsOf, AreOrderedByTheirEvents) {
  std::uint64_t seed = 0;
  int served = 0;
  for (const std::uint16_t devices : {std::uint16_t{1}, std::uint16_t{2}, std::uint16_t{4}}) {
    for (const std::uint16_t width : {std::uint16_t{1}, std::uint16_t{2}}) {
      for (const Recompute recompute :
           {Recompute::none, Recompute::selective, Recompute::full, Recompute::stage}) {
        const bool in_layers = recompute == Recompute::selective || recompute == Recompute::full;
        // Order is the same with a sanitizer: it sees some.
        if (testing::kSanitized && (devices == 1 || width == 1 || (in_layers && devices != 2)))
          continue;
        TrainingCase test = TrainingCase::on(GetParam(), devices);
        const std::uint16_t only = find_schedule(GetParam()).only_devices;
        if (only != 0) test.devices = only;
        test.width = width;
        test.recompute = recompute;
        test.batches = 3;
        test.microbatches = devices == 2 ? 5 : 4;
        while (!test.is_served() && test.microbatches < 16) ++test.microbatches;
        if (!test.is_served()) continue;  // takes another number of devices
        ++served;
        expect_ordered(test, ++seed);
      }
    }
  }
  EXPECT_GE(served, testing::kSanitized ? 2 : 6);
}

TEST(Streams, OfSlicesAreOrderedByTheirEvents) {
  std::uint64_t seed = 0;
  for (const char* schedule : {"terapipe", "seq1f1b", "seq1f1b-zb"}) {
    for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
      TrainingCase test = TrainingCase::on(schedule, 3);
      test.recompute = recompute;
      test.batches = 2;
      test.slices = {3, 1, 2};
      expect_ordered(test, ++seed);
    }
  }
}

/// The program without the waits for which `drops` is true.
template <class Drops>
Program without_waits(const Program& program, const Drops& drops) {
  ProgramParts parts = program.parts();
  std::vector<Wait> kept;
  for (Instruction& instruction : parts.instructions) {
    const auto first = static_cast<std::uint32_t>(kept.size());
    for (const Wait& wait : program.waits(instruction)) {
      if (!drops(instruction.op, program[wait.producer].op, wait)) kept.push_back(wait);
    }
    instruction.first_wait = first;
    instruction.wait_count = static_cast<std::uint16_t>(kept.size() - first);
  }
  parts.wait_pool = std::move(kept);
  return Program(std::move(parts));
}

/// What is found when the run is broken: its numbers, if it comes to an end, are wrong.
std::set<std::string> violations_of(const TrainingCase& test, const Program& program,
                                    DeferredRunState& run_state) {
  try {
    // Without times, which are not known where a fence is missing.
    train_deferred(test, program, run_state,
                   [](TrainingSetup<float>& setup) { setup.keep_timeline = false; });
  } catch (const DeviceError&) {  // gradients that are not finite
  }
  return run_state.order.violations();
}

/// Op kinds of who waits and what for, and whether it is for an earlier body.
using WaitKind = std::tuple<OpKind, OpKind, bool>;
WaitKind kind_of(const Op& op, const Op& producer, const Wait& wait) {
  return {op.kind, producer.kind, wait.lag > 0};
}

std::vector<TrainingCase> cases_for_faults() {
  std::vector<TrainingCase> cases;
  for (const char* schedule : {"1f1b", "2bw", "zb-h2", "zbv", "chimera", "bpipe", "pipedream"}) {
    for (const bool clips : {false, true}) {
      TrainingCase test = TrainingCase::on(schedule, 4);
      if (clips) test.guard = {.clip = ClipScope::global, .most_norm = 0.5};
      test.microbatches = 8;
      test.batches = 3;
      if (test.is_served()) cases.push_back(std::move(test));
    }
  }
  TrainingCase validated = testing::validated("zb-h2", 4, testing::kNever);
  validated.batches = 3;
  validated.take_microbatches(8);
  cases.push_back(std::move(validated));
  return cases;
}

TEST(Streams, AreSeenToLackEveryKindOfWait) {
  if (kRacesAreFound) GTEST_SKIP() << "the thread sanitizer stops at the first";
  std::set<WaitKind> found;
  for (const TrainingCase& test : cases_for_faults()) {
    const Program program = lower(test.make());
    std::set<WaitKind> kinds;
    for (const Instruction& instruction : program.instructions()) {
      for (const Wait& wait : program.waits(instruction))
        kinds.insert(kind_of(instruction.op, program[wait.producer].op, wait));
    }
    for (const WaitKind& kind : kinds) {
      const auto& [waiter, producer, earlier] = kind;
      SCOPED_TRACE(fmt::format("{}: {} waits for {}{}", test.schedule, name(waiter), name(producer),
                               earlier ? " of a body before" : ""));
      DeferredRunState run_state;
      run_state.takes_up_in_order = true;
      const Program broken =
          without_waits(program, [&kind](const auto&... wait) { return kind_of(wait...) == kind; });
      EXPECT_THAT(violations_of(test, broken, run_state), ::testing::Not(IsEmpty()));
      found.insert(kind);
    }
  }
  EXPECT_GE(found.size(), 20u);
}

// What passes between devices: arrivals of transfers, of gradients to a sum and of the sum, of
// squares to a norm and of the decision.
/// Fences are left out one by one; with a sanitizer, which looks for other faults, some.
constexpr std::int64_t kFences = testing::kSanitized ? 13 : 1;

TEST(Streams, AreSeenToLackEveryFence) {
  if (kRacesAreFound) GTEST_SKIP() << "the thread sanitizer stops at the first";
  for (TrainingCase test : cases_for_faults()) {
    SCOPED_TRACE(name_of(test));
    // Where one collective follows another, the second may make good what the first lacks.
    if (test.schedule == "chimera") continue;
    // Where an update is right as it is, nothing but the host asks what was decided.
    if (test.post_validation) continue;
    test.model.tied = test.model.tied && !test.guard.is_global();
    test.batches = 2;
    const Program program = lower(test.make());
    DeferredRunState whole;
    EXPECT_THAT(violations_of(test, program, whole), IsEmpty());
    std::size_t missing = 0;
    for (std::int64_t i = 0; i < whole.followed(); i += kFences) {
      DeferredRunState run_state;
      run_state.first_left_out = i;
      run_state.left_out = 1;
      const std::set<std::string> violations = violations_of(test, program, run_state);
      EXPECT_EQ(violations.empty(), run_state.order.missing() == 0) << i;
      missing += run_state.order.missing();
    }
    EXPECT_GT(missing, static_cast<std::size_t>(whole.followed() / kFences) / 3);
  }
}

TEST(Streams, AreOrderedWhereNormsDecide) {
  for (const char* schedule : {"1f1b", "2bw", "chimera", "zb-h2"}) {
    for (const auto& [clip, on_nan] : {std::pair{ClipScope::global, NonFinite::stop},
                                       {ClipScope::global, NonFinite::skip},
                                       {ClipScope::per_stage, NonFinite::stop}}) {
      TrainingCase test = TrainingCase::on(schedule, 4);
      test.guard = {.clip = clip, .most_norm = 0.5, .on_nan = on_nan};
      test.model.tied = clip == ClipScope::global;
      test.width = 2;
      expect_ordered(test, 3);
    }
  }
}

// Their scratch is that of passes.
TEST(Streams, AreOrderedWhereMatricesAreSteppedWhole) {
  for (const char* schedule : {"1f1b", "2bw", "chimera", "pipemare"}) {
    TrainingCase test = TrainingCase::on(schedule, 4);
    test.optimizer.kind = OptimizerKind::muon;
    expect_ordered(test, 3);
  }
}

/// The batches that were rolled back, first on a deferred device, then on the CPU.
std::vector<std::int64_t> expect_ordered_rollbacks(const TrainingCase& test, std::uint64_t seed,
                                                   std::int64_t pause_every = 0) {
  std::vector<std::int64_t> batches;
  expect_ordered(test, seed, [&](TrainingSetup<float>& setup) {
    setup.pause_every = pause_every;
    setup.on_step = [&](const StepReport& step) {
      if (step.rolled_back) batches.push_back(step.batch);
    };
  });
  const auto half = static_cast<std::ptrdiff_t>(batches.size() / 2);
  const std::vector<std::int64_t> deferred(batches.begin(), batches.begin() + half);
  EXPECT_EQ(deferred, std::vector(batches.begin() + half, batches.end()));
  return deferred;
}

class ValidatedStreamsOf : public ::testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Schedules, ValidatedStreamsOf,
                         ::testing::ValuesIn(testing::synchronous_schedules()), testing::test_name);

// The host learns a decision in the middle of a stream, and others go on meanwhile.
TEST_P(ValidatedStreamsOf, AreOrderedByTheirEvents) {
  std::uint64_t seed = 0;
  for (const std::uint16_t devices : {std::uint16_t{2}, std::uint16_t{4}}) {
    for (const double most_norm : {testing::kNever, testing::kSometimes, testing::kAlways}) {
      if (testing::kSanitized && devices == 4 && most_norm != testing::kSometimes) continue;
      TrainingCase test = testing::validated(GetParam(), devices, most_norm);
      test.batches = 3;
      test.width = devices == 2 ? 2 : 1;
      const std::uint16_t only = find_schedule(GetParam()).only_devices;
      if (only != 0) test.devices = only;
      test.take_microbatches(3);
      const std::vector<std::int64_t> batches = expect_ordered_rollbacks(test, ++seed);
      if (most_norm == testing::kNever) {
        EXPECT_THAT(batches, IsEmpty());
      }
      if (most_norm == testing::kAlways) {
        EXPECT_EQ(std::ssize(batches), test.batches);
      }
    }
  }
}

TEST(Streams, AreOrderedInRollbacksWithRecomputationAndPauses) {
  for (const Recompute recompute :
       {Recompute::none, Recompute::selective, Recompute::full, Recompute::stage}) {
    const bool folds = recompute == Recompute::stage;
    TrainingCase test = testing::validated(folds ? "zbv" : "zb-h2", 3, testing::kAlways);
    test.optimizer.kind = OptimizerKind::adamw;
    test.recompute = recompute;
    test.batches = 5;
    test.take_microbatches(6);
    EXPECT_EQ(expect_ordered_rollbacks(test, 5, 2).size(), 5u);
  }
}

TEST(Streams, AreOrderedWhereWhatIsNotFiniteIsSkipped) {
  for (const char* schedule : {"zb-h1", "zb-h2", "zbv"}) {
    for (const bool clips : {false, true}) {
      const std::vector<std::int64_t> batches =
          expect_ordered_rollbacks(testing::overflowing(schedule, clips), 3);
      EXPECT_GT(batches.size(), 0u) << "the model never exploded";
      EXPECT_LT(batches.size(), 12u);
    }
  }
}

TEST(Streams, AreSeenToLackEveryFenceOfARollback) {
  if (kRacesAreFound) GTEST_SKIP() << "the thread sanitizer stops at the first";
  for (const char* schedule : {"zb-h2", "1f1b-eager", "zbv"}) {
    TrainingCase test = testing::validated(schedule, 3, testing::kAlways);
    test.model.tied = false;
    test.batches = 3;
    test.take_microbatches(6);
    SCOPED_TRACE(name_of(test));
    const Program program = lower(test.make());
    DeferredRunState whole;
    EXPECT_THAT(violations_of(test, program, whole), IsEmpty());
    std::int64_t missing = 0, found = 0;
    for (std::int64_t i = 0; i < whole.followed(); i += kFences) {
      DeferredRunState run_state;
      run_state.first_left_out = i;
      run_state.left_out = 1;
      const bool is_found = !violations_of(test, program, run_state).empty();
      if (run_state.order.missing() == 0) {
        EXPECT_FALSE(is_found) << i;
        continue;
      }
      ++missing;
      found += is_found;
    }
    // Not each stage goes on with an input that the one above has made again.
    EXPECT_GT(found, missing * 3 / 4);
    EXPECT_GT(missing, whole.followed() / kFences / 3);
  }
}

TEST(Streams, AreOrderedInReplicasAndVerticalSync) {
  TrainingCase test{.schedule = "pipedream", .devices = 4, .microbatches = 4};
  test.replicas = {2, 1, 1};
  test.model.tied = false;
  expect_ordered(test);
  test = {.schedule = "pipedream", .devices = 3, .vertical_sync = true};
  expect_ordered(test);
}

TEST(Streams, AreOrderedThroughPauses) {
  TrainingCase test{.schedule = "2bw", .devices = 3, .microbatches = 4, .batches = 5};
  std::vector<std::vector<float>> seen;
  const auto pauses = [&seen](TrainingSetup<float>& setup) {
    setup.pause_every = 2;
    setup.on_pause = [&seen](std::int64_t, std::span<const StageWeights<float>> stages) {
      for (const auto& stage : stages) seen.emplace_back(stage.values.begin(), stage.values.end());
    };
  };
  expect_ordered(test, 5, pauses);
  ASSERT_EQ(seen.size(), 12u);  // three stages, twice, on both
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(seen[i], seen[i + 6]);
}

TEST(Streams, EndARunWhoseGradientsAreNotFinite) {
  TrainingCase test{.schedule = "2bw", .devices = 2};
  test.optimizer.learning_rate = 1e30;
  const Program program = lower(test.make());
  DeferredRunState run_state;
  try {
    train_deferred(test, program, run_state);
    ADD_FAILURE() << "no failure";
  } catch (const DeviceError& error) {
    EXPECT_THAT(error.what(), HasSubstr("is not finite"));
  }
}

/// Of a run in which one kernel fails, as it is told.
std::string failure_of(const TrainingCase& test, const Program& program,
                       DeferredRunState& run_state, const Change& change = {}) {
  try {
    train_deferred(test, program, run_state, change);
  } catch (const DeviceError& error) {
    return error.what();
  }
  return "none";
}

// Planted: streams that do not wait for records that are still to be taken up.
TEST(Streams, AreSeenToLoseWaitsForWhatIsNotTakenUpYet) {
  const TrainingCase test = testing::validated("zb-h2", 3, testing::kAlways);
  DeferredRunState run_state;
  run_state.loses_waits = true;
  EXPECT_THAT(failure_of(test, lower(test.make()), run_state), HasSubstr("has not arrived"));
}

// It fails when it runs, and by then the host has given more: what began last comes no sooner than
// the work that failed, and what is known to have ended comes before.
TEST(Streams, SayWhereAKernelThatFailedMayHaveBeen) {
  const TrainingCase test{.schedule = "2bw", .devices = 1};
  const Program program = lower(test.make());
  std::vector<std::string> begun;      // the device's work in its order
  std::vector<std::int64_t> first_of;  // kernel of each
  DeferredRunState whole;
  ASSERT_EQ(failure_of(test, program, whole,
                       [&](TrainingSetup<float>& setup) {
                         setup.before_work = [&](DeviceId, Instance at) {
                           begun.push_back(fmt::format("{} (microbatch {})",
                                                       describe(program, at.id), at.microbatch));
                           first_of.push_back(static_cast<std::int64_t>(whole.order.launches()));
                         };
                       }),
            "none");
  const auto place_of = [&](const std::string& work) {
    return std::ranges::find(begun, work) - begun.begin();
  };
  const auto kernels = static_cast<std::int64_t>(whole.order.launches());
  std::int64_t later = 0, nothing = 0;
  for (std::int64_t kernel = 0; kernel < kernels; kernel += 7) {
    DeferredRunState run_state;
    run_state.failing = kernel;
    const std::string failure = failure_of(test, program, run_state);
    const auto failed = std::ranges::upper_bound(first_of, kernel) - first_of.begin() - 1;
    const std::regex words(
        "device 0, (.*): a kernel has failed; it showed here, but earlier work may have failed: "
        "(?:none is known to have ended|the last work known to have ended is (.*))");
    std::smatch said;
    ASSERT_TRUE(std::regex_match(failure, said, words)) << failure;
    ASSERT_LT(place_of(said[1]), std::ssize(begun)) << failure;
    EXPECT_GE(place_of(said[1]), failed) << failure;
    if (place_of(said[1]) > failed) ++later;
    if (!said[2].matched) {
      ++nothing;
      continue;
    }
    EXPECT_LT(place_of(said[2]), failed) << failure;
  }
  EXPECT_GT(later, 0) << "all showed where they were";
  EXPECT_GT(nothing, 0);
  EXPECT_LT(nothing, kernels / 7 / 2);
}

// Profilers show the work of each lane by the name that it has in traces.
TEST(Streams, AreShownToProfilersAsTracesShowThem) {
  TrainingCase test{.schedule = "2bw", .devices = 3};
  test.model.tied = false;
  test.batches = 2;
  const Program program = lower(test.make());
  const WeightVersions versions(program);
  DeferredRunState run_state;
  testing::RecordedRange::take();
  const TrainingReport<float> report = train_deferred(test, program, run_state);
  std::vector<std::string> expected;
  for (const Span& span : report.timelines.at(0).spans) {
    const Instruction& instruction = program[span.instruction];
    const std::int64_t microbatch = span.body * program.microbatches() + instruction.op.microbatch;
    for (const LaneId lane : program.lanes(instruction)) {
      expected.push_back(title_of(program, versions, {span.instruction, span.body, microbatch},
                                  program.lanes()[lane].kind));
    }
  }
  EXPECT_THAT(testing::RecordedRange::take(), ::testing::UnorderedElementsAreArray(expected));
  EXPECT_THAT(expected, ::testing::IsSupersetOf({"F 7", "B 0", "U 2", "send activation 3",
                                                 "receive activation 3", "receive gradient 7"}));
}

TEST(StreamOrder, KnowsWhatComesBehindWhat) {
  using testing::Access;
  testing::StreamOrder order;
  const auto first = order.add_stream(), second = order.add_stream();
  std::vector<float> memory(8);
  const std::span<float> all(memory), head = all.first(4), tail = all.last(4);
  order.launch(first, "make", std::vector{Access::write(all)});
  order.launch(first, "look", std::vector{Access::read(all)});
  EXPECT_THAT(order.violations(), IsEmpty()) << "a stream is in order";
  order.launch(second, "peek", std::vector{Access::read(head)});
  EXPECT_THAT(order.violations(), ::testing::ElementsAre("peek reads what make writes"));
  order.wait(second, order.record(first));
  order.launch(second, "change", std::vector{Access::write(tail)});
  EXPECT_EQ(order.violations().size(), 1u);
  order.launch(first, "spoil", std::vector{Access::write(all.subspan(3, 2))});
  EXPECT_THAT(order.violations(), ::testing::UnorderedElementsAre(
                                      "peek reads what make writes", "spoil writes what peek reads",
                                      "spoil writes what change writes"));
  order.finish(std::vector{first});
  order.launch(second, "again", std::vector{Access::write(all)});
  EXPECT_EQ(order.violations().size(), 3u) << "the host has waited";
}

}  // namespace
}  // namespace tandem
