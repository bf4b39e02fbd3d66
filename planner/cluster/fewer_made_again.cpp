#include "planner/cluster/fewer_made_again.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "core/base/error.h"
#include "core/model/model.h"
#include "planner/cluster/set_beside.h"

namespace tandem {

namespace {

/// Of the stage that has most.
std::uint16_t most_blocks(const Plan& plan) {
  const std::vector<LayerKind> kinds = layers_of(plan.model);
  std::int64_t most = 0;
  for (const LayerRange stage : plan.stages) {
    most = std::max<std::int64_t>(
        most,
        std::count(kinds.begin() + stage.first, kinds.begin() + stage.last, LayerKind::attention));
  }
  return static_cast<std::uint16_t>(most);
}

/// Empty: not even all but one of the blocks of the longest stage suffice, or it is refused.
std::optional<ClusterCandidate> with_fewest(const ClusterCandidate& of) {
  ClusterRequest request = of.request;
  const auto fits = [&request](std::uint16_t blocks) {
    request.plan.request.recompute = Recompute::blocks(blocks);
    return set_up_on_cluster(request).made.fits();
  };
  try {
    std::uint16_t enough = most_blocks(of.plan), too_few = 0;
    if (enough < 2 || !fits(static_cast<std::uint16_t>(--enough))) return std::nullopt;
    while (enough - too_few > 1) {
      const auto middle = static_cast<std::uint16_t>((enough + too_few) / 2);
      (fits(middle) ? enough : too_few) = middle;
    }
    request.plan.request.recompute = Recompute::blocks(enough);
    return simulated_on_cluster(request, of.contention);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

}  // namespace

std::optional<ClusterCandidate> with_fewer_made_again(const ClusterAnswer& answer) {
  constexpr std::size_t kLookedAt = 10;
  std::optional<ClusterCandidate> fastest;
  double least = answer.ranked.front().period_s;
  const std::span all(answer.ranked);
  for (const ClusterCandidate& one : all.first(std::min(kLookedAt, all.size()))) {
    if (one.plan.request.recompute.kind != Recompute::Kind::uniform) continue;
    std::optional<ClusterCandidate> fewer = with_fewest(one);
    if (!fewer || fewer->period_s >= least) continue;
    least = fewer->period_s;
    fastest = std::move(fewer);
  }
  return fastest;
}

}  // namespace tandem
