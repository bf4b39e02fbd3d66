#include "core/schedule.h"

#include <algorithm>
#include <array>
#include <limits>

#include <fmt/format.h>

#include "core/error.h"
#include "core/insert_recompute.h"
#include "core/insert_reduction.h"

namespace tandem {

std::string_view name(Recompute recompute) {
  constexpr std::array<std::string_view, kRecomputes> kNames{"none", "selective", "full"};
  return kNames[static_cast<std::size_t>(recompute)];
}

std::string_view name(WeightSemantics semantics) {
  switch (semantics) {
    case WeightSemantics::vanilla:
      return "vanilla";
    case WeightSemantics::delayed_by_one:
      return "delayed by one";
    case WeightSemantics::stashed:
      return "stashed";
  }
  return "unknown";
}

/// Every name that users may count on, also those that this version lacks: "unknown" would send
/// them looking for a typing error.
static constexpr std::string_view kNamesOfContract[] = {
    "data-parallel", "1f1b-eager", "interleaved", "looped-bfs", "pipedream",   "zb-h1",
    "zb-h2",         "zb-1p",      "zb-2p",       "zb-auto",    "zbv",         "interleaved-zb",
    "zbv-auto",      "v-min",      "v-half",      "v-zb",       "v-adaptive",  "1f1b-v",
    "hanayo",        "chimera",    "dualpipe",    "dualpipev",  "bpipe",       "2bp-naive",
    "2bp-gpipe",     "2bp-1f1b-1", "2bp-1f1b-2",  "terapipe",   "seq1f1b",     "pipemare",
    "pipeoptim",     "spectrain",  "xpipe",       "timeprest",  "timeprest-i", "search"};

const ScheduleTraits& find_schedule(std::string_view wanted) {
  std::vector<std::string> known;
  for (const ScheduleTraits& row : schedules()) {
    if (row.name == wanted) return row;
    for (const std::string_view alias : row.aliases) {
      if (alias == wanted) return row;
      known.emplace_back(alias);
    }
    known.emplace_back(row.name);
  }
  for (const std::string_view name : kNamesOfContract) {
    if (name != wanted) continue;
    throw UsageError(fmt::format(
        "schedule {} is not in this version (tandem schedule --list shows all that are)", wanted));
  }
  throw UsageError(fmt::format("unknown schedule \"{}\"{} (tandem schedule --list shows all)",
                               wanted, did_you_mean(wanted, known)));
}

/// What no schedule can serve, whatever its own reasons.
static void check_request(const ScheduleTraits& traits, const ScheduleRequest& request) {
  constexpr std::int32_t kMostMicrobatches = std::numeric_limits<std::uint16_t>::max();
  constexpr std::int64_t kMostStages = std::numeric_limits<std::uint16_t>::max();
  constexpr std::int64_t kMostCells = 1 << 20;  // some seconds and a gigabyte to lower
  if (request.devices < 1) throw InputError("a schedule needs at least one device");
  if (request.microbatches < 1 || request.microbatches > kMostMicrobatches) {
    throw InputError(fmt::format("microbatches a batch must be 1 to {}, found {}",
                                 kMostMicrobatches, request.microbatches));
  }
  if (request.width < 1) throw InputError("a pipeline needs at least one replica, found width 0");
  if (request.extra_in_flight < 0) {
    throw InputError(
        fmt::format("extra in flight can't be negative, found {}", request.extra_in_flight));
  }
  if (request.global_norm && !traits.updates_together) {
    throw InputError(fmt::format(
        "schedule {} has no global norm: each stage updates at times of its own, so there is no "
        "moment at which the gradients of one update are all there; clip each stage by its own "
        "norm (--clip per-stage)",
        traits.name));
  }
  const std::int64_t chunks =
      traits.stages_per_device == 0 ? request.chunks : traits.stages_per_device;
  const std::int64_t stages = request.devices * chunks;
  if (stages > kMostStages || stages * request.microbatches > kMostCells) {
    throw InputError(
        fmt::format("{} stages of {} microbatches each are too large a schedule: at "
                    "most {} stages, and {} microbatches on all of them together",
                    stages, request.microbatches, kMostStages, kMostCells));
  }
}

Schedule make_schedule(const ScheduleTraits& traits, const ScheduleRequest& request) {
  check_request(traits, request);
  if (const auto reason = traits.reject(request)) throw InputError(*reason);
  Schedule schedule = traits.make(request);
  if (request.recompute == Recompute::full) insert_recompute(schedule);
  insert_reduction(schedule, request.global_norm);
  return schedule;
}

}  // namespace tandem
