#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/files/read.h"
#include "core/model/catalog.h"
#include "tests/core/error_of.h"
#include "tests/support/edited_text.h"

namespace tandem {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using testing::with;

const std::string kText = R"({
"version": 1,
"name": "office",
"devices": [
{"name": "card", "fp32_flops_per_s": 1e12, "memory_bytes": 1000, "memory_bytes_per_s": 1e9}
],
"groups": [
{"name": "box", "port": "bus",
"members": [{"name": "gpu", "device": "card", "count": 2}, {"name": "bus"}],
"links": [{"between": ["gpu", "bus"], "bytes_per_s_one_way": 10, "latency_ns": 5}]},
{"name": "room",
"members": [{"name": "box", "group": "box", "count": 2}, {"name": "hub"}],
"links": [{"between": ["box", "hub"], "name": "wire", "bytes_per_s_one_way": 1, "latency_ns": 9}]}
],
"root": "room"
})";

std::string cluster_edited(std::string_view part, std::string_view instead) {
  return with(kText, part, instead);
}

std::string cluster_error(const std::string& text) {
  return error_of([&text] { parse_cluster("c.json", text); });
}

TEST(ClusterFile, ReadsACluster) {
  const Cluster cluster(parse_cluster("c.json", kText));
  EXPECT_EQ(cluster.name(), "office");
  ASSERT_EQ(cluster.size(), 4u);
  const DeviceSpec& card = cluster[DeviceId{}];
  EXPECT_EQ(card.flops(NumberFormat::fp32), 1e12);
  EXPECT_EQ(card.flops(NumberFormat::bf16), 0.0);
  EXPECT_EQ(card.memory_bytes, 1000);
  const Route route = cluster.route(DeviceId{0}, DeviceId{3});
  EXPECT_EQ(route.links.size(), 4u);
  EXPECT_EQ(route.bytes_per_s, 1.0);
  EXPECT_EQ(route.latency.count(), 28);
  EXPECT_EQ(cluster.links()[route.links[1]].name, "wire box[0].bus > hub");
}

TEST(ClusterFile, TakesDevicesAndNodesOfTheCatalogue) {
  const Cluster cluster(
      parse_cluster("c.json", cluster_edited(R"("group": "box")", R"("group": "DGX-H100")")));
  ASSERT_EQ(cluster.size(), 16u);
  EXPECT_EQ(cluster[DeviceId{8}].name, "H100-SXM5-80GB");
}

TEST(ClusterFile, NamesAreChecked) {
  EXPECT_EQ(cluster_error(cluster_edited(R"("device": "card")", R"("device": "H100-SXM5-80Gb")")),
            "c.json:9:39: error: /groups/0/members/0/device: no device \"H100-SXM5-80Gb\"; did you "
            "mean \"H100-SXM5-80GB\"?\n"
            "\"members\": [{\"name\": \"gpu\", \"device\": \"H100-SXM5-80Gb\", \"count\": 2}, "
            "{\"name\": \"bus\"}],\n"
            "                                      ^~~~~~~~~~~~~~~~");
  EXPECT_THAT(cluster_error(cluster_edited(R"("group": "box")", R"("group": "bos")")),
              HasSubstr("/groups/1/members/0/group: no group \"bos\"; did you mean \"box\"?"));
  EXPECT_THAT(cluster_error(cluster_edited(R"(["box", "hub"])", R"(["box", "hab"])")),
              HasSubstr("/groups/1/links/0/between/1: no member \"hab\"; did you mean \"hub\"?"));
  EXPECT_THAT(cluster_error(cluster_edited(R"("port": "bus")", R"("port": "bis")")),
              HasSubstr("/groups/0/port: no member \"bis\"; did you mean \"bus\"?"));
  EXPECT_THAT(cluster_error(cluster_edited(R"("root": "room")", R"("root": "roof")")),
              HasSubstr("/root: no group \"roof\""));
  EXPECT_THAT(cluster_error(cluster_edited(R"(["gpu", "bus"])", R"(["gpu[2]", "bus"])")),
              HasSubstr("expected \"gpu\", or one of \"gpu[0]\" to \"gpu[1]\", found \"gpu[2]\""));
  EXPECT_THAT(cluster_error(cluster_edited(R"("bytes_per_s_one_way")", R"("bytes_per_s")")),
              HasSubstr("unknown key \"bytes_per_s\""));
  EXPECT_EQ(cluster_error(cluster_edited(R"("name": "office")", R"("x-who": "me")")),
            "nothing was thrown");
}

/// So many devices a box, and `links` of them, of 10 bytes/s, beside their slow bus.
std::string with_gpus(std::string_view count, std::string_view links) {
  const std::string more = fmt::format(
      R"({{"between": ["gpu", "bus"], "bytes_per_s_one_way": 1, "latency_ns": 1}}, {{{})", links);
  return with(with(kText, R"("count": 2}, {"name": "bus"})",
                   fmt::format(R"("count": {}}}, {{"name": "bus"}})", count)),
              R"({"between": ["gpu", "bus"])", more);
}

TEST(ClusterFile, EveryTwoAreLinked) {
  const Cluster cluster(parse_cluster("c.json", with_gpus("4", R"("every_two": "gpu")")));
  for (std::uint16_t a = 0; a < 4; ++a) {
    for (std::uint16_t b = 0; b < 4; ++b) {
      if (a == b) continue;
      const Route way = cluster.route(DeviceId{a}, DeviceId{b});
      EXPECT_EQ(way.links.size(), 1u);
      EXPECT_EQ(way.bytes_per_s, 10.0);
    }
  }
}

/// Of 3 x 2 x 1: rings of three, pairs that are linked once, and nothing along a dimension of one.
TEST(ClusterFile, ATorusLinksNeighbours) {
  const ClusterSpec spec =
      parse_cluster("c.json", with_gpus("6", R"("torus": {"of": "gpu", "shape": [3, 2, 1]})"));
  std::set<std::pair<int, int>> links;
  for (const JointSpec& joint : spec.groups[0].joints) {
    if (!joint.from.which) continue;
    const auto [low, high] = std::minmax(*joint.from.which, *joint.to.which);
    EXPECT_TRUE(links.emplace(low, high).second);
  }
  EXPECT_EQ(links, (std::set<std::pair<int, int>>{
                       {0, 1}, {2, 3}, {4, 5}, {0, 2}, {2, 4}, {0, 4}, {1, 3}, {3, 5}, {1, 5}}));
}

TEST(ClusterFile, ShapesOfLinksAreChecked) {
  EXPECT_THAT(cluster_error(with_gpus("4", R"("torus": {"of": "gpu", "shape": [3, 2]})")),
              HasSubstr("links/1/torus/shape: expected lengths whose product is the count of "
                        "\"gpu\", 4"));
  EXPECT_THAT(cluster_error(with_gpus("4", R"("torus": {"of": "gpu[1]", "shape": [4]})")),
              HasSubstr("links/1/torus/of: expected a member, all of it"));
  EXPECT_THAT(cluster_error(with_gpus("65536", R"("every_two": "gpu")")),
              HasSubstr("2147450880 links more: expected at most 65536 of a group"));
  EXPECT_THAT(
      cluster_error(with_gpus("4", R"("every_two": "gpu", "torus": {"of": "gpu", "shape": [4]})")),
      HasSubstr("expected one of \"between\", \"every_two\" and \"torus\", found several"));
}

TEST(ClusterFile, NamesAreThereOnce) {
  EXPECT_THAT(cluster_error(cluster_edited(R"({"name": "bus"})", R"({"name": "gpu"})")),
              HasSubstr("/groups/0/members/1/name: a second \"gpu\""));
  EXPECT_THAT(cluster_error(cluster_edited(R"({"name": "room",)", R"({"name": "box",)")),
              HasSubstr("/groups/1/name: a second \"box\""));
}

TEST(ClusterFile, NamesAreShort) {
  const std::string longest(64, 'n');
  EXPECT_EQ(cluster_error(cluster_edited(R"("name": "wire")", R"("name": ")" + longest + R"(")")),
            "nothing was thrown");
  EXPECT_THAT(
      cluster_error(cluster_edited(R"("name": "wire")", R"("name": "n)" + longest + R"(")")),
      HasSubstr("/groups/1/links/0/name: expected a name of at most 64 bytes"));
  EXPECT_THAT(
      cluster_error(cluster_edited(R"({"name": "hub"})", R"({"name": "n)" + longest + R"("})")),
      HasSubstr("/groups/1/members/1/name: expected a name of at most 64 bytes, without "
                "brackets and spaces"));
}

TEST(ClusterFile, RatesAreAboveZero) {
  for (const std::string rate : {"0", "-1"}) {
    EXPECT_THAT(
        cluster_error(cluster_edited(R"("bytes_per_s_one_way": 1,)",
                                     R"("bytes_per_s_one_way": )" + rate + ",")),
        HasSubstr("/groups/1/links/0/bytes_per_s_one_way: expected a number >= 1, found " + rate));
    EXPECT_THAT(cluster_error(cluster_edited(R"("fp32_flops_per_s": 1e12)",
                                             R"("fp32_flops_per_s": )" + rate)),
                HasSubstr("/devices/0/fp32_flops_per_s: expected a number >= 1, found " + rate));
  }
  EXPECT_THAT(cluster_error(cluster_edited(R"("fp32_flops_per_s": 1e12, )", "")),
              HasSubstr("expected a peak, such as \"fp16_flops_per_s\", found none"));
}

TEST(ClusterFile, NeverComparesMillionsOfNames) {
  std::string many = R"({"name": "a"})";
  for (int i = 0; i < 5000; ++i) many += R"(, {"name": "a"})";
  EXPECT_THAT(cluster_error(cluster_edited(R"({"name": "bus"})", many)),
              HasSubstr("/groups/0/members: 5002 entries: expected at most 4096"));
}

TEST(ClusterFile, WhatIsNoClusterIsSaidAtItsGroup) {
  EXPECT_THAT(cluster_error(cluster_edited(R"(["box", "hub"])", R"(["box[0]", "hub"])")),
              HasSubstr("/groups/1: group \"room\" device box[0].gpu[0] has no way to device "
                        "box[1].gpu[0]"));
  EXPECT_THAT(
      cluster_error(cluster_edited(R"({"name": "bus"})", R"({"name": "bus", "group": "room"})")),
      HasSubstr("group \"box\" holds itself: box > room > box"));
}

}  // namespace
}  // namespace tandem
