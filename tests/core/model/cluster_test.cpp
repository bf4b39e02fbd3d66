// Ways through clusters small enough to follow by finger, and what is no cluster.

#include "core/model/cluster.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/model/catalog.h"
#include "tests/core/error_of.h"
#include "tests/support/device_ids.h"

namespace tandem {
namespace {

using std::chrono::microseconds;
using testing::d;
using testing::error_of;
using ::testing::HasSubstr;

/// Two boxes of two devices on an inner bus of 10 bytes/s, a shared way out of 1 byte/s each, and a
/// wire of 20 bytes/s between the first two devices of each box.
ClusterSpec two_boxes() {
  const auto link = [](double rate, int us) {
    return LinkSpec{.name = "wire", .bytes_per_s = rate, .latency = microseconds(us)};
  };
  ClusterSpec spec{.name = "two", .devices = {{.name = "card"}}, .groups = {}};
  spec.groups.push_back(
      {.name = "box",
       .members = {{.name = "gpu", .device = 0, .count = 3}, {.name = "bus"}},
       .joints = {{{.member = 0}, {.member = 1}, link(10, 1)},
                  {{.member = 0, .which = 0}, {.member = 0, .which = 1}, link(20, 2)}},
       .port = 1});
  spec.groups.push_back({.name = "room",
                         .members = {{.name = "box", .group = 0, .count = 2}, {.name = "hub"}},
                         .joints = {{{.member = 0}, {.member = 1}, link(1, 5)}}});
  spec.root = 1;
  return spec;
}

std::vector<std::string> names(const Cluster& cluster, const Route& route) {
  std::vector<std::string> names;
  for (const LinkId link : route.links) names.push_back(cluster.links()[link].name);
  return names;
}

TEST(Cluster, NumbersDevicesDepthFirst) {
  const Cluster cluster(two_boxes());
  ASSERT_EQ(cluster.size(), 6u);
  EXPECT_EQ(cluster.path(d(0)), "box[0].gpu[0]");
  EXPECT_EQ(cluster.path(d(4)), "box[1].gpu[1]");
  EXPECT_EQ(cluster[d(4)].name, "card");
  EXPECT_EQ(cluster.nodes(), 2u);
  EXPECT_EQ(cluster.node(d(2)), 0u);
  EXPECT_EQ(cluster.node(d(3)), 1u);
  // 3 and 1 and 1 joints, each both ways: twice 4, and 2.
  EXPECT_EQ(cluster.links().size(), 2u * (2 * 4 + 2));
}

TEST(Cluster, TheWayIsTheWidest) {
  const Cluster cluster(two_boxes());
  const Route direct = cluster.route(d(0), d(1));
  EXPECT_EQ(names(cluster, direct), std::vector<std::string>{"wire box[0].gpu[0] > box[0].gpu[1]"});
  EXPECT_EQ(direct.bytes_per_s, 20.0);
  EXPECT_EQ(direct.latency, microseconds(2));
  const Route by_bus = cluster.route(d(2), d(1));
  EXPECT_EQ(names(cluster, by_bus), (std::vector<std::string>{"wire box[0].gpu[2] > box[0].bus",
                                                              "wire box[0].bus > box[0].gpu[1]"}));
  EXPECT_EQ(by_bus.bytes_per_s, 10.0);
  EXPECT_EQ(by_bus.latency, microseconds(2));
}

TEST(Cluster, AWayOutSharesTheBoxesLink) {
  const Cluster cluster(two_boxes());
  const Route out = cluster.route(d(0), d(5));
  EXPECT_EQ(names(cluster, out),
            (std::vector<std::string>{"wire box[0].gpu[0] > box[0].bus", "wire box[0].bus > hub",
                                      "wire hub > box[1].bus", "wire box[1].bus > box[1].gpu[2]"}));
  EXPECT_EQ(out.bytes_per_s, 1.0);
  EXPECT_EQ(out.latency, microseconds(12));
  // The other device's way meets it on the link out of the box, the way back nowhere.
  EXPECT_EQ(cluster.route(d(1), d(4)).links[1], out.links[1]);
  for (const LinkId link : cluster.route(d(5), d(0)).links) {
    EXPECT_EQ(std::count(out.links.begin(), out.links.end(), link), 0);
  }
}

TEST(Cluster, ToItselfThereIsNoWayToGo) {
  const Route none = Cluster(two_boxes()).route(d(3), d(3));
  EXPECT_TRUE(none.links.empty());
  EXPECT_EQ(none.latency, Duration{});
}

TEST(Cluster, OfEquallyWideWaysTheShortestWins) {
  ClusterSpec spec = two_boxes();
  // A second bus of the same rate in each box, one hop further.
  GroupSpec& box = spec.groups[0];
  box.members.push_back({.name = "far"});
  box.members.push_back({.name = "near"});
  const LinkSpec wire{.name = "wire", .bytes_per_s = 10, .latency = {}};
  box.joints.push_back({{.member = 0}, {.member = 3}, wire});
  box.joints.push_back({{.member = 3}, {.member = 2}, wire});
  const Cluster cluster(spec);
  EXPECT_EQ(cluster.route(d(2), d(1)).links.size(), 2u);
  // Without latency: of the two buses of two hops the one with less of it.
  EXPECT_EQ(cluster.route(d(2), d(1)).latency, Duration{});
}

TEST(Cluster, AGroupOfSwitchesIsPassedOnlyWhereNothingElseLeads) {
  ClusterSpec spec = two_boxes();
  spec.groups.push_back(
      {.name = "spine", .members = {{.name = "switch"}}, .joints = {}, .port = 0});
  GroupSpec& room = spec.groups[1];
  room.members.push_back({.name = "spine", .group = 2});
  const LinkSpec wire{.name = "wire", .bytes_per_s = 4, .latency = microseconds(3)};
  room.joints.push_back({{.member = 0}, {.member = 2}, wire});
  // By the hub, though the spine is faster.
  EXPECT_EQ(Cluster(spec).route(d(0), d(5)).bytes_per_s, 1.0);
  room.joints.erase(room.joints.begin());
  const Cluster cluster(spec);
  const Route out = cluster.route(d(0), d(5));
  EXPECT_EQ(names(cluster, out),
            (std::vector<std::string>{
                "wire box[0].gpu[0] > box[0].bus", "wire box[0].bus > spine.switch",
                "wire spine.switch > box[1].bus", "wire box[1].bus > box[1].gpu[2]"}));
  EXPECT_EQ(out.bytes_per_s, 4.0);
  EXPECT_EQ(out.latency, microseconds(8));
  // What stays in a box does not come by.
  EXPECT_EQ(cluster.route(d(2), d(1)).links.size(), 2u);
}

TEST(Cluster, DevicesForwardNothing) {
  ClusterSpec spec = two_boxes();
  spec.groups[0].joints.erase(spec.groups[0].joints.begin());  // the bus
  EXPECT_EQ(error_of([&] { Cluster{spec}; }),
            "cluster two: group \"box\": device box[0].gpu[0] has no way to device box[0].gpu[2]");
}

TEST(Cluster, IsConnected) {
  ClusterSpec spec = two_boxes();
  spec.groups[1].joints.clear();
  EXPECT_EQ(error_of([&] { Cluster{spec}; }),
            "cluster two: group \"room\": device box[0].gpu[0] has no way to device box[1].gpu[0]");
}

TEST(Cluster, GroupsDoNotHoldThemselves) {
  ClusterSpec spec = two_boxes();
  spec.groups[0].members.push_back({.name = "again", .group = 1});
  EXPECT_EQ(error_of([&] { Cluster{spec}; }),
            "cluster two: group \"box\": holds itself: box > room > box");
}

TEST(Cluster, LinksComeOutEven) {
  ClusterSpec spec = two_boxes();
  spec.groups[0].members[1].count = 2;
  EXPECT_EQ(error_of([&] { Cluster{spec}; }),
            "cluster two: group \"box\": links between 3 of \"gpu\" and 2 of \"bus\" do not come "
            "out even");
}

TEST(Cluster, LinksNeedPortsAndTwoEnds) {
  ClusterSpec spec = two_boxes();
  spec.groups[0].port.reset();
  EXPECT_EQ(error_of([&] { Cluster{spec}; }),
            "cluster two: group \"room\": a link to \"box\", whose group \"box\" has no port");
  spec = two_boxes();
  spec.groups[0].joints[1].to.which = 0;
  EXPECT_EQ(error_of([&] { Cluster{spec}; }),
            "cluster two: group \"box\": a link between \"gpu\" and itself");
}

TEST(Cluster, HasDevicesButNotTooMany) {
  ClusterSpec spec = two_boxes();
  spec.groups[0].members[0].device.reset();
  EXPECT_EQ(error_of([&] { Cluster{spec}; }), "cluster two: group \"room\": holds no device");
  spec = two_boxes();
  spec.groups[1].members[0].count = 60'000;
  EXPECT_EQ(error_of([&] { Cluster{spec}; }),
            "cluster two: group \"room\": 180000 devices: expected at most 16384");
  spec.groups[0].members[0].count = 1;
  spec.groups[0].joints.pop_back();
  spec.groups[0].members.push_back({.name = "empty", .count = 1000});
  spec.groups[1].members[0].count = 2000;
  EXPECT_THAT(error_of([&] { Cluster{spec}; }), HasSubstr("devices and switches"));
}

TEST(Cluster, EmptyGroupsAreCountedToo) {
  ClusterSpec spec = two_boxes();
  for (int level = 0; level < 4; ++level) {
    spec.groups.push_back({.name = "empty", .members = {}, .joints = {}});
    if (level > 0) {
      spec.groups.back().members.push_back(
          {.name = "in", .group = spec.groups.size() - 2, .count = 60'000});
    }
  }
  spec.groups[1].members.push_back({.name = "void", .group = spec.groups.size() - 1});
  EXPECT_THAT(error_of([&] { Cluster{spec}; }), HasSubstr("groups: expected at most 262144"));
}

TEST(Cluster, ADeepNestIsRefusedNotWalked) {
  ClusterSpec spec = two_boxes();
  for (std::size_t i = 0; i < 100'000; ++i) {
    spec.groups.push_back({.name = "shell",
                           .members = {{.name = "in", .group = spec.groups.size() - 1}},
                           .joints = {}});
  }
  spec.root = spec.groups.size() - 1;
  EXPECT_THAT(error_of([&] { Cluster{spec}; }), HasSubstr("more than 16 deep"));
  std::reverse(spec.groups.begin() + 2, spec.groups.end());
  for (std::size_t i = 2; i + 1 < spec.groups.size(); ++i) spec.groups[i].members[0].group = i + 1;
  spec.groups.back().members[0].group = 1;
  spec.root = 2;
  EXPECT_THAT(error_of([&] { Cluster{spec}; }), HasSubstr("more than 16 deep"));
}

TEST(Cluster, ALevelMoreIsAnotherGroup) {
  ClusterSpec spec = two_boxes();
  spec.groups[1].port = 1;
  spec.groups.push_back(
      {.name = "hall",
       .members = {{.name = "room", .group = 1, .count = 2}, {.name = "spine"}},
       .joints = {{{.member = 0},
                   {.member = 1},
                   {.name = "wire", .bytes_per_s = 0.5, .latency = microseconds(7)}}}});
  spec.root = 2;
  const Cluster cluster(spec);
  EXPECT_EQ(cluster.size(), 12u);
  const Route across = cluster.route(d(0), d(11));
  EXPECT_EQ(across.links.size(), 6u);
  EXPECT_EQ(across.bytes_per_s, 0.5);
  EXPECT_EQ(across.latency, microseconds(2 + 2 * 5 + 2 * 7));
  // What stays in a room does not leave it.
  EXPECT_EQ(cluster.route(d(0), d(3)).bytes_per_s, 1.0);
}

}  // namespace
}  // namespace tandem
