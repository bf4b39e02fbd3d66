#include "core/program/versions.h"

#include <optional>

#include <gtest/gtest.h>

#include "core/schedule/placement.h"

namespace tandem {
namespace {

Op op(OpKind kind, std::int32_t microbatch, std::uint16_t span = 1, std::uint16_t staleness = 0) {
  return {.kind = kind, .microbatch = microbatch, .span = span, .staleness = staleness};
}

/// One device and no waits: versions need neither.
Program program_of(std::int32_t microbatches, const std::vector<Op>& ops) {
  ProgramParts parts;
  parts.microbatches = microbatches;
  parts.placement = linear_placement(1);
  parts.lanes.push_back({});
  parts.lane_pool.push_back(LaneId{0});
  parts.cost_keys.push_back({});
  for (const Op& each : ops) parts.instructions.push_back({.op = each, .lane_count = 1});
  return Program(std::move(parts));
}

Instance instance_of(const Program& program, std::size_t position, std::int64_t body) {
  const auto id = id_at<InstructionId>(position);
  return {id, body, body * program.microbatches() + program[id].op.microbatch};
}

TEST(WeightVersions, CountsOneUpdateABatch) {
  using enum OpKind;
  const Program program = program_of(
      4, {op(forward, 1), op(forward, 2, 1, 1), op(update, 3, 4), op(send_activation, 1)});
  const WeightVersions versions(program);
  for (std::int64_t batch = 0; batch < 5; ++batch) {
    EXPECT_EQ(versions(instance_of(program, 0, batch)), batch);
    EXPECT_EQ(versions(instance_of(program, 1, batch)), std::max<std::int64_t>(batch - 1, 0));
    EXPECT_EQ(versions(instance_of(program, 2, batch)), batch + 1);
    EXPECT_EQ(versions(instance_of(program, 3, batch)), std::nullopt);
  }
}

TEST(WeightVersions, FollowsTheMicrobatchNotTheBody) {
  // 2BW: microbatch k, from 1, uses version max(⌊(k − 1)/m⌋ − 1, 0), also where its offset is in
  // the next batch.
  using enum OpKind;
  const Program program = program_of(4, {op(forward, 6, 1, 1), op(update, 3, 4)});
  const WeightVersions versions(program);
  for (std::int64_t body = -1; body < 5; ++body) {
    const Instance instance = instance_of(program, 0, body);
    EXPECT_EQ(versions(instance), std::max<std::int64_t>(instance.microbatch / 4 - 1, 0));
  }
}

TEST(WeightVersions, CountsSeveralUpdatesABody) {
  // PipeDream: an update after each microbatch, or after each round of a replicated stage.
  using enum OpKind;
  const Program program = program_of(
      4, {op(forward, 2, 1, 1), op(update, 1, 2), op(forward, 3, 1, 2), op(update, 3, 2)});
  const WeightVersions versions(program);
  EXPECT_EQ(versions.covering_update(ReplicaId{0}, 0), 0);
  EXPECT_EQ(versions.covering_update(ReplicaId{0}, 1), 0);
  EXPECT_EQ(versions.covering_update(ReplicaId{0}, 2), 1);
  EXPECT_EQ(versions.covering_update(ReplicaId{0}, 7), 3);
  EXPECT_EQ(versions(instance_of(program, 0, 0)), 0);
  EXPECT_EQ(versions(instance_of(program, 0, 3)), 6);
  EXPECT_EQ(versions(instance_of(program, 1, 3)), 7);
  EXPECT_EQ(versions(instance_of(program, 2, 0)), 0);
  EXPECT_EQ(versions(instance_of(program, 2, 3)), 5);
  EXPECT_EQ(versions(instance_of(program, 3, 3)), 8);
}

TEST(WeightVersions, CountsBatchesWhereNothingUpdates) {
  const Program program = program_of(2, {op(OpKind::forward, 1)});
  EXPECT_EQ(WeightVersions(program)(instance_of(program, 0, 7)), 7);
}

}  // namespace
}  // namespace tandem
