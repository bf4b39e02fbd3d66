#include "planner/cluster_alternatives.h"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>

#include "core/error.h"

namespace tandem {

namespace {

constexpr std::size_t kMostChanges = 3, kMostListed = 6, kEnough = 4;
/// Of all plans tried: their stages × microbatches, and what else a plan takes in such.
constexpr std::int64_t kMostCells = 1 << 20, kCellsOfAPlan = 2048;

/// Of each kind how far it is changed: 0 not at all.
using Strengths = std::array<std::size_t, kClusterChanges>;

/// A request on its way to another: shape and batch are worked out when all else is known.
struct Draft {
  ClusterRequest request;
  std::size_t devices = 1;  // in use
  std::int64_t batch = 1;   // samples
};

using Step = std::function<void(Draft&)>;
using Steps = std::array<std::vector<Step>, kClusterChanges>;

std::size_t devices_of(const ClusterRequest& request) {
  return std::size_t{request.plan.width} * request.plan.depth *
         static_cast<std::size_t>(request.assumptions.tensor);
}

std::int64_t batch_of(const Plan& plan) {
  return std::int64_t{plan.width} * plan.microbatches * plan.microbatch_size;
}

std::vector<Step>& of(Steps& steps, ClusterChange kind) {
  return steps[static_cast<std::size_t>(kind)];
}

std::vector<Step> smaller_microbatches(const Plan& plan) {
  std::vector<Step> steps;
  for (std::int32_t size = plan.microbatch_size / 2; size >= 1; size /= 2) {
    if (plan.microbatch_size % size == 0)
      steps.emplace_back([size](Draft& draft) { draft.request.plan.microbatch_size = size; });
  }
  return steps;
}

std::vector<Step> more_recomputation(const Plan& plan) {
  std::vector<Step> steps;
  for (const Recompute kind : {Recompute::selective, Recompute::full}) {
    if (kind > plan.recompute)
      steps.emplace_back([kind](Draft& draft) { draft.request.plan.recompute = kind; });
  }
  return steps;
}

/// 1f1b holds no more than any of one stage a device, and trains the same or what delays less.
std::vector<Step> plainer_schedule(const Plan& plan) {
  const ScheduleTraits& traits = find_schedule(plan.schedule);
  const bool has_options = plan.group != 0 || plan.extra_in_flight != 0 || plan.vertical_sync ||
                           plan.activation_cap.has_value() || !plan.replicas.empty();
  if (traits.name == "1f1b" || traits.stages_per_device != 1 || traits.stages_per_part != 1 ||
      traits.only_devices != 0 || has_options)
    return {};
  return {[](Draft& draft) { draft.request.plan.schedule = "1f1b"; }};
}

std::vector<Step> smaller_groups(const Plan& plan) {
  std::vector<Step> steps;
  if (plan.schedule != "gpipe") return steps;
  for (std::int32_t group = (plan.group == 0 ? plan.microbatches : plan.group) / 2; group >= 1;
       group /= 2) {
    steps.emplace_back([group](Draft& draft) { draft.request.plan.group = group; });
  }
  return steps;
}

std::vector<Step> deeper_pipelines(const Plan& plan, const Cluster& cluster) {
  std::vector<Step> steps;
  const std::size_t most = std::min(cluster.size(), layers_of(plan.model).size());
  for (std::size_t depth = plan.depth + std::size_t{1};
       depth <= most && depth <= kMostPlannedDevices && plan.replicas.empty(); ++depth) {
    if (depth % plan.depth == 0)
      steps.emplace_back(
          [depth](Draft& draft) { draft.request.plan.depth = static_cast<std::uint16_t>(depth); });
  }
  return steps;
}

std::vector<Step> more_tensor(const ClusterRequest& request, const Cluster& cluster) {
  std::vector<std::int32_t> sizes(cluster.nodes());
  for (std::size_t i = 0; i < cluster.size(); ++i) ++sizes[cluster.node(id_at<DeviceId>(i))];
  const std::int32_t whole = std::accumulate(
      sizes.begin(), sizes.end(), 0, [](std::int32_t a, std::int32_t b) { return std::gcd(a, b); });
  std::vector<Step> steps;
  for (const std::int32_t tensor : {2, 4, 8}) {
    if (tensor > request.assumptions.tensor && tensor % request.assumptions.tensor == 0 &&
        whole % tensor == 0)
      steps.emplace_back([tensor](Draft& draft) { draft.request.assumptions.tensor = tensor; });
  }
  return steps;
}

std::vector<Step> smaller_batches(const Plan& plan) {
  std::vector<Step> steps;
  for (std::int32_t parts = 2; plan.microbatches % parts == 0; parts *= 2)
    steps.emplace_back([parts](Draft& draft) { draft.batch /= parts; });
  return steps;
}

Steps steps_of(const ClusterRequest& request, const Cluster& cluster) {
  const Plan& plan = request.plan;
  Steps steps;
  if (plan.extra_in_flight > 0) {
    of(steps, ClusterChange::extra_in_flight) = {
        [](Draft& draft) { draft.request.plan.extra_in_flight = 0; }};
  }
  if (request.cut != StageCut::balanced) {
    of(steps, ClusterChange::cut) = {[](Draft& draft) { draft.request.cut = StageCut::balanced; }};
  }
  if (!request.assumptions.sharded_optimizer) {
    of(steps, ClusterChange::zero) = {
        [](Draft& draft) { draft.request.assumptions.sharded_optimizer = true; }};
  }
  of(steps, ClusterChange::microbatch_size) = smaller_microbatches(plan);
  of(steps, ClusterChange::schedule) = plainer_schedule(plan);
  of(steps, ClusterChange::group) = smaller_groups(plan);
  of(steps, ClusterChange::recompute) = more_recomputation(plan);
  of(steps, ClusterChange::depth) = deeper_pipelines(plan, cluster);
  of(steps, ClusterChange::tensor) = more_tensor(request, cluster);
  of(steps, ClusterChange::global_batch) = smaller_batches(plan);
  return steps;
}

std::size_t count(const Strengths& strengths) {
  return kClusterChanges - static_cast<std::size_t>(std::ranges::count(strengths, 0U));
}

class Search {
 public:
  Search(const ClusterRequest& request, const Cluster& cluster)
      : from_(request), cluster_(cluster), steps_(steps_of(request, cluster)) {
    if (const auto known = made({})) peak_ = known->alternative.peak_bytes;
  }

  std::vector<ClusterAlternative> run() {
    keep_what_saves();
    for (std::size_t changes = 1; changes <= kMostChanges && found_.size() < kEnough; ++changes)
      vary({}, 0, changes);
    std::stable_sort(found_.begin(), found_.end(), [](const Found& a, const Found& b) {
      return std::pair(count(a.strengths), sum(a.strengths)) <
             std::pair(count(b.strengths), sum(b.strengths));
    });
    std::vector<ClusterAlternative> nearest;
    for (Found& one : found_) {
      if (nearest.size() < kMostListed) nearest.push_back(std::move(one.alternative));
    }
    return nearest;
  }

 private:
  struct Found {
    Strengths strengths{};
    ClusterAlternative alternative;
    bool fits = false;
  };

  static std::size_t sum(const Strengths& strengths) {
    return std::accumulate(strengths.begin(), strengths.end(), std::size_t{0});
  }

  /// The request with these changes; empty where its devices or its batch don't come out even.
  std::optional<ClusterRequest> changed(const Strengths& strengths) const {
    Draft draft{from_, devices_of(from_), batch_of(from_.plan)};
    for (std::size_t kind = 0; kind < kClusterChanges; ++kind) {
      if (strengths[kind] > 0) steps_[kind][strengths[kind] - 1](draft);
    }
    Plan& plan = draft.request.plan;
    plan.stages.clear();
    plan.order_costs.reset();
    const std::size_t group =
        std::size_t{plan.depth} * static_cast<std::size_t>(draft.request.assumptions.tensor);
    if (draft.devices % group != 0 && (group < draft.devices || group > cluster_.size()))
      return std::nullopt;
    plan.width = static_cast<std::uint16_t>(std::max<std::size_t>(1, draft.devices / group));
    plan.microbatches = microbatches_of(draft.batch, plan);
    return std::move(draft.request);
  }

  /// What the changes make; empty where they make nothing that runs.
  std::optional<Found> made(const Strengths& strengths) {
    try {
      std::optional<ClusterRequest> request = changed(strengths);
      if (!request) return std::nullopt;
      const Plan& plan = request->plan;
      cells_ += kCellsOfAPlan + static_cast<std::int64_t>(part_count(plan)) * plan.microbatches;
      if (cells_ > kMostCells) return std::nullopt;
      const ClusterLayout layout(cluster_, plan.width, plan.depth, request->order,
                                 static_cast<std::size_t>(request->assumptions.tensor));
      const ClusterPlan on = plan_on_cluster(plan, layout, request->assumptions, request->cut);
      Found found{strengths, {.request = std::move(*request), .changes = {}}, on.fits()};
      for (const DeviceId device : ids(on.memory)) {
        if (on.memory[device].total() <= found.alternative.peak_bytes) continue;
        found.alternative.peak_bytes = on.memory[device].total();
        found.alternative.fullest = device;
      }
      for (std::size_t kind = 0; kind < kClusterChanges; ++kind) {
        if (strengths[kind] > 0)
          found.alternative.changes.push_back(static_cast<ClusterChange>(kind));
      }
      return found;
    } catch (const InputError&) {
      return std::nullopt;
    }
  }

  /// Leaves those steps that make less of the fullest device than the one before.
  void keep_what_saves() {
    for (std::size_t kind = 0; kind < kClusterChanges; ++kind) {
      Bytes least = peak_;
      std::vector<Step> saving;
      for (std::size_t i = 1; i <= steps_[kind].size(); ++i) {
        Strengths one{};
        one[kind] = i;
        const std::optional<Found> found = made(one);
        if (!found || found->alternative.peak_bytes >= least) continue;
        least = found->alternative.peak_bytes;
        saving.push_back(steps_[kind][i - 1]);
      }
      steps_[kind] = std::move(saving);
    }
  }

  /// All ways of `changes` more changes, of kinds from `first` on.
  void vary(const Strengths& strengths, std::size_t first, std::size_t changes) {
    if (changes == 0) return consider(strengths);
    for (std::size_t kind = first; kind < kClusterChanges; ++kind) {
      Strengths next = strengths;
      for (next[kind] = 1; next[kind] <= steps_[kind].size(); ++next[kind])
        vary(next, kind + 1, changes - 1);
    }
  }

  void consider(const Strengths& strengths) {
    const bool more_than_enough = std::ranges::any_of(found_, [&](const Found& one) {
      return std::ranges::equal(one.strengths, strengths, std::less_equal{});
    });
    if (more_than_enough) return;
    std::optional<Found> found = made(strengths);
    if (found && found->fits) found_.push_back(std::move(*found));
  }

  const ClusterRequest& from_;
  const Cluster& cluster_;
  Steps steps_;
  Bytes peak_ = 0;
  std::int64_t cells_ = 0;
  std::vector<Found> found_;
};

}  // namespace

std::vector<ClusterAlternative> nearest_cluster_fits(const ClusterRequest& request,
                                                     const Cluster& cluster) {
  return Search(request, cluster).run();
}

}  // namespace tandem
