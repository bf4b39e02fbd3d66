#pragma once
// measure_profile(): what layers, updates and hand-overs cost on this machine, measured while as
// many devices compute as will.

#include <cstdint>
#include <functional>
#include <stop_token>
#include <vector>

#include "core/files/profile_file.h"
#include "core/memory/storage.h"
#include "core/model/model.h"
#include "executor/backend/notice.h"

namespace tandem {

class Trainer;

struct ProfileRequest {
  ModelSpec model;
  Optimizer optimizer = {};
  Storage storage = Storage::f32;  // bf16: of GPUs alone
  std::vector<std::int32_t> microbatch_sizes;
  /// Tokens of each slice of a sequence, which are measured apart, beside whole ones; empty: none.
  std::vector<std::int32_t> slices = {};
  std::int32_t busy_devices = 2;  // devices that compute at the same time
  Bytes device_bytes = 0;  // what each will hold, as far as known: refused where it is not free
  std::int32_t repetitions = 30;  // timed passes over the model, in visits: measure_profile()
  std::function<void(std::int32_t done, std::int32_t all)> on_progress =
      {};  // may be empty; on one thread at a time
  /// Asked after each visit: whether others took the processors meanwhile. Such a visit is made
  /// again, unless more than half of all were; what is then left counts. May be empty.
  std::function<bool()> disturbed = {};
  std::stop_token stop = {};
  Notice on_notice = {};
};

/// Times each layer inside passes over the whole model, so that caches are as full as in training.
/// Kept is the median over visits of a few passes of the mean in each.
/// `backend`, `machine`, `date` and `command` are left to the caller. `trainer`: of the CPU, whose
/// own time for an op is measured. Throws Interrupted when stop is requested.
Profile measure_profile(const ProfileRequest& request, Trainer& trainer);

/// How long measure_profile() will take, roughly: by one pass over the same model with a sequence
/// of a few hundred tokens, and one over half as many, for attention's square.
Duration estimate_profile_time(const ProfileRequest& request);

/// A profile, and what was chosen for it on the way.
struct MeasuredProfile {
  Profile profile;
  std::vector<ProductAlgorithm> algorithms;
};

/// What the executor adds to each op: a run of a model that computes next to nothing.
Duration measure_overhead(Trainer& trainer);
/// The same where ops are given to a device ahead of time: what lies between two of them, in the
/// middle of a run. Their own times hold all else.
Duration measure_gap(Trainer& trainer);

/// Sizes of hand-overs that are measured: a small one, boundaries of the model's layers, and more
/// than any gradient has.
std::vector<Bytes> hand_over_sizes(const ProfileRequest& request);

}  // namespace tandem
