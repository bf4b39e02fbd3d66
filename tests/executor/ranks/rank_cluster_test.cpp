// What is measured of ranks, as a cluster: its ways have the rates and latencies of the links.

#include "executor/ranks/rank_cluster.h"

#include <chrono>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "core/files/cluster_file.h"
#include "core/files/read.h"
#include "core/text/json_text.h"

namespace tandem {
namespace {

using namespace std::chrono_literals;

constexpr double kBusAlone = 4e9, kBus = 2e9, kWire = 1.25e8;

/// Ranks 0 and 1 on one host, 2 on another; a wire that both ranks of the first fill together.
std::vector<LinkRate> links() {
  std::vector<LinkRate> all;
  for (const auto& [from, to] : {std::pair{0, 1}, {0, 2}, {1, 0}, {1, 2}, {2, 0}, {2, 1}}) {
    const bool within = from != 2 && to != 2;
    all.push_back({.from = from,
                   .to = to,
                   .latency = within ? 10us : 200us,
                   .bytes_per_s = within ? kBusAlone : kWire,
                   .bytes_per_s_busy = within ? kBus : kWire / 2});
  }
  return all;
}

Cluster cluster_read_back(const std::vector<RankInfo>& infos, const std::vector<LinkRate>& links,
                          const std::vector<RankDevice>& devices) {
  const std::string text = json_text(cluster_json(cluster_of(infos, links, devices)));
  return Cluster(parse_cluster("ranks.json", text));
}

double rate_of(const Cluster& cluster, std::size_t from, std::size_t to) {
  return cluster.route(id_at<DeviceId>(from), id_at<DeviceId>(to)).bytes_per_s;
}

TEST(RankCluster, HasTheRatesOfTheLinks) {
  const RankInfo here{.host = "a", .process = 1, .address = "10.0.0.1"},
      there{.host = "b", .process = 2, .address = "10.0.0.2"};
  const RankDevice device{
      .product_flops_per_s = 1e11, .memory_bytes_per_s = 1e10, .memory_bytes = 8};
  RankDevice slow = device;
  slow.product_flops_per_s = 4e10;
  const Cluster cluster = cluster_read_back({here, here, there}, links(), {device, device, slow});
  ASSERT_EQ(cluster.size(), 3U);
  EXPECT_EQ(cluster.nodes(), 2U);
  EXPECT_DOUBLE_EQ(rate_of(cluster, 0, 1), kBus);
  EXPECT_DOUBLE_EQ(rate_of(cluster, 0, 2), kWire) << "not the sum of halves nor a half";
  EXPECT_DOUBLE_EQ(rate_of(cluster, 2, 1), kWire);
  EXPECT_EQ(cluster.route(DeviceId{0}, DeviceId{1}).latency, 10us);
  EXPECT_EQ(cluster.route(DeviceId{0}, DeviceId{2}).latency, 5us + 200us);
  EXPECT_EQ(cluster[DeviceId{0}].memory_bytes, 4) << "a host's memory is shared";
  EXPECT_DOUBLE_EQ(cluster[DeviceId{2}].flops(NumberFormat::fp32), 4e10) << "of another kind";
}

TEST(RankCluster, OfOneHostHasItsBusAlone) {
  const RankInfo here{.host = "a", .process = 1, .address = "127.0.0.1"};
  const RankDevice device{
      .product_flops_per_s = 1e11, .memory_bytes_per_s = 1e10, .memory_bytes = 8};
  const std::vector<LinkRate> two{
      {.from = 0, .to = 1, .latency = 8us, .bytes_per_s = 4e9, .bytes_per_s_busy = 2e9},
      {.from = 1, .to = 0, .latency = 8us, .bytes_per_s = 4e9, .bytes_per_s_busy = 3e9}};
  const Cluster cluster = cluster_read_back({here, here}, two, {device, device});
  EXPECT_EQ(cluster.nodes(), 1U);
  EXPECT_DOUBLE_EQ(rate_of(cluster, 1, 0), 2e9) << "the slowest";
}

}  // namespace
}  // namespace tandem
