#pragma once
// measure_profile(): what layers, updates and hand-overs cost on this machine, measured while as
// many devices compute as will.

#include <cstdint>
#include <functional>
#include <stop_token>
#include <vector>

#include "core/model.h"

namespace tandem {

struct ProfileRequest {
  ModelSpec model;
  OptimizerKind optimizer = OptimizerKind::adamw;
  std::vector<std::int32_t> microbatch_sizes;
  std::int32_t busy_devices = 2;  // devices that compute at the same time
  std::int32_t repetitions = 30;  // timed passes over the model, in visits: measure_profile()
  std::function<void(std::int32_t done, std::int32_t all)>
      on_progress;  // may be empty; on one thread at a time
  /// Asked after each visit: whether others took the processors meanwhile. Such a visit is made
  /// again, unless more than half of all were; what is then left counts. May be empty.
  std::function<bool()> disturbed = {};
  std::stop_token stop;
};

/// Times each layer inside passes over the whole model, so that caches are as full as in training.
/// Kept is the median over visits of a few passes of the mean in each.
/// `machine`, `date` and `command` are left to the caller. Throws Interrupted when stop is
/// requested.
Profile measure_profile(const ProfileRequest& request);

}  // namespace tandem
