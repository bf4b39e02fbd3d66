#pragma once
// Cluster: devices, the links between them, and the way from one device to another.
//
// A ClusterSpec says it group by group — a node, a rack of nodes, and so on to any level — as a
// cluster file does. A Cluster is that unrolled: every
// device and every link by itself, so that whatever takes the same link shares it.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/table.h"
#include "core/base/units.h"
#include "core/model/calibration.h"

namespace tandem {

/// One direction of one link of a Cluster: a row of Cluster::links().
enum class LinkId : std::uint32_t {};

/// In which a device multiplies; each has a peak of its own.
enum class NumberFormat : std::uint8_t { fp32, tf32, fp16, bf16, fp8 };
inline constexpr std::size_t kNumberFormats = 5;
/// "fp32", "tf32", "fp16", "bf16", "fp8".
std::string_view name(NumberFormat format);
/// In which numbers are stored, and in which is computed what is not a layer's product with its
/// weights: bf16 for fp8, else itself.
NumberFormat storage_format(NumberFormat format);
/// Bytes of a number as it is stored.
Bytes bytes_of(NumberFormat format);

/// A kind of device, by its data sheet.
struct DeviceSpec {
  std::string name;
  std::array<double, kNumberFormats> flops_per_s{};  // peak of dense products; 0: has no such units
  Bytes memory_bytes = 0;
  double memory_bytes_per_s = 0.0;
  std::int32_t multiprocessors = 0;  // that products share out their tiles to; 0: not known
  /// What training software is seen to reach on it, where nothing of the reader's own machine was
  /// measured; empty: nobody knows.
  std::optional<Calibration> typical = {};
  std::optional<double> usd_per_hour = {};  // to rent one; empty: nobody knows
  std::string source = {};                  // of the figures
  double flops(NumberFormat format) const { return flops_per_s[static_cast<std::size_t>(format)]; }
  friend bool operator==(const DeviceSpec&, const DeviceSpec&) = default;
};

/// `count` devices, groups or switches of one kind. A member that is neither device nor group is a
/// switch.
struct ClusterMember {
  std::string name;
  std::optional<std::size_t> device = {};  // of ClusterSpec::devices
  std::optional<std::size_t> group = {};   // of ClusterSpec::groups
  std::int32_t count = 1;
  friend bool operator==(const ClusterMember&, const ClusterMember&) = default;
};

/// All of a member, or one of it.
struct MemberRef {
  std::size_t member = 0;
  std::optional<std::int32_t> which = {};
  friend bool operator==(const MemberRef&, const MemberRef&) = default;
};

/// Full duplex: so much each way at once.
struct LinkSpec {
  std::string name;
  double bytes_per_s = 0.0;  // one way
  Duration latency{};
  friend bool operator==(const LinkSpec&, const LinkSpec&) = default;
};

/// A link between each of the more numerous side and one of the other side: i to i·k/n, in blocks.
/// A group is linked at its ports, each by a link of its own.
struct JointSpec {
  MemberRef from, to;
  LinkSpec link;
  friend bool operator==(const JointSpec&, const JointSpec&) = default;
};

/// A node, a rack, …: members and the links between them. `members` are numbered in this order, and
/// joints name them by it.
struct GroupSpec {
  std::string name;
  std::vector<ClusterMember> members;
  std::vector<JointSpec> joints;
  std::optional<std::size_t> port = {};  // the member that outer links attach to
  std::optional<LinkSpec> network = {};  // of each port, where such groups stand side by side
  std::string source = {};
  friend bool operator==(const GroupSpec&, const GroupSpec&) = default;
};

/// A cluster as its file says it: `root` is the index of the group that is the cluster. Rates are
/// bytes a second, sizes bytes.
struct ClusterSpec {
  std::string name = "unnamed";
  std::vector<DeviceSpec> devices;
  std::vector<GroupSpec> groups;
  std::size_t root = 0;
  friend bool operator==(const ClusterSpec&, const ClusterSpec&) = default;
};

inline constexpr std::size_t kMostClusterDevices = 16'384;
/// Devices and switches; links; groups.
inline constexpr std::size_t kMostClusterVertices = 1 << 18;

/// The reason why a spec is no cluster, and the group where it lies.
struct ClusterProblem {
  std::size_t group = 0;
  std::string message;
};

/// Groups that hold themselves, joints that do not come out even, too many devices or none, devices
/// without a way to one another. Empty: it is one. REQUIRES: all indices name existing rows, counts
/// are at least 1, rates above 0.
std::optional<ClusterProblem> problem_of(const ClusterSpec& spec);

/// One direction of a link.
struct Link {
  std::string name;  // "NVLink node[1].gpu[0] > node[1].switch"
  double bytes_per_s = 0.0;
  Duration latency{};
  bool between_nodes = false;  // of a group that holds no devices itself
};

/// A way through the cluster. From a device to itself there are no links, and no limit.
struct Route {
  std::vector<LinkId> links;
  double bytes_per_s = 0.0;  // of the slowest link
  Duration latency{};        // of them all
};

/// Devices are numbered as the root's members hold them, depth first.
class Cluster {
 public:
  /// Throws InputError where problem_of() finds one.
  explicit Cluster(const ClusterSpec& spec);

  const ClusterSpec& spec() const { return spec_; }
  const std::string& name() const { return spec_.name; }
  std::size_t size() const { return devices_.size(); }
  const DeviceSpec& operator[](DeviceId device) const {
    return spec_.devices[devices_[device].kind];
  }
  /// "node[1].gpu[0]".
  const std::string& path(DeviceId device) const { return vertices_[devices_[device].vertex].path; }
  /// The innermost groups that hold devices, numbered from 0 in the order of their devices.
  std::size_t node(DeviceId device) const { return devices_[device].node; }
  std::size_t nodes() const { return nodes_; }
  /// Nodes of one kind are alike, down to the links between their devices.
  std::size_t node_kind(DeviceId device) const {
    return groups_[vertices_[devices_[device].vertex].group].spec;
  }
  const Table<LinkId, Link>& links() const { return links_; }

  /// The way from one device to another within the innermost group that has one, through no other
  /// device: up from the one and down to the other, and only where that leads nowhere through
  /// groups that hold neither. It takes the one whose slowest link is fastest; then the
  /// one of fewest links, least latency, first links.
  Route route(DeviceId from, DeviceId to) const;

 private:
  friend std::optional<ClusterProblem> problem_of(const ClusterSpec& spec);
  struct Edge {
    std::uint32_t to = 0;
    LinkId link{};
  };
  struct Vertex {
    std::string path;
    std::uint32_t group = 0;  // of groups_
    bool forwards = false;    // a switch
    std::vector<Edge> edges = {};
  };
  struct GroupInstance {
    std::uint32_t outer = 0;  // itself, for the root
    std::uint32_t depth = 0;
    std::size_t spec = 0;  // of ClusterSpec::groups
  };
  struct Device {
    std::size_t kind = 0, node = 0;
    std::uint32_t vertex = 0;
  };
  class Builder;
  class Search;
  enum class Through : bool;

  Cluster() = default;
  /// Two devices without a way to one another; empty: there are none.
  std::optional<ClusterProblem> disconnection() const;
  /// The innermost group that holds both.
  std::uint32_t common_group(DeviceId a, DeviceId b) const;

  ClusterSpec spec_;
  std::vector<Vertex> vertices_;
  std::vector<GroupInstance> groups_;
  Table<DeviceId, Device> devices_;
  Table<LinkId, Link> links_;
  std::size_t nodes_ = 0;
};

}  // namespace tandem
