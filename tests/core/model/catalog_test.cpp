// The catalogue is well-formed, its models have their published sizes, its nodes their ways.

#include "core/model/catalog.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "core/files/cluster_file.h"
#include "core/model/cluster.h"
#include "tests/core/error_of.h"
#include "tests/support/device_ids.h"

namespace tandem {
namespace {

using testing::d;
using testing::error_of;

TEST(Catalog, EveryNodeIsAClusterByItselfAndManyAreOne) {
  for (const GroupSpec& node : catalog().nodes) {
    SCOPED_TRACE(node.name);
    const Cluster one(cluster_of_nodes(node.name));
    const Cluster two(cluster_of_nodes("2x" + node.name));
    EXPECT_EQ(one.nodes(), 1u);
    EXPECT_EQ(two.nodes(), 2u);
    EXPECT_EQ(two.size(), 2 * one.size());
    // Inside of a node it is faster, whichever devices are asked.
    for (std::size_t i = 1; i < one.size(); ++i) {
      EXPECT_GE(two.route(d(0), d(i)).bytes_per_s, two.route(d(0), d(one.size())).bytes_per_s);
      EXPECT_EQ(two.route(d(0), d(i)).bytes_per_s, one.route(d(0), d(i)).bytes_per_s);
    }
  }
}

TEST(Catalog, HasEachNameOnce) {
  std::set<std::string> names;
  for (const DeviceSpec& device : catalog().devices) EXPECT_TRUE(names.insert(device.name).second);
  for (const GroupSpec& node : catalog().nodes) EXPECT_TRUE(names.insert(node.name).second);
  for (const CatalogModel& row : catalog().models) {
    EXPECT_TRUE(names.insert(row.model.name).second) << row.model.name;
    EXPECT_EQ(row.model.width % row.model.heads, 0) << row.model.name;
  }
}

TEST(Catalog, LinksAreOneWay) {
  const Cluster dgx(cluster_of_nodes("2xDGX-H100"));
  EXPECT_EQ(dgx.route(d(0), d(7)).bytes_per_s, 450e9);  // 900 both ways
  EXPECT_EQ(dgx.route(d(0), d(7)).latency.count(), 3400);
  EXPECT_EQ(dgx.route(d(0), d(15)).bytes_per_s, 50e9);  // 400 Gb/s
  EXPECT_EQ(dgx.route(d(0), d(15)).latency.count(), 14000);
}

TEST(Catalog, NodesSayWhatIsShared) {
  // Eight GPUs of a p3.16xlarge leave it by one link, those of a DGX-H100 by one each.
  for (const auto& [node, shared] : {std::pair{"2xp3.16xlarge", true}, {"2xDGX-H100", false}}) {
    const Cluster cluster(cluster_of_nodes(node));
    const Route a = cluster.route(d(0), d(8)), b = cluster.route(d(1), d(9));
    bool meet = false;
    for (const LinkId one : a.links) {
      for (const LinkId other : b.links) meet = meet || one == other;
    }
    EXPECT_EQ(meet, shared) << node;
  }
}

TEST(Catalog, ATorusHasSixNeighboursAndItsMiddleIsSixHopsAway) {
  const Cluster cube(cluster_of_nodes("TPU-v5p-4x4x4"));
  int neighbours = 0;
  std::int64_t farthest_ns = 0;
  for (std::size_t i = 1; i < cube.size(); ++i) {
    const Route way = cube.route(d(0), d(i));
    EXPECT_EQ(way.bytes_per_s, 100e9);
    neighbours += way.latency.count() == 1000 ? 1 : 0;
    farthest_ns = std::max<std::int64_t>(farthest_ns, way.latency.count());
  }
  EXPECT_EQ(neighbours, 6);
  EXPECT_EQ(farthest_ns, 6000);
}

TEST(Catalog, TheMeshOfV100sHasSixLinksADeviceAndARingOfDoubleOnes) {
  const Cluster node(cluster_of_nodes("p3.16xlarge"));
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(node.route(d(i), d((i + 1) % 8)).bytes_per_s, 50e9);
    double links = 0;
    for (std::size_t j = 0; j < 8; ++j) {
      const Route way = node.route(d(i), d(j));
      if (way.links.size() == 1) links += way.bytes_per_s / 25e9;
    }
    EXPECT_EQ(links, 6) << i;
  }
}

TEST(Catalog, ModelsHaveTheirPublishedParameters) {
  // In units of the last digit published; those with all digits by the weights released.
  const std::map<std::string, std::pair<double, double>> published{
      {"gpt2", {124'439'808, 1}},
      {"gpt2-medium", {354'823'168, 1}},
      {"gpt2-large", {774'030'080, 1}},
      {"gpt2-xl", {1'557'611'200, 1}},
      {"gpt3-125m", {125e6, 1e6}},
      {"gpt3-350m", {350e6, 20e6}},
      {"gpt3-760m", {760e6, 10e6}},
      {"gpt3-1.3b", {1.3e9, 0.1e9}},
      {"gpt3-2.7b", {2.7e9, 0.1e9}},
      {"gpt3-6.7b", {6.7e9, 0.1e9}},
      {"gpt3-13b", {13e9, 1e9}},
      {"gpt3-175b", {175.0e9, 1e9}},
      {"gpt-355m", {354e6, 1e6}},
      {"gpt-1.3b", {1.3e9, 0.1e9}},
      {"gpt-2.2b", {2.2e9, 0.1e9}},
      {"gpt-3.8b", {3.8e9, 0.1e9}},
      {"megatron-1.7b", {1.7e9, 0.1e9}},
      {"megatron-3.6b", {3.6e9, 0.1e9}},
      {"megatron-7.5b", {7.5e9, 0.1e9}},
      {"megatron-18.4b", {18.4e9, 0.1e9}},
      {"megatron-39.1b", {39.1e9, 0.1e9}},
      {"megatron-76.1b", {76.1e9, 0.1e9}},
      {"megatron-145.6b", {145.6e9, 0.1e9}},
      {"megatron-310.1b", {310.1e9, 0.1e9}},
      {"megatron-529.6b", {529.6e9, 0.1e9}},
      {"megatron-1008b", {1008.0e9, 0.1e9}},
      {"zb-1.5b", {1.5e9, 0.1e9}},
      {"zb-6.2b", {6.2e9, 0.2e9}},
      {"bert-large", {336'226'108, 1}},
      {"llama-2-7b", {6'738'415'616, 1}},
      {"llama-2-70b", {68'976'648'192, 1}},
      {"llama-3-8b", {8'030'261'248, 1}},
      {"llama-3-70b", {70'553'706'496, 1}},
      {"llama-3.1-405b", {405'853'388'800, 1}},
      {"mistral-7b", {7'241'732'096, 1}},
      {"mixtral-8x7b", {46'702'792'704, 1}},
      {"qwen-3-8b", {8'190'735'360, 1}},
      {"qwen-3-32b", {32'762'123'264, 1}},
      {"qwen-3-30b-a3b", {30'532'122'624, 1}},
      {"deepseek-v2", {236e9, 1e9}},
      {"deepseek-v3", {671e9, 1e9}},
      {"kimi-k2", {1.0e12, 0.1e12}}};
  for (const CatalogModel& row : catalog().models) {
    const auto found = published.find(row.model.name);
    ASSERT_NE(found, published.end()) << row.model.name;
    const auto [parameters, digit] = found->second;
    EXPECT_NEAR(static_cast<double>(parameter_count(row.model)), parameters, digit / 2)
        << row.model.name;
  }
  EXPECT_EQ(published.size(), catalog().models.size());
}

TEST(Catalog, UnknownNamesAreSaid) {
  const auto error = [](const std::string& name) {
    return error_of<UsageError>([&] { cluster_of_nodes(name); });
  };
  EXPECT_EQ(error("8xp3.16xlrge"),
            "cluster 8xp3.16xlrge: the catalogue has no node p3.16xlrge; did you mean "
            "\"p3.16xlarge\"? (tandem catalog list shows all)");
  EXPECT_EQ(error("H200-SXM-141GB"),
            "cluster H200-SXM-141GB: H200-SXM-141GB is a device: name a node, which says how its "
            "devices are linked, such as p5en.48xlarge (8 of them), DGX-H200 (8 of them) (tandem "
            "catalog list shows all)");
  EXPECT_EQ(error("0xDGX-2"), "cluster 0xDGX-2: expected 1 to 4096 nodes");
  EXPECT_EQ(error("99999999999999xDGX-2"),
            "cluster 99999999999999xDGX-2: the catalogue has no node 99999999999999xDGX-2 (tandem "
            "catalog list shows all)");
  EXPECT_EQ(error_of<UsageError>([] { model_of_name("gpt2-xxl"); }),
            "the catalogue has no model gpt2-xxl; did you mean \"gpt2-xl\"? (tandem catalog list "
            "shows all)");
}

TEST(Catalog, NamesAreFoundByWhatPeopleType) {
  const auto cluster = [](const std::string& typed) { return cluster_of_nodes(typed).name; };
  EXPECT_EQ(cluster("dgx-a100"), "DGX-A100");
  EXPECT_EQ(cluster("DGX-A100-80GB"), "DGX-A100");
  EXPECT_EQ(cluster("4XdgxH100"), "4xDGX-H100");
  EXPECT_EQ(cluster("8xP3.16XLARGE"), "8xp3.16xlarge");
  EXPECT_EQ(cluster("p4de"), "p4de.24xlarge");
  const auto model = [](const std::string& typed) { return model_of_name(typed).name; };
  EXPECT_EQ(model("llama3-70b"), "llama-3-70b");
  EXPECT_EQ(model("LLaMA-3-8B"), "llama-3-8b");
  EXPECT_EQ(model("llama3.1-405b"), "llama-3.1-405b");
  EXPECT_EQ(model("Qwen3-8B"), "qwen-3-8b");
  EXPECT_EQ(model("mixtral"), "mixtral-8x7b");
  EXPECT_EQ(model("GPT2_XL"), "gpt2-xl");
  EXPECT_EQ(model("gpt3 175b"), "gpt3-175b");
  EXPECT_EQ(model("mistral"), "mistral-7b");
  // A point tells 1.3b from 13b, however it is typed.
  EXPECT_EQ(model("GPT3-1.3B"), "gpt3-1.3b");
  EXPECT_EQ(model("GPT3-13B"), "gpt3-13b");
  const auto device = [](const std::string& typed) { return device_of_name(typed).name; };
  EXPECT_EQ(device("h100"), "H100-SXM5-80GB");
  EXPECT_EQ(device("a100-80gb"), "A100-SXM4-80GB");
  EXPECT_EQ(device("4090"), "RTX-4090-24GB");
  EXPECT_EQ(std::get<const DeviceSpec*>(row_of_name("h100"))->name, "H100-SXM5-80GB");
  EXPECT_EQ(std::get<const GroupSpec*>(row_of_name("dgx-h100"))->name, "DGX-H100");
  EXPECT_EQ(std::get<const CatalogModel*>(row_of_name("llama2-7b"))->model.name, "llama-2-7b");
}

/// Every name means itself, whatever else begins so.
TEST(Catalog, ANameAsItStandsMeansItself) {
  for (const DeviceSpec& device : catalog().devices)
    EXPECT_EQ(&device_of_name(device.name), &device);
  for (const GroupSpec& node : catalog().nodes)
    EXPECT_EQ(std::get<const GroupSpec*>(row_of_name(node.name)), &node);
  for (const CatalogModel& row : catalog().models)
    EXPECT_EQ(std::get<const CatalogModel*>(row_of_name(row.model.name)), &row);
}

TEST(Catalog, WhatMayMeanSeveralIsAskedFor) {
  EXPECT_EQ(error_of<UsageError>([] { device_of_name("a100", "--gpu: "); }),
            "--gpu: device a100 may be any of A100-SXM4-40GB, A100-SXM4-80GB: name one (tandem "
            "catalog list shows all)");
  EXPECT_EQ(error_of<UsageError>([] { model_of_name("llama-2"); }),
            "model llama-2 may be any of llama-2-7b, llama-2-70b: name one (tandem catalog list "
            "shows all)");
  EXPECT_EQ(error_of<UsageError>([] { cluster_of_nodes("8xH100"); }),
            "cluster 8xH100: H100-SXM5-80GB is a device: name a node, which says how its devices "
            "are linked, such as p5.48xlarge (8 of them), ND96isr_H100_v5 (8 of them), "
            "a3-megagpu-8g (8 of them), DGX-H100 (8 of them) (tandem catalog list shows all)");
  EXPECT_EQ(error_of<UsageError>([] { model_of_name("x"); }),
            "the catalogue has no model x (tandem catalog list shows all)");
}

TEST(Catalog, AFigureWithoutItsSourceIsRefused) {
  std::string text(catalog_text());
  const std::size_t key = text.find("\"source\": \"NVIDIA Tesla V100");
  ASSERT_NE(key, std::string::npos);
  text.replace(key, 8, "\"x-note\"");
  EXPECT_NE(error_of([&] { parse_catalog("c", text); }).find("V100-SXM2-16GB has no source"),
            std::string::npos);
}

}  // namespace
}  // namespace tandem
