#include "simulator/cost/cluster_layout.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <set>

#include "core/base/check.h"
#include "simulator/cost/analytic.h"

namespace tandem {

namespace {

constexpr std::size_t kMostRingPairs = 32;  // NCCL has at most 64 channels

/// How much of the traffic crosses each link, in shares of one device's or group's.
class Load {
 public:
  explicit Load(const Cluster& cluster) : cluster_(cluster) {
    if (loads().size() < cluster.links().size()) loads().resize(cluster.links().size());
  }
  ~Load() {
    for (const LinkId link : loaded_) loads()[index(link)] = 0.0;
  }
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;

  void add(const Route& route, double share) {
    for (const LinkId link : route.links) {
      double& load = loads()[index(link)];
      if (load == 0.0) loaded_.push_back(link);
      load += share;
    }
  }

  /// Bytes a second that each of those who share the links gets.
  double shared_rate(const Route& route) const {
    double rate = std::numeric_limits<double>::infinity();
    for (const LinkId link : route.links)
      rate = std::min(rate, cluster_.links()[link].bytes_per_s / loads()[index(link)]);
    return rate;
  }

 private:
  /// Of all links of a cluster, which may be many more than are loaded: zero between uses.
  static std::vector<double>& loads() {
    thread_local std::vector<double> loads;
    return loads;
  }

  const Cluster& cluster_;
  std::vector<LinkId> loaded_;
};

bool crosses_nodes(const Cluster& cluster, const Route& route) {
  return std::ranges::any_of(route.links,
                             [&](LinkId link) { return cluster.links()[link].between_nodes; });
}

/// The devices, ascending, node by node.
std::vector<std::vector<DeviceId>> by_node(const Cluster& cluster,
                                           const std::vector<DeviceId>& group) {
  std::vector<std::vector<DeviceId>> nodes;
  for (const DeviceId device : group) {
    if (nodes.empty() || cluster.node(nodes.back().back()) != cluster.node(device))
      nodes.emplace_back();
    nodes.back().push_back(device);
  }
  return nodes;
}

}  // namespace

CollectiveGroup group_of(const Cluster& cluster, const std::vector<DeviceId>& devices) {
  const auto nodes = by_node(cluster, devices);
  CollectiveGroup group{.devices = std::ssize(devices), .nodes = std::ssize(nodes)};
  group.least_per_node = group.devices;
  for (const auto& node : nodes)
    group.least_per_node = std::min<std::int64_t>(group.least_per_node, std::ssize(node));
  return group;
}

const Route& ClusterWays::between(DeviceId from, DeviceId to) {
  const auto [place, unknown] = known_.try_emplace(std::uint64_t{index(from)} << 32 | index(to));
  if (unknown) place->second = cluster_->route(from, to);
  return place->second;
}

ClusterLayout::ClusterLayout(const Cluster& cluster, std::size_t width, std::size_t depth,
                             DeviceOrder order, std::size_t tensor)
    : ClusterLayout(std::make_shared<ClusterWays>(cluster), width, depth, order, tensor) {}

ClusterLayout::ClusterLayout(std::shared_ptr<ClusterWays> ways, std::size_t width,
                             std::size_t depth, DeviceOrder order, std::size_t tensor)
    : ways_(std::move(ways)),
      width_(width),
      depth_(depth),
      tensor_(tensor),
      order_(order),
      kinds_(depth) {
  TANDEM_CHECK(width * depth * tensor <= cluster().size(), width, depth, tensor, cluster().size());
  for (const DeviceId device : ids(kinds_)) {
    for (std::size_t one = 0; one < width * tensor; ++one) {
      const DeviceSpec* kind = &cluster()[at(device, one / tensor, one % tensor)];
      if (std::ranges::find(kinds_[device], kind) == kinds_[device].end())
        kinds_[device].push_back(kind);
    }
  }
}

DeviceId ClusterLayout::at(DeviceId device, std::size_t replica, std::size_t member) const {
  const bool replicas_first = order_ == DeviceOrder::replicas_first;
  const std::size_t group =
      replicas_first ? index(device) * width_ + replica : replica * depth_ + index(device);
  return id_at<DeviceId>(group * tensor_ + member);
}

bool ClusterLayout::alike_groups() const {
  const std::vector<const DeviceSpec*>& first = kinds_[DeviceId{}];
  if (first.size() > 1 ||
      !std::ranges::all_of(kinds_.rows(), [&](const auto& kinds) { return kinds == first; }))
    return false;
  return tensor_ == 1 ||
         std::ranges::adjacent_find(tensor_sums(), std::not_equal_to<>()) == tensor_sums().end();
}

Bytes ClusterLayout::memory(DeviceId device) const {
  Bytes least = std::numeric_limits<Bytes>::max();
  for (std::size_t replica = 0; replica < width_; ++replica) {
    for (std::size_t member = 0; member < tensor_; ++member)
      least = std::min(least, cluster()[at(device, replica, member)].memory_bytes);
  }
  return least;
}

ClusterLayout::Routes ClusterLayout::routes(DeviceId source, DeviceId target) const {
  Routes routes;
  routes.reserve(width_ * tensor_);
  for (std::size_t replica = 0; replica < width_; ++replica) {
    for (std::size_t member = 0; member < tensor_; ++member)
      routes.push_back(way(at(source, replica, member), at(target, replica, member)));
  }
  return routes;
}

std::vector<ClusterLayout::Routes> ClusterLayout::rings(const std::vector<DeviceId>& group) const {
  if (group.size() < 2) return {};
  const auto nodes = by_node(cluster(), group);
  const std::size_t members = nodes.front().size();
  const bool alike =
      std::ranges::all_of(nodes, [&](const auto& node) { return node.size() == members; });
  const std::size_t pairs = alike && nodes.size() > 1 ? std::min(members, kMostRingPairs) : 1;
  std::vector<Routes> rings;
  const auto ring_of = [this](const std::vector<DeviceId>& order) {
    Routes ring;
    ring.reserve(order.size());
    for (std::size_t i = 0; i < order.size(); ++i)
      ring.push_back(way(order[i], order[(i + 1) % order.size()]));
    return ring;
  };
  for (std::size_t turn = 0; turn < pairs; ++turn) {
    std::vector<DeviceId> order;
    for (const auto& node : nodes) {
      for (std::size_t i = 0; i < node.size(); ++i) order.push_back(node[(i + turn) % node.size()]);
    }
    rings.push_back(ring_of(order));
    std::reverse(order.begin(), order.end());
    rings.push_back(ring_of(order));
  }
  return rings;
}

std::vector<DeviceId> ClusterLayout::holders(const Placement& placement, StageId stage,
                                             std::size_t member) const {
  std::set<DeviceId> all;
  for (const ReplicaId replica : placement.replicas_of(stage)) {
    for (std::size_t pipeline = 0; pipeline < width_; ++pipeline)
      all.insert(at(placement.device[replica], pipeline, member));
  }
  return {all.begin(), all.end()};
}

const std::vector<ClusterLayout::Share>& ClusterLayout::shares(DeviceId source,
                                                               DeviceId target) const {
  const auto [place, unknown] = transfers_.try_emplace({source, target});
  if (!unknown) return place->second;
  const Routes all = routes(source, target);
  Load load(cluster());
  for (const Route* route : all) load.add(*route, 1.0);
  std::set<Share> distinct;
  for (const Route* route : all)
    distinct.insert({load.shared_rate(*route), route->latency, crosses_nodes(cluster(), *route)});
  place->second.assign(distinct.begin(), distinct.end());
  return place->second;
}

Duration ClusterLayout::transfer(DeviceId source, DeviceId target, Bytes bytes,
                                 const Calibration& constants) const {
  const auto share = static_cast<double>(bytes / static_cast<Bytes>(tensor_));
  Duration longest{};
  for (const auto& [rate, latency, between_nodes] : shares(source, target)) {
    const double fraction = between_nodes ? constants.network_fraction : constants.link_fraction;
    longest = std::max(longest, moving_time(share, rate * fraction, 1, latency));
  }
  return longest;
}

const std::vector<ClusterLayout::SumWays>& ClusterLayout::tensor_sums() const {
  if (!tensor_sums_.empty()) return tensor_sums_;
  Groups groups;
  for (const DeviceId device : ids(kinds_)) {
    for (std::size_t replica = 0; replica < width_; ++replica) {
      groups.emplace_back();
      for (std::size_t member = 0; member < tensor_; ++member)
        groups.back().push_back(at(device, replica, member));
    }
  }
  return tensor_sums_ = sum_ways(groups);
}

/// Whether replica r is stage r, on one device, and no device is without a stage: then all stages
/// of a device are summed by the same devices, whatever the placement.
static bool holds_each_stage_once(const Placement& placement) {
  std::vector<char> holds(placement.devices, 0);
  for (const ReplicaId replica : ids(placement.stage)) {
    if (index(placement.stage[replica]) != index(replica)) return false;
    holds[index(placement.device[replica])] = 1;
  }
  return std::ranges::find(holds, 0) == holds.end();
}

const std::vector<ClusterLayout::SumWays>& ClusterLayout::gradient_sums(
    const Placement& placement) const {
  const auto [place, unknown] =
      gradient_sums_.try_emplace(std::pair(placement.device.rows(), placement.stage.rows()));
  if (!unknown) return place->second;
  if (holds_each_stage_once(placement)) {
    for (const DeviceId device : placement.device) {
      const auto first =
          device_sums().begin() + static_cast<std::ptrdiff_t>(index(device) * tensor_);
      place->second.insert(place->second.end(), first,
                           first + static_cast<std::ptrdiff_t>(tensor_));
    }
    return place->second;
  }
  Groups groups;
  for (const StageId stage : all_ids<StageId>(placement.stages())) {
    for (std::size_t member = 0; member < tensor_; ++member)
      groups.push_back(holders(placement, stage, member));
  }
  return place->second = sum_ways(groups);
}

const std::vector<ClusterLayout::SumWays>& ClusterLayout::device_sums() const {
  if (!device_sums_.empty()) return device_sums_;
  Groups groups;
  for (const DeviceId device : all_ids<DeviceId>(depth_)) {
    for (std::size_t member = 0; member < tensor_; ++member) {
      std::set<DeviceId> group;
      for (std::size_t pipeline = 0; pipeline < width_; ++pipeline)
        group.insert(at(device, pipeline, member));
      groups.emplace_back(group.begin(), group.end());
    }
  }
  return device_sums_ = sum_ways(groups);
}

std::vector<ClusterLayout::SumWays> ClusterLayout::sum_ways(const Groups& groups) const {
  // Stages of one group take turns.
  std::map<std::vector<DeviceId>, std::vector<Routes>> known;
  Load load(cluster());
  for (const std::vector<DeviceId>& group : groups) {
    const auto [ring, first] = known.try_emplace(group);
    if (!first) continue;
    ring->second = rings(group);
    for (const Routes& routes : ring->second) {
      for (const Route* route : routes)
        load.add(*route, 1.0 / static_cast<double>(ring->second.size()));
    }
  }
  std::vector<SumWays> all;
  for (const std::vector<DeviceId>& group : groups) {
    SumWays ways{.group = group_of(cluster(), group), .ways = {}};
    for (const Routes& ring : known.at(group)) {
      for (const Route* route : ring) {
        CollectiveWay& way =
            crosses_nodes(cluster(), *route) ? ways.ways.between : ways.ways.within;
        way.bytes_per_s = std::min(way.bytes_per_s, load.shared_rate(*route));
        way.latency_s = std::max(way.latency_s, to_seconds(route->latency));
      }
    }
    all.push_back(ways);
  }
  return all;
}

std::vector<Duration> ClusterLayout::all_reduce(const std::vector<SumWays>& sums,
                                                const std::vector<Bytes>& bytes,
                                                const Calibration& constants) {
  std::vector<Duration> times;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (i > 0 && bytes[i] == bytes[i - 1] && sums[i] == sums[i - 1]) {
      times.push_back(times.back());
      continue;
    }
    CollectiveWays ways = sums[i].ways;
    ways.within.bytes_per_s *= constants.link_fraction;
    ways.between.bytes_per_s *= constants.network_fraction;
    ways.protocol_s = constants.protocol_s;
    // It sends a flag beside each word by few channels: the constant is that of fast links.
    const double slowest = std::min(ways.within.bytes_per_s, ways.between.bytes_per_s);
    ways.low_latency_bytes_per_s = std::min(constants.low_latency_bytes_per_s, 0.1 * slowest);
    times.push_back(all_reduce_time(ways, sums[i].group, bytes[i]));
  }
  return times;
}

}  // namespace tandem
