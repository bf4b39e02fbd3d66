// PipeDream (SOSP 2019; arXiv 1806.03377): 1F1B that never drains, an update after each microbatch,
// and weights stashed so that a microbatch's backward finds what its forward read. Parts may have
// replicas, which take microbatches in round robin (1F1B-RR).

#include <numeric>

#include <fmt/format.h>

#include "core/base/floor_div.h"
#include "core/schedules/all.h"
#include "core/schedules/common.h"

namespace tandem {

namespace {

std::vector<std::uint16_t> replicas_of(const ScheduleRequest& request) {
  return request.replicas.empty() ? std::vector<std::uint16_t>(request.devices, 1)
                                  : request.replicas;
}

/// One part of the pipeline. Its replicas work in rounds: in round r replica j takes microbatch
/// r · replicas + j, and the round ends with the update of all of them.
struct Part {
  std::int32_t replicas = 1;
  /// Rounds that forwards are ahead of backwards. The weights that a forward finds lie as many
  /// updates behind.
  std::int32_t ahead = 0;
};

/// A part has in flight what the next one has, its own round, and what waits at the link: there
/// a round of one part meets the rounds of the other. PipeDream's warm-up, ⌊(devices from here on −
/// 1) / replicas⌋, leaves out the last: 2-1-1 then takes 9 for each two microbatches instead of 6.
/// With these equally busy devices run at the pace of their work, and not with a round less
/// (tests/simulator/family_test.cpp: random pipelines of 2 to 4 parts of 1 to 4 replicas).
std::vector<Part> parts_of(const ScheduleRequest& request) {
  const std::vector<std::uint16_t> replicas = replicas_of(request);
  std::vector<Part> parts(replicas.size());
  std::int32_t next = 0, in_flight = 0;  // of the part behind
  for (std::size_t i = parts.size(); i-- > 0;) {
    const std::int32_t here = replicas[i];
    const std::int32_t needed =
        next == 0 ? here : in_flight + 2 * here + next - 2 * std::gcd(here, next);
    const std::int32_t rounds = (needed + here - 1) / here;
    parts[i] = {here, rounds - 1};
    next = here;
    in_flight = rounds * here;
  }
  return parts;
}

/// Updates of `part` between the weights that microbatch `k` uses and its own. With vertical sync
/// all parts use what was known of when the microbatch entered the first.
std::uint16_t staleness_of(const ScheduleRequest& request, const Part& first, const Part& part,
                           std::int32_t k) {
  if (!request.vertical_sync) return static_cast<std::uint16_t>(part.ahead);
  const std::int32_t known = (k / first.replicas - first.ahead) * first.replicas;
  return static_cast<std::uint16_t>(k / part.replicas - floor_div(known, part.replicas));
}

std::optional<std::string> reject_replicas(const ScheduleRequest& request) {
  if (request.tied_embeddings) {
    return "replicated stages can't share tied embeddings: the two ends would update for different "
           "microbatches (a model with \"tied\": false has none)";
  }
  std::int32_t devices = 0;
  for (const std::uint16_t replicas : request.replicas) {
    if (replicas == 0) return "a part needs at least one replica";
    devices += replicas;
    if (request.microbatches % replicas != 0) {
      return fmt::format(
          "round robin over {} replicas needs microbatches divisible by {}, found {}", replicas,
          replicas, request.microbatches);
    }
    if (request.vertical_sync && request.replicas.front() % replicas != 0) {
      return fmt::format(
          "vertical sync over {} and {} replicas: the first part's versions fall between those of "
          "the other, unless its replicas are a multiple",
          request.replicas.front(), replicas);
    }
  }
  if (devices == request.devices) return std::nullopt;
  return fmt::format("the replicas of all parts together are {} devices, but {} are given", devices,
                     request.devices);
}

}  // namespace

std::optional<std::string> reject_stashed(const ScheduleRequest& request) {
  if (request.replicas.empty()) return std::nullopt;
  return reject_replicas(request);
}

Schedule make_stashed(const ScheduleRequest& request) {
  Schedule schedule =
      empty_schedule("pipedream", request, replicated_placement(replicas_of(request)));
  const std::vector<Part> parts = parts_of(request);
  std::size_t stage_index = 0;
  for (const Part& part : parts) {
    for (std::int32_t replica = 0; replica < part.replicas; ++replica, ++stage_index) {
      const StageId stage = id_at<StageId>(stage_index);
      std::vector<Op>& order = schedule.order[schedule.placement.device[stage]];
      const auto staleness = [&](std::int32_t k) {
        return staleness_of(request, parts.front(), part, k);
      };
      for (std::int32_t round = 0; round < request.microbatches / part.replicas; ++round) {
        const std::int32_t first = round * part.replicas, k = first + replica;
        const std::int32_t next = k + part.ahead * part.replicas;
        order.push_back(forward(stage, next, staleness(next)));
        order.push_back(backward(stage, k, staleness(k)));
        order.push_back(update(stage, first + part.replicas - 1, part.replicas));
      }
    }
  }
  return schedule;
}

}  // namespace tandem
