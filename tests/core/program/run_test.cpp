#include "core/program/run.h"

#include <set>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/instances.h"
#include "tests/support/pipelines.h"

namespace tandem::testing {
namespace {

TEST(Run, StartsOneBodyEarlyWhereForwardsReachIntoTheNextBatch) {
  const Program program = program_of(pipeline("2bw", 4, 4));
  const std::vector<Instance> instances = instances_of_run(program, 2);
  EXPECT_EQ(instances.front().body, -1);
  EXPECT_EQ(instances.front().microbatch, 0);
  // The body before batch 0 holds the first forwards and what carries them, nothing else.
  for (const Instance& instance : instances) {
    if (instance.body >= 0) break;
    const OpKind kind = program[instance.id].op.kind;
    EXPECT_TRUE(kind == OpKind::forward || kind == OpKind::send_activation);
  }
}

TEST(Run, NeedsNoRampWithAFlush) {
  for (const char* flushed : {"model-parallel", "gpipe", "1f1b"}) {
    const Program program = program_of(pipeline(flushed, 4, 4));
    EXPECT_EQ(program.ramp(), 0);
    EXPECT_EQ(instances_of_run(program, 1).front().body, 0);
  }
}

TEST(Run, SwitchesOffWhatFallsOutsideTheRun) {
  const Program program = program_of(pipeline("2bw", 3, 5, 2));
  for (const std::int64_t batches : {0, 1, 2, 7}) {
    std::set<std::tuple<InstructionId, std::int64_t>> seen;
    for (const Instance& instance : instances_of_run(program, batches)) {
      EXPECT_GE(instance.microbatch, 0);
      EXPECT_LT(instance.microbatch, batches * 5);
      EXPECT_EQ(instance.microbatch, instance.body * 5 + program[instance.id].op.microbatch);
      EXPECT_TRUE(seen.insert({instance.id, instance.microbatch}).second);
    }
    EXPECT_EQ(seen.size(), static_cast<std::size_t>(batches) * program.size());
  }
}

TEST(Run, IssuesADevicesSliceInTheProgramsOrder) {
  const Program program = program_of(pipeline("1f1b", 3, 4));
  for (std::size_t device = 0; device < 3; ++device) {
    InstanceRecorder recorder;
    run(program, program.on(id_at<DeviceId>(device)), 2, recorder);
    for (std::size_t i = 1; i < recorder.instances.size(); ++i) {
      const Instance &before = recorder.instances[i - 1], &now = recorder.instances[i];
      EXPECT_LT(std::tuple(before.body, before.id), std::tuple(now.body, now.id));
    }
  }
}

}  // namespace
}  // namespace tandem::testing
