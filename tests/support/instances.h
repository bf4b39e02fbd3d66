#pragma once
// What a run issues, in the order of issue.

#include <cstdint>
#include <vector>

#include "core/program/run.h"

namespace tandem::testing {

struct InstanceRecorder {
  std::vector<Instance> instances;
  void issue(const Program&, Instance instance) { instances.push_back(instance); }
};
static_assert(Machine<InstanceRecorder>);

inline std::vector<Instance> instances_of_run(const Program& program, std::int64_t batches) {
  InstanceRecorder recorder;
  run(program, program.order(), batches, recorder);
  return recorder.instances;
}

}  // namespace tandem::testing
