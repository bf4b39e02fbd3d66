#include "executor/ranks/rank_cluster.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "core/text/count_text.h"

namespace tandem {

namespace {

constexpr double kSameKind = 1.25;                 // processors that differ by less are of one kind
constexpr double kSoonest = 1e-9, kFewest = 1e-3;  // what a cluster's file takes for none

/// Its figures are what is achieved already.
Calibration as_measured() {
  return {.product_fraction = 1.0,
          .product_s = kSoonest,
          .memory_fraction = 1.0,
          .link_fraction = 1.0,
          .network_fraction = 1.0,
          .protocol_s = kSoonest,
          .low_latency_bytes_per_s = kFewest,  // no protocol of its own
          .sum_s = kSoonest,
          .transfer_s = kSoonest,
          .launch_s = kSoonest,
          .unfused_launches = kFewest,
          .batch_s = kSoonest};
}

/// Ranks from `first` on, without `last`.
struct RankHost {
  std::string address;
  std::size_t first = 0, last = 0;
  bool holds(std::int32_t rank) const {
    return static_cast<std::size_t>(rank) >= first && static_cast<std::size_t>(rank) < last;
  }
};

std::vector<RankHost> hosts_of(const std::vector<RankInfo>& infos) {
  std::vector<RankHost> hosts;
  for (std::size_t rank = 0; rank < infos.size(); ++rank) {
    const std::string address = infos[rank].host + " " + infos[rank].address;
    if (hosts.empty() || hosts.back().address != address) hosts.push_back({address, rank, rank});
    hosts.back().last = rank + 1;
  }
  return hosts;
}

/// Half of the least that a message takes to others.
Duration half_latency(const std::vector<LinkRate>& links,
                      const std::function<bool(const LinkRate&)>& is_of) {
  Duration least = Duration::max();
  for (const LinkRate& link : links) {
    if (is_of(link)) least = std::min(least, link.latency);
  }
  return least == Duration::max() ? Duration{} : least / 2;
}

/// What the slowest rank of a host sends to its others.
LinkSpec bus_of(const RankHost& host, const std::vector<LinkRate>& links) {
  const auto within = [&](const LinkRate& link) {
    return host.holds(link.from) && host.holds(link.to);
  };
  double least = std::numeric_limits<double>::max();
  for (std::size_t rank = host.first; rank < host.last; ++rank) {
    double sent = 0.0;
    for (const LinkRate& link : links) {
      if (within(link) && static_cast<std::size_t>(link.from) == rank)
        sent += link.bytes_per_s_busy;
    }
    least = std::min(least, sent);
  }
  return {
      .name = "between processes", .bytes_per_s = least, .latency = half_latency(links, within)};
}

LinkSpec network_of(const RankHost& host, const std::vector<LinkRate>& links) {
  const auto leaves = [&](const LinkRate& link) {
    return host.holds(link.from) && !host.holds(link.to);
  };
  double alone = 0.0, busy = 0.0;
  int ways = 0;
  for (const LinkRate& link : links) {
    if (!leaves(link)) continue;
    alone = std::max(alone, link.bytes_per_s);
    busy += link.bytes_per_s_busy;
    ++ways;
  }
  const double together = ways > 1 ? busy : 0.0;
  return {.name = "network",
          .bytes_per_s = std::max(alone, together),
          .latency = half_latency(links, leaves)};
}

class RankCluster {
 public:
  RankCluster(const std::vector<RankInfo>& infos, const std::vector<LinkRate>& links,
              const std::vector<RankDevice>& devices)
      : infos_(infos), links_(links), devices_(devices) {}

  ClusterSpec make() {
    const std::vector<RankHost> hosts = hosts_of(infos_);
    spec_.name = fmt::format("{} on {}", counted(std::ssize(infos_), "rank"),
                             counted(std::ssize(hosts), "host"));
    if (hosts.size() == 1 && infos_.size() > 1) {
      spec_.root = host_group(hosts[0]);
      return std::move(spec_);
    }
    GroupSpec network{.name = "network", .members = {}, .joints = {}};
    for (const RankHost& host : hosts) {
      ClusterMember member{.name = fmt::format("host{}", network.members.size())};
      if (host.last - host.first == 1) {
        member.device = kind_of(host);
      } else {
        member.group = host_group(host);
      }
      network.members.push_back(member);
    }
    network.members.push_back({.name = "switch"});
    for (std::size_t i = 0; i < hosts.size(); ++i)
      network.joints.push_back(
          {.from = {i}, .to = {hosts.size()}, .link = network_of(hosts[i], links_)});
    spec_.groups.push_back(std::move(network));
    spec_.root = spec_.groups.size() - 1;
    return std::move(spec_);
  }

 private:
  std::size_t host_group(const RankHost& host) {
    spec_.groups.push_back(
        {.name = fmt::format("ranks{}-{}", host.first, host.last - 1),
         .members = {{.name = "rank",
                      .device = kind_of(host),
                      .count = static_cast<std::int32_t>(host.last - host.first)},
                     {.name = "bus"}},
         .joints = {{.from = {0}, .to = {1}, .link = bus_of(host, links_)}},
         .port = 1});
    return spec_.groups.size() - 1;
  }

  /// Of the slowest of its ranks. One that is there already, if it is as fast.
  std::size_t kind_of(const RankHost& host) {
    RankDevice slowest = devices_[host.first];
    for (std::size_t rank = host.first; rank < host.last; ++rank) {
      const RankDevice& device = devices_[rank];
      slowest.product_flops_per_s =
          std::min(slowest.product_flops_per_s, device.product_flops_per_s);
      slowest.memory_bytes_per_s = std::min(slowest.memory_bytes_per_s, device.memory_bytes_per_s);
    }
    const auto share = slowest.memory_bytes / static_cast<Bytes>(host.last - host.first);
    for (std::size_t i = 0; i < spec_.devices.size(); ++i) {
      DeviceSpec& known = spec_.devices[i];
      const double ratio = known.flops(NumberFormat::fp32) / slowest.product_flops_per_s;
      if (ratio > kSameKind || ratio < 1 / kSameKind) continue;
      known.memory_bytes = std::min(known.memory_bytes, share);
      return i;
    }
    DeviceSpec device{.name = fmt::format("processor{}", spec_.devices.size()),
                      .memory_bytes = share,
                      .memory_bytes_per_s = slowest.memory_bytes_per_s,
                      .typical = as_measured(),
                      .source = "measured by tandem profile --ranks, as achieved"};
    device.flops_per_s[static_cast<std::size_t>(NumberFormat::fp32)] = slowest.product_flops_per_s;
    spec_.devices.push_back(std::move(device));
    return spec_.devices.size() - 1;
  }

  const std::vector<RankInfo>& infos_;
  const std::vector<LinkRate>& links_;
  const std::vector<RankDevice>& devices_;
  ClusterSpec spec_;
};

}  // namespace

ClusterSpec cluster_of(const std::vector<RankInfo>& infos, const std::vector<LinkRate>& links,
                       const std::vector<RankDevice>& devices) {
  return RankCluster(infos, links, devices).make();
}

}  // namespace tandem
