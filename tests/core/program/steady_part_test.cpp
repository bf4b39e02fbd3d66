#include "core/program/steady_part.h"

#include <algorithm>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "tests/support/pipelines.h"

namespace tandem::testing {
namespace {

/// What an instruction says, a number of microbatches and of places later.
std::string text_of(const Program& program, std::size_t at, std::int32_t microbatches,
                    std::size_t places) {
  const Instruction& instruction = program.instructions()[at];
  std::string text =
      fmt::format("{} of {} {} span {} staleness {} cost {} on", name(instruction.op.kind),
                  index(instruction.op.replica), instruction.op.microbatch + microbatches,
                  instruction.op.span, instruction.op.staleness, index(instruction.cost));
  for (const LaneId lane : program.lanes(instruction)) text += fmt::format(" {}", index(lane));
  for (const Wait& wait : program.waits(instruction))
    text += fmt::format(" after {} in {}", index(wait.producer) + places, wait.lag);
  return text;
}

void expect_steady(const Program& program, const SteadyPart& part, const std::string& what) {
  ASSERT_LE(part.end(), program.size()) << what;
  for (std::size_t at = part.first; at + part.length < part.end(); ++at) {
    EXPECT_EQ(text_of(program, at, part.shift, part.length),
              text_of(program, at + part.length, 0, 0))
        << what;
    for (const Wait& wait : program.waits(program.instructions()[at + part.length])) {
      EXPECT_EQ(wait.lag, 0) << what;
      EXPECT_GE(index(wait.producer) + part.reach * part.length, at + part.length) << what;
    }
  }
}

class EverySchedulesSteadyPart : public ::testing::TestWithParam<std::string> {};

TEST_P(EverySchedulesSteadyPart, RepeatsItself) {
  for (const Pipeline& wanted : every_pipeline(GetParam(), {1, 2, 4}, {4, 24}, 3)) {
    const Program program = program_of(wanted);
    expect_steady(program, steady_part(program), wanted.name());
  }
}

INSTANTIATE_TEST_SUITE_P(Schedules, EverySchedulesSteadyPart, ::testing::ValuesIn(schedule_names()),
                         test_name);

TEST(SteadyPart, IsOneForwardAndOneBackwardOfEachStage) {
  const SteadyPart part = steady_part(program_of(pipeline("1f1b", 4, 24)));
  EXPECT_EQ(part.length, 4 * 2 + 3 * 2);  // passes, and transfers
  EXPECT_EQ(part.shift, 1);
  EXPECT_EQ(part.periods, 20);
  const SteadyPart looped = steady_part(program_of([] {
    Pipeline wanted = pipeline("interleaved", 4, 24);
    wanted.request.chunks = 2;
    return wanted;
  }()));
  EXPECT_EQ(looped.shift, 4);  // a chunk's microbatches come in groups of as many as devices
}

TEST(SteadyPart, IsNotThereWhereForwardsTurnToBackwards) {
  EXPECT_EQ(steady_part(program_of(pipeline("gpipe", 4, 24))).periods, 0);
  EXPECT_EQ(steady_part(program_of(pipeline("1f1b", 8, 8))).periods, 0);
}

TEST(SteadyPart, EndsWhereAnInstructionDiffers) {
  const Program whole = program_of(pipeline("1f1b", 4, 48));
  const SteadyPart steady = steady_part(whole);
  const std::size_t changed = whole.size() * 3 / 4;
  const auto end_with = [&](auto change) {
    ProgramParts parts = whole.parts();
    change(parts, parts.instructions[changed]);
    const SteadyPart part = steady_part(Program(std::move(parts)));
    EXPECT_GT(part.periods, 0);
    return part.end();
  };
  EXPECT_EQ(end_with([](ProgramParts&, Instruction&) {}), steady.end());
  EXPECT_LE(end_with([](ProgramParts&, Instruction& at) { at.op.staleness = 1; }), changed);
  EXPECT_LE(end_with([](ProgramParts&, Instruction& at) { ++at.op.microbatch; }), changed);
  EXPECT_LE(end_with([](ProgramParts&, Instruction& at) { at.lane_count = 0; }), changed);
  EXPECT_LE(end_with([](ProgramParts&, Instruction& at) { at.wait_count ^= 1; }), changed);
  EXPECT_LE(end_with([&](ProgramParts& parts, Instruction& at) {
              parts.cost_keys.push_back(parts.cost_keys[at.cost]);
              at.cost = id_at<CostId>(parts.cost_keys.size() - 1);
            }),
            changed);
  EXPECT_LE(end_with([](ProgramParts& parts, Instruction& at) {
              parts.wait_pool.push_back({.producer = InstructionId{0}, .lag = 1});
              at.first_wait = static_cast<std::uint32_t>(parts.wait_pool.size() - 1);
              at.wait_count = 1;
            }),
            changed);
}

}  // namespace
}  // namespace tandem::testing
