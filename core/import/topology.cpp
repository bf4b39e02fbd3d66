#include "core/import/topology.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "core/import/importers.h"
#include "core/import/topology_parts.h"
#include "core/model/catalog.h"
#include "core/text/json_document.h"

namespace tandem {
namespace {

// NVIDIA's data sheets and, for PCI devices, the PCI ID database. NVLink 14.0625 GB/s a link as
// `nvidia-smi nvlink -s` prints it.
constexpr std::array<GpuLinks, 13> kGpus{
    {{"V100-SXM2-16GB", "V100-SXM2-16GB", 0x1db1, 70, 25e9, 6, 15.75e9},
     {"V100-SXM2-32GB", "V100-SXM2-32GB", 0x1db5, 70, 25e9, 6, 15.75e9},
     {"A100-SXM4-40GB", "A100-SXM4-40GB", 0x20b0, 80, 25e9, 12, 31.5e9},
     {"A100-SXM4-80GB", "A100-SXM4-80GB", 0x20b2, 80, 25e9, 12, 31.5e9},
     {"H100-SXM5-80GB", "H100 80GB HBM3", 0x2330, 90, 25e9, 18, 63e9},
     {"H200-SXM-141GB", "H200", 0x2335, 90, 25e9, 18, 63e9},
     {"B200-SXM-180GB", "B200", 0x2901, 100, 50e9, 18, 63e9},
     {"A10-24GB", "A10", 0x2236, 86, 0, 0, 31.5e9},
     {"L4-24GB", "L4", 0x27b8, 89, 0, 0, 31.5e9},
     {"L40S-48GB", "L40S", 0x26b9, 89, 0, 0, 31.5e9},
     {"T4-16GB", "T4", 0x1eb8, 75, 0, 0, 15.75e9},
     {"RTX-3090-24GB", "GeForce RTX 3090", 0x2204, 86, 14.0625e9, 4, 31.5e9},
     {"RTX-4090-24GB", "GeForce RTX 4090", 0x2684, 89, 0, 0, 31.5e9}}};

template <class Value>
const GpuLinks* find_gpu(Value GpuLinks::*member, const Value& value) {
  const auto found = std::ranges::find(kGpus, value, member);
  return found == kGpus.end() ? nullptr : &*found;
}

}  // namespace

const GpuLinks* gpu_links(std::string_view device) { return find_gpu(&GpuLinks::device, device); }

const GpuLinks* gpu_of_driver(std::string_view name) {
  for (const std::string_view maker : {"NVIDIA ", "Tesla "}) {
    if (name.starts_with(maker)) name.remove_prefix(maker.size());
  }
  return find_gpu(&GpuLinks::driver_name, name);
}

const GpuLinks* gpu_of_pci(std::uint32_t device) { return find_gpu(&GpuLinks::pci_device, device); }

LinkSpec nvlinks(const GpuLinks& gpu, std::int32_t count, Duration latency) {
  return {.name = count == 1 ? "NVLink" : fmt::format("{} NVLinks", count),
          .bytes_per_s = count * gpu.nvlink_bytes_per_s,
          .latency = latency};
}

std::size_t NodeBuilder::find(std::string_view member) const {
  const auto found = std::ranges::find(node_.members, member, &ClusterMember::name);
  return static_cast<std::size_t>(found - node_.members.begin());
}

NodeBuilder::Vertex NodeBuilder::add(std::string_view member, const DeviceSpec* device) {
  const std::size_t index = find(member);
  if (index == node_.members.size()) {
    node_.members.push_back({.name = std::string(member), .count = 0});
    if (device != nullptr) node_.members.back().device = add_device(spec_, *device);
  }
  return {index, node_.members[index].count++};
}

void NodeBuilder::join(Vertex from, Vertex to, LinkSpec link) {
  node_.joints.push_back({.from = {.member = from.member, .which = from.which},
                          .to = {.member = to.member, .which = to.which},
                          .link = std::move(link)});
}

ClusterSpec NodeBuilder::finish(const std::string& file, std::string source) {
  for (JointSpec& joint : node_.joints) {
    for (MemberRef* ref : {&joint.from, &joint.to}) {
      if (node_.members[ref->member].count == 1) ref->which.reset();
    }
  }
  node_.source = std::move(source);
  spec_.name = cluster_name(file);
  spec_.groups.push_back(std::move(node_));
  check_cluster(file, spec_);
  return std::move(spec_);
}

std::string cluster_name(const std::string& file) {
  return std::filesystem::path(file).filename().string();
}

void check_cluster(const std::string& file, const ClusterSpec& spec) {
  const auto problem = problem_of(spec);
  if (!problem) return;
  throw InputError(Diagnostic{
      .message = fmt::format("group \"{}\" {}", spec.groups[problem->group].name, problem->message),
      .place = {.file = file}});
}

void ask_for_gpu(const std::string& file, std::string_view why) {
  throw UsageError(
      fmt::format("{}: {}: name the device with --gpu, such as --gpu A100-SXM4-80GB "
                  "(tandem catalog list shows all)",
                  file, why));
}

bool is_plain_text(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] != '{' && text[first] != '/' &&
         text[first] != '<';
}

const DeviceSpec& gpu_of_name(std::string_view name) {
  if (const DeviceSpec* known = find_device(name)) return *known;
  if (const GpuLinks* links = gpu_of_driver(name)) return *find_device(links->device);
  return device_of_name(shown(name), "--gpu: ");
}

ClusterSpec parse_any_cluster(const std::string& file, std::string text, const DeviceSpec* gpu) {
  if (const Importer* importer = importer_of<ReadCluster>(text))
    return std::get<ReadCluster>(importer->read)(file, text, gpu);
  if (gpu != nullptr)
    throw UsageError(fmt::format("{}: --gpu is not taken: the file names its devices", file));
  return parse_cluster(file, std::move(text));
}

}  // namespace tandem
