#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "core/model/node_order.h"
#include "planner/cluster/cluster_search.h"

namespace tandem {

namespace {

/// Best first, of each shape its best; of two as good that of the earlier order.
void merge_ranked(std::vector<ClusterCandidate>& all, std::vector<ClusterCandidate> more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  std::ranges::stable_sort(all, better);
  std::set<CandidateShape> seen;
  std::erase_if(all,
                [&](const ClusterCandidate& one) { return !seen.insert(shape_of(one)).second; });
}

double least_open(double a, double b) {
  return a == 0.0 || b == 0.0 ? std::max(a, b) : std::min(a, b);
}

void merge_outcome(ScheduleOutcome& all, ScheduleOutcome more) {
  if (more.best && (!all.best || better(*more.best, *all.best))) all.best = std::move(more.best);
  all.simulated += more.simulated;
  all.too_large += more.too_large;
  all.refused += more.refused;
  all.bound = least_open(all.bound, more.bound);
}

/// Refusals and what nearly fits are those of the first order.
void merge(ClusterAnswer& all, ClusterAnswer more) {
  merge_ranked(all.ranked, std::move(more.ranked));
  for (std::size_t i = 0; i < all.schedules.size(); ++i)
    merge_outcome(all.schedules[i], std::move(more.schedules[i]));
  all.bound = std::min(all.bound, more.bound);
  if (more.any_cut < all.any_cut) {
    all.any_cut = more.any_cut;
    all.any_cut_of = std::move(more.any_cut_of);
  }
  all.shapes += more.shapes;
  all.simulated += more.simulated;
  all.contended += more.contended;
  all.interrupted = all.interrupted || more.interrupted;
}

double least_of(const ClusterAnswer& answer) {
  return answer.ranked.empty() ? std::numeric_limits<double>::infinity()
                               : answer.ranked.front().value;
}

/// The best plan is likely in an order that begins with fast devices: found early, it spares
/// others.
std::vector<std::shared_ptr<const Cluster>> fastest_first(const std::vector<ClusterSpec>& orders,
                                                          NumberFormat format) {
  std::vector<std::shared_ptr<const Cluster>> all;
  for (const ClusterSpec& spec : orders) all.push_back(std::make_shared<const Cluster>(spec));
  std::ranges::stable_sort(all, std::greater<>(), [format](const auto& cluster) {
    return (*cluster)[DeviceId{}].flops(format);
  });
  return all;
}

}  // namespace

ClusterAnswer find_cluster_plans(const ClusterQuestion& question,
                                 const std::function<bool()>& stop) {
  check_measured_optimizer(question.base.plan, question.base.assumptions);
  constexpr double kNothing = std::numeric_limits<double>::infinity();
  const std::vector<ClusterSpec> orders = node_orders(question.base.cluster->spec());
  if (question.given_node_order || orders.size() == 1)
    return find_in_node_order(question, stop, kNothing);
  std::optional<ClusterAnswer> answer;
  for (auto& cluster : fastest_first(orders, question.base.assumptions.format)) {
    ClusterQuestion reordered = question;
    reordered.base.cluster = std::move(cluster);
    reordered.base.memo = nullptr;  // of the cluster in its own order
    if (!answer)
      answer = find_in_node_order(reordered, stop, kNothing);
    else
      merge(*answer, find_in_node_order(reordered, stop, least_of(*answer)));
  }
  return *std::move(answer);
}

}  // namespace tandem
