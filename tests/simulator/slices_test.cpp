// Schedules of slices of sequences against the closed forms and the published orders of TeraPipe
// and Seq1F1B, and against tables that an independent longest-path computation gave.

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/memory/memory.h"
#include "simulator/cost/slice_programme.h"
#include "tests/simulator/published.h"
#include "tests/support/all_slicings.h"

namespace tandem::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

Pipeline sliced(std::string_view schedule, int p, std::int32_t m, std::int32_t n, int chunks = 1) {
  Pipeline wanted = chunked(schedule, p, m, chunks);
  wanted.request.slices = {.count = n};
  return wanted;
}

/// Prices by slice; transfers cost nothing.
struct SliceTimes {
  std::vector<std::int64_t> forward, backward;
};

std::int64_t makespan(const Pipeline& wanted, const SliceTimes& times) {
  const Program program = program_of(wanted);
  const CostTable costs = price(program, [&](const CostKey& key) -> Duration {
    if (key.kind == OpKind::forward) return Duration(times.forward[key.slice]);
    if (key.kind == OpKind::backward) return Duration(times.backward[key.slice]);
    return {};
  });
  return simulate(program, costs, {.batches = 1}).makespan.count();
}

/// Attention's work grows with what stands before a slice: F(l, c) = 2l + l(2c + l), B = 2F.
SliceTimes attention_times(const std::vector<std::int32_t>& lengths) {
  SliceTimes times;
  for (const SequencePart part : parts_of(lengths)) {
    const std::int64_t forward =
        2 * part.tokens + std::int64_t{part.tokens} * (2 * part.before + part.tokens);
    times.forward.push_back(forward);
    times.backward.push_back(2 * forward);
  }
  return times;
}

std::int64_t sum(const std::vector<std::int64_t>& times) {
  return std::accumulate(times.begin(), times.end(), std::int64_t{0});
}

/// Forwards before a device's first backward.
std::ptrdiff_t warm_up(const std::vector<Op>& order) {
  return std::ranges::find_if(order, [](const Op& op) { return op.kind != OpKind::forward; }) -
         order.begin();
}

// ---- Seq1F1B ----

TEST(Seq1F1B, HasThePublishedOrder) {
  const Schedule schedule = schedule_of(sliced("seq1f1b", 2, 2, 2));
  const auto words = [&](std::size_t device) {
    std::string text;
    for (const Op& op : schedule.order[id_at<DeviceId>(device)]) {
      if (is_compute(op.kind))
        text += fmt::format(" {}{}{}", traits(op.kind).notation, op.microbatch / 2,
                            op.microbatch % 2 == 0 ? 'a' : 'b');
    }
    return text;
  };
  EXPECT_EQ(words(0), " f0a f0b f1a b0b f1b b0a b1b b1a");
  EXPECT_EQ(words(1), " f0a f0b b0b f1a b0a f1b b1b b1a");
}

TEST(Seq1F1B, OfSlicesThatTakeAsLongHasItsClosedForms) {
  for (int p = 1; p <= 8; ++p) {
    for (int m = 1; m <= 8; ++m) {
      for (int n = 1; n <= 4; ++n) {
        const Pipeline wanted = sliced("seq1f1b", p, m, n);
        SCOPED_TRACE(wanted.name());
        const SimulationResult result = simulated(wanted, kUnit);
        EXPECT_EQ(result.makespan.count(), 3 * (m * n + p - 1));
        const Schedule schedule = schedule_of(wanted);
        for (int d = 0; d < p; ++d) {
          const auto device = id_at<DeviceId>(static_cast<std::size_t>(d));
          EXPECT_DOUBLE_EQ(result.devices[device].peak_activations,
                           1.0 * std::min(p - 1 - d + n, m * n) / n);
          EXPECT_EQ(warm_up(schedule.order[device]), std::min(p - 1 - d + n, m * n));
        }
      }
    }
  }
}

/// Microbatches of which keys and values are held at once, at most: from the forward of a first
/// slice to its backward.
int most_whole(const std::vector<Op>& order, int n) {
  int held = 0, most = 0;
  for (const Op& op : order) {
    if (op.microbatch % n != 0) continue;
    if (op.kind == OpKind::forward) most = std::max(most, ++held);
    if (op.kind == OpKind::backward) --held;
  }
  return most;
}

TEST(Seq1F1B, HoldsKeysAndValuesOfItsMicrobatchesByTheClosedForm) {
  const auto holds = [](const auto& closed_form) {
    bool equal = true;
    for (int p = 1; p <= 8; ++p) {
      for (int n = 2; n <= 6; ++n) {
        const int m = 2 * p + 2;  // enough for none to be missing
        const Schedule schedule = schedule_of(sliced("seq1f1b", p, m, n));
        for (int d = 0; d < p; ++d) {
          const std::vector<Op>& order =
              schedule.order[id_at<DeviceId>(static_cast<std::size_t>(d))];
          equal = equal && most_whole(order, n) == closed_form(p, d, n);
        }
      }
    }
    return equal;
  };
  // 1 + ⌈(p − 1 − d + n − 1) / n⌉
  EXPECT_TRUE(holds([](int p, int d, int n) { return 1 + (p - 1 - d + 2 * (n - 1)) / n; }));
  EXPECT_FALSE(holds([](int p, int d, int n) { return 1 + (p - 1 - d + n - 1) / n; }));
  EXPECT_FALSE(holds([](int p, int d, int n) { return 1 + (p - 1 - d + n) / n; }));
}

TEST(Seq1F1B, OfWholeSequencesIs1F1B) {
  const std::pair<std::string_view, std::string_view> rows[] = {
      {"seq1f1b", "1f1b"}, {"seq1f1b-i", "interleaved"}, {"seq1f1b-zb", "zb-h1"}};
  for (const auto& [name, whole] : rows) {
    EXPECT_EQ(find_schedule(name).whole, whole);
    for (int p = 1; p <= 5; ++p) {
      for (int m = 1; m <= 8; ++m) {
        for (int v = 1; v <= (name == "seq1f1b-i" ? 3 : 1); ++v) {
          EXPECT_EQ(schedule_of(sliced(name, p, m, 1, v)).order,
                    schedule_of(chunked(whole, p, m, v)).order)
              << name << " p " << p << " m " << m << " v " << v;
        }
      }
    }
  }
}

TEST(Seq1F1B, PaysLatencyForEachSliceAndTeraPipeOnce) {
  const auto later = [](std::string_view name) {
    PlainCosts costs{.forward = 1000, .backward = 2000};
    const std::int64_t without = simulated(sliced(name, 4, 8, 4), costs).makespan.count();
    costs.transfer = 1;
    return simulated(sliced(name, 4, 8, 4), costs).makespan.count() - without;
  };
  EXPECT_EQ(later("seq1f1b"), 48);
  EXPECT_EQ(later("terapipe"), 6);
}

TEST(Slices, OfEqualLengthsAreNotOfEqualTimes) {
  struct Row {
    std::vector<std::int32_t> lengths;
    std::int64_t seq1f1b, terapipe;
  };
  for (const Row& row : {Row{{8}, 1680, 1680},
                         {{4, 4}, 1752, 1464},
                         {{5, 3}, 1455, 1365},
                         {{2, 2, 2, 2}, 1680, 1248},
                         {{3, 2, 2, 1}, 1328, 1212}}) {
    const auto n = static_cast<std::int32_t>(row.lengths.size());
    const SliceTimes times = attention_times(row.lengths);
    EXPECT_EQ(sum(times.forward), 80);
    EXPECT_EQ(makespan(sliced("seq1f1b", 4, 4, n), times), row.seq1f1b);
    EXPECT_EQ(makespan(sliced("terapipe", 4, 4, n), times), row.terapipe);
  }
}

TEST(Seq1F1BZb, HasTheBubbleOfZbH1OfSlices) {
  for (const int p : {2, 3, 4, 6}) {
    for (const int n : {1, 2, 3, 4}) {
      const int m = std::max(2, (2 * p + n - 1) / n);
      const Pipeline wanted = sliced("seq1f1b-zb", p, m, n);
      SCOPED_TRACE(wanted.name());
      const SimulationResult result = simulated(wanted, split(10, 10, 10));
      EXPECT_EQ(result.makespan.count(), 30 * m * n + (p - 1) * 10);
      for (const DeviceUse& use : result.devices)
        EXPECT_DOUBLE_EQ(use.peak_activations, 1.0 * (p + n - 1) / n);
    }
  }
}

TEST(Seq1F1BZb, HasThatBubbleOfUnequalHalvesToo) {
  for (const auto& [f, i, w] :
       {std::tuple{10, 12, 7}, {10, 14, 10}, {8, 11, 3}, {12, 10, 5}, {7, 9, 1}}) {
    for (const int p : {2, 3, 4, 6}) {
      for (const int n : {1, 2, 3, 4}) {
        const int m = 2 * p;
        SCOPED_TRACE(fmt::format("p {} n {}, {} {} {}", p, n, f, i, w));
        const SimulationResult result = simulated(sliced("seq1f1b-zb", p, m, n), split(f, i, w));
        EXPECT_EQ(result.makespan.count(), (f + i + w) * m * n + (p - 1) * (f + i - w));
        const std::int64_t whole = (f + i + w) * (m * n + p - 1);
        EXPECT_EQ(simulated(sliced("seq1f1b", p, m, n), split(f, i, w)).makespan.count(), whole);
        for (const DeviceUse& use : result.devices)
          EXPECT_DOUBLE_EQ(use.peak_activations, 1.0 * (p + n - 1) / n);
      }
    }
  }
}

TEST(Seq1F1BI, WarmsUpAsPublishedAndAForwardMore) {
  const auto warms_up = [](int more) {
    bool equal = true;
    for (const auto& [p, n] : {std::pair{1, 1}, {2, 1}, {2, 2}, {4, 2}, {4, 4}, {6, 2}, {6, 3}}) {
      for (const int v : {2, 3}) {
        for (const int groups : {2, 3}) {
          const int m = groups * p / n;
          const Schedule schedule = schedule_of(sliced("seq1f1b-i", p, m, n, v));
          for (int d = 0; d < p; ++d) {
            // Its steady state begins with a forward.
            const int published = std::min((v - 1) * p + 2 * (p - d - 1) + n - 1 + more, m * v * n);
            const auto device = id_at<DeviceId>(static_cast<std::size_t>(d));
            equal = equal && warm_up(schedule.order[device]) == published;
          }
        }
      }
    }
    return equal;
  };
  EXPECT_TRUE(warms_up(1));
  EXPECT_FALSE(warms_up(0));
  EXPECT_FALSE(warms_up(2));
}

TEST(Seq1F1BI, DividesTheBubbleByTheChunksToo) {
  for (const auto& [p, n] : {std::pair{2, 1}, {2, 2}, {4, 2}, {4, 4}, {6, 3}}) {
    for (const int v : {2, 3}) {
      for (const int groups : {1, 2, 3}) {
        const int m = groups * p / n;
        const Pipeline wanted = sliced("seq1f1b-i", p, m, n, v);
        SCOPED_TRACE(wanted.name());
        const SimulationResult result = simulated(wanted, kUnit);
        EXPECT_EQ(result.makespan.count(), 3 * (m * n * v + p - 1));
        for (int d = 0; d < p; ++d) {
          const double peak = std::min(m * n * v, 2 * (p - 1 - d) + (v - 1) * p + n);
          EXPECT_DOUBLE_EQ(
              result.devices[id_at<DeviceId>(static_cast<std::size_t>(d))].peak_activations,
              peak / (n * v));
        }
      }
    }
  }
  EXPECT_FALSE(is_served(sliced("seq1f1b-i", 4, 3, 3, 2)));
}

// ---- TeraPipe ----

TEST(TeraPipe, OfAnySlicesHasItsClosedFormAndHoldsAll) {
  std::mt19937_64 random(11);
  for (int p = 1; p <= 6; ++p) {
    for (int m = 1; m <= 4; ++m) {
      for (std::int32_t n = 1; n <= 5; ++n) {
        SliceTimes times;
        for (std::int32_t slice = 0; slice < n; ++slice) {
          times.forward.push_back(static_cast<std::int64_t>(random() % 50) + 1);
          times.backward.push_back(static_cast<std::int64_t>(random() % 50) + 1);
        }
        const Pipeline wanted = sliced("terapipe", p, m, n);
        EXPECT_EQ(makespan(wanted, times), m * (sum(times.forward) + sum(times.backward)) +
                                               (p - 1) * (std::ranges::max(times.forward) +
                                                          std::ranges::max(times.backward)))
            << wanted.name();
        for (const DeviceUse& use : simulated(wanted, kUnit).devices)
          EXPECT_EQ(use.peak_activations, m);
      }
    }
  }
}

/// t = 8 + 3l + l(2c + l).
Duration golden_time(SequencePart part) {
  return Duration(8 + 3 * part.tokens + part.tokens * (2 * part.before + part.tokens));
}

TEST(SliceProgramme, GivesTheGoldenValues) {
  struct Row {
    std::int64_t stages, best, four_equal;
  };
  for (const Row& row :
       {Row{1, 96, 120}, {2, 154, 162}, {4, 214, 246}, {8, 318, 414}, {48, 1358, 2094}}) {
    const FastestSlices found = fastest_slices(8, 1, row.stages, 1, golden_time);
    EXPECT_EQ(found.value.count(), row.best) << row.stages;
    EXPECT_EQ(slicing_value({2, 2, 2, 2}, row.stages, 1, golden_time), row.four_equal);
  }
  EXPECT_THAT(fastest_slices(8, 1, 1, 1, golden_time).lengths, ElementsAre(8));
  EXPECT_THAT(fastest_slices(8, 1, 2, 1, golden_time).lengths, ElementsAre(4, 2, 2));
}

TEST(SliceProgramme, FindsWhatBruteForceFinds) {
  std::mt19937_64 random(5);
  for (int draw = 0; draw < 60; ++draw) {
    const auto below = [&](std::uint64_t bound) {
      return static_cast<std::int64_t>(random() % bound);
    };
    const std::int64_t start = below(40), token = 1 + below(6), pair = below(4);
    const SliceTime time = [&](SequencePart part) {
      return Duration(start + token * part.tokens +
                      pair * part.tokens * (2 * part.before + part.tokens));
    };
    const auto tokens = static_cast<std::int32_t>(1 + below(24));
    const auto step = static_cast<std::int32_t>(tokens > 10 ? 2 + below(2) : 1);
    const std::int64_t stages = 1 + below(9), microbatches = 1 + below(4);
    const FastestSlices found = fastest_slices(tokens, step, stages, microbatches, time);
    EXPECT_EQ(found.value.count(), least_slicing_value(tokens, step, stages, microbatches, time))
        << draw;
    EXPECT_EQ(slicing_value(found.lengths, stages, microbatches, time), found.value.count());
    EXPECT_EQ(std::accumulate(found.lengths.begin(), found.lengths.end(), 0), tokens);
  }
}

// ---- Slots ----

TEST(SlicedSlots, AreAsManyStashesAsAreHeldAndRingsOfALittleMore) {
  for (const auto& [p, m, n] : {std::tuple{8, 8, 8}, {4, 10, 3}, {3, 8, 1}}) {
    const SlotCounts slots = count_slots(program_of(sliced("seq1f1b", p, m, n)));
    for (int d = 0; d < p; ++d) {
      const StageSlots& of = slots[id_at<ReplicaId>(static_cast<std::size_t>(d))];
      EXPECT_EQ(of[SlotKind::stash], p - 1 - d + n);
      // Slices are not freed in the order in which they were taken: n − 1 more, and one for what is
      // on its way.
      const int ring = p - 1 - d + 2 * n - 1;
      EXPECT_LE(of[SlotKind::input], ring + 1);
      EXPECT_LE(of[SlotKind::output], ring + 1);
      EXPECT_EQ(of[SlotKind::context_gradient], n > 1 ? 1 : 0);
    }
  }
}

}  // namespace
}  // namespace tandem::testing
