// Unequal nodes counted in any order: the same devices and links, by other numbers.

#include "core/model/node_order.h"

#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/error_of.h"
#include "tests/support/device_ids.h"

namespace tandem {
namespace {

using testing::d;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;

LinkSpec wire(double rate) { return {.name = "wire", .bytes_per_s = rate, .latency = Duration{}}; }

/// A box of so many cards of a kind on a bus.
GroupSpec box(const std::string& name, std::size_t device, std::int32_t count) {
  return {.name = name,
          .members = {{.name = "card", .device = device, .count = count}, {.name = "bus"}},
          .joints = {{{.member = 0}, {.member = 1}, wire(10.0 + static_cast<double>(device))}},
          .port = 1};
}

/// A hub between boxes of the kinds named, each by a link of its own rate.
ClusterSpec room(const std::vector<std::size_t>& kinds) {
  ClusterSpec spec{.name = "room", .devices = {}, .groups = {}};
  GroupSpec root{.name = "room", .members = {{.name = "hub"}}, .joints = {}};
  for (std::size_t kind = 0; kind < 5; ++kind) {
    spec.devices.push_back({.name = std::string(1, static_cast<char>('a' + kind))});
    spec.groups.push_back(box("box", kind, static_cast<std::int32_t>(kind) + 1));
  }
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    root.members.push_back(
        {.name = std::string(1, static_cast<char>('p' + i)), .group = kinds[i], .count = 1});
    root.joints.push_back({{.member = i + 1}, {.member = 0}, wire(1.0 + static_cast<double>(i))});
  }
  spec.root = spec.groups.size();
  spec.groups.push_back(root);
  return spec;
}

/// Rates between devices, by their paths.
std::map<std::string, double> rates(const ClusterSpec& spec) {
  const Cluster cluster(spec);
  std::map<std::string, double> all;
  for (std::size_t a = 0; a < cluster.size(); ++a) {
    for (std::size_t b = 0; b < cluster.size(); ++b)
      all[cluster.path(d(a)) + " " + cluster.path(d(b))] = cluster.route(d(a), d(b)).bytes_per_s;
  }
  return all;
}

TEST(NodeOrder, OnlyNumbersChange) {
  const ClusterSpec spec = room({0, 1, 2});
  EXPECT_THAT(node_order(spec), ElementsAre("p", "q", "r"));
  const ClusterSpec other = in_node_order(spec, {"r", "p", "q"});
  EXPECT_THAT(node_order(other), ElementsAre("r", "p", "q"));
  const Cluster cluster(other);
  EXPECT_EQ(cluster.path(d(0)), "r.card[0]");
  EXPECT_EQ(cluster[d(0)].name, "c");
  EXPECT_EQ(cluster.path(d(3)), "p.card");
  EXPECT_EQ(cluster.path(d(4)), "q.card[0]");
  EXPECT_EQ(rates(other), rates(spec));
  EXPECT_NE(rates(room({1, 0, 2})), rates(spec));  // links that follow their place, not their box
  EXPECT_EQ(in_node_order(other, {"p", "q", "r"}), spec);
}

TEST(NodeOrder, IsOfInterestWhereNodesAreUnequal) {
  EXPECT_THAT(unequal_nodes(room({0, 1, 0})), ElementsAre("p", "q", "r"));
  EXPECT_THAT(unequal_nodes(room({0, 0})), ElementsAre());
  EXPECT_EQ(unequal_nodes(room({0, 1, 2, 3, 4})).size(), 5u);
}

TEST(NodeOrder, RefusesOtherNames) {
  const ClusterSpec spec = room({0, 1});
  for (const std::vector<std::string>& names :
       {std::vector<std::string>{}, {"p"}, {"p", "p"}, {"p", "q", "hub"}, {"q", "x"}}) {
    EXPECT_THAT(error_of<InputError>([&] { in_node_order(spec, names); }),
                HasSubstr("expected p,q, each once"));
  }
}

TEST(NodeOrder, EveryOrderOfUnequalKinds) {
  const auto orders = [](const std::vector<std::size_t>& kinds) {
    std::vector<std::string> all;
    for (const ClusterSpec& spec : node_orders(room(kinds))) {
      std::string names;
      for (const std::string& name : node_order(spec)) names += name;
      all.push_back(names);
    }
    return all;
  };
  EXPECT_THAT(orders({0}), ElementsAre("p"));
  EXPECT_THAT(orders({0, 0}), ElementsAre("pq"));
  EXPECT_THAT(orders({0, 1}), ElementsAre("pq", "qp"));
  EXPECT_THAT(orders({1, 0, 2}), ElementsAre("pqr", "prq", "qpr", "qrp", "rpq", "rqp"));
  EXPECT_THAT(orders({0, 1, 0}), ElementsAre("pqr", "prq", "qpr"));  // of a kind side by side
  EXPECT_EQ(orders({0, 1, 2, 3}).size(), 24u);
  EXPECT_EQ(orders({0, 1, 2, 3, 4}).size(), 1u);
}

}  // namespace
}  // namespace tandem
