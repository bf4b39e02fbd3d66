#pragma once
// Small trainings with post-validation: updates are stepped before the norm is known, and taken
// back where it was too large.

#include <string>
#include <vector>

#include "tests/support/training.h"

namespace tandem::testing {

/// Norms of the tiny model's first gradients lie around them.
inline constexpr double kNever = 1e30, kSometimes = 0.5, kAlways = 1e-3;

inline TrainingCase validated(const std::string& schedule, std::uint16_t devices,
                              double most_norm) {
  TrainingCase test = TrainingCase::on(schedule, devices);
  test.guard = {.clip = ClipScope::global, .most_norm = most_norm};
  test.post_validation = true;
  test.optimizer.kind = OptimizerKind::momentum;  // Adam hardly feels a scale
  return test;
}

/// A model whose gradients overflow after a few steps, which are skipped.
inline TrainingCase overflowing(const std::string& schedule, bool clips) {
  TrainingCase test = validated(schedule, 2, 1e3);
  if (!clips) test.guard.clip = ClipScope::none;
  test.guard.on_nan = NonFinite::skip;
  test.batches = 12;
  test.model = {.name = "linear",
                .architecture = Architecture::linear,
                .blocks = 4,
                .width = 4,
                .heads = 1,
                .sequence = 2,
                .vocabulary = 256,
                .tied = false};
  test.optimizer = {.kind = OptimizerKind::sgd, .learning_rate = clips ? 1e30 : 1.0};
  test.take_microbatches(5);
  return test;
}

/// Schedules that post-validation is for.
inline std::vector<std::string> synchronous_schedules() {
  std::vector<std::string> names;
  for (const ScheduleTraits& traits : schedules()) {
    if (traits.weights != WeightSemantics::vanilla) continue;
    if (traits.name != "bpipe") names.emplace_back(traits.name);  // its stashes move
  }
  return names;
}

}  // namespace tandem::testing
