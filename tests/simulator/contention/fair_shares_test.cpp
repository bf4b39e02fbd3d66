// Flows over shared links against closed forms, and rates against those found bit by bit.

#include "simulator/contention/fair_shares.h"

#include <map>
#include <random>

#include <gtest/gtest.h>

#include "tests/support/contended_oracle.h"

namespace tandem::testing {
namespace {

constexpr double kNoCap = std::numeric_limits<double>::infinity();

/// A flow that begins at a time.
struct Sent {
  std::uint32_t group = 0;
  Bytes bytes = 0;
  std::int64_t at = 0;
};

/// When each ends; all in nanoseconds.
std::vector<std::int64_t> ends_of(std::vector<double> capacities, std::vector<FlowGroup> groups,
                                  const std::vector<Sent>& sent) {
  FairShares shares(std::move(capacities), std::move(groups));
  std::vector<std::int64_t> ends(sent.size(), -1);
  std::multimap<std::int64_t, std::uint32_t> begins;
  for (std::uint32_t i = 0; i < sent.size(); ++i) begins.emplace(sent[i].at * kTicks, i);
  std::int64_t now = 0;
  for (;;) {
    const std::int64_t begin = begins.empty() ? kNever : begins.begin()->first;
    const std::int64_t next = std::min(begin, shares.next_end());
    if (next > now && shares.unsettled()) {
      shares.settle(now);
      continue;
    }
    if (next == kNever) return ends;
    now = next;
    if (begin == now) {
      const std::uint32_t flow = begins.begin()->second;
      begins.erase(begins.begin());
      shares.begin(sent[flow].group, flow, sent[flow].bytes, now);
      continue;
    }
    std::vector<std::uint32_t> ended;
    shares.end(now, ended);
    for (const std::uint32_t flow : ended) ends[flow] = (now + kTicks / 2) / kTicks;
  }
}

FlowGroup over(std::vector<FlowGroup::Crossing> links, double cap = kNoCap, double weight = 1.0) {
  return {.crossings = std::move(links), .cap = cap, .weight = weight};
}

using Times = std::vector<std::int64_t>;

TEST(FairShares, GiveEachOfNFlowsOneNth) {
  for (const int n : {1, 2, 3, 10}) {
    const std::vector<Sent> sent(static_cast<std::size_t>(n), {0, 1000, 0});
    EXPECT_EQ(ends_of({1e9}, {over({{0}})}, sent), Times(static_cast<std::size_t>(n), 1000 * n));
  }
}

TEST(FairShares, GiveWhatAFlowLeavesToTheOthers) {
  // 100, 200 and 300 bytes at a byte a nanosecond in all: a third each until 300, then a half each
  // until 500, then all.
  EXPECT_EQ(ends_of({1e9}, {over({{0}})}, {{0, 100, 0}, {0, 200, 0}, {0, 300, 0}}),
            (Times{300, 500, 600}));
}

TEST(FairShares, ShareFromWhenALaterFlowBegins) {
  // Alone for 600 of 1000 bytes; the 400 left and another's 300 at half the rate each: the other
  // ends at 1200, 100 bytes are left, alone again.
  EXPECT_EQ(ends_of({1e9}, {over({{0}})}, {{0, 1000, 0}, {0, 300, 600}}), (Times{1300, 1200}));
}

TEST(FairShares, ShareAParkingLotEvenly) {
  // One flow along three links, one across each: all get half. Then each is alone.
  const std::vector<FlowGroup> groups{over({{0}, {1}, {2}}), over({{0}}), over({{1}}), over({{2}})};
  EXPECT_EQ(ends_of({1e9, 1e9, 1e9}, groups, {{0, 500, 0}, {1, 500, 0}, {2, 500, 0}, {3, 500, 0}}),
            (Times{1000, 1000, 1000, 1000}));
  // The narrowest link, of 0.6, halves to 0.3; the others' own flows take the rest, 0.7 and 1.7.
  EXPECT_EQ(ends_of({1e9, 2e9, 6e8}, groups, {{0, 300, 0}, {1, 700, 0}, {2, 1700, 0}, {3, 300, 0}}),
            (Times{1000, 1000, 1000, 1000}));
}

TEST(FairShares, FollowFlowsThatOthersConnectAndPartAgain) {
  // Each alone on its link, until one over both halves either: of 1000 and 1500 bytes 500 are
  // served by then, and 100 more by 700, as its own 100 are. Then all is as before.
  EXPECT_EQ(ends_of({1e9, 1e9}, {over({{0}}), over({{1}}), over({{0}, {1}})},
                    {{0, 1000, 0}, {1, 1500, 0}, {2, 100, 500}}),
            (Times{1100, 1600, 700}));
}

TEST(FairShares, LeaveToOthersWhatALimitKeepsAFlowFrom) {
  // 0.2 of its own limit leave 0.4 to each of two others.
  EXPECT_EQ(
      ends_of({1e9}, {over({{0}}, 2e8), over({{0}})}, {{0, 200, 0}, {1, 400, 0}, {1, 400, 0}}),
      (Times{1000, 1000, 1000}));
}

TEST(FairShares, ShareByWeight) {
  EXPECT_EQ(ends_of({1e9}, {over({{0}}), over({{0}}, kNoCap, 3.0)}, {{0, 250, 0}, {1, 750, 0}}),
            (Times{1000, 1000}));
}

TEST(FairShares, CountALinkAsOftenAsItIsCrossed) {
  // Two crossings of a link of 0.9 and one: 0.3 each.
  EXPECT_EQ(ends_of({9e8}, {over({{0, 2.0}}), over({{0}})}, {{0, 300, 0}, {1, 300, 0}}),
            (Times{1000, 1000}));
}

TEST(FairShares, RoundEndsToTheNearestNanosecond) {
  EXPECT_EQ(ends_of({3e9}, {over({{0}})}, {{0, 1000, 0}}), Times{333});
  EXPECT_EQ(ends_of({3e9}, {over({{0}})}, {{0, 2000, 0}}), Times{667});
  EXPECT_EQ(ends_of({3e9}, {over({{0}})}, {{0, 1, 0}}), Times{0});
}

TEST(FairShares, StayExactWhereALinkIsNeverIdle) {
  // Two flows at a time, back to back: 33 GB without a pause.
  constexpr std::int64_t kFlows = 32768, kSize = 1'000'006;
  std::vector<Sent> sent{{0, kSize / 2, 0}};
  for (std::int64_t i = 0; i < kFlows; ++i) sent.push_back({0, kSize, i * kSize});
  const Times ends = ends_of({1e9}, {over({{0}})}, sent);
  // One and a half at first; from then on each shares all the way: with the one before it for its
  // first half, with the next for its second.
  EXPECT_EQ(ends.back(), kFlows * kSize + kSize / 2);
}

TEST(FairShares, AreMaxMinFairOverAnyNetwork) {
  std::mt19937_64 random(7);
  const auto below = [&](std::uint64_t bound) { return random() % bound; };
  for (int round = 0; round < 300; ++round) {
    std::vector<double> capacities;
    for (std::size_t i = 1 + below(6); i > 0; --i) {
      capacities.push_back(static_cast<double>(1 + below(9)) * 1e8);
    }
    std::vector<FlowGroup> groups;
    std::vector<OracleFlow> flows;
    for (std::size_t i = 1 + below(8); i > 0; --i) {
      FlowGroup group = over({}, below(3) == 0 ? static_cast<double>(1 + below(9)) * 5e7 : kNoCap,
                             static_cast<double>(1 + below(3)));
      OracleFlow flow{{}, group.cap, group.weight};
      for (std::uint32_t link = 0; link < capacities.size(); ++link) {
        if (below(2) == 0 && !(group.crossings.empty() && link + 1 == capacities.size())) continue;
        const auto times = static_cast<double>(1 + below(2));
        group.crossings.push_back({link, times});
        for (double n = 0; n < times; ++n) flow.links.push_back(link);
      }
      groups.push_back(group);
      flows.push_back(flow);
    }
    const std::vector<long double> rates = max_min_rates(capacities, flows);
    // As many bytes as each gets in a second: then all end together.
    std::vector<Sent> sent;
    for (std::uint32_t i = 0; i < flows.size(); ++i) {
      sent.push_back({i, static_cast<Bytes>(rates[i] + 0.5L), 0});
    }
    for (const std::int64_t end : ends_of(capacities, groups, sent)) {
      // Half a byte takes the slowest some 250 ns.
      EXPECT_NEAR(static_cast<double>(end), 1e9, 1000.0) << "round " << round;
    }
  }
}

TEST(FairShares, OracleKnowsAParkingLot) {
  const std::vector<OracleFlow> flows{{{0, 1}, kNoCap}, {{0}, kNoCap}, {{1}, kNoCap}};
  const std::vector<long double> rates = max_min_rates({1.0, 2.0}, flows);
  EXPECT_NEAR(static_cast<double>(rates[0]), 0.5, 1e-12);
  EXPECT_NEAR(static_cast<double>(rates[1]), 0.5, 1e-12);
  EXPECT_NEAR(static_cast<double>(rates[2]), 1.5, 1e-12);
}

}  // namespace
}  // namespace tandem::testing
