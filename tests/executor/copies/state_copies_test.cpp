// Copies of a run's state in memory: runs that fail at any op go on from the newest step that all
// stages had ended, to the same bits; what is missing or torn is passed over.

#include "executor/copies/state_copies.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <ranges>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "executor/checkpoint/named_parts.h"
#include "tests/support/pipelines.h"
#include "tests/support/run_command.h"
#include "tests/support/sanitizers.h"
#include "tests/support/trajectory.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

using testing::by_executor;
using testing::Trace;
using testing::TrainingCase;

/// The weights and optimizer states of the last version.
std::map<std::string, std::pair<std::vector<float>, std::vector<float>>> end_of(
    const Trace<float>& trace) {
  std::map<std::string, std::pair<std::vector<float>, std::vector<float>>> last;
  for (const auto& [key, values] : trace.weights)
    last[key.second] = {values, trace.optimizer.at(key)};
  return last;
}

constexpr std::int64_t kNever = -1;

/// A run, and where its copies are.
class CopiedRun {
 public:
  explicit CopiedRun(TrainingCase test) : test_(std::move(test)) {}

  const Program& program() const { return program_; }
  std::vector<KeptTensor> kept() const {
    return kept_tensors(program_, slots_, test_.model, layers_, test_.optimizer.optimizer());
  }
  std::unique_ptr<CopiedState> newest() const {
    std::vector<StageCopy> copies = copies_in(folder());
    for (const StageCopy& copy : std::views::reverse(copies)) {
      if (auto state = CopiedState::after(copy.batches, folder(), kept())) return state;
    }
    return nullptr;
  }
  std::string folder() const { return folder_.path().string(); }

  StateCopies copies(std::int64_t batches, std::int64_t keep) const {
    CheckpointInfo info{.written_by = "the test",
                        .model = test_.model,
                        .schedule = test_.schedule,
                        .optimizer = test_.optimizer.optimizer(),
                        .seed = test_.seed,
                        .samples_a_batch = 4};
    info.batches = batches;
    info.samples = 4 * batches;
    return {folder(), info, layers_, test_.batches, keep};
  }

  /// Trains, and fails before the op `fails_at`. Returns what was trained.
  Trace<float> run(const TrainingStart<float>* start, std::int64_t fails_at) {
    StateCopies copies =
        this->copies(start == nullptr ? 0 : start->batches(), copies_kept(program_.ramp()));
    std::atomic<std::int64_t> ops = 0;
    const auto delays = testing::seeded_delays(7, std::chrono::microseconds(200));
    const auto before_work = [&](DeviceId device, Instance instance) {
      if (ops++ == fails_at) throw DeviceError("the test ends the run");
      delays(device, instance);
    };
    return by_executor<float>(test_, program_, slots_, before_work,
                              [&](TrainingSetup<float>& setup) {
                                setup.keeper = &copies;
                                setup.start = start;
                              });
  }

  /// How many batches each stage has a copy of, at the least.
  std::int64_t copied_by_all() const {
    std::map<std::string, std::int64_t> newest;  // by stage
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      const std::string name = entry.path().filename();
      if (name.starts_with(".")) continue;
      std::int64_t& most = newest[name.substr(0, name.find('.'))];
      most = std::max(most, std::int64_t{std::stoll(name.substr(name.rfind('-') + 1))});
    }
    if (newest.size() < layers_.size()) return 0;
    std::int64_t least = test_.batches;
    for (const auto& [stage, batches] : newest) least = std::min(least, batches);
    return least;
  }

 private:
  const TrainingCase test_;
  const Program program_ = lower(test_.make());
  const SlotCounts slots_ = count_slots(program_);
  const std::vector<LayerRange> layers_ =
      testing::even_stages(test_.model, program_.placement().stages());
  testing::TemporaryFolder folder_;
};

class StateCopiesOf : public ::testing::TestWithParam<std::string> {};

TEST_P(StateCopiesOf, RunsThatFailAnywhereLoseNoStepThatHasEnded) {
  TrainingCase test = TrainingCase::on(GetParam(), 2);
  test.batches = 6;
  if (!test.take_microbatches(4)) GTEST_SKIP();
  const auto undisturbed = end_of(by_executor<float>(test));
  std::mt19937 random(5);
  std::int64_t gone_on = 0;
  for (int i = 0; i < (testing::kSanitized ? 2 : 6); ++i) {
    CopiedRun run(test);
    const auto ops = static_cast<std::int64_t>(run.program().size()) * test.batches;
    const std::int64_t fails_at = ops / 4 + static_cast<std::int64_t>(random()) % (ops / 2);
    SCOPED_TRACE(fmt::format("fails at {} of {}", fails_at, ops));
    try {
      run.run(nullptr, fails_at);
    } catch (const DeviceError&) {
      const auto state = run.newest();
      ASSERT_TRUE(state || run.copied_by_all() == 0);
      if (!state) continue;
      EXPECT_EQ(state->batches(), run.copied_by_all());
      EXPECT_EQ(state->info().samples, 4 * state->batches());
      EXPECT_EQ(end_of(run.run(state.get(), kNever)), undisturbed);
      ++gone_on;
    }
  }
  EXPECT_GT(gone_on, 0);
}

INSTANTIATE_TEST_SUITE_P(EverySchedule, StateCopiesOf,
                         ::testing::ValuesIn(testing::schedule_names()), [](const auto& name) {
                           std::string text = name.param;
                           std::ranges::replace(text, '-', '_');
                           return text;
                         });

// A stage may be a loss alone: nothing of it lasts, and nothing of the others is lost.
TEST(StateCopiesOfStages, ThatHaveNoParametersAreNotNeeded) {
  TrainingCase test{.schedule = "1f1b", .devices = 3, .batches = 3};
  test.model = {.name = "linear",
                .architecture = Architecture::linear,
                .blocks = 2,
                .width = 2,
                .heads = 1,
                .sequence = 4,
                .vocabulary = 256,
                .tied = false};
  test.optimizer = {.kind = OptimizerKind::sgd, .learning_rate = 0.0625};
  CopiedRun run(test);
  const auto undisturbed = end_of(run.run(nullptr, kNever));
  const auto state = run.newest();
  ASSERT_TRUE(state);
  EXPECT_EQ(state->batches(), 2);
  EXPECT_EQ(end_of(run.run(state.get(), kNever)), undisturbed);
}

/// A stage's planes, all of one number.
void show(StateCopies& copies, const std::vector<KeptTensor>& kept, LayerRange layers,
          const ModelSpec& model, std::int64_t batches) {
  std::vector<Tensor> tensors;
  for (const LayerTensor& each : tensors_of(model)) {
    if (each.layer < layers.first || each.layer >= layers.last) continue;
    tensors.push_back(each.tensor);
    const std::vector<float> values(static_cast<std::size_t>(each.tensor.size()),
                                    static_cast<float>(batches));
    for (const KeptTensor& of : kept) {
      if (of.tensor.name != each.tensor.name) continue;
      for (const Plane plane : of.planes) copies.keep({batches, plane, each.tensor, values});
    }
  }
  copies.end_stage(batches, tensors, batches);
}

class CopiesByHand : public ::testing::Test {
 protected:
  void show(StateCopies& copies, std::size_t stage, std::int64_t batches) const {
    tandem::show(copies, run_.kept(), layers_[stage], test_.model, batches);
  }
  std::int64_t newest() const {
    const auto state = run_.newest();
    return state ? state->batches() : -1;
  }
  std::string file(std::size_t stage, std::int64_t batches) const {
    return fmt::format("{}/stage-{}.step-{:08}", run_.folder(), stage, batches);
  }

  const TrainingCase test_{.schedule = "1f1b", .devices = 2, .batches = 20};
  const std::vector<LayerRange> layers_ = testing::even_stages(test_.model, 2);
  CopiedRun run_{test_};
};

TEST_F(CopiesByHand, OfTheNewestBatchThatAllStagesHaveAreTaken) {
  StateCopies copies = run_.copies(0, 2);
  EXPECT_EQ(newest(), -1);
  show(copies, 0, 1);
  EXPECT_EQ(newest(), -1);
  show(copies, 1, 1);
  EXPECT_EQ(newest(), 1);
  show(copies, 0, 2);
  EXPECT_EQ(newest(), 1);
  show(copies, 1, 2);
  EXPECT_EQ(newest(), 2);
  std::vector<float> values(static_cast<std::size_t>(run_.kept()[0].tensor.size()));
  ASSERT_TRUE(run_.newest()->read(kNewestWeights, run_.kept()[0].tensor, values));
  EXPECT_EQ(values.back(), 2.0f);
}

// Negative control of how many are kept: a stage that is ahead by more leaves none in common.
TEST_F(CopiesByHand, OfTooFewBatchesHaveNoneInCommon) {
  for (const std::int64_t keep : {1, 2}) {
    fs::remove_all(run_.folder());
    fs::create_directories(run_.folder());
    StateCopies copies = run_.copies(0, keep);
    show(copies, 0, 1);
    show(copies, 1, 1);
    show(copies, 0, 2);
    EXPECT_EQ(newest(), keep == 1 ? -1 : 1);
  }
}

TEST_F(CopiesByHand, ThatAreTornOrLackAStageArePassedOver) {
  StateCopies copies = run_.copies(0, 9);
  for (std::int64_t batches = 1; batches <= 4; ++batches) {
    for (const std::size_t stage : {0U, 1U}) show(copies, stage, batches);
  }
  ASSERT_EQ(newest(), 4);
  fs::remove(file(1, 4));
  EXPECT_EQ(newest(), 3);
  fs::resize_file(file(0, 3), fs::file_size(file(0, 3)) - 1);
  EXPECT_EQ(newest(), 2);
  fs::resize_file(file(0, 2), 3);
  EXPECT_EQ(newest(), 1);
}

// Who goes on from a copy reads it to the end, whatever is written meanwhile.
TEST_F(CopiesByHand, StayAsTheyAreForWhoHasThemOpen) {
  {
    StateCopies before = run_.copies(0, 2);
    for (std::int64_t batches = 1; batches <= 3; ++batches) {
      for (const std::size_t stage : {0U, 1U}) show(before, stage, batches);
    }
    show(before, 0, 4);
  }
  const auto state = run_.newest();
  ASSERT_EQ(state->batches(), 3);
  StateCopies after = run_.copies(3, 2);
  show(after, 0, 4);
  EXPECT_EQ(newest(), 3) << "an older start's future is gone, or is made again";
  for (std::int64_t batches = 5; batches <= 9; ++batches) show(after, 0, batches);
  std::vector<float> values(static_cast<std::size_t>(run_.kept()[0].tensor.size()));
  ASSERT_TRUE(state->read(kNewestWeights, run_.kept()[0].tensor, values));
  EXPECT_EQ(values.front(), 3.0f);
  EXPECT_EQ(state->steps(run_.kept()[0].tensor), 3);
}

}  // namespace
}  // namespace tandem
