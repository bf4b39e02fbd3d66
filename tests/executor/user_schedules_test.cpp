// Schedule files changed at random: what is accepted trains with the bits of the serial reference,
// and what can't is refused before.

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/model/slice_lengths.h"
#include "core/notation/notation.h"
#include "core/schedule/user_schedule.h"
#include "core/verify/verify.h"
#include "tests/support/pipelines.h"
#include "tests/support/sanitizers.h"
#include "tests/support/schedule_mutations.h"
#include "tests/support/trajectory.h"

namespace tandem::testing {
namespace {

constexpr std::uint64_t kShards = 4;
constexpr std::uint64_t kMutants = kSanitized ? 60 : 600;  // of a shard

struct UserSchedule {
  std::string text;
  ScheduleRequest request;  // what its plan asks for
};

/// A schedule of the registry as a file, with recomputation, sums and norm in it or left out.
UserSchedule drawn(std::mt19937_64& random) {
  for (;;) {
    const auto below = [&random](std::size_t bound) { return random() % bound; };
    const ScheduleTraits& row = schedules()[below(schedules().size())];
    // The searches take long, and make what others make too.
    if (row.name == "search" || row.name == "v-adaptive") continue;
    const std::vector<Pipeline> variants =
        variants_of(row, static_cast<int>(1 + below(4)), std::array{1, 2, 3, 4, 6}[below(5)]);
    Pipeline one = variants[below(variants.size())];
    one.request.recompute =
        std::array{Recompute::stage, Recompute::full, Recompute::none}[below(3)];
    one.request.tied_embeddings = below(8) == 0;
    one.request.width = static_cast<std::uint16_t>(below(6) == 0 ? 2 : 1);
    one.request.global_norm = below(4) == 0;
    one.request.post_validation = one.request.global_norm && below(2) == 0;
    if (!is_served(one)) continue;
    if (below(2) == 0) return {print_schedule(schedule_of(one)), one.request};
    return {print_schedule(row.make(one.request)), one.request};
  }
}

/// Empty: it is accepted.
std::optional<std::string> refusal(const UserSchedule& user, Schedule& schedule) {
  try {
    schedule = completed(parse_schedule(user.text), user.request);
    for (const Violation& violation : verify(lower(schedule))) return violation.message;
    return reason_not_trained(schedule);
  } catch (const InputError& error) {
    return error.what();
  } catch (const InfeasibleError& error) {
    return error.what();
  }
}

/// A model that its stages can be cut from, small enough to be trained thousands of times.
TrainingCase training_of(const Schedule& schedule, const ScheduleRequest& request) {
  TrainingCase test{.microbatches = schedule.microbatches,
                    .width = schedule.width,
                    .post_validation = request.post_validation,
                    .batches = 5,
                    .recompute = request.recompute};
  const auto stages = static_cast<std::int32_t>(schedule.placement.stages());
  if (request.tied_embeddings) {
    test.model.blocks = (stages + 1) / 2;
  } else {
    test.model = {.name = "chain",
                  .architecture = Architecture::linear,
                  .blocks = 2 * stages,
                  .width = 4,
                  .heads = 1,
                  .sequence = 3};
  }
  test.model.sequence = std::max(test.model.sequence, schedule.slices);
  test.slices = slice_lengths({.count = schedule.slices}, test.model);
  if (request.global_norm) test.guard = {.clip = ClipScope::global, .most_norm = 0.5};
  return test;
}

/// `wrong`: the reference adds the first stage's gradients the other way round.
Trace<float> reference_trace(const TrainingCase& test, const Schedule& schedule, bool wrong) {
  ReferenceConfig config = reference_config(test, schedule, weight_semantics(schedule));
  if (wrong) std::ranges::reverse(config.stages.front().order);
  return reference_trace<float>(test, config);
}

class UserSchedules : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(UserSchedules, ThatAreAcceptedTrainAsTheReferenceDoes) {
  std::uint64_t accepted = 0, refused = 0, told_apart = 0;
  for (std::uint64_t i = 0; i < kMutants; ++i) {
    const std::uint64_t seed = GetParam() * kMutants + i;
    std::mt19937_64 random(seed);
    UserSchedule user = drawn(random);
    ScheduleText text(user.text);
    for (std::uint64_t changes = random() % 4; changes > 0; --changes) text.mutate(random);
    user.text = text.text();
    SCOPED_TRACE(fmt::format("seed {}, recompute {}, tied {}, norm {}\n{}", seed,
                             name(user.request.recompute), user.request.tied_embeddings,
                             user.request.global_norm, user.text));
    Schedule schedule;
    if (refusal(user, schedule)) {
      ++refused;
      continue;
    }
    ++accepted;
    const TrainingCase test = training_of(schedule, user.request);
    const Program program = lower(schedule);
    const Trace<float> trained = by_executor<float>(test, program, count_slots(program));
    expect_equal(trained, reference_trace(test, schedule, false));
    if (trained.weights != reference_trace(test, schedule, true).weights) ++told_apart;
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
  EXPECT_GT(accepted, kMutants / 20);
  EXPECT_GT(refused, kMutants / 20);
  EXPECT_GT(told_apart, 0u) << "a reference that adds in another order would not be seen";
}

INSTANTIATE_TEST_SUITE_P(Mutants, UserSchedules, ::testing::Range<std::uint64_t>(0, kShards));

/// Accepted, and trained as the reference does.
void expect_trained(const std::string& text, const ScheduleRequest& request = {}) {
  SCOPED_TRACE(text);
  Schedule schedule;
  ASSERT_EQ(refusal({text, request}, schedule), std::nullopt);
  const TrainingCase test = training_of(schedule, request);
  const Program program = lower(schedule);
  expect_equal(by_executor<float>(test, program, count_slots(program)),
               reference_trace(test, schedule, false));
}

// What once was verified and then stopped in training, or trained otherwise.
TEST(UserSchedule, RunsForwardsBetweenARecomputationAndItsBackward) {
  expect_trained(
      "# 1f1b  devices 3  microbatches 6\n"
      "0 | f0 f1 f2 r0 b0 f3 r1 b1 f4 r2 b2 f5 r3 b3 r4 b4 r5 b5 U\n"
      "1 | f0 f1 r0 b0 f2 r1 b1 f3 r2 b2 r3 f4 b3 f5 r4 b4 r5 b5 U\n"
      "2 | f0 r0 b0 f1 r1 b1 f2 r2 b2 f3 r3 b3 f4 r4 b4 f5 r5 b5 U\n",
      {.recompute = Recompute::stage});
}

TEST(UserSchedule, KeepsAnOutputUntilItsReaderOnTheDeviceIsDone) {
  expect_trained(
      "# v-zb  devices 1  microbatches 2\n# stages 0 0\n"
      "0 | 0f0 1f0 1i0 0i0 0w0 1w0 0f1 1f1 1i1 0i1 1w1 0w1 1U 0U\n");
}

TEST(UserSchedule, AddsGradientsInAnotherOrderOnEachStage) {
  expect_trained(
      "# zb-h2  devices 2  microbatches 2\n"
      "0 | f1 f0 i0 w0 i1 w1 U\n"
      "1 | f0 i0 f1 i1 w1 w0 U\n");
}

TEST(UserSchedule, UpdatesForSingleMicrobatches) {
  expect_trained(
      "# single  devices 2  microbatches 2\n"
      "0 | f0 b0 U0+1 f1 b1 U1+1\n"
      "1 | f0 b0 U0+1 f1 b1 U1+1\n");
}

}  // namespace
}  // namespace tandem::testing
