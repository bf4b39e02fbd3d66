// The PipeDream family against closed forms, published orders and published figures; and what a
// decision of all stages costs each schedule.

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/program/graph.h"
#include "core/schedule/passes.h"
#include "simulator/simulate.h"
#include "tests/simulator/published.h"
#include "tests/support/golden.h"
#include "tests/support/unrolled.h"

namespace tandem::testing {
namespace {

Pipeline normed(Pipeline wanted) {
  wanted.request.global_norm = true;
  return wanted;
}

// ---- Published orders ----

// The golden file holds what other generators and another simulator gave: UPDATE=1 is no answer to
// a difference.
TEST(PublishedOrders, AreOursToTheOpWithTheirFigures) {
  std::string text =
      "# Orders from independent generators: schedule, devices, microbatches, chunks; then the ops "
      "of\n"
      "# each device, and what a dependency simulation with F = 1, B = 2 says: end, span, peak of\n"
      "# each device in microbatches of a stage.\n";
  for (const auto& [p, m] : {std::pair{2, 4}, std::pair{4, 4}, std::pair{4, 8}}) {
    for (const char* name : {"gpipe", "1f1b", "1f1b-eager", "interleaved", "looped-bfs"}) {
      const bool loops = find_schedule(name).replicas_per_device == 0;
      text += order_and_figures(chunked(name, p, m, loops ? 2 : 1));
    }
  }
  for (const int m : {4, 8}) text += order_and_figures(pipeline("chimera", 4, m));
  expect_golden("published_orders.txt", text);
}

// ---- Closed forms ----

TEST(Eager1F1B, HidesTheLatencyOfLinksBehindMoreActivations) {
  const PlainCosts costs{.forward = 1000, .backward = 2000, .transfer = 7};
  for (const int p : {1, 2, 3, 4, 8}) {
    for (const int m : {p, p + 1, 2 * p, 5 * p}) {
      SCOPED_TRACE(fmt::format("p {} m {}", p, m));
      const SimulationResult eager = simulated(pipeline("1f1b-eager", p, m), costs);
      EXPECT_EQ(eager.makespan.count(), (m + p - 1) * 3000 + 2 * (p - 1) * 7);
      for (int d = 0; d < p; ++d) {
        EXPECT_EQ(eager.devices[id_at<DeviceId>(static_cast<std::size_t>(d))].peak_activations,
                  std::min(m, 2 * (p - d) - 1));
      }
      if (p == 1 || m < 2 * p) continue;
      EXPECT_GT(simulated(pipeline("1f1b", p, m), costs).makespan, eager.makespan);
    }
  }
}

TEST(Interleaved, HasItsBubbleDividedByTheChunksForAnyNumberOfMicrobatches) {
  for (const int p : {1, 2, 3, 4, 5}) {
    for (const int v : {1, 2, 3, 4}) {
      for (int m = 1; m <= 3 * p; ++m) {
        SCOPED_TRACE(fmt::format("p {} v {} m {}", p, v, m));
        const SimulationResult result = simulated(chunked("interleaved", p, m, v), kUnit, 2);
        const int bubble = m >= p ? p - 1 : (p - m) * v + m - 1;
        EXPECT_EQ(result.makespan.count(), 2 * 3 * (m * v + bubble));
        EXPECT_EQ(period(result), 3 * (m * v + bubble));
      }
    }
  }
}

TEST(Interleaved, HoldsWhatItsWarmUpSaysWithUnevenGroupsToo) {
  for (const int p : {2, 4}) {
    for (const int v : {2, 3}) {
      for (const int m : {p, 2 * p, 2 * p + 1, 3 * p - 1}) {
        for (int g = p; g <= m; ++g) {
          const Pipeline wanted = chunked("interleaved", p, m, v, g);
          if (m % g != 0 && m % g < p) {
            EXPECT_FALSE(is_served(wanted));
            continue;
          }
          SCOPED_TRACE(wanted.name());
          const SimulationResult result = simulated(wanted, kUnit);
          EXPECT_EQ(result.makespan.count(), 3 * (m * v + p - 1));
          for (int d = 0; d < p; ++d) {
            const double peak = std::min(m * v, 2 * (p - 1 - d) + (v - 1) * g + 1);
            EXPECT_DOUBLE_EQ(
                result.devices[id_at<DeviceId>(static_cast<std::size_t>(d))].peak_activations,
                peak / v);
          }
        }
      }
    }
  }
}

TEST(Interleaved, PaysEachHopOnceInEachDirectionWhateverTheMicrobatches) {
  const PlainCosts costs{.forward = 1000, .backward = 2000, .transfer = 7};
  for (const int p : {2, 4}) {
    for (const int v : {2, 3}) {
      for (const int rounds : {1, 2, 4}) {
        const SimulationResult result = simulated(chunked("interleaved", p, rounds * p, v), costs);
        EXPECT_EQ(result.makespan.count(), 3000 * (rounds * p * v + p - 1) + 2 * (p * v - 1) * 7);
      }
    }
  }
}

TEST(LoopedBfs, HasItsBubbleDividedByTheChunksAndHoldsAllMicrobatches) {
  for (const int p : {1, 2, 4}) {
    for (const int v : {1, 2, 3}) {
      for (const int m : {p, p + 1, 2 * p}) {
        const SimulationResult result = simulated(chunked("looped-bfs", p, m, v), kUnit, 2);
        EXPECT_EQ(result.makespan.count(), 2 * 3 * (m * v + p - 1));
        for (const DeviceUse& use : result.devices) EXPECT_EQ(use.peak_activations, m);
      }
    }
  }
}

// No order is published: these are the figures of another implementation of the same greedy rule.
TEST(Hanayo, WavesDivideTheBubbleAndHoldNoMoreThanTwice1F1B) {
  struct Case {
    int p, m, waves;
    std::int64_t bubble;  // in forwards of a chunk
  };
  for (const Case& test : {Case{4, 4, 1, 12},
                           {4, 4, 2, 13},
                           {4, 4, 4, 13},
                           {8, 8, 1, 28},
                           {8, 8, 2, 30},
                           {8, 8, 4, 30},
                           {4, 8, 1, 17},
                           {4, 8, 2, 26},
                           {4, 8, 4, 27}}) {
    const Pipeline wanted = chunked("hanayo", test.p, test.m, 2 * test.waves);
    const SimulationResult result = simulated(wanted, kUnit);
    EXPECT_EQ(result.makespan.count() - 6 * test.m * test.waves, test.bubble) << wanted.name();
  }
  for (const int p : {1, 2, 3, 4, 8}) {
    for (const int m : {p, 2 * p, 4 * p, 16 * p}) {
      for (const int waves : {1, 2, 4}) {
        for (const DeviceUse& use : simulated(chunked("hanayo", p, m, 2 * waves), kUnit).devices) {
          EXPECT_LE(use.peak_activations, m == p ? p : 2 * p - 1);
        }
      }
    }
  }
}

TEST(Chimera, HasItsBubbleInSlotsAndHoldsWhatItsPlaceSays) {
  const PlainCosts slots{.forward = 1, .backward = 1};
  for (const auto& [p, k] : {std::pair{2, 2}, {4, 2}, {4, 4}, {8, 2}, {8, 4}, {8, 8}, {12, 6}}) {
    for (const int units : {1, 2, 5}) {
      Pipeline wanted = pipeline("chimera", p, units * p);
      wanted.request.directions = static_cast<std::uint16_t>(k);
      SCOPED_TRACE(wanted.name());
      const SimulationResult result = simulated(wanted, slots);
      EXPECT_EQ(result.makespan.count(), 2 * units * p + 2 * p / k - 2);
      double least = p, most = 0;
      for (const DeviceUse& use : result.devices) {
        least = std::min(least, use.peak_activations);
        most = std::max(most, use.peak_activations);
      }
      EXPECT_EQ(most, p);
      if (k == 2) {
        EXPECT_EQ(least, p / 2 + 1);
      }
    }
  }
}

TEST(DataParallel, WaitsForNothingButItsSum) {
  Pipeline wanted = pipeline("data-parallel", 1, 6);
  const PlainCosts costs{.forward = 1, .backward = 2, .update = 5, .reduce = 11};
  EXPECT_EQ(period(wanted, costs), 6 * 3 + 5);
  wanted.request.width = 8;
  EXPECT_EQ(period(wanted, costs), 6 * 3 + 11 + 5);
}

// ---- PipeDream ----

TEST(PipeDream, NeverWaitsInTheSteadyStateAndKeepsAVersionForEachForwardInFlight) {
  for (const int p : {1, 2, 4, 7}) {
    for (const bool sync : {false, true}) {
      Pipeline wanted = pipeline("pipedream", p, 3);
      wanted.request.vertical_sync = sync;
      const SimulationResult result = simulated(wanted, {.forward = 1, .backward = 2, .update = 1});
      EXPECT_EQ(period(result), 3 * 4);
      for (int d = 0; d < p; ++d) {
        const DeviceUse& use = result.devices[id_at<DeviceId>(static_cast<std::size_t>(d))];
        EXPECT_EQ(use.peak_activations, p - d);
        EXPECT_EQ(use.weight_versions, sync ? p : p - d);
      }
    }
  }
}

class LatestWeights : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Schedules, LatestWeights, ::testing::Values("paci", "pipemare"));

TEST_P(LatestWeights, NeverWaitInTheSteadyStateAndAreKeptForAPause) {
  for (const int p : {1, 2, 4, 7}) {
    for (const int m : {1, 2, 3, 8}) {
      const SimulationResult result = simulated(pipeline(GetParam(), p, m), kUnit, 4);
      EXPECT_EQ(period(result), 3 * m);
      EXPECT_EQ(result.makespan.count(), 3 * (4 * m + p - 1));
      for (int d = 0; d < p; ++d) {
        const DeviceUse& use = result.devices[id_at<DeviceId>(static_cast<std::size_t>(d))];
        EXPECT_EQ(use.peak_activations, p - d);
        EXPECT_EQ(use.weight_versions, 1 + (p - 1 - d + m - 1) / m);
      }
    }
  }
}

Pipeline replicated(const std::vector<std::uint16_t>& replicas) {
  const int p = std::accumulate(replicas.begin(), replicas.end(), 0);
  const int m = std::accumulate(replicas.begin(), replicas.end(), 1,
                                [](int a, int b) { return std::lcm(a, b); });
  Pipeline wanted = pipeline("pipedream", p, m);
  wanted.request.replicas = replicas;
  return wanted;
}

/// Stages whose work is in proportion to their replicas: all devices are equally busy.
double period_of_microbatch(const Program& program, std::int64_t forward, std::int64_t backward) {
  const Placement& placement = program.placement();
  const CostTable costs = price(program, [&](const CostKey& key) -> Duration {
    const auto replicas =
        static_cast<std::int64_t>(placement.replicas_of(placement.stage[key.replica]).size());
    if (key.kind == OpKind::forward) return Duration(forward * replicas);
    if (key.kind == OpKind::backward) return Duration(backward * replicas);
    return {};
  });
  return maximum_cycle_ratio(program, costs) / program.microbatches();
}

TEST(PipeDream, KeepsReplicatedStagesAsBusyAsTheirWork) {
  for (const std::vector<std::uint16_t>& replicas : {std::vector<std::uint16_t>{2, 1, 1},
                                                     {15, 1},
                                                     {3, 1},
                                                     {7, 1},
                                                     {9, 5, 1, 1},
                                                     {8, 4, 4},
                                                     {1, 2},
                                                     {1, 2, 1},
                                                     {2, 3},
                                                     {3, 2, 1},
                                                     {4, 2, 1},
                                                     {2, 1, 2},
                                                     {1, 1, 3, 2}}) {
    const Program program = program_of(replicated(replicas));
    for (const auto& [forward, backward] : {std::pair{1, 2}, std::pair{1, 1}, std::pair{1, 3}}) {
      EXPECT_DOUBLE_EQ(period_of_microbatch(program, forward, backward), forward + backward)
          << fmt::format("{}", fmt::join(replicas, "-"));
    }
  }
}

/// A round less of forwards ahead on each replica of a stage.
void hold_back(Schedule& schedule, StageId stage) {
  const std::vector<ReplicaId> replicas = schedule.placement.replicas_of(stage);
  for (const ReplicaId replica : replicas) {
    for (Op& op : schedule.order[schedule.placement.device[replica]]) {
      if (op.kind == OpKind::forward) op.microbatch -= static_cast<std::int32_t>(replicas.size());
      if (reads_weights(op.kind)) --op.staleness;
    }
  }
}

TEST(PipeDream, KeepsAsFewMicrobatchesInFlightAsThatAllows) {
  std::mt19937 random(11);
  for (int i = 0; i < 60; ++i) {
    std::vector<std::uint16_t> replicas(2 + random() % 3);
    for (std::uint16_t& count : replicas) count = static_cast<std::uint16_t>(1 + random() % 4);
    if (std::accumulate(replicas.begin(), replicas.end(), 0) > 9) continue;
    const std::string name = fmt::format("{}", fmt::join(replicas, "-"));
    const auto backward = static_cast<std::int64_t>(1 + random() % 3);
    const Schedule schedule = schedule_of(replicated(replicas));
    EXPECT_DOUBLE_EQ(period_of_microbatch(lower(schedule), 1, backward),
                     1.0 + static_cast<double>(backward))
        << name;
    for (std::size_t stage = 0; stage + 1 < replicas.size(); ++stage) {
      Schedule fewer = schedule;
      hold_back(fewer, id_at<StageId>(stage));
      EXPECT_GT(period_of_microbatch(lower(fewer), 1, backward),
                1.0 + static_cast<double>(backward))
          << name << " stage " << stage;
    }
  }
}

TEST(PipeDream, WouldWaitWithTheWarmUpThatWasPublished) {
  // 2-1-1 with 1, 1 and 0 rounds of forwards ahead: 9 for each two microbatches, not 6.
  Schedule schedule = schedule_of(replicated({2, 1, 1}));
  hold_back(schedule, StageId{0});
  EXPECT_EQ(schedule.order[DeviceId{0}][0].microbatch, 2);
  EXPECT_EQ(schedule.order[DeviceId{2}][0].microbatch, 1);
  EXPECT_DOUBLE_EQ(period_of_microbatch(lower(schedule), 1, 2), 4.5);
}

// ---- A decision of all stages ----

TEST(GlobalNorm, Costs2BWNothing) {
  for (const int p : {2, 3, 4, 8}) {
    for (const int m : {p, p + 1, 2 * p - 1, 2 * p, 4 * p}) {
      const Pipeline wanted = pipeline("2bw", p, m);
      const std::int64_t without = period(wanted, kUnit);
      EXPECT_EQ(without, 3 * m);
      // Until stage 0 begins the batch after the next it has a forward and a backward to do, at
      // least.
      for (const std::int64_t norm : {0, 1, 3}) {
        PlainCosts costs = kUnit;
        costs.norm = norm;
        EXPECT_EQ(period(normed(wanted), costs), without) << wanted.name() << " norm " << norm;
      }
    }
  }
}

TEST(GlobalNorm, Costs2BWWhereItsUpdateIsNotLate) {
  for (const int p : {2, 4, 8}) {
    Schedule schedule = schedule_of(pipeline("2bw", p, 2 * p));
    insert_reduction(schedule, true);
    const Program program = lower(schedule);
    const SimulationResult result = simulate(program, plain_costs(program, kUnit), {.batches = 1});
    EXPECT_GT(period(result), 3 * 2 * p);
  }
}

TEST(Width, CostsTwoBWNothingWhileItsSumLastsHalfABatch) {
  for (const int p : {1, 2, 3, 4, 8}) {
    for (const int m : {2 * p, 2 * p + 1, 3 * p, 4 * p}) {
      Pipeline wanted = normed(pipeline("2bw", p, m));
      wanted.request.width = 4;
      const std::int64_t slots = m / 2;
      PlainCosts costs = kUnit;
      costs.reduce = 3 * slots;
      EXPECT_EQ(period(wanted, costs), 3 * m) << wanted.name();
      costs.reduce = 3 * (m + 1);
      EXPECT_GT(period(wanted, costs), 3 * m) << "the control";
    }
  }
}

TEST(GlobalNorm, CostsFlushedSchedulesItsOwnTimeAndNoMore) {
  for (const char* name :
       {"model-parallel", "gpipe", "1f1b", "1f1b-eager", "interleaved", "looped-bfs"}) {
    const bool loops = find_schedule(name).replicas_per_device == 0;
    for (const int p : {1, 2, 4}) {
      const Pipeline wanted = chunked(name, p, 8, loops ? 2 : 1);
      const std::int64_t without = period(wanted, kUnit);
      EXPECT_EQ(period(normed(wanted), kUnit), without) << wanted.name();
      PlainCosts costs = kUnit;
      costs.norm = 5;
      EXPECT_EQ(period(normed(wanted), costs), without + 5) << wanted.name();
    }
  }
}

// ---- TiMePReSt ----

/// Microbatch and slot of each backward (−1 − mini-batch) and forward of each device, where a
/// device does a backward as soon as it can, and else a forward; either takes a slot.
std::vector<std::vector<std::pair<int, int>>> backward_first(int p, int m, int slots) {
  std::vector<std::vector<std::pair<int, int>>> grid(static_cast<std::size_t>(p));
  std::vector<int> forwards(grid.size(), 0), backwards(grid.size(), 0);  // before this slot
  for (int slot = 0; slot < slots; ++slot) {
    const std::vector<int> f = forwards, b = backwards;
    for (std::size_t s = 0; s < grid.size(); ++s) {
      const bool last = s + 1 == grid.size();
      if (last ? f[s] >= (b[s] + 1) * m : b[s + 1] > b[s]) {
        grid[s].emplace_back(-1 - backwards[s]++, slot);
      } else if (s == 0 || f[s - 1] > f[s]) {
        grid[s].emplace_back(forwards[s]++, slot);
      }
    }
  }
  return grid;
}

// Among them two of the published grids, (4, 4) and (3, 2); the others need fewer microbatches than
// are served.
TEST(Timeprest, IsBackwardFirstInEqualSlots) {
  int shapes = 0;
  for (int p = 1; p <= 8; ++p) {
    for (int m = std::max(2, p - 1); m <= 7; ++m, ++shapes) {
      SCOPED_TRACE(fmt::format("p {} m {}", p, m));
      const PlainCosts costs{.forward = m, .backward = 1};
      const Pipeline wanted = pipeline("timeprest", p, m);
      EXPECT_EQ(period(wanted, costs), m * (m + 1));
      const int batches = 6, slots = m * batches;  // then a finite run's forwards end
      const Program program = program_of(wanted);
      std::vector<std::vector<std::pair<int, int>>> grid(static_cast<std::size_t>(p));
      for (const Span& span : longest_path(program, plain_costs(program, costs), batches)) {
        const Op& op = program[span.instruction].op;
        const int k = static_cast<int>(span.body) * m + op.microbatch;
        const int slot = static_cast<int>(span.start.count()) / m;
        const bool forward = op.kind == OpKind::forward;
        const bool counts = forward || (op.kind == OpKind::backward && k % m == 0);
        if (!counts || slot >= slots) continue;
        EXPECT_EQ(span.start.count() % m, 0);
        grid[index(op.replica)].emplace_back(forward ? k : -1 - k / m, slot);
      }
      EXPECT_EQ(grid, backward_first(p, m, slots));
    }
  }
  EXPECT_EQ(shapes, 33);
}

TEST(Timeprest, StallsWhereTheBackwardOfAMiniBatchIsOneOp) {
  struct Row {
    int p, m;
    std::int64_t one, single;
  };
  for (const Row& row : {Row{2, 3, 14, 10}, {4, 4, 19, 13}, {3, 2, 6, 6}}) {
    Pipeline wanted = pipeline("timeprest", row.p, row.m);
    EXPECT_EQ(period(wanted, kUnit), row.one) << wanted.name();
    PlainCosts together = kUnit;
    together.overlapped = 1;  // of a forward with a backward, which none is
    EXPECT_EQ(period(wanted, together), row.one) << wanted.name();
    wanted.request.single_backwards = true;
    EXPECT_EQ(period(wanted, kUnit), row.single) << wanted.name();
  }
}

TEST(SelectiveRecomputation, IsAPriceAndNoOp) {
  for (const ScheduleTraits& row : schedules()) {
    Pipeline wanted = pipeline(row.name, row.only_devices == 0 ? 2 : 1, 2);
    if (row.replicas_per_device == 0) wanted.request.chunks = 2;
    while (!is_served(wanted)) ++wanted.request.microbatches;
    const Schedule plain = schedule_of(wanted);
    wanted.request.recompute = Recompute::selective;
    if (row.weights == WeightSemantics::latest) {
      EXPECT_FALSE(is_served(wanted)) << row.name;
      continue;
    }
    EXPECT_EQ(schedule_of(wanted), plain) << row.name;
  }
}

}  // namespace
}  // namespace tandem::testing
