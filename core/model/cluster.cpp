#include "core/model/cluster.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <queue>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/model/vertex_scratch.h"

namespace tandem {

std::string_view name(NumberFormat format) {
  static constexpr std::array<std::string_view, kNumberFormats> kNames{"fp32", "tf32", "fp16",
                                                                       "bf16", "fp8"};
  return kNames[static_cast<std::size_t>(format)];
}

NumberFormat storage_format(NumberFormat format) {
  return format == NumberFormat::fp8 ? NumberFormat::bf16 : format;
}

Bytes bytes_of(NumberFormat format) {
  return format == NumberFormat::fp32 || format == NumberFormat::tf32 ? 4 : 2;
}

/// Makes the vertices and links of a spec.
class Cluster::Builder {
 public:
  Builder(Cluster& cluster, const ClusterSpec& spec) : cluster_(cluster), spec_(spec) {
    group(spec.root, "", 0);
    // By the groups that they lead to: a switch of thousands is searched for a few.
    for (Vertex& vertex : cluster.vertices_) {
      std::ranges::stable_sort(vertex.edges, {},
                               [&](const Edge& edge) { return cluster.vertices_[edge.to].group; });
    }
  }

 private:
  using Ends = std::vector<std::uint32_t>;

  /// The vertices of the new group's ports.
  Ends group(std::size_t index, const std::string& path, std::uint32_t outer) {
    const GroupSpec& spec = spec_.groups[index];
    const auto self = static_cast<std::uint32_t>(cluster_.groups_.size());
    const std::uint32_t depth = self == 0 ? 0 : cluster_.groups_[outer].depth + 1;
    cluster_.groups_.push_back({.outer = outer, .depth = depth, .spec = index});
    std::optional<std::size_t> node;
    std::vector<std::vector<Ends>> ends(spec.members.size());
    for (std::size_t m = 0; m < spec.members.size(); ++m) {
      const ClusterMember& member = spec.members[m];
      for (std::int32_t i = 0; i < member.count; ++i) {
        const std::string here =
            path + (member.count == 1 ? member.name : fmt::format("{}[{}]", member.name, i));
        if (member.group) {
          ends[m].push_back(group(*member.group, here + ".", self));
          continue;
        }
        ends[m].push_back({static_cast<std::uint32_t>(cluster_.vertices_.size())});
        cluster_.vertices_.push_back({.path = here, .group = self, .forwards = !member.device});
        if (!member.device) continue;
        if (!node) node = cluster_.nodes_++;
        cluster_.devices_.push_back(
            {.kind = *member.device, .node = *node, .vertex = ends[m].back().front()});
      }
    }
    for (const JointSpec& joint : spec.joints) {
      join(all_of(ends[joint.from.member], joint.from), all_of(ends[joint.to.member], joint.to),
           joint.link, !node);
    }
    return spec.port ? all_of(ends[*spec.port], {.member = *spec.port}) : Ends{};
  }

  static Ends all_of(const std::vector<Ends>& members, const MemberRef& ref) {
    if (ref.which) return members[static_cast<std::size_t>(*ref.which)];
    Ends all;
    for (const Ends& one : members) all.insert(all.end(), one.begin(), one.end());
    return all;
  }

  void join(const Ends& from, const Ends& to, const LinkSpec& link, bool between_nodes) {
    const std::size_t links = std::max(from.size(), to.size());
    for (std::size_t i = 0; i < links; ++i) {
      const std::uint32_t a = from[i * from.size() / links], b = to[i * to.size() / links];
      one_way(a, b, link, between_nodes);
      one_way(b, a, link, between_nodes);
    }
  }

  void one_way(std::uint32_t from, std::uint32_t to, const LinkSpec& link, bool between_nodes) {
    std::vector<Vertex>& vertices = cluster_.vertices_;
    const LinkId id = cluster_.links_.push_back(
        {.name = fmt::format("{} {} > {}", link.name, vertices[from].path, vertices[to].path),
         .bytes_per_s = link.bytes_per_s,
         .latency = link.latency,
         .between_nodes = between_nodes});
    vertices[from].edges.push_back({to, id});
  }

  Cluster& cluster_;
  const ClusterSpec& spec_;
};

enum class Cluster::Through : bool { groups_of_both, any_group };

/// Ways from one device to another within one group.
class Cluster::Search {
 public:
  Search(const Cluster& cluster, std::uint32_t from, std::uint32_t to, std::uint32_t within,
         Through through)
      : cluster_(cluster), from_(from), to_(to), within_(within), through_(through) {
    for (const std::uint32_t end : {from, to}) {
      for (std::uint32_t group = cluster.vertices_[end].group;;
           group = cluster.groups_[group].outer) {
        allowed_.push_back(group);
        if (group == within) break;
      }
    }
    std::sort(allowed_.begin(), allowed_.end());
    allowed_.erase(std::unique(allowed_.begin(), allowed_.end()), allowed_.end());
  }

  std::optional<Route> route() const {
    const double rate = widest();
    if (rate == 0.0) return std::nullopt;
    return shortest(rate);
  }

 private:
  bool passes(const Edge& edge) const {
    if (edge.to == to_) return true;
    const Vertex& vertex = cluster_.vertices_[edge.to];
    if (!vertex.forwards) return false;
    if (through_ == Through::groups_of_both)
      return std::binary_search(allowed_.begin(), allowed_.end(), vertex.group);
    std::uint32_t group = vertex.group;
    const std::uint32_t depth = cluster_.groups_[within_].depth;
    while (cluster_.groups_[group].depth > depth) group = cluster_.groups_[group].outer;
    return group == within_;
  }

  /// Those that may be taken.
  template <class Visit>
  void each_edge(std::uint32_t at, Visit visit) const {
    const std::vector<Edge>& edges = cluster_.vertices_[at].edges;
    const auto take = [&](const Edge& edge) {
      if (passes(edge)) visit(edge);
    };
    if (through_ == Through::any_group) {
      std::ranges::for_each(edges, take);
      return;
    }
    const auto group_of = [&](const Edge& edge) { return cluster_.vertices_[edge.to].group; };
    for (const std::uint32_t group : allowed_)
      std::ranges::for_each(std::ranges::equal_range(edges, group, {}, group_of), take);
  }

  struct Arrival {
    std::size_t links = 0;
    Duration latency{};
    std::uint32_t before = 0;
    LinkId link{};
    bool no_longer_than(const Arrival& other) const {
      return std::tie(links, latency) <= std::tie(other.links, other.latency);
    }
  };

  /// The most that the slowest link of any way takes; 0: there is none.
  double widest() const {
    thread_local VertexScratch<double> best;
    best.clear(cluster_.vertices_.size());
    std::priority_queue<std::pair<double, std::uint32_t>> open;
    open.emplace(std::numeric_limits<double>::infinity(), from_);
    while (!open.empty()) {
      const auto [rate, at] = open.top();
      open.pop();
      if (at == to_) return rate;
      if (rate < best[at]) continue;
      each_edge(at, [&, from_here = rate](const Edge& edge) {
        const double there = std::min(from_here, cluster_.links_[edge.link].bytes_per_s);
        double& known = best[edge.to];
        if (there <= known) return;
        known = there;
        open.emplace(there, edge.to);
      });
    }
    return 0.0;
  }

  /// Over links of at least `rate` only. REQUIRES: there is a way.
  Route shortest(double rate) const {
    using Length = std::tuple<std::size_t, Duration, std::uint32_t>;  // links, latency, vertex
    thread_local VertexScratch<Arrival> best;
    best.clear(cluster_.vertices_.size());
    std::priority_queue<Length, std::vector<Length>, std::greater<>> open;
    open.emplace(0, Duration{}, from_);
    while (std::get<2>(open.top()) != to_) {
      const auto [links, latency, at] = open.top();
      open.pop();
      each_edge(at, [&, links_here = links, latency_here = latency, here = at](const Edge& edge) {
        const Link& link = cluster_.links_[edge.link];
        if (link.bytes_per_s < rate) return;
        const Arrival there{links_here + 1, latency_here + link.latency, here, edge.link};
        if (best.has(edge.to) && best[edge.to].no_longer_than(there)) return;
        best[edge.to] = there;
        open.emplace(there.links, there.latency, edge.to);
      });
    }
    Route route{.links = {}, .bytes_per_s = rate, .latency = std::get<1>(open.top())};
    for (std::uint32_t at = to_; at != from_; at = best[at].before)
      route.links.push_back(best[at].link);
    std::reverse(route.links.begin(), route.links.end());
    return route;
  }

  const Cluster& cluster_;
  const std::uint32_t from_, to_, within_;
  const Through through_;
  std::vector<std::uint32_t> allowed_;  // the groups of both, ascending
};

namespace {

constexpr std::size_t kDeepestGroup = 16;

/// What a group unrolls to.
struct Totals {
  double devices = 0, vertices = 0, links = 0, ports = 0, groups = 0;
  std::size_t depth = 0;  // groups in one another, this one counted
};

/// Looks at a spec group by group, inner ones first.
class SpecCheck {
 public:
  explicit SpecCheck(const ClusterSpec& spec) : spec_(spec), totals_(spec.groups.size()) {}

  std::optional<ClusterProblem> problem() {
    for (std::size_t group = 0; group < spec_.groups.size() && !problem_; ++group) check(group);
    if (problem_) return problem_;
    const Totals& all = *totals_[spec_.root];
    if (all.devices == 0) {
      diagnose(spec_.root, "holds no device");
    } else if (all.devices > kMostClusterDevices) {
      diagnose(spec_.root, fmt::format("{:.6g} devices: expected at most {}", all.devices,
                                       kMostClusterDevices));
    } else if (std::max({all.vertices, all.links, all.groups}) > kMostClusterVertices) {
      diagnose(spec_.root,
               fmt::format("{:.6g} devices and switches, {:.6g} links, {:.6g} groups: expected at "
                           "most {}",
                           all.vertices, all.links, all.groups, kMostClusterVertices));
    }
    return problem_;
  }

 private:
  void diagnose(std::size_t group, std::string message) {
    if (!problem_) problem_ = ClusterProblem{group, std::move(message)};
  }

  void diagnose_depth(std::size_t group) {
    diagnose(group, fmt::format("holds groups in one another, more than {} deep", kDeepestGroup));
  }

  void check(std::size_t group) {
    if (totals_[group] || problem_) return;
    const auto again = std::find(inside_.begin(), inside_.end(), group);
    if (again != inside_.end()) {
      std::string way;
      for (auto at = again; at != inside_.end(); ++at) way += spec_.groups[*at].name + " > ";
      return diagnose(group, fmt::format("holds itself: {}{}", way, spec_.groups[group].name));
    }
    if (inside_.size() == kDeepestGroup) return diagnose_depth(inside_.front());
    inside_.push_back(group);
    Totals totals;
    totals.groups = 1;
    for (const ClusterMember& member : spec_.groups[group].members) {
      if (member.group) check(*member.group);
      if (problem_) return;
      const Totals one =
          member.group ? *totals_[*member.group] : Totals{member.device ? 1.0 : 0.0, 1, 0, 1};
      totals.devices += one.devices * member.count;
      totals.vertices += one.vertices * member.count;
      totals.links += one.links * member.count;
      totals.groups += one.groups * member.count;
      totals.depth = std::max(totals.depth, one.depth);
    }
    if (++totals.depth > kDeepestGroup) return diagnose_depth(group);
    for (const JointSpec& joint : spec_.groups[group].joints) totals.links += links(group, joint);
    if (const auto port = spec_.groups[group].port) totals.ports = ends(group, {.member = *port});
    totals_[group] = totals;
    inside_.pop_back();
  }

  /// Vertices that a joint meets on one side.
  double ends(std::size_t group, const MemberRef& ref) const {
    const ClusterMember& member = spec_.groups[group].members[ref.member];
    const double each = member.group ? totals_[*member.group]->ports : 1;
    return ref.which ? each : each * member.count;
  }

  double links(std::size_t group, const JointSpec& joint) {
    const GroupSpec& spec = spec_.groups[group];
    const auto named = [&](const MemberRef& ref) { return spec.members[ref.member].name; };
    for (const MemberRef& ref : {joint.from, joint.to}) {
      if (ends(group, ref) > 0) continue;
      diagnose(group, fmt::format("a link to \"{}\", whose group \"{}\" has no port", named(ref),
                                  spec_.groups[*spec.members[ref.member].group].name));
      return 0;
    }
    const double from = ends(group, joint.from), to = ends(group, joint.to);
    const bool overlap = !joint.from.which || !joint.to.which || joint.from.which == joint.to.which;
    if (joint.from.member == joint.to.member && overlap) {
      diagnose(group, fmt::format("a link between \"{}\" and itself", named(joint.from)));
    } else if (std::fmod(std::max(from, to), std::min(from, to)) != 0) {
      diagnose(group, fmt::format("links between {:.6g} of \"{}\" and {:.6g} of \"{}\" do not come "
                                  "out even",
                                  from, named(joint.from), to, named(joint.to)));
    }
    return 2 * std::max(from, to);
  }

  const ClusterSpec& spec_;
  std::vector<std::optional<Totals>> totals_;
  std::vector<std::size_t> inside_;
  std::optional<ClusterProblem> problem_;
};

}  // namespace

std::optional<ClusterProblem> Cluster::disconnection() const {
  // Sets of switches that reach one another, each named by its first switch.
  std::vector<std::uint32_t> set(vertices_.size());
  std::iota(set.begin(), set.end(), 0);
  const auto find = [&set](std::uint32_t at) {
    while (set[at] != at) at = set[at] = set[set[at]];
    return at;
  };
  for (std::uint32_t at = 0; at < vertices_.size(); ++at) {
    if (!vertices_[at].forwards) continue;
    for (const Edge& edge : vertices_[at].edges) {
      if (vertices_[edge.to].forwards) set[find(edge.to)] = find(at);
    }
  }
  // What a device reaches without a further step: other devices, and whole sets of switches.
  const auto beside = [&](const Device& device) {
    std::vector<std::uint32_t> all;
    for (const Edge& edge : vertices_[device.vertex].edges) all.push_back(find(edge.to));
    std::sort(all.begin(), all.end());
    return all;
  };
  std::vector<std::vector<std::uint32_t>> of_device;
  std::map<std::uint32_t, std::size_t> reached_by;
  for (const Device& device : devices_) {
    of_device.push_back(beside(device));
    auto& sets = of_device.back();
    sets.erase(std::unique(sets.begin(), sets.end()), sets.end());
    for (const std::uint32_t one : sets) {
      if (++reached_by[one] == devices_.size()) return std::nullopt;
    }
  }
  const auto meets = [&](std::size_t a, std::size_t b) {
    const auto& sets = of_device[a];
    const std::uint32_t end = devices_.rows()[b].vertex;
    if (std::binary_search(sets.begin(), sets.end(), end)) return true;
    return std::any_of(sets.begin(), sets.end(), [&](std::uint32_t one) {
      return vertices_[one].forwards &&
             std::binary_search(of_device[b].begin(), of_device[b].end(), one);
    });
  };
  for (std::size_t a = 0; a < devices_.size(); ++a) {
    for (std::size_t b = a + 1; b < devices_.size(); ++b) {
      if (meets(a, b)) continue;
      const DeviceId from = id_at<DeviceId>(a), to = id_at<DeviceId>(b);
      return ClusterProblem{groups_[common_group(from, to)].spec,
                            fmt::format("device {} has no way to device {}", path(from), path(to))};
    }
  }
  return std::nullopt;
}

std::optional<ClusterProblem> problem_of(const ClusterSpec& spec) {
  if (auto problem = SpecCheck(spec).problem()) return problem;
  Cluster cluster;
  Cluster::Builder(cluster, spec);
  return cluster.disconnection();
}

Cluster::Cluster(const ClusterSpec& spec) : spec_(spec) {
  const auto refuse = [&spec](const std::optional<ClusterProblem>& problem) {
    if (!problem) return;
    throw InputError(fmt::format("cluster {}: group \"{}\": {}", spec.name,
                                 spec.groups[problem->group].name, problem->message));
  };
  refuse(SpecCheck(spec).problem());
  Builder(*this, spec);
  refuse(disconnection());
}

std::uint32_t Cluster::common_group(DeviceId a, DeviceId b) const {
  std::uint32_t x = vertices_[devices_[a].vertex].group, y = vertices_[devices_[b].vertex].group;
  while (x != y) {
    std::uint32_t& deeper = groups_[x].depth >= groups_[y].depth ? x : y;
    deeper = groups_[deeper].outer;
  }
  return x;
}

Route Cluster::route(DeviceId from, DeviceId to) const {
  if (from == to) return {.links = {}, .bytes_per_s = std::numeric_limits<double>::infinity()};
  for (std::uint32_t group = common_group(from, to);; group = groups_[group].outer) {
    for (const Through through : {Through::groups_of_both, Through::any_group}) {
      const Search search(*this, devices_[from].vertex, devices_[to].vertex, group, through);
      if (auto route = search.route()) return std::move(*route);
    }
    TANDEM_CHECK(group != 0, path(from), path(to));
  }
}

}  // namespace tandem
