// What is measured of links: each once, with figures that a loopback has.

#include "executor/ranks/link_rates.h"

#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/rank_threads.h"

namespace tandem {
namespace {

TEST(LinkRates, AreOfAllPairsEachWay) {
  constexpr std::int32_t kRanks = 3;
  const std::uint16_t port = testing::free_port();
  std::vector<std::vector<LinkRate>> measured(kRanks);
  std::vector<std::jthread> threads;
  for (std::int32_t rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      RankGroup group({.rank = rank, .ranks = kRanks, .rendezvous_port = port, .secret = "links"});
      measured[static_cast<std::size_t>(rank)] = measure_links(group);
    });
  }
  threads.clear();
  EXPECT_TRUE(measured[1].empty());
  ASSERT_EQ(measured[0].size(), 6U);
  std::vector<std::string> pairs;
  for (const LinkRate& link : measured[0]) {
    pairs.push_back(std::to_string(link.from) + std::to_string(link.to));
    EXPECT_GT(link.latency, Duration(500));
    EXPECT_LT(link.latency, std::chrono::milliseconds(50));
    EXPECT_GT(link.bytes_per_s, 1e6);
    EXPECT_GT(link.bytes_per_s_busy, 1e6);
    EXPECT_LT(link.bytes_per_s, 1e12);
  }
  EXPECT_THAT(pairs, ::testing::ElementsAre("01", "02", "10", "12", "20", "21"));
}

}  // namespace
}  // namespace tandem
