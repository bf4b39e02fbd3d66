// Runs that begin with what another run has left, against runs that were never disturbed, bit for
// bit: every schedule, after every batch, into other layouts, while the other run went on.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/kept_states.h"
#include "tests/support/pipelines.h"
#include "tests/support/sanitizers.h"
#include "tests/support/trajectory.h"

namespace tandem {
namespace {

using testing::AllStates;
using testing::by_executor;
using testing::KeptState;
using testing::Trace;
using testing::TrainingCase;

/// Of a run that shows its state after every batch while it goes on.
Trace<float> trace_keeping(const TrainingCase& test, AllStates<float>& states,
                           std::uint64_t delays = 1) {
  const Program program = lower(test.make());
  return by_executor<float>(test, program, count_slots(program),
                            testing::seeded_delays(delays, std::chrono::microseconds(200)),
                            [&](TrainingSetup<float>& setup) { setup.keeper = &states; });
}

Trace<float> trace_from(const TrainingStart<float>& start, const TrainingCase& test) {
  const Program program = lower(test.make());
  return by_executor<float>(test, program, count_slots(program), {},
                            [&](TrainingSetup<float>& setup) { setup.start = &start; });
}

/// The part of a trace that is made after `batches`.
Trace<float> rest_of(const Trace<float>& whole, const TrainingCase& test, std::int64_t batches) {
  Trace<float> rest = whole;
  const std::size_t losses = whole.losses.size() / static_cast<std::size_t>(test.batches);
  rest.losses.erase(rest.losses.begin(),
                    rest.losses.begin() +
                        static_cast<std::ptrdiff_t>(losses * static_cast<std::size_t>(batches)));
  // Stages may update several times a batch: each as often as its last version says.
  std::map<std::string, std::int64_t> last;
  for (const auto& [key, values] : whole.weights)
    last[key.second] = std::max(last[key.second], key.first);
  const auto is_before = [&](const auto& each) {
    return each.first.first <= last.at(each.first.second) / test.batches * batches;
  };
  std::erase_if(rest.weights, is_before);
  std::erase_if(rest.optimizer, is_before);
  return rest;
}

/// By the schedule itself, from the state after each batch.
void expect_goes_on(const TrainingCase& test) {
  SCOPED_TRACE(fmt::format("{} p{} m{}", test.schedule, test.devices, test.microbatches));
  AllStates<float> states;
  const Trace<float> whole = trace_keeping(test, states);
  expect_equal(whole, by_executor<float>(test));
  for (std::int64_t batches = 1; batches < test.batches; ++batches) {
    SCOPED_TRACE(fmt::format("after {}", batches));
    expect_equal(trace_from(states.at(batches), test), rest_of(whole, test, batches));
  }
}

class Resumed : public ::testing::TestWithParam<std::string> {};

TEST_P(Resumed, RunsGoOnWithTheSameBits) {
  for (const std::uint16_t devices : std::vector<std::uint16_t>{1, 2, 3}) {
    if (testing::kSanitized && devices == 2) continue;
    TrainingCase test = TrainingCase::on(GetParam(), devices);
    if (!test.take_microbatches(4)) continue;
    expect_goes_on(test);
  }
}

INSTANTIATE_TEST_SUITE_P(EverySchedule, Resumed, ::testing::ValuesIn(testing::schedule_names()),
                         [](const auto& name) {
                           std::string text = name.param;
                           std::ranges::replace(text, '-', '_');
                           return text;
                         });

TEST(ResumedRuns, GoOnForEveryOptimizerGuardAndCorrection) {
  for (const OptimizerKind kind :
       {OptimizerKind::sgd, OptimizerKind::momentum, OptimizerKind::adamw, OptimizerKind::nadam,
        OptimizerKind::muon}) {
    for (const DelayCorrection correction :
         {DelayCorrection::none, DelayCorrection::error_feedback}) {
      TrainingCase test{.schedule = "2bw", .devices = 2, .width = 2};
      test.optimizer.kind = kind;
      test.optimizer.correction = correction;
      test.optimizer.schedule = {.kind = LearningRateKind::cosine, .warmup = 2, .total = 6};
      test.guard = {.clip = ClipScope::global, .most_norm = 0.5};
      SCOPED_TRACE(describe(test.optimizer.optimizer()));
      expect_goes_on(test);
    }
  }
}

TEST(ResumedRuns, GoOnWhereUpdatesAreValidated) {
  TrainingCase test{.schedule = "zb-h1", .devices = 3, .microbatches = 6};
  test.post_validation = true;
  test.guard = {.clip = ClipScope::global, .most_norm = 0.4};
  expect_goes_on(test);
}

TEST(ResumedRuns, GoOnWithSlicesAndRecomputation) {
  TrainingCase test{.schedule = "seq1f1b", .devices = 2, .slices = {1, 2, 3}};
  expect_goes_on(test);
  test = {.schedule = "2bw", .devices = 3, .recompute = Recompute::full};
  expect_goes_on(test);
}

/// Layouts of one semantics, a cell each: all make the same bits, keep the same state, and go on
/// from one another's.
void expect_all_into_all(const std::vector<TrainingCase>& layouts) {
  std::vector<AllStates<float>> states(layouts.size());
  std::vector<Trace<float>> traces;
  for (std::size_t i = 0; i < layouts.size(); ++i)
    traces.push_back(trace_keeping(layouts[i], states[i], i + 1));
  EXPECT_FALSE(states.front().at(1).equals(states.front().at(2)));  // the control
  for (std::size_t from = 0; from < layouts.size(); ++from) {
    expect_equal(traces[from], traces.front());
    EXPECT_TRUE(states[from].at(2).equals(states.front().at(2))) << layouts[from].schedule;
    for (std::size_t into = 0; into < layouts.size(); ++into) {
      SCOPED_TRACE(fmt::format("{} p{} -> {} p{}", layouts[from].schedule, layouts[from].devices,
                               layouts[into].schedule, layouts[into].devices));
      expect_equal(trace_from(states[from].at(2), layouts[into]),
                   rest_of(traces.front(), layouts[into], 2));
    }
  }
}

/// Every schedule of the semantics, on one to four devices, that adds a batch's gradients in one
/// order, for four microbatches.
std::vector<TrainingCase> layouts_of(WeightSemantics semantics) {
  std::vector<TrainingCase> layouts;
  for (const std::string& schedule : testing::schedule_names()) {
    if (find_schedule(schedule).weights != semantics) continue;
    for (const std::uint16_t devices : std::vector<std::uint16_t>{1, 2, 4}) {
      TrainingCase test = TrainingCase::on(schedule, devices);
      test.model.blocks = 4;
      test.model.tied = false;
      test.microbatches = 4;
      if (!test.is_served()) continue;
      const auto stages = testing::reference_config(test, semantics).stages;
      const bool plain = std::ranges::all_of(stages, [](const ReferenceStage& stage) {
        return std::ranges::is_sorted(stage.order) && stage.replicas == 1;
      });
      if (plain) layouts.push_back(test);
    }
  }
  return layouts;
}

TEST(ResumedRuns, GoOnInAnyLayoutOfTheirSemantics) {
  for (const WeightSemantics semantics :
       {WeightSemantics::vanilla, WeightSemantics::delayed_by_one}) {
    std::vector<TrainingCase> layouts = layouts_of(semantics);
    EXPECT_GE(layouts.size(), 3U);
    if (testing::kSanitized && layouts.size() > 6) layouts.resize(6);
    expect_all_into_all(layouts);
  }
}

/// The reference of a layout that goes on from a state: what no run makes undisturbed.
Trace<float> reference_from(const TrainingStart<float>& start, const TrainingCase& test) {
  const Data data = testing::data_of(test);
  Reference<cpu::Kernels<float>> reference(
      test.model, testing::reference_config(test, test.semantics()), data, &start);
  Trace<float> trace;
  const ReferenceState<float>& state = reference.state();
  for (std::int64_t batch = start.batches(); batch < test.batches; ++batch) {
    reference.step([&](const ReferenceUpdate& update) {
      for (const std::string& name : update.tensors)
        trace.keep({update.version, name}, state.weights.at(name), state.optimizer.at(name));
    });
    trace.losses.insert(trace.losses.end(), state.losses.begin(), state.losses.end());
  }
  return trace;
}

// Other delays, widths, sizes of microbatches: the run is that of the reference, which is straight
// loops.
TEST(ResumedRuns, GoOnAsTheReferenceInEveryOtherLayout) {
  std::vector<TrainingCase> layouts;
  for (const std::string& schedule : testing::schedule_names()) {
    TrainingCase test = TrainingCase::on(schedule, 2);
    test.model.blocks = 3;
    test.model.tied = false;
    if (test.take_microbatches(4) && test.microbatches == 4) layouts.push_back(test);
  }
  TrainingCase wide{.schedule = "2bw", .devices = 2, .microbatches = 2, .width = 2};
  wide.model = layouts.front().model;
  layouts.push_back(wide);
  ASSERT_GE(layouts.size(), 10U);
  const std::size_t step = testing::kSanitized ? 7 : 1;
  for (std::size_t from = 0; from < layouts.size(); from += step) {
    AllStates<float> states;
    trace_keeping(layouts[from], states);
    for (std::size_t into = 0; into < layouts.size(); into += step) {
      SCOPED_TRACE(fmt::format("{} -> {}", layouts[from].schedule, layouts[into].schedule));
      expect_equal(trace_from(states.at(2), layouts[into]),
                   reference_from(states.at(2), layouts[into]));
    }
  }
}

TEST(ResumedRuns, NeedAllThatLasts) {
  TrainingCase test{.schedule = "2bw", .devices = 2};
  AllStates<float> states;
  const Trace<float> rest = rest_of(trace_keeping(test, states), test, 2);
  const auto differs_without = [&](auto change) {
    KeptState<float> state = states.at(2);
    change(state);
    return trace_from(state, test).weights != rest.weights;
  };
  EXPECT_FALSE(differs_without([](auto&) {}));
  EXPECT_TRUE(differs_without([](auto& state) { state.drop(PlaneKind::weights, 1); }));
  EXPECT_TRUE(differs_without([](auto& state) { state.drop(PlaneKind::first_moment, 0); }));
  EXPECT_TRUE(differs_without([](auto& state) { state.drop(PlaneKind::second_moment, 0); }));
  EXPECT_TRUE(differs_without([&](auto& state) {
    const Stage<cpu::Kernels<float>> all(test.model, {0, 6}, 1, 1.0);
    for (const Tensor& tensor : all.parameters()) state.set_steps(tensor.name, 1);
  }));
}

TEST(ResumedRuns, RefuseStagesWhoseTensorsTookUnequalSteps) {
  TrainingCase test{.schedule = "1f1b", .devices = 2};
  AllStates<float> states;
  trace_keeping(test, states);
  KeptState<float> state = states.at(2);
  state.set_steps("head.norm.gain", 1);
  EXPECT_THROW(trace_from(state, test), InputError);
}

}  // namespace
}  // namespace tandem
