// tandem catalog.

#include <string>

#include "tests/tools/tandem.h"

namespace tandem::testing {
namespace {

class CatalogCommand : public CommandLine {};

TEST_F(CatalogCommand, ListsAllThatItCanShow) {
  const Ran list = tandem("catalog list");
  EXPECT_EQ(list.code, 0);
  EXPECT_EQ(list.err, "");
  const Json all = json_of("catalog list --json")["result"];
  for (const char* kind : {"devices", "nodes", "models"}) {
    EXPECT_FALSE(all[kind].empty()) << kind;
    for (const Json& row : all[kind]) {
      const std::string name = row["name"];
      EXPECT_THAT(list.out, HasSubstr("\n" + name + " "));
      EXPECT_NE(row["source"].get<std::string>(), "") << name;
    }
  }
}

/// What `show` prints of a node is a group of a cluster file.
TEST_F(CatalogCommand, ANodeIsShownAsAClusterFileHasIt) {
  const Json node = json_of("catalog show p4d.24xlarge --json")["result"]["node"];
  EXPECT_EQ(keys_of(node),
            (std::vector<std::string>{"name", "members", "links", "port", "network", "source"}));
  EXPECT_EQ(node["links"][1]["between"], Json::array({"gpu", "pcie"}));
}

/// Data sheets of nodes say neither latencies nor what PCIe carries.
TEST_F(CatalogCommand, LatenciesAndPciHaveTheirOwnSources) {
  const Json nodes = json_of("catalog list --json")["result"]["nodes"];
  for (const Json& node : nodes) {
    const std::string source = node["source"], text = node.dump();
    EXPECT_THAT(source, HasSubstr("latencies: NCCL, src/graph/tuning.cc"));
    for (const char* kind : {"NVLink", "PCIe 3.0", "PCIe 4.0", "PCIe 5.0"}) {
      if (text.substr(0, text.find("\"source\"")).find(kind) == std::string::npos) continue;
      EXPECT_THAT(source, HasSubstr(kind)) << node["name"];
    }
  }
}

TEST_F(CatalogCommand, ParametersAreCountedInWords) {
  const std::string list = tandem("catalog list").out;
  EXPECT_THAT(list, ::testing::ContainsRegex("\ngpt3-175b +174.6 B "));
  EXPECT_THAT(list, ::testing::ContainsRegex("\ngpt2 +124.4 M "));
  EXPECT_THAT(list, ::testing::ContainsRegex("\nmegatron-1008b +1.008 T "));
  EXPECT_THAT(list, ::testing::Not(HasSubstr("e+0")));
}

TEST_F(CatalogCommand, NamesAreTakenAsPeopleTypeThem) {
  EXPECT_EQ(tandem("catalog show h100").out, tandem("catalog show H100-SXM5-80GB").out);
  EXPECT_EQ(tandem("catalog show a100").code, 2);
  const std::string shape = " --schedule 1f1b --depth 8 --width 1 --microbatches 8 --json";
  EXPECT_EQ(json_of("simulate --model GPT2-XL --cluster dgx-a100-80gb" + shape),
            json_of("simulate --model gpt2-xl --cluster DGX-A100" + shape));
}

}  // namespace
}  // namespace tandem::testing
