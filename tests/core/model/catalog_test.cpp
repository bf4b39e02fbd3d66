// The catalogue is well-formed, its models have their published sizes, its nodes their ways.

#include "core/model/catalog.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

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

/// What people type, and what is found by it; or, in brackets, suggested: a name that is another
/// version, size or variant is never taken for the one that is there.
struct Typed {
  std::string typed, wanted;
};

template <class NameOf>
void expect_found_or_suggested(const std::vector<Typed>& all, const NameOf& name_of) {
  EXPECT_GE(all.size(), 30u);
  for (const auto& [typed, wanted] : all) {
    SCOPED_TRACE(typed);
    if (wanted.front() != '[') {
      EXPECT_EQ(name_of(typed), wanted);
      continue;
    }
    const std::string said = error_of<UsageError>([&] { name_of(typed); }),
                      name = wanted.substr(1, wanted.size() - 2);
    const std::size_t list = std::min(said.find(" may be any of "), said.find(", such as "));
    const bool listed = list != std::string::npos && said.find(name, list) != std::string::npos;
    EXPECT_TRUE(listed || said.find("did you mean \"" + name + "\"") != std::string::npos) << said;
  }
}

TEST(Catalog, ModelsThatPeopleTypeAreFoundOrSuggested) {
  expect_found_or_suggested(
      {
          {"llama3-405b", "[llama-3.1-405b]"},
          {"llama-405b", "llama-3.1-405b"},
          {"Llama 3.1 405B", "llama-3.1-405b"},
          {"Llama-3.1-405B-Instruct", "[llama-3.1-405b]"},
          {"llama3-70b", "llama-3-70b"},
          {"llama-3.1-70b", "[llama-3-70b]"},
          {"llama3.3-70b", "[llama-3-70b]"},
          {"Meta-Llama-3-70B", "[llama-3-70b]"},
          {"llama3_8b", "llama-3-8b"},
          {"lama-3-8b", "[llama-3-8b]"},
          {"Llama-2-70b-hf", "[llama-2-70b]"},
          {"llama2-13b", "[llama-2-7b]"},
          {"llama3", "[llama-3-70b]"},
          {"gpt-2", "gpt2"},
          {"GPT2-XL", "gpt2-xl"},
          {"gpt-2 xl", "gpt2-xl"},
          {"gpt2-small", "[gpt2]"},
          {"gpt2-xxl", "[gpt2-xl]"},
          {"gtp2", "[gpt2]"},
          {"GPT-3", "[gpt3-175b]"},
          {"gpt-3-175B", "gpt3-175b"},
          {"gpt3-175", "gpt3-175b"},
          {"gpt3-7b", "[gpt3-6.7b]"},
          {"mistral7b", "mistral-7b"},
          {"Mistral-7B-v0.3", "[mistral-7b]"},
          {"Mixtral-8x7B-v0.1", "[mixtral-8x7b]"},
          {"mixtral-8x22b", "[mixtral-8x7b]"},
          {"Qwen3-32B", "qwen-3-32b"},
          {"qwen3-30b", "qwen-3-30b-a3b"},
          {"qwen2.5-32b", "[qwen-3-32b]"},
          {"bert-large-uncased", "[bert-large]"},
          {"megatron-530b", "[megatron-529.6b]"},
          {"megatron-1t", "[megatron-1008b]"},
      },
      [](const std::string& typed) { return model_of_name(typed).name; });
}

TEST(Catalog, ClustersThatPeopleTypeAreFoundOrSuggested) {
  expect_found_or_suggested(
      {
          {"DGX-A100-80GB", "DGX-A100"},
          {"dgx_h100", "DGX-H100"},
          {"DGX H100", "DGX-H100"},
          {"8 x dgx-h100", "8xDGX-H100"},
          {"4XDGXB200", "4xDGX-B200"},
          {"DGX-V100", "[DGX-2]"},
          {"DGX-1", "DGX-1V"},
          {"HGX-H100", "[DGX-H100]"},
          {"HGX-A100", "[DGX-A100]"},
          {"8xH100", "[DGX-H100 (8 of them)]"},
          {"8xA100", "[p4d.24xlarge (8 of them)]"},
          {"8xA100-80GB", "[p4de.24xlarge (8 of them)]"},
          {"8xB200", "[DGX-B200 (8 of them)]"},
          {"8xGB200", "[GB200-NVL72 (72 of them)]"},
          {"8xMI300X", "[MI300X-platform (8 of them)]"},
          {"8xV100-32GB", "[p3dn.24xlarge (8 of them)]"},
          {"H20", "[HGX-H20 (8 of them)]"},
          {"8xL40S", "[g6e.48xlarge (8 of them)]"},
          {"nvl72", "GB200-NVL72"},
          {"p4d", "p4d.24xlarge"},
          {"p4de", "p4de.24xlarge"},
          {"p5", "[p5.48xlarge]"},
          {"p5.48xl", "p5.48xlarge"},
          {"p3.16xlrge", "[p3.16xlarge]"},
          {"aws-p4d.24xlarge", "[p4d.24xlarge]"},
          {"a3-mega", "a3-megagpu-8g"},
          {"a3-highgpu-8g", "[a2-highgpu-8g]"},
          {"nd-h100-v5", "ND96isr_H100_v5"},
          {"Standard_ND96isr_H100_v5", "[ND96isr_H100_v5]"},
          {"tpu-v5p", "[TPU-v5p-4x4x4 (64 of them)]"},
          {"tpu-v4", "[TPU-v5p-4x4x4]"},
      },
      [](const std::string& typed) { return cluster_of_nodes(typed).name; });
}

/// Where nothing is like it, nothing is suggested.
TEST(Catalog, WhatIsLikeNothingGetsNoSuggestion) {
  for (const char* typed : {"deepseek-v3", "x", "falcon-40b", "2b"}) {
    EXPECT_EQ(error_of<UsageError>([&] { model_of_name(typed); }).find("did you mean"),
              std::string::npos)
        << typed;
  }
  EXPECT_EQ(error_of<UsageError>([] { cluster_of_nodes("8xRTX-4090"); }),
            "cluster 8xRTX-4090: RTX-4090-24GB is a device: name a node, which says how its "
            "devices are linked; no node of the catalogue has it, but a cluster file may (tandem "
            "catalog list shows all)");
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
