// NCCL's topology XML, as NCCL_TOPO_DUMP_FILE writes it: CPUs, the tree of PCI devices below each,
// GPUs with their NVLinks, NICs with the speed of their nets. By pugixml: it says where an element
// stands and reads without recursion, where Boost's reader descends as deep as the file does.

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include <fmt/format.h>
#include <pugixml.hpp>

#include "core/base/ascii.h"
#include "core/base/error.h"
#include "core/import/topology_parts.h"
#include "core/model/catalog.h"
#include "core/text/json_document.h"
#include "core/text/json_position.h"

namespace tandem {
namespace {

constexpr std::size_t kMostXmlDiagnostics = 100;
constexpr std::size_t kDeepest = 32;
constexpr std::size_t kMostNodes = 16'384;
constexpr std::size_t kMostCpus = 64;
constexpr double kBytesPerMegabit = 125'000.0;
constexpr std::int64_t kMostNvLinks = 1000, kFastestNet = 1'000'000'000;  // Mbit/s

/// Bytes a second of a lane, one way, by its transfers a second: 8 of 10 bits count, 128 of 130,
/// 242 of 256.
constexpr std::array<std::pair<double, double>, 6> kLanes = {{{2.5, 0.25e9},
                                                              {5.0, 0.5e9},
                                                              {8.0, 8e9 / 8 * 128 / 130},
                                                              {16.0, 16e9 / 8 * 128 / 130},
                                                              {32.0, 32e9 / 8 * 128 / 130},
                                                              {64.0, 64e9 / 8 * 242 / 256}}};

/// Elements that say nothing of links.
constexpr std::array<std::string_view, 4> kPassedOver{"c2c", "pcilink", "gin", "rma"};

struct NvLinks {
  pugi::xml_node node;
  std::string target;
  std::int32_t count = 0;
};

struct Gpu {
  pugi::xml_node node;
  std::string bus;
  std::int64_t number = 0;
  NodeBuilder::Vertex above{};
  double bytes_per_s = 0.0;  // to it
  std::uint32_t pci_device = 0;
  std::optional<std::int64_t> capability = {};
  std::vector<NvLinks> direct = {};
  std::int32_t to_switch = 0, to_cpu = 0;
  NodeBuilder::Vertex cpu{};
};

struct Nic {
  NodeBuilder::Vertex above{};
  double bytes_per_s = 0.0;  // to it; 0: no PCI device
  double network = 0.0;
};

struct Cpu {
  NodeBuilder::Vertex vertex{};
  double bytes_per_s = 0.0;  // to others
};

class System {
 public:
  System(const std::string& file, std::string_view text, const DeviceSpec* gpu)
      : file_(file), text_(text), gpu_(gpu) {}

  ClusterSpec read() {
    parse();
    const pugi::xml_node root = document_.document_element();
    if (std::string_view(root.name()) != "system") {
      diagnose(root, "expected <system>, found <{}>", shown(root.name()));
    } else {
      for (const pugi::xml_node child : elements(root, {"cpu"})) read_cpu(child);
      if (cpus_.empty())
        diagnose(root, "no <cpu>");
      else if (gpus_.empty())
        diagnose(root, "no <gpu>");
    }
    finish();
    place_gpus();
    add_nics();
    finish();
    return builder_.finish(
        file_, fmt::format("NCCL's topology XML; NVLinks by the data sheet of {}, links between "
                           "CPUs by NCCL's figures for them",
                           device_name_));
  }

 private:
  void parse() {
    const pugi::xml_parse_result result =
        document_.load_buffer(text_.data(), text_.size(), pugi::parse_default, pugi::encoding_utf8);
    if (!result) {
      const auto at = static_cast<std::size_t>(std::max<std::ptrdiff_t>(result.offset, 0));
      diagnose_at({at, at + 1}, result.description());
      finish();
    }
  }

  // ---- Diagnostics ----

  void diagnose_at(TextRange range, std::string message) {
    if (diagnostics_.size() == kMostXmlDiagnostics) return;
    SourcePlace place = place_of(text_, range);
    place.file = file_;
    diagnostics_.push_back({std::move(message), std::move(place), {}});
  }

  template <class... Values>
  void diagnose(pugi::xml_node node, fmt::format_string<Values...> message, Values&&... values) {
    const auto at = static_cast<std::size_t>(std::max<std::ptrdiff_t>(node.offset_debug(), 0));
    diagnose_at({at, at + std::strlen(node.name())},
                fmt::format(message, std::forward<Values>(values)...));
  }

  void finish() {
    if (!diagnostics_.empty()) throw InputError(std::move(diagnostics_));
  }

  // ---- Elements and attributes ----

  /// The elements in one, diagnosing any that is neither among `known` nor passed over.
  std::vector<pugi::xml_node> elements(pugi::xml_node parent,
                                       const std::vector<std::string>& known) {
    std::vector<pugi::xml_node> found;
    for (const pugi::xml_node child : parent.children()) {
      const std::string name = child.name();
      if (child.type() != pugi::node_element) continue;
      if (std::find(known.begin(), known.end(), name) != known.end()) {
        if (++nodes_ <= kMostNodes) found.push_back(child);
      } else if (std::find(kPassedOver.begin(), kPassedOver.end(), name) == kPassedOver.end()) {
        diagnose(child, "<{}> in <{}> is not known{}", shown(name), parent.name(),
                 did_you_mean(name, known));
      }
    }
    if (nodes_ > kMostNodes) diagnose(parent, "more than {} elements", kMostNodes);
    return found;
  }

  /// Diagnoses one that is missing.
  std::string_view text_of(pugi::xml_node node, const char* key) {
    const pugi::xml_attribute value = node.attribute(key);
    if (!value) diagnose(node, "<{}> has no {}", node.name(), key);
    return value.value();
  }

  std::int64_t integer_of(pugi::xml_node node, const char* key, std::int64_t least,
                          std::int64_t most) {
    const std::string_view text = text_of(node, key);
    const auto value = number_in<std::int64_t>(text);
    if (value && *value >= least && *value <= most) return *value;
    if (node.attribute(key))
      diagnose(node, "{}=\"{}\": expected {} to {}", key, shown(text), least, most);
    return least;
  }

  /// To a PCI device. What a virtual machine does not show, NCCL takes for 8 GT/s, 16 lanes.
  double pci_rate(pugi::xml_node node) {
    std::string_view speed = node.attribute("link_speed").value();
    speed = speed.substr(0, speed.find(" GT/s"));
    const std::string_view lanes = node.attribute("link_width").value();
    double lane = kLanes[2].second;
    if (!speed.empty() && !speed.starts_with("Unknown")) {
      const auto given = number_in<double>(speed);
      const auto known =
          std::ranges::find_if(kLanes, [&](const auto& row) { return given == row.first; });
      if (known == kLanes.end()) {
        diagnose(node, "link_speed=\"{}\": expected 2.5, 5, 8, 16, 32 or 64 GT/s",
                 shown(node.attribute("link_speed").value()));
      } else {
        lane = known->second;
      }
    }
    if (lanes.empty() || lanes == "0") return 16 * lane;
    return static_cast<double>(integer_of(node, "link_width", 1, 32)) * lane;
  }

  // ---- The tree ----

  void read_cpu(pugi::xml_node node) {
    if (cpus_.size() == kMostCpus) return diagnose(node, "more than {} CPUs", kMostCpus);
    const std::string host = node.attribute("host_hash").value();
    if (!cpus_.empty() && host != host_) return diagnose(node, "a CPU of another host");
    host_ = host;
    const Cpu cpu{builder_.add("cpu"), socket_rate(node)};
    for (const Cpu& other : cpus_) {
      builder_.join(other.vertex, cpu.vertex,
                    {.name = "between CPUs",
                     .bytes_per_s = std::min(other.bytes_per_s, cpu.bytes_per_s),
                     .latency = {}});
    }
    cpus_.push_back(cpu);
    for (const pugi::xml_node child : elements(node, {"pci", "nic"})) {
      if (std::string_view(child.name()) == "pci")
        read_pci(child, cpu.vertex, cpu.vertex, 1);
      else
        read_nic(child, cpu.vertex, 0.0);
    }
  }

  /// One way between CPUs (NCCL, src/graph/topo.h).
  static double socket_rate(pugi::xml_node node) {
    const std::string_view arch = node.attribute("arch").value();
    const std::string_view vendor = node.attribute("vendor").value();
    const auto number = [&](const char* key) {
      return number_in<std::int64_t>(node.attribute(key).value()).value_or(0);
    };
    const std::int64_t family = number("familyid"), model = number("modelid");
    if (arch == "ppc64") return 32e9;
    if (vendor == "AuthenticAMD") return family >= 26 ? 32e9 : family == 25 ? 24e9 : 16e9;
    if (vendor != "GenuineIntel" || family != 6) return 6e9;
    if (model >= 0xcf) return 40e9;
    if (model >= 0x8f) return 22e9;
    return model >= 0x55 ? 10e9 : 6e9;
  }

  void read_pci(pugi::xml_node node, NodeBuilder::Vertex above, NodeBuilder::Vertex cpu,
                std::size_t depth) {
    if (depth > kDeepest)
      return diagnose(node, "PCI devices in one another, more than {} deep", kDeepest);
    const std::string bus = lower_case(text_of(node, "busid"));
    if (!buses_.insert(bus).second) return diagnose(node, "a second device {}", shown(bus));
    const double rate = pci_rate(node);
    const std::vector<pugi::xml_node> inner = elements(node, {"pci", "gpu", "nic"});
    const auto count = [&](std::string_view name) {
      return std::ranges::count_if(inner, [&](const auto& one) { return one.name() == name; });
    };
    if (count("gpu") > 1) return diagnose(node, "a GPU in several parts");
    NodeBuilder::Vertex here = above;
    if (count("pci") > 0) {
      here = builder_.add("pcie");
      builder_.join(here, above, {.name = "PCIe", .bytes_per_s = rate, .latency = {}});
    }
    for (const pugi::xml_node child : inner) {
      const std::string_view name = child.name();
      if (name == "pci") read_pci(child, here, cpu, depth + 1);
      if (name == "nic") read_nic(child, here, rate);
      if (name == "gpu") {
        Gpu gpu{.node = child, .bus = bus, .above = here, .bytes_per_s = rate, .cpu = cpu};
        gpu.pci_device = pci_device_of(node);
        read_gpu(std::move(gpu));
      }
    }
  }

  static std::uint32_t pci_device_of(pugi::xml_node node) {
    std::string_view device = node.attribute("device").value();
    if (device.starts_with("0x")) device.remove_prefix(2);
    return number_in<std::uint32_t>(device, 16).value_or(0);
  }

  void read_gpu(Gpu gpu) {
    gpu.number = integer_of(gpu.node, "dev", 0, kMostNodes);
    if (gpu.node.attribute("sm")) gpu.capability = integer_of(gpu.node, "sm", 1, 10'000);
    for (const pugi::xml_node link : elements(gpu.node, {"nvlink"})) {
      const auto count = static_cast<std::int32_t>(integer_of(link, "count", 1, kMostNvLinks));
      const std::string_view kind = text_of(link, "tclass");
      if (kind.starts_with("0x068001")) {
        gpu.to_cpu += count;
      } else if (kind.starts_with("0x0680")) {
        gpu.to_switch += count;
      } else if (kind.starts_with("0x03")) {
        gpu.direct.push_back({link, lower_case(text_of(link, "target")), count});
      } else if (link.attribute("tclass")) {
        diagnose(link,
                 "tclass=\"{}\": expected 0x068000, a switch, 0x03…, a GPU, or "
                 "0x068001, a CPU",
                 shown(kind));
      }
    }
    gpus_.push_back(std::move(gpu));
  }

  void read_nic(pugi::xml_node node, NodeBuilder::Vertex above, double rate) {
    Nic nic{above, rate, 0.0};
    for (const pugi::xml_node net : elements(node, {"net"})) {
      nic.network +=
          kBytesPerMegabit * static_cast<double>(integer_of(net, "speed", 1, kFastestNet));
    }
    if (nic.network > 0.0) nics_.push_back(nic);
  }

  // ---- What the tree holds ----

  const DeviceSpec& device_of(const Gpu& gpu) {
    if (gpu_ != nullptr) return *gpu_;
    const GpuLinks* known = gpu_of_pci(gpu.pci_device);
    if (known == nullptr) {
      ask_for_gpu(file_, fmt::format("the catalogue knows no GPU that is PCI device {:#06x}",
                                     gpu.pci_device));
    }
    return *find_device(known->device);
  }

  /// In the order of their numbers; a member for each run of one kind.
  void place_gpus() {
    std::ranges::sort(gpus_, {}, &Gpu::number);
    std::map<std::string, std::size_t> by_bus;
    std::vector<NodeBuilder::Vertex> vertices;
    std::size_t runs = 0;
    const DeviceSpec* before = nullptr;
    for (std::size_t i = 0; i < gpus_.size(); ++i) {
      const Gpu& gpu = gpus_[i];
      if (i > 0 && gpus_[i - 1].number == gpu.number)
        diagnose(gpu.node, "a second GPU with dev=\"{}\"", gpu.number);
      by_bus[gpu.bus] = i;
      const DeviceSpec& device = device_of(gpu);
      if (&device != before) ++runs;
      before = &device;
      vertices.push_back(builder_.add(runs == 1 ? "gpu" : fmt::format("gpu_{}", runs), &device));
      builder_.join(vertices.back(), gpu.above,
                    {.name = "PCIe", .bytes_per_s = gpu.bytes_per_s, .latency = kPcieLatency});
    }
    device_name_ = before->name;
    for (std::size_t i = 0; i < gpus_.size(); ++i) {
      const DeviceSpec& device = device_of(gpus_[i]);
      const GpuLinks* links = gpu_links(device.name);
      if (links == nullptr) {
        diagnose(gpus_[i].node, "a {} is no GPU that NCCL shows so", device.name);
        continue;
      }
      add_nvlinks(i, vertices, by_bus, *links);
    }
  }

  void add_nvlinks(std::size_t i, const std::vector<NodeBuilder::Vertex>& vertices,
                   const std::map<std::string, std::size_t>& by_bus, const GpuLinks& links) {
    const Gpu& gpu = gpus_[i];
    if (gpu.capability && *gpu.capability != links.capability)
      diagnose(gpu.node, "sm=\"{}\": a {} is {}", *gpu.capability, links.device, links.capability);
    std::int64_t all = std::int64_t{gpu.to_switch} + gpu.to_cpu;
    std::map<std::size_t, std::int32_t> to;
    for (const NvLinks& one : gpu.direct) {
      all += one.count;
      const auto target = by_bus.find(one.target);
      if (target == by_bus.end() || target->second == i) {
        diagnose(one.node, "target=\"{}\": expected another GPU's busid", shown(one.target));
      } else {
        to[target->second] += one.count;
      }
    }
    if (all > links.nvlinks)
      return diagnose(gpu.node, "{} NVLinks: a {} has {}", all, links.device, links.nvlinks);
    if (gpu.to_switch > 0) {
      if (!switch_) switch_ = builder_.add("nvswitch");
      builder_.join(vertices[i], *switch_, nvlinks(links, gpu.to_switch, kNvLinkLatency / 2));
    }
    if (gpu.to_cpu > 0)
      builder_.join(vertices[i], gpu.cpu, nvlinks(links, gpu.to_cpu, kPcieLatency));
    for (const auto& [other, count] : to) {
      if (links_to(other, gpu.bus) != count) {
        diagnose(gpu.node, "{} NVLinks to {}, but {} back", count, shown(gpus_[other].bus),
                 links_to(other, gpu.bus));
      } else if (other > i) {
        builder_.join(vertices[i], vertices[other], nvlinks(links, count, kNvLinkLatency));
      }
    }
  }

  std::int32_t links_to(std::size_t gpu, std::string_view bus) const {
    std::int32_t all = 0;
    for (const NvLinks& one : gpus_[gpu].direct) all += one.target == bus ? one.count : 0;
    return all;
  }

  /// Sockets' own NICs, without a PCI device, stand there once for each CPU: they count where there
  /// are no others.
  void add_nics() {
    const bool cards =
        std::ranges::any_of(nics_, [](const Nic& nic) { return nic.bytes_per_s > 0.0; });
    std::set<double> rates;
    for (const Nic& nic : nics_) {
      if (cards ? nic.bytes_per_s == 0.0 : !rates.empty()) continue;
      rates.insert(nic.network);
      builder_.join(
          builder_.add("nic"), nic.above,
          {.name = "PCIe", .bytes_per_s = cards ? nic.bytes_per_s : nic.network, .latency = {}});
    }
    builder_.set_port(rates.empty() ? "cpu" : "nic");
    if (rates.size() == 1) {
      builder_.set_network({.name = fmt::format("{:.6g} Gb/s", *rates.begin() * 8 / 1e9),
                            .bytes_per_s = *rates.begin(),
                            .latency = kNetworkLatency});
    }
  }

  const std::string& file_;
  std::string_view text_;
  const DeviceSpec* gpu_;
  pugi::xml_document document_;
  std::vector<Diagnostic> diagnostics_;
  NodeBuilder builder_;
  std::string host_, device_name_;
  std::vector<Cpu> cpus_;
  std::vector<Gpu> gpus_;
  std::vector<Nic> nics_;
  std::set<std::string> buses_;
  std::optional<NodeBuilder::Vertex> switch_;
  std::size_t nodes_ = 0;
};

}  // namespace

bool is_nccl_xml(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '<';
}

ClusterSpec parse_nccl_xml(const std::string& file, std::string_view text, const DeviceSpec* gpu) {
  return System(file, text, gpu).read();
}

}  // namespace tandem
