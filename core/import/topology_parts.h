#pragma once
// What the readers of topologies share: figures of GPUs that no topology says, and a node put
// together vertex by vertex.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/units.h"
#include "core/model/cluster.h"

namespace tandem {

/// Links of a GPU of the catalogue, by its data sheet, and how it is known elsewhere.
struct GpuLinks {
  std::string_view device;
  std::string_view driver_name;  // nvidia-smi -L, without the maker
  std::uint32_t pci_device;      // of PCI vendor 0x10de
  std::int32_t capability;       // CUDA's, 90 for 9.0
  double nvlink_bytes_per_s;     // one link, one way
  std::int32_t nvlinks;
  double pcie_bytes_per_s;  // x16 of its generation
};

/// Null: none.
const GpuLinks* gpu_links(std::string_view device);
const GpuLinks* gpu_of_driver(std::string_view name);
const GpuLinks* gpu_of_pci(std::uint32_t device);

/// As the catalogue counts them (core/model/catalog.json).
inline constexpr Duration kNvLinkLatency{3400};
inline constexpr Duration kPcieLatency{2850};  // of a GPU's link; other links have none
inline constexpr Duration kNetworkLatency{4150};

/// "18 NVLinks".
LinkSpec nvlinks(const GpuLinks& gpu, std::int32_t count, Duration latency);

/// A group of devices and switches, made one vertex and one link after the other.
class NodeBuilder {
 public:
  struct Vertex {
    std::size_t member = 0;
    std::int32_t which = 0;
  };

  /// One more of the member of this name; `device`: what it is, else a switch.
  Vertex add(std::string_view member, const DeviceSpec* device = nullptr);
  void join(Vertex from, Vertex to, LinkSpec link);
  bool has(std::string_view member) const { return find(member) < node_.members.size(); }
  /// Outer links attach to all of this member.
  void set_port(std::string_view member) { node_.port = find(member); }
  void set_network(LinkSpec network) { node_.network = std::move(network); }

  /// The cluster that the node is. Throws InputError where that is none.
  ClusterSpec finish(const std::string& file, std::string source);

 private:
  std::size_t find(std::string_view member) const;

  ClusterSpec spec_{.devices = {}, .groups = {}};
  GroupSpec node_{.name = "node", .members = {}, .joints = {}};
};

/// A file's name without its folders.
std::string cluster_name(const std::string& file);

/// Throws InputError about `file` where the spec is no cluster.
void check_cluster(const std::string& file, const ClusterSpec& spec);

/// Throws UsageError: `file` names no device.
[[noreturn]] void ask_for_gpu(const std::string& file, std::string_view why);

/// Neither JSON, as our own format is, nor XML.
bool is_plain_text(std::string_view text);

// Whether a text is of the format.
bool is_nvidia_smi(std::string_view text);
bool is_nccl_xml(std::string_view text);
bool is_astra_sim(std::string_view text);

ClusterSpec parse_nvidia_smi(const std::string& file, std::string_view text, const DeviceSpec* gpu);
ClusterSpec parse_nccl_xml(const std::string& file, std::string_view text, const DeviceSpec* gpu);
ClusterSpec parse_astra_sim(const std::string& file, std::string_view text, const DeviceSpec* gpu);

}  // namespace tandem
