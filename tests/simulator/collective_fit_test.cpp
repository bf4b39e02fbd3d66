// Constants come back from what they predict, and from published logs within the error claimed.

#include "simulator/cost/collective_fit.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/import/nccl_tests.h"
#include "simulator/cost/collective_model.h"
#include "tests/support/data.h"

namespace tandem::testing {
namespace {

using Measurements = std::vector<AllReduceMeasurement>;

constexpr CollectiveConstants kPlantedConstants{.launch_s = 6e-6,
                                                .node_hop_s = 7e-6,
                                                .simple_s = 30e-6,
                                                .low_latency_bytes_per_s = 4e9,
                                                .within_node_bytes_per_s = 90e9,
                                                .between_nodes_bytes_per_s = 5e9};

/// Of 1 KiB to 1 GiB over 2 to 64 devices, eight a node, a thread for each.
Measurements predicted(double slower_every_other = 1.0) {
  Measurements all;
  for (std::int64_t devices = 2; devices <= 64; devices *= 2) {
    const std::int64_t nodes = std::max<std::int64_t>(1, devices / 8);
    for (Bytes bytes = 1024; bytes <= Bytes{1} << 30; bytes *= 2) {
      const CollectiveGroup group{
          .devices = devices, .nodes = nodes, .least_per_node = devices / nodes};
      const double factor = all.size() % 2 == 0 ? 1.0 : slower_every_other;
      const double seconds =
          factor * all_reduce_seconds(kPlantedConstants, group, static_cast<double>(bytes));
      all.push_back({group, bytes, Duration(std::llround(seconds * 1e9))});
    }
  }
  return all;
}

/// The same times, each with the group of another measurement.
Measurements shuffled(const Measurements& all) {
  Measurements mixed = all;
  constexpr std::size_t kStride = 83;
  for (std::size_t i = 0; i < all.size(); ++i)
    mixed[i].group = all[(kStride * i + 17) % all.size()].group;
  return mixed;
}

TEST(CollectiveFit, FindsTheConstantsThatWerePlanted) {
  const CollectiveConstants found = fit_collectives(predicted());
  EXPECT_LT(mean_error(found, predicted()), 1e-3);
  constexpr double kTolerance = 0.01;
  EXPECT_NEAR(found.launch_s / kPlantedConstants.launch_s, 1.0, kTolerance);
  EXPECT_NEAR(found.node_hop_s / kPlantedConstants.node_hop_s, 1.0, kTolerance);
  EXPECT_NEAR(found.simple_s / kPlantedConstants.simple_s, 1.0, kTolerance);
  EXPECT_NEAR(found.low_latency_bytes_per_s / kPlantedConstants.low_latency_bytes_per_s, 1.0,
              kTolerance);
  EXPECT_NEAR(found.within_node_bytes_per_s / kPlantedConstants.within_node_bytes_per_s, 1.0,
              kTolerance);
  EXPECT_NEAR(found.between_nodes_bytes_per_s / kPlantedConstants.between_nodes_bytes_per_s, 1.0,
              kTolerance);
  EXPECT_EQ(fit_collectives(predicted()), found);
}

/// What one machine measures says what it does, and nothing of others.
TEST(CollectiveFit, OneNodeSaysFourConstants) {
  Measurements inside, across;
  for (const AllReduceMeasurement& one : predicted())
    (one.group.nodes == 1 && one.group.devices <= 8 ? inside : across).push_back(one);
  const CollectiveConstants found = fit_collectives(inside);
  EXPECT_LT(mean_error(found, inside), 1e-3);
  constexpr double kTolerance = 0.01;
  EXPECT_NEAR(found.launch_s / kPlantedConstants.launch_s, 1.0, kTolerance);
  EXPECT_NEAR(found.simple_s / kPlantedConstants.simple_s, 1.0, kTolerance);
  EXPECT_NEAR(found.low_latency_bytes_per_s / kPlantedConstants.low_latency_bytes_per_s, 1.0,
              kTolerance);
  EXPECT_NEAR(found.within_node_bytes_per_s / kPlantedConstants.within_node_bytes_per_s, 1.0,
              kTolerance);
  EXPECT_EQ(found.between_nodes_bytes_per_s, 0.0);
  EXPECT_EQ(found.node_hop_s, 0.0);
  EXPECT_GT(fit_collectives(predicted()).between_nodes_bytes_per_s, 0.0);
  // Left out, what is over several nodes is predicted by nobody.
  const Measurements all = predicted();
  std::vector<std::size_t> by_nodes;
  for (const AllReduceMeasurement& one : all) by_nodes.push_back(one.group.nodes > 1 ? 1 : 0);
  EXPECT_FALSE(mean_of_known(held_out_errors(all, by_nodes)).has_value());
}

TEST(CollectiveFit, ErrorsAreToldAsTheyAre) {
  const Measurements slower = predicted(2.0);
  EXPECT_NEAR(relative_error(kPlantedConstants, slower[0]), 0.0, 1e-3);
  EXPECT_NEAR(relative_error(kPlantedConstants, slower[1]), -0.5, 1e-3);
  EXPECT_NEAR(mean_error(kPlantedConstants, slower), 0.25, 1e-2);
}

TEST(CollectiveFit, TimesOfOtherGroupsDoNotFit) {
  const Measurements mixed = shuffled(predicted());
  EXPECT_GT(mean_error(fit_collectives(mixed), mixed), 0.3);
}

TEST(CollectiveFit, HeldOutIsWhatTheFitDidNotSee) {
  const Measurements all = predicted(1.2);
  std::vector<std::size_t> parity, same(all.size(), 0);
  for (std::size_t i = 0; i < all.size(); ++i) parity.push_back(i % 2);
  // Fitted to the ones, the others are off by a fifth and a sixth.
  const std::optional<double> error = mean_of_known(held_out_errors(all, parity));
  ASSERT_TRUE(error.has_value());
  EXPECT_NEAR(*error, (0.2 + 1.0 / 6.0) / 2.0, 0.01);
  EXPECT_FALSE(mean_of_known(held_out_errors(all, same)).has_value());
}

TEST(CollectiveFit, SaysWhatItLacks) {
  Measurements inside, across;
  for (const AllReduceMeasurement& one : predicted())
    (one.group.nodes == 1 ? inside : across).push_back(one);
  EXPECT_EQ(lacking(inside), "");
  Measurements one_across = inside;
  one_across.push_back(across.front());
  EXPECT_EQ(lacking(one_across), "1 all-reduces over several nodes: expected at least 12");
  EXPECT_EQ(lacking(across), "0 all-reduces within a node: expected at least 12");
  EXPECT_EQ(lacking(predicted()), "");
}

class NcclLogs : public DataTest {
 protected:
  struct Logs {
    Measurements measurements;
    std::vector<std::size_t> log, parity;
  };

  /// All of 2 to 128 devices, of 1 KiB on, out of place.
  static Logs read() {
    Logs all;
    for (int devices = 2; devices <= 128; devices *= 2) {
      const NcclTestsLog log =
          read_nccl_tests(data_path("nccl_all_reduce/nccl_" + std::to_string(devices) + ".log"));
      std::size_t row = 0;
      for (const NcclTestsRow& one : log.rows) {
        if (one.bytes < 1024) continue;
        all.measurements.push_back({log.group, one.bytes, one.out_of_place});
        all.log.push_back(static_cast<std::size_t>(devices));
        all.parity.push_back(row++ % 2);
      }
    }
    return all;
  }
};

TEST_F(NcclLogs, SixConstantsFitThemWithinATenth) {
  const Logs all = read();
  EXPECT_EQ(all.measurements.size(), 157U);
  EXPECT_LE(mean_error(fit_collectives(all.measurements), all.measurements), 0.10);
  const Measurements mixed = shuffled(all.measurements);
  EXPECT_GT(mean_error(fit_collectives(mixed), mixed), 0.3);
}

TEST_F(NcclLogs, WhatTheFitDidNotSeeIsPredictedNearlyAsWell) {
  const Logs all = read();
  EXPECT_LE(mean_of_known(held_out_errors(all.measurements, all.parity)).value(), 0.11);
  EXPECT_LE(mean_of_known(held_out_errors(all.measurements, all.log)).value(), 0.12);
}

}  // namespace
}  // namespace tandem::testing
