// Schedules with backward split in two against published orders, closed forms, the table of the
// zero bubble paper, and what a loop over many batches makes of them.

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "simulator/simulate.h"
#include "tests/simulator/published.h"
#include "tests/support/golden.h"

namespace tandem::testing {
namespace {

// As in family_test: UPDATE=1 is no answer to a difference.
TEST(PublishedSplitOrders, AreOursToTheOpWithTheirFigures) {
  std::string text =
      "# Orders with split backward from independent generators: schedule, devices, microbatches, "
      "chunks; then\n"
      "# the ops of each device, and what a dependency simulation with F = I = W = 1 says: end, "
      "span, peak of\n"
      "# each device in microbatches of a stage.\n";
  for (const auto& [p, m] : {std::pair{2, 4}, std::pair{4, 4}, std::pair{4, 8}}) {
    text += order_and_figures(pipeline("zb-h1", p, m));
  }
  for (const int p : {2, 4}) text += order_and_figures(pipeline("zb-h2", p, 2 * p));
  text += order_and_figures(chunked("interleaved-zb", 4, 8, 2));
  for (const auto& [p, m] : {std::pair{2, 4}, std::pair{4, 4}, std::pair{4, 8}}) {
    text += order_and_figures(pipeline("zbv", p, m));
  }
  text += order_and_figures(pipeline("dualpipev", 2, 4));
  text += order_and_figures(pipeline("dualpipe", 4, 8));
  expect_golden("published_split_orders.txt", text);
}

// ---- Closed forms ----

TEST(ZeroBubble, HasTheBubbleAndTheActivationsOfThePaper) {
  for (const auto& [f, i, w] : {std::tuple{1, 1, 1}, std::tuple{5, 4, 3}, std::tuple{7, 9, 2}}) {
    for (const int p : {1, 2, 3, 4, 7}) {
      for (const int m : {2 * p, 2 * p + 1, 5 * p}) {
        SCOPED_TRACE(fmt::format("F {} I {} W {}, p {} m {}", f, i, w, p, m));
        const SimulationResult h1 = simulated(pipeline("zb-h1", p, m), split(f, i, w));
        EXPECT_EQ(h1.makespan.count(), m * (f + i + w) + (p - 1) * (f + i - w));
        const SimulationResult h2 = simulated(pipeline("zb-h2", p, m), split(f, i, w));
        EXPECT_EQ(h2.span.count(), m * (f + i + w) + (p - 1) * (f + i - 2 * w));
        for (const DeviceUse& use : h1.devices) EXPECT_EQ(use.peak_activations, p);
        for (const DeviceUse& use : h2.devices) EXPECT_EQ(use.peak_activations, 2 * p - 1);
      }
    }
  }
}

TEST(ZeroBubble, InterleavedHasTheBubbleOfOneChunk) {
  for (const auto& [f, i, w] : {std::tuple{1, 1, 1}, std::tuple{5, 4, 3}}) {
    for (const int p : {1, 2, 4}) {
      for (const int v : {1, 2, 3}) {
        const int m = 2 * p;
        SCOPED_TRACE(fmt::format("F {} I {} W {}, p {} v {}", f, i, w, p, v));
        const SimulationResult result =
            simulated(chunked("interleaved-zb", p, m, v), split(f, i, w));
        EXPECT_EQ(result.makespan.count(), m * v * (f + i + w) + (p - 1) * (f + i - w));
        for (const DeviceUse& use : result.devices) EXPECT_EQ(use.peak_activations, p);
      }
    }
  }
}

TEST(ZeroBubble, OfTheVIsZeroForEqualOpsInTheActivationsOf1F1B) {
  for (const int p : {1, 2, 3, 4, 7}) {
    for (const int m : {2 * p - 1, 2 * p, 4 * p}) {
      for (const int w : {3, 2}) {
        SCOPED_TRACE(fmt::format("p {} m {} W {}", p, m, w));
        const SimulationResult result = simulated(pipeline("zbv", p, m), split(3, 3, w));
        EXPECT_EQ(result.span.count(), 2 * m * (6 + w) + 2 * (p - 1) * (3 - w));
        for (const DeviceUse& use : result.devices) EXPECT_EQ(use.peak_activations, p);
      }
    }
  }
}

TEST(ZeroBubble, PaysForTheLatencyOfLinksOnce) {
  constexpr std::int64_t kOp = 1000, kLink = 3;
  const auto beyond = [](std::string_view name, int p, bool span) {
    const SimulationResult still = simulated(pipeline(name, p, 4 * p), split(kOp, kOp, kOp));
    const SimulationResult late = simulated(pipeline(name, p, 4 * p), split(kOp, kOp, kOp, kLink));
    return (span ? late.span - still.span : late.makespan - still.makespan).count();
  };
  for (const int p : {2, 4, 8}) {
    SCOPED_TRACE(p);
    EXPECT_EQ(beyond("zb-h2", p, true), 2 * (p - 1) * kLink);
    EXPECT_EQ(beyond("zbv", p, true), (6 * p - 8) * kLink);
    if (p == 2) continue;
    EXPECT_EQ(beyond("zb-h1", p, false), 4 * (p - 1) * kLink);
  }
}

// ---- Weight gradients of several microbatches at once ----

TEST(TwoStageBackward, HasTheBubbleOfItsScheduleLessTheWeightGradientsThatFillIt) {
  const auto bubble = [](std::string_view name, int p, int m, const PlainCosts& costs) {
    const SimulationResult result = simulated(pipeline(name, p, m), costs);
    for (const DeviceUse& use : result.devices) EXPECT_EQ(use.peak_activations, m) << name;
    return result.makespan.count() - m * (costs.forward + costs.backward);
  };
  for (const auto& [f, i, w] : {std::tuple{1, 1, 1}, std::tuple{5, 4, 3}, std::tuple{7, 9, 2}}) {
    const PlainCosts costs = split(f, i, w);
    for (const int p : {1, 2, 3, 4, 7}) {
      SCOPED_TRACE(fmt::format("F {} I {} W {} p {}", f, i, w, p));
      for (const int m : {1, p, 2 * p + 1}) {
        EXPECT_EQ(bubble("2bp-naive", p, m, costs), m * (p - 1) * (f + i));
        EXPECT_EQ(bubble("2bp-gpipe", p, m, costs), (p - 1) * (f + i));
      }
      EXPECT_EQ(bubble("2bp-1f1b-1", p, p, costs), (p - 1) * (f + i - w));
      EXPECT_EQ(bubble("2bp-1f1b-2", p, 2 * p, costs), (p - 1) * (f + i - w));
    }
  }
}

// ---- Two streams that meet ----

TEST(DualPipe, FoldedIntoAVHasItsPublishedBubbleAndActivations) {
  for (const int p : {1, 2, 3, 4, 7}) {
    for (const int m : {2 * p, 2 * p + 1, 4 * p}) {
      for (const int overlapped : {6, 5}) {
        SCOPED_TRACE(fmt::format("p {} m {} X {}", p, m, overlapped));
        PlainCosts costs = split(2, 2, 2);
        costs.overlapped = overlapped;
        const SimulationResult result = simulated(pipeline("dualpipev", p, m), costs);
        Duration most{}, least = Duration::max();
        for (const DeviceUse& use : result.devices) {
          most = std::max(most, use.bubble);
          least = std::min(least, use.bubble);
          EXPECT_EQ(use.peak_activations * 2, 2 * p + 1);
        }
        EXPECT_EQ(most.count(), (p - 1) * (overlapped + 4 - 3 * 2));
        if (overlapped == 6) {
          EXPECT_EQ(least, most);
        }
      }
    }
  }
}

TEST(DualPipe, HasItsPublishedBubbleAndActivations) {
  for (const int p : {2, 4, 6, 8}) {
    for (const int m : {2 * p, 2 * p + 2, 4 * p}) {
      for (const int overlapped : {6, 5}) {
        SCOPED_TRACE(fmt::format("p {} m {} X {}", p, m, overlapped));
        PlainCosts costs = split(2, 2, 2);
        costs.overlapped = overlapped;
        const SimulationResult result = simulated(pipeline("dualpipe", p, m), costs);
        Duration most{};
        for (const DeviceUse& use : result.devices) {
          most = std::max(most, use.bubble);
          EXPECT_EQ(use.peak_activations, p + 1);
        }
        EXPECT_EQ(most.count(), (p / 2 - 1) * (overlapped + 4 - 3 * 2));
      }
    }
  }
}

// ---- The table of the paper ----

struct HandcraftedMeasurement {
  int chunks, microbatches;
  double forward_us, input_us, weight_us, transfer_us;
  double one_forward_one_backward, interleaved, h1, h2;
};

/// Table 9 of the zero bubble paper, and from its Table 5 the rates of 1F1B, H1 and H2. The rate of
/// interleaving is not the published one, whose evaluation leaves waits for the wrap-around link
/// out; it is what an independent simulator gives.
constexpr HandcraftedMeasurement kHandcraftedTable[] = {
    {3, 24, 18522, 18086, 9337, 601, 0.2431, 0.1090, 0.1585, 0.1083},
    {3, 32, 18513, 18086, 9331, 626, 0.1985, 0.0847, 0.1242, 0.0837},
    {3, 64, 18546, 18097, 9321, 762, 0.1240, 0.0461, 0.0674, 0.0444},
    {4, 24, 29718, 29444, 19927, 527, 0.2347, 0.0827, 0.1323, 0.0698},
    {4, 32, 29802, 29428, 19530, 577, 0.1898, 0.0644, 0.1045, 0.0559},
    {4, 64, 29935, 29621, 19388, 535, 0.1091, 0.0328, 0.0554, 0.0294},
};

TEST(ZeroBubble, EqualsThePublishedTable) {
  for (const HandcraftedMeasurement& row : kHandcraftedTable) {
    SCOPED_TRACE(fmt::format("v {} m {}", row.chunks, row.microbatches));
    const auto costs = [&row](int stages) {
      const auto ns = [stages](double us) { return std::llround(us * 1000.0 / stages); };
      return split(ns(row.forward_us), ns(row.input_us), ns(row.weight_us),
                   std::llround(row.transfer_us * 1000.0));
    };
    const double work_us = row.microbatches * (row.forward_us + row.input_us + row.weight_us);
    const auto rate = [&](Duration time) {
      const double us = static_cast<double>(time.count()) / 1000.0;
      return std::round((us - work_us) / us * 1e4) / 1e4;
    };
    const auto run = [&](std::string_view name, int v) {
      return simulated(chunked(name, 8, row.microbatches, v), costs(v));
    };
    EXPECT_DOUBLE_EQ(rate(run("1f1b", 1).makespan), row.one_forward_one_backward);
    EXPECT_DOUBLE_EQ(rate(run("interleaved", row.chunks).makespan), row.interleaved);
    EXPECT_DOUBLE_EQ(rate(run("zb-h1", 1).makespan), row.h1);
    EXPECT_DOUBLE_EQ(rate(run("zb-h2", 1).span), row.h2);
    PlainCosts no_latency = costs(1);
    no_latency.transfer = 0;
    EXPECT_NE(rate(simulated(pipeline("1f1b", 8, row.microbatches), no_latency).makespan),
              row.one_forward_one_backward);
  }
}

// ---- Many batches ----

// No barrier ends a batch: its period is its span, unless all stages wait for the norm of all
// gradients.
TEST(ZeroBubble, LastsOverManyBatchesUntilStagesWaitForANorm) {
  struct Case {
    Pipeline wanted;
    std::int64_t period, with_norm;
  };
  const Case cases[] = {
      {pipeline("zb-h1", 4, 8), 27, 27}, {pipeline("zb-h2", 4, 8), 24, 27},
      {pipeline("zb-h2", 2, 4), 12, 13}, {chunked("interleaved-zb", 4, 8, 2), 51, 51},
      {pipeline("zbv", 4, 8), 48, 51},   {pipeline("zbv", 2, 4), 24, 25},
      {pipeline("zbv", 4, 4), 30, 30}};
  for (Case test : cases) {
    SCOPED_TRACE(test.wanted.name());
    const SimulationResult one = simulated(test.wanted, kUnit);
    EXPECT_EQ(period(one), test.period);
    EXPECT_EQ(one.span.count(), test.period);
    test.wanted.request.global_norm = true;
    EXPECT_EQ(period(test.wanted, kUnit), test.with_norm);
    test.wanted.request.post_validation = true;
    EXPECT_EQ(period(test.wanted, kUnit), test.period) << "validated afterwards";
  }
}

// Where updates wait for the norm nobody begins the next batch before all have ended this one: its
// period is what a batch by itself takes, and the norm. Validated afterwards the period is the span
// of one device, as without a norm, as long as that takes no longer than the forwards that run
// meanwhile, one at least.
TEST(ZeroBubble, KeepsItsParallelogramWhereTheNormIsValidatedAfterwards) {
  for (const auto& [f, i, w] : {std::tuple{1, 1, 1}, std::tuple{5, 4, 3}, std::tuple{7, 9, 2}}) {
    for (const int p : {2, 3, 4, 7}) {
      for (const int norm : {0, f}) {
        PlainCosts costs = split(f, i, w);
        costs.norm = norm;
        const int m = 2 * p + 1, work = m * (f + i + w);
        SCOPED_TRACE(fmt::format("F {} I {} W {} N {}, p {} m {}", f, i, w, norm, p, m));
        for (const auto& [name, bubble] : {std::pair{"zb-h1", (p - 1) * (f + i - w)},
                                           std::pair{"zb-h2", (p - 1) * (f + i - 2 * w)}}) {
          Pipeline wanted = pipeline(name, p, m);
          const SimulationResult alone = simulated(wanted, costs);
          wanted.request.global_norm = true;
          EXPECT_EQ(period(wanted, costs), alone.makespan.count() + norm) << name;
          wanted.request.post_validation = true;
          EXPECT_EQ(period(wanted, costs), work + bubble) << name;
          EXPECT_EQ(period(wanted, costs), alone.span.count()) << name;
        }
      }
    }
  }
}

// A norm that takes longer than the forwards ahead holds every device up; and what a validate takes
// is work like any other.
TEST(ZeroBubble, WaitsForANormThatTakesLongerThanTheForwardsAhead) {
  Pipeline wanted = pipeline("zb-h2", 4, 9);
  PlainCosts costs = split(5, 5, 5);
  const std::int64_t free = period(wanted, costs);
  wanted.request.global_norm = wanted.request.post_validation = true;
  costs.norm = 5 + 7;
  EXPECT_EQ(period(wanted, costs), free + 7);
  costs.norm = 0;
  costs.validate = 2;
  EXPECT_EQ(period(wanted, costs), free + 2);
}

}  // namespace
}  // namespace tandem::testing
