// Clusters of other programs: what becomes of good files, and what is said of bad ones.

#include "core/import/topology.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/files/read.h"
#include "core/import/importers.h"
#include "core/import/topology_parts.h"
#include "core/model/catalog.h"
#include "tests/core/error_of.h"
#include "tests/support/device_ids.h"
#include "tests/support/edited_text.h"
#include "tests/support/fuzz_input.h"

namespace tandem {
namespace {

using testing::d;
using testing::error_of;
using testing::fuzz_input;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using testing::with;

ClusterSpec spec_of(const std::string& text, const char* gpu = nullptr) {
  return parse_any_cluster("dir/f", text, gpu == nullptr ? nullptr : &gpu_of_name(gpu));
}
Cluster cluster_of(const std::string& text, const char* gpu = nullptr) {
  return Cluster(spec_of(text, gpu));
}

std::string topology_error(const std::string& text, const char* gpu = nullptr) {
  return error_of([&] { spec_of(text, gpu); });
}

std::size_t count_of(const ClusterSpec& spec, std::string_view member) {
  for (const ClusterMember& one : spec.groups.back().members) {
    if (one.name == member) return static_cast<std::size_t>(one.count);
  }
  return 0;
}

void expect_route(const Cluster& cluster, std::size_t a, std::size_t b, double bytes_per_s,
                  std::int64_t latency_ns, std::size_t links) {
  const Route route = cluster.route(d(a), d(b));
  EXPECT_NEAR(route.bytes_per_s, bytes_per_s, 1e-9 * bytes_per_s) << a << " > " << b;
  EXPECT_EQ(route.latency.count(), latency_ns) << a << " > " << b;
  EXPECT_EQ(route.links.size(), links) << a << " > " << b;
}

TEST(Topology, FormatsAreToldApartByTheirContent) {
  const auto format = [](const std::string& text) {
    const Importer* importer = importer_of<ReadCluster>(text);
    return importer == nullptr ? "ours" : importer->name;
  };
  EXPECT_EQ(format(fuzz_input("nvidia_smi/h100")), "nvidia-smi");
  EXPECT_EQ(format(fuzz_input("nccl_xml/v100")), "nccl-xml");
  EXPECT_EQ(format(fuzz_input("astra_sim/ring_ring.yml")), "astra-sim");
  EXPECT_EQ(format(fuzz_input("json/cluster.json")), "ours");
  EXPECT_EQ(format("// topology: GPU0\n{}"), "ours");
  EXPECT_EQ(format(""), "ours");
  EXPECT_EQ(format("nothing at all"), "ours");
}

TEST(Topology, EveryGpuWithLinksIsInTheCatalogue) {
  std::size_t found = 0;
  for (const DeviceSpec& device : catalog().devices) {
    const GpuLinks* links = gpu_links(device.name);
    if (links == nullptr) continue;
    ++found;
    EXPECT_EQ(&gpu_of_name(links->driver_name), &device);
    EXPECT_EQ(gpu_of_pci(links->pci_device), links);
  }
  EXPECT_EQ(found, 13u);
  EXPECT_EQ(gpu_of_name("Tesla V100-SXM2-32GB").name, "V100-SXM2-32GB");
  EXPECT_EQ(error_of<UsageError>([] { gpu_of_name("A100-SXM4-80GiB"); }),
            "--gpu: the catalogue has no device A100-SXM4-80GiB; did you mean "
            "\"A100-SXM4-80GB\"? (tandem catalog list shows all)");
}

TEST(Topology, AClusterIsWrittenAsOurs) {
  for (const char* name :
       {"nvidia_smi/h100", "nvidia_smi/one", "nccl_xml/h200", "astra_sim/three.yml"}) {
    const bool named = std::string_view(name) != "nvidia_smi/one";
    const ClusterSpec spec = spec_of(fuzz_input(name), named && name[0] == 'n' ? nullptr : "L4");
    EXPECT_EQ(parse_cluster("c.json", cluster_text(spec)), spec) << name;
  }
}

// ---- nvidia-smi topo -m ----

TEST(NvidiaSmi, GpusOnSwitchesReachOneAnotherByAllTheirLinks) {
  const ClusterSpec spec = spec_of(fuzz_input("nvidia_smi/h100"));
  const Cluster cluster(spec);
  ASSERT_EQ(cluster.size(), 4u);
  EXPECT_EQ(cluster.name(), "f");
  EXPECT_EQ(cluster[d(0)].name, "H100-SXM5-80GB");
  for (std::size_t other = 1; other < 4; ++other) expect_route(cluster, 0, other, 450e9, 3400, 2);
  EXPECT_EQ(count_of(spec, "nvswitch"), 1u);
  EXPECT_EQ(count_of(spec, "nic"), 4u);
  EXPECT_EQ(count_of(spec, "bridges"), 4u);
  EXPECT_EQ(count_of(spec, "numa_node"), 2u);
  EXPECT_EQ(count_of(spec, "host"), 1u);
}

TEST(NvidiaSmi, DirectLinksAreThoseOfEachPair) {
  const Cluster cluster = cluster_of(fuzz_input("nvidia_smi/v100"), "V100-SXM2-16GB");
  expect_route(cluster, 0, 1, 25e9, 3400, 1);
  expect_route(cluster, 0, 4, 50e9, 3400, 1);
  expect_route(cluster, 0, 5, 10e9, 5700, 2);  // through both sockets
  const Cluster bridge = cluster_of(fuzz_input("nvidia_smi/bridge"), "GeForce RTX 3090");
  expect_route(bridge, 0, 1, 56.25e9, 3400, 1);
}

TEST(NvidiaSmi, PcieIsATree) {
  const Cluster cluster = cluster_of(fuzz_input("nvidia_smi/pcie"), "L4-24GB");
  expect_route(cluster, 0, 1, 31.5e9, 5700, 2);
  expect_route(cluster, 0, 2, 31.5e9, 5700, 4);  // switch, host bridge, NUMA node
  expect_route(cluster, 0, 3, 16e9, 5700, 5);
  EXPECT_EQ(cluster_of(fuzz_input("nvidia_smi/one"), "T4-16GB").size(), 1u);
}

/// What nobody reads is text, too.
TEST(NvidiaSmi, ANulIsRefusedWhereItStands) {
  const std::string good = fuzz_input("nvidia_smi/h100"), nul(1, '\0');
  const auto line = std::count(good.begin(), good.end(), '\n') + 1;
  EXPECT_EQ(topology_error(good + "Legend: X\n"), "nothing was thrown") << "the control";
  EXPECT_THAT(topology_error(good + "Legend: " + nul + "\n"),
              StartsWith(fmt::format("dir/f:{}:9: error: ", line)));
}

TEST(NvidiaSmi, ADeviceMustBeNamed) {
  EXPECT_EQ(error_of<UsageError>([] { spec_of(fuzz_input("nvidia_smi/v100")); }),
            "dir/f: nvidia-smi topo -m names no GPU: name the device with --gpu, such as --gpu "
            "A100-SXM4-80GB (tandem catalog list shows all)");
  EXPECT_EQ(error_of<UsageError>([] { spec_of(fuzz_input("nvidia_smi/v100"), "MI300X-192GB"); }),
            "--gpu MI300X-192GB: not a GPU that nvidia-smi shows");
  EXPECT_THAT(topology_error(with(fuzz_input("nvidia_smi/h100"), "H100 80GB", "H100 81GB")),
              StartsWith("dir/f:1:8: error: the catalogue has no \"NVIDIA H100 81GB HBM3\": name a "
                         "device with --gpu\n"));
  EXPECT_THAT(topology_error(with(fuzz_input("nvidia_smi/h100"), "H100 80GB HBM3", "H200")),
              HasSubstr("dir/f:2:8: error: GPUs of several kinds, \"NVIDIA H200\" and \"NVIDIA "
                        "H100 80GB HBM3\""));
}

TEST(NvidiaSmi, TablesAreChecked) {
  const std::string v100 = fuzz_input("nvidia_smi/v100"), pcie = fuzz_input("nvidia_smi/pcie");
  const char* gpu = "V100-SXM2-16GB";
  EXPECT_THAT(topology_error(fuzz_input("nvidia_smi/truncated"), gpu),
              StartsWith("dir/f:7:1: error: row GPU5 ends after 0 of 8 columns\n"));
  EXPECT_THAT(topology_error(fuzz_input("nvidia_smi/truncated"), gpu),
              HasSubstr("dir/f:1:37: error: no row GPU7: the table is cut off"));
  EXPECT_EQ(topology_error("\tGPU0\tGPU1\nGPU0\t X \tNV1\nGPU1\tNV2\t X \n", gpu),
            "dir/f:3:6: error: GPU1 reaches GPU0 by NV2, but GPU0 reaches GPU1 by NV1\n"
            "GPU1 NV2  X \n"
            "     ^~~");
  EXPECT_THAT(topology_error(with(pcie, "PIX", "PIXX"), gpu),
              HasSubstr("expected X, NV1, NV2, …, PIX, PXB, PHB, NODE or SYS, found \"PIXX\"; did "
                        "you mean \"PIX\"?"));
  EXPECT_THAT(topology_error(with(v100, "NV1", "NV0"), gpu),
              HasSubstr("a number of NVLinks must be 1 to 1000, found 0"));
  EXPECT_THAT(topology_error(with(v100, " X ", "SYS"), gpu),
              HasSubstr("expected X, of a row's own"));
  EXPECT_THAT(topology_error(v100, "L4-24GB"),
              HasSubstr("1 NVLinks of GPU0 up to here: a L4-24GB has 0"));
  EXPECT_THAT(topology_error("\tGPU0\tGPU1\nGPU0\t X \tNV7\nGPU1\tNV7\t X \n", gpu),
              HasSubstr("dir/f:2:10: error: 7 NVLinks of GPU0 up to here: a V100-SXM2-16GB has 6"));
  EXPECT_THAT(topology_error("GPU0\t X \tNV7\nGPU1\tNV7\t X \n", gpu),
              HasSubstr("the line of names is missing before this row"));
  EXPECT_THAT(topology_error("\tGPU0\tGPU0\nGPU0\t X \tNV7\n", gpu),
              HasSubstr("a second column GPU0"));
  EXPECT_THAT(topology_error("\tGPU0\tNIC0\nGPU0\t X \tNV1\nNIC0\tNV1\t X\n", gpu),
              HasSubstr("NVLinks between GPU0 and NIC0: only GPUs have them"));
  // 0 and 1 share a switch, 1 and 2 too.
  EXPECT_THAT(topology_error("\tGPU0\tGPU1\tGPU2\nGPU0\tX\tPIX\tSYS\nGPU1\tPIX\tX\tPIX\n"
                             "GPU2\tSYS\tPIX\tX\n",
                             gpu),
              StartsWith("dir/f:4:6: error: GPU2 reaches GPU0 by SYS, but others by less\n"));
  EXPECT_EQ(error_of([&] { parse_nvidia_smi("f", "", nullptr); }),
            "f: error: no line of names, such as \"GPU0 GPU1\", that begins the table");
}

// ---- NCCL's topology XML ----

TEST(NcclXml, ADumpSaysAlmostEverything) {
  const ClusterSpec spec = spec_of(fuzz_input("nccl_xml/h200"));
  const Cluster cluster(spec);
  ASSERT_EQ(cluster.size(), 3u);
  EXPECT_EQ(cluster[d(2)].name, "H200-SXM-141GB");
  expect_route(cluster, 0, 2, 450e9, 3400, 2);
  EXPECT_EQ(count_of(spec, "cpu"), 2u);
  EXPECT_EQ(count_of(spec, "pcie"), 3u);
  EXPECT_EQ(count_of(spec, "nic"), 3u);
  const GroupSpec& node = spec.groups.back();
  ASSERT_TRUE(node.port && node.network);
  EXPECT_EQ(node.members[*node.port].name, "nic");
  EXPECT_EQ(node.network->bytes_per_s, 50e9);
  EXPECT_EQ(node.network->name, "400 Gb/s");
  bool sockets = false;
  for (const JointSpec& joint : node.joints)
    sockets = sockets || (joint.link.name == "between CPUs" && joint.link.bytes_per_s == 40e9);
  EXPECT_TRUE(sockets);
}

TEST(NcclXml, DirectLinksAndThoseOfPciAreRead) {
  const ClusterSpec spec = spec_of(fuzz_input("nccl_xml/v100"));
  const Cluster cluster(spec);
  EXPECT_EQ(cluster[d(0)].name, "V100-SXM2-16GB");
  expect_route(cluster, 0, 1, 50e9, 3400, 1);
  EXPECT_EQ(spec.groups.back().network->bytes_per_s, 1.25e9);
  std::string text = fuzz_input("nccl_xml/v100");
  for (int i = 0; i < 2; ++i) {
    const std::size_t at = text.find("<nvlink");
    text.erase(at, text.find("/>", at) + 2 - at);
  }
  expect_route(cluster_of(text), 0, 1, 16 * 8e9 / 8 * 128 / 130, 5700, 2);
}

TEST(NcclXml, WhatAVirtualMachineHidesIsAssumed) {
  const Cluster cluster =
      cluster_of(with(with(fuzz_input("nccl_xml/vm"), "tclass=\"0x068000\"", "tclass=\"0x068001\""),
                      "tclass=\"0x068000\"", "tclass=\"0x068001\""));
  expect_route(cluster, 0, 1, 450e9, 5700, 2);  // by the CPU
  const ClusterSpec spec = spec_of(fuzz_input("nccl_xml/vm"));
  std::vector<double> rates;
  for (const JointSpec& joint : spec.groups.back().joints) {
    if (joint.link.name == "PCIe") rates.push_back(joint.link.bytes_per_s);
  }
  EXPECT_EQ(rates, (std::vector<double>{16 * (8e9 / 8 * 128 / 130), 8 * (16e9 / 8 * 128 / 130)}));
}

TEST(NcclXml, FilesAreChecked) {
  const std::string h200 = fuzz_input("nccl_xml/h200"), v100 = fuzz_input("nccl_xml/v100");
  EXPECT_THAT(topology_error(fuzz_input("nccl_xml/cut")),
              StartsWith("dir/f:21:6: error: Start-end tags mismatch\n"));
  EXPECT_EQ(error_of<UsageError>([&] { spec_of(with(h200, "0x2335", "0x2336")); }),
            "dir/f: the catalogue knows no GPU that is PCI device 0x2336: name the device with "
            "--gpu, such as --gpu A100-SXM4-80GB (tandem catalog list shows all)");
  EXPECT_THAT(topology_error(h200, "V100-SXM2-16GB"),
              HasSubstr("dir/f:5:10: error: sm=\"90\": a V100-SXM2-16GB is 70"));
  EXPECT_THAT(topology_error(with(h200, "count=\"9\"", "count=\"10\"")),
              HasSubstr("19 NVLinks: a H200-SXM-141GB has 18"));
  EXPECT_THAT(topology_error(with(h200, "count=\"9\"", "count=\"0\"")),
              HasSubstr("dir/f:6:12: error: count=\"0\": expected 1 to 1000"));
  EXPECT_THAT(topology_error(with(h200, "speed=\"400000\"", "speed=\"0\"")),
              HasSubstr("speed=\"0\": expected 1 to 1000000000"));
  EXPECT_THAT(topology_error(with(h200, "32.0 GT/s", "0 GT/s")),
              HasSubstr("link_speed=\"0 GT/s PCIe\": expected 2.5, 5, 8, 16, 32 or 64 GT/s"));
  EXPECT_THAT(topology_error(with(h200, "link_width=\"16\"", "link_width=\"-1\"")),
              HasSubstr("link_width=\"-1\": expected 1 to 32"));
  EXPECT_THAT(topology_error(with(h200, "0000:18:00.0", "0000:16:00.0")),
              HasSubstr("a second device 0000:16:00.0"));
  EXPECT_THAT(topology_error(with(h200, "dev=\"1\" sm", "dev=\"0\" sm")),
              HasSubstr("a second GPU with dev=\"0\""));
  EXPECT_THAT(topology_error(with(v100, "target=\"0000:0b", "target=\"0000:0a")),
              HasSubstr("target=\"0000:0a:00.0\": expected another GPU's busid"));
  EXPECT_THAT(topology_error(with(v100, "count=\"2\"", "count=\"1\"")),
              HasSubstr("1 NVLinks to 0000:0b:00.0, but 2 back"));
  EXPECT_THAT(topology_error(with(v100, "tclass=\"0x030200\"", "tclass=\"0x01\"")),
              HasSubstr("tclass=\"0x01\": expected 0x068000"));
  EXPECT_THAT(topology_error(with(h200, "<nvlink ", "<nvlnik ")),
              HasSubstr("<nvlnik> in <gpu> is not known; did you mean \"nvlink\"?"));
  EXPECT_THAT(topology_error("<html/>"),
              StartsWith("dir/f:1:2: error: expected <system>, found <html>"));
  EXPECT_THAT(topology_error("<system/>"), StartsWith("dir/f:1:2: error: no <cpu>"));
  EXPECT_THAT(topology_error("<system><cpu/></system>"), StartsWith("dir/f:1:2: error: no <gpu>"));
  EXPECT_THAT(topology_error("<system>\n<cpu host_hash=\"1\"/>\n<cpu host_hash=\"2\"/></system>"),
              StartsWith("dir/f:3:2: error: a CPU of another host"));
}

TEST(NcclXml, DeepNestingIsRefusedNotFollowed) {
  std::string text = "<system><cpu>";
  for (int i = 0; i < 100'000; ++i) text += "<pci busid=\"" + std::to_string(i) + "\">";
  EXPECT_THAT(topology_error(text), StartsWith("dir/f:1:"));
  for (int i = 0; i < 100'000; ++i) text += "</pci>";
  EXPECT_THAT(topology_error(text + "</cpu></system>"),
              HasSubstr("PCI devices in one another, more than 32 deep"));
}

// ---- ASTRA-sim's network yml ----

TEST(AstraSim, ATorusIsRingsOfRouters) {
  const Cluster cluster = cluster_of(fuzz_input("astra_sim/ring_ring.yml"), "V100-SXM2-16GB");
  ASSERT_EQ(cluster.size(), 16u);
  EXPECT_EQ(cluster.nodes(), 4u);
  const double rate = 50.0 * 1073741824.0;
  expect_route(cluster, 0, 1, rate, 500, 3);  // to the router, on, and from it
  expect_route(cluster, 0, 3, rate, 500, 3);  // the other way round
  expect_route(cluster, 0, 2, rate, 1000, 4);
  expect_route(cluster, 0, 4, rate, 500, 3);
  expect_route(cluster, 0, 8, rate, 1000, 4);
  expect_route(cluster, 0, 10, rate, 2000, 6);
}

TEST(AstraSim, ASwitchIsTwoLinksAway) {
  const Cluster cluster = cluster_of(fuzz_input("astra_sim/switch.yml"), "H100-SXM5-80GB");
  ASSERT_EQ(cluster.size(), 8u);
  expect_route(cluster, 0, 7, 370.67 * 1073741824.0, 2 * 936, 2);
}

TEST(AstraSim, DimensionsLieInOneAnother) {
  const Cluster cluster = cluster_of(fuzz_input("astra_sim/three.yml"), "L4-24GB");
  ASSERT_EQ(cluster.size(), 24u);
  const double gigabyte = 1073741824.0;
  expect_route(cluster, 0, 1, 200 * gigabyte, 50, 3);
  expect_route(cluster, 0, 4, 100 * gigabyte, 500, 3);
  expect_route(cluster, 0, 6, 50 * gigabyte, 4000, 4);
  expect_route(cluster, 0, 7, 50 * gigabyte, 4050, 5);
}

TEST(AstraSim, FilesAreChecked) {
  const char* gpu = "L4-24GB";
  EXPECT_EQ(topology_error(fuzz_input("astra_sim/wrong_count.yml"), gpu),
            "dir/f:2:1: error: npus_count has 1 entry, topology 2\n"
            "npus_count: [ 4 ]\n"
            "^~~~~~~~~~");
  const std::string text = fuzz_input("astra_sim/ring_ring.yml");
  EXPECT_THAT(topology_error(with(text, "[ 50.0,", "[ 0,"), gpu),
              StartsWith("dir/f:10:14: error: expected a number from 1e-06 to 1000000000, found "
                         "\"0\"\n"));
  EXPECT_THAT(topology_error(with(text, "[ 500.0,", "[ -1,"), gpu), HasSubstr("found \"-1\""));
  EXPECT_THAT(topology_error(with(text, "[ 500.0,", "[ nan,"), gpu), HasSubstr("found \"nan\""));
  EXPECT_THAT(topology_error(with(text, "[ 4, 4 ]", "[ 4, 1 ]"), gpu),
              StartsWith("dir/f:7:18: error: expected an integer from 2 to 16384, found \"1\"\n"));
  EXPECT_THAT(topology_error(with(text, "[ 4, 4 ]", "[ 4.0, 99999999999999999999 ]"), gpu),
              HasSubstr("found \"99999999999999999999\""));
  EXPECT_THAT(topology_error(with(text, "[ 4, 4 ]", "[ 1000, 1000 ]"), gpu),
              HasSubstr("more than 16384 NPUs in all"));
  EXPECT_THAT(topology_error(with(text, "[ Ring, Ring ]", "[ Ring, Rong ]"), gpu),
              HasSubstr("expected Ring, FullyConnected or Switch, found \"Rong\"; did you mean "
                        "\"Ring\"?"));
  EXPECT_THAT(topology_error(with(text, "npus_count:", "npu_count:"), gpu),
              HasSubstr("found \"npu_count\"; did you mean \"npus_count\"?"));
  EXPECT_THAT(topology_error(with(text, "npus_count: [ 4, 4 ]", ""), gpu),
              HasSubstr("no npus_count"));
  EXPECT_THAT(topology_error(with(text, "[ 4, 4 ]", "[ 4, 4"), gpu),
              HasSubstr("expected a list in brackets on this line"));
  EXPECT_THAT(topology_error(with(text, "[ 4, 4 ]", "[ 4, ]"), gpu),
              HasSubstr("expected an entry of the list"));
  EXPECT_THAT(topology_error(text + text, gpu), HasSubstr("a second topology"));
  EXPECT_THAT(error_of<UsageError>([&] { spec_of(text); }),
              StartsWith("dir/f: ASTRA-sim names no GPU model: name the device with --gpu"));
  EXPECT_THAT(error_of<UsageError>([&] { spec_of(fuzz_input("json/cluster.json"), gpu); }),
              StartsWith("dir/f: --gpu is not taken: the file names its devices"));
}

TEST(AstraSim, TooManyLinksAreCountedNotMade) {
  EXPECT_THAT(topology_error("topology: [FullyConnected, FullyConnected]\nnpus_count: [256, 64]\n"
                             "bandwidth: [1, 1]\nlatency: [1, 1]\n",
                             "L4-24GB"),
              HasSubstr("expected at most 262144"));
}

}  // namespace
}  // namespace tandem
