// PipeDream (SOSP 2019; arXiv 1806.03377): 1F1B that never drains, an update after each microbatch,
// and weights stashed so that a microbatch's backward finds what its forward read. Stages may have
// replicas, which take microbatches in round robin (1F1B-RR).

#include <numeric>

#include "core/base/units.h"
#include "core/schedules/all.h"
#include "core/schedules/common.h"

namespace tandem {

namespace {

std::vector<std::uint16_t> replicas_of(const ScheduleRequest& request) {
  return request.replicas.empty() ? std::vector<std::uint16_t>(request.devices, 1)
                                  : request.replicas;
}

/// Of one stage of the pipeline. Its replicas work in rounds: in round r replica j takes microbatch
/// r · replicas + j, and the round ends with the update of all of them.
struct Rounds {
  std::int32_t replicas = 1;
  /// Rounds that forwards are ahead of backwards. The weights that a forward finds lie as many
  /// updates behind.
  std::int32_t ahead = 0;
};

/// A stage has in flight what the next one has, its own round, and what waits at the link: there
/// a round of one stage meets the rounds of the other. PipeDream's warm-up, ⌊(devices from here on
/// − 1) / replicas⌋, leaves out the last: 2-1-1 then takes 9 for each two microbatches instead
/// of 6. With these equally busy devices run at the pace of their work, and not with a round less
/// (tests/simulator/family_test.cpp: random pipelines of 2 to 4 stages of 1 to 4 replicas).
std::vector<Rounds> rounds_of(const ScheduleRequest& request) {
  const std::vector<std::uint16_t> replicas = replicas_of(request);
  std::vector<Rounds> stages(replicas.size());
  std::int32_t next = 0, in_flight = 0;  // of the stage behind
  for (std::size_t i = stages.size(); i-- > 0;) {
    const std::int32_t here = replicas[i];
    const std::int32_t needed =
        next == 0 ? here : in_flight + 2 * here + next - 2 * std::gcd(here, next);
    const std::int32_t rounds = (needed + here - 1) / here;
    stages[i] = {here, rounds - 1};
    next = here;
    in_flight = rounds * here;
  }
  return stages;
}

/// Updates of `stage` between the weights that microbatch `k` uses and its own. With vertical sync
/// all stages use what was known of when the microbatch entered the first.
std::uint16_t staleness_of(const ScheduleRequest& request, const Rounds& first, const Rounds& stage,
                           std::int32_t k) {
  if (!request.vertical_sync) return static_cast<std::uint16_t>(stage.ahead);
  const std::int32_t known = (k / first.replicas - first.ahead) * first.replicas;
  return static_cast<std::uint16_t>(k / stage.replicas - floor_div(known, stage.replicas));
}

std::optional<std::string> reject_replicas(const ScheduleRequest& request) {
  if (request.tied_embeddings) {
    return "replicated stages can't share tied embeddings: the two ends would update for different "
           "microbatches (a model with \"tied\": false has none)";
  }
  std::int32_t devices = 0;
  for (const std::uint16_t replicas : request.replicas) {
    if (replicas == 0) return "a stage needs at least one replica";
    devices += replicas;
    if (request.microbatches % replicas != 0) {
      return fmt::format(
          "round robin over {} replicas needs microbatches divisible by {}, found {}", replicas,
          replicas, request.microbatches);
    }
    if (request.vertical_sync && request.replicas.front() % replicas != 0) {
      return fmt::format(
          "vertical sync over {} and {} replicas: the first stage's versions fall between those of "
          "the other, unless its replicas are a multiple",
          request.replicas.front(), replicas);
    }
  }
  if (devices == request.devices) return std::nullopt;
  return fmt::format("the replicas of all stages together are {} devices, but {} are given",
                     devices, request.devices);
}

}  // namespace

std::optional<std::string> reject_stashed(const ScheduleRequest& request) {
  if (request.replicas.empty()) return std::nullopt;
  return reject_replicas(request);
}

Schedule make_stashed(const ScheduleRequest& request) {
  Schedule schedule = empty_schedule(request, replicated_placement(replicas_of(request)));
  const std::vector<Rounds> stages = rounds_of(request);
  std::size_t next_replica = 0;
  for (const Rounds& stage : stages) {
    for (std::int32_t turn = 0; turn < stage.replicas; ++turn) {
      const ReplicaId replica = id_at<ReplicaId>(next_replica++);
      std::vector<Op>& order = schedule.order[schedule.placement.device[replica]];
      const auto staleness = [&](std::int32_t k) {
        return staleness_of(request, stages.front(), stage, k);
      };
      for (std::int32_t round = 0; round < request.microbatches / stage.replicas; ++round) {
        const std::int32_t first = round * stage.replicas, k = first + turn;
        const std::int32_t next = k + stage.ahead * stage.replicas;
        order.push_back(forward(replica, next, staleness(next)));
        order.push_back(backward(replica, k, staleness(k)));
        order.push_back(update(replica, first + stage.replicas - 1, stage.replicas));
      }
    }
  }
  return schedule;
}

}  // namespace tandem
