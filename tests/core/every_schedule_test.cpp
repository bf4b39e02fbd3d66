// What every schedule of the registry must do, and the orders and versions that papers publish.

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/program/run.h"
#include "core/program/versions.h"
#include "core/verify/verify.h"
#include "tests/support/instances.h"
#include "tests/support/pipelines.h"

namespace tandem::testing {
namespace {

using ::testing::ElementsAre;

class EverySchedule : public ::testing::TestWithParam<std::string> {};

TEST_P(EverySchedule, RunsEveryMicrobatchOnceOnEveryStage) {
  constexpr std::int64_t kBatches = 3;
  for (const Pipeline& wanted : every_pipeline(GetParam(), {1, 2, 3, 4, 5}, {1, 2, 3, 4, 6, 8})) {
    const Program program = program_of(wanted);
    const std::int64_t microbatches = kBatches * wanted.request.microbatches;
    std::map<std::tuple<OpKind, StageId, std::int64_t>, int> times;
    for (const Instance& instance : instances_of_run(program, kBatches)) {
      const Op& op = program[instance.id].op;
      if (!is_compute(op.kind)) continue;
      for (std::int64_t i = 0; i < op.span; ++i) {
        ++times[{op.kind, program.placement().stage[op.replica], instance.microbatch - i}];
      }
    }
    for (const auto& [what, count] : times) EXPECT_EQ(count, 1) << wanted.name();
    const bool again = wanted.request.recompute == Recompute::stage;
    std::size_t ops = 0;
    for (const StageId stage : all_ids<StageId>(program.placement().stages())) {
      for (std::int64_t k = 0; k < microbatches; ++k) {
        const auto has = [&](OpKind kind) { return times.contains({kind, stage, k}); };
        EXPECT_TRUE(has(OpKind::forward)) << wanted.name();
        EXPECT_EQ(has(OpKind::recompute), again) << wanted.name();
        EXPECT_NE(has(OpKind::backward), has(OpKind::backward_input)) << wanted.name();
        EXPECT_EQ(has(OpKind::backward_input), has(OpKind::backward_weight)) << wanted.name();
        ops += has(OpKind::backward) ? 2 : 3;
      }
    }
    EXPECT_EQ(
        times.size(),
        ops + (again ? program.placement().stages() * static_cast<std::size_t>(microbatches) : 0))
        << wanted.name();
  }
}

TEST_P(EverySchedule, IsRightWhateverIsAskedWithIt) {
  for (const Pipeline& wanted : every_pipeline(GetParam(), {1, 2, 3, 4}, {1, 3, 4, 8})) {
    const std::vector<Violation> found = verify(program_of(wanted));
    EXPECT_TRUE(found.empty()) << wanted.name() << ": " << found[0].message;
  }
}

TEST_P(EverySchedule, UsesOneVersionForAMicrobatchOnAStageAndOneItHasOrTheNewest) {
  for (const Pipeline& wanted : every_pipeline(GetParam(), {1, 2, 4, 5}, {2, 4, 6})) {
    const Program program = program_of(wanted);
    const WeightVersions versions(program);
    std::map<ReplicaId, std::int64_t> newest;
    std::map<std::pair<ReplicaId, std::int64_t>, std::set<std::int64_t>> used;
    std::map<std::pair<ReplicaId, std::int64_t>, std::int64_t> shared;
    for (const Instance& instance : instances_of_run(program, 5)) {
      const Op& op = program[instance.id].op;
      const auto version = versions(instance);
      if (op.kind == OpKind::update) {
        EXPECT_EQ(*version, newest[op.replica] + 1) << wanted.name();
        newest[op.replica] = *version;
      } else if (version) {
        EXPECT_LE(*version, newest[op.replica]) << wanted.name();
        const bool shares = program.reading(op.replica).shares_prediction;
        if (program.reads_newest() && shares && op.kind == OpKind::forward) {
          // All of an update read what its first one found.
          const std::int64_t update = instance.microbatch / program.microbatches();
          const auto [first, is_first] = shared.try_emplace({op.replica, update}, *version);
          EXPECT_EQ(*version, is_first ? newest[op.replica] : first->second) << wanted.name();
          continue;
        }
        if (program.reads_newest()) {
          EXPECT_EQ(*version, newest[op.replica]) << wanted.name();
          continue;
        }
        used[{op.replica, instance.microbatch}].insert(*version);
      }
    }
    for (const auto& [microbatch, all] : used) EXPECT_EQ(all.size(), 1u) << wanted.name();
  }
}

INSTANTIATE_TEST_SUITE_P(Schedules, EverySchedule, ::testing::ValuesIn(schedule_names()),
                         test_name);

// ---- Published orders ----

std::vector<std::string> lines_of(const Pipeline& wanted) {
  const Schedule schedule = schedule_of(wanted);
  std::vector<std::string> lines;
  for (const std::vector<Op>& order : schedule.order) {
    std::string line;
    for (const Op& op : order) {
      if (op.kind == OpKind::update) continue;
      line +=
          fmt::format("{}{}{}", line.empty() ? "" : " ", traits(op.kind).notation, op.microbatch);
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

TEST(PublishedOrder, OfGPipe) {
  const std::string four = "f0 f1 f2 f3 b0 b1 b2 b3";
  EXPECT_THAT(lines_of(pipeline("gpipe", 2, 4)), ElementsAre(four, four));
  EXPECT_THAT(lines_of(pipeline("gpipe", 4, 4)), ElementsAre(four, four, four, four));
  const std::string eight = "f0 f1 f2 f3 f4 f5 f6 f7 b0 b1 b2 b3 b4 b5 b6 b7";
  EXPECT_THAT(lines_of(pipeline("gpipe", 4, 8)), ElementsAre(eight, eight, eight, eight));
}

TEST(PublishedOrder, Of1F1B) {
  EXPECT_THAT(lines_of(pipeline("1f1b", 2, 4)),
              ElementsAre("f0 f1 b0 f2 b1 f3 b2 b3", "f0 b0 f1 b1 f2 b2 f3 b3"));
  EXPECT_THAT(lines_of(pipeline("1f1b", 4, 4)),
              ElementsAre("f0 f1 f2 f3 b0 b1 b2 b3", "f0 f1 f2 b0 f3 b1 b2 b3",
                          "f0 f1 b0 f2 b1 f3 b2 b3", "f0 b0 f1 b1 f2 b2 f3 b3"));
  EXPECT_THAT(lines_of(pipeline("1f1b", 4, 8)),
              ElementsAre("f0 f1 f2 f3 b0 f4 b1 f5 b2 f6 b3 f7 b4 b5 b6 b7",
                          "f0 f1 f2 b0 f3 b1 f4 b2 f5 b3 f6 b4 f7 b5 b6 b7",
                          "f0 f1 b0 f2 b1 f3 b2 f4 b3 f5 b4 f6 b5 f7 b6 b7",
                          "f0 b0 f1 b1 f2 b2 f3 b3 f4 b4 f5 b5 f6 b6 f7 b7"));
}

TEST(PublishedOrder, Of1F1BWithFewerMicrobatchesThanDevices) {
  EXPECT_THAT(lines_of(pipeline("1f1b", 4, 2)),
              ElementsAre("f0 f1 b0 b1", "f0 f1 b0 b1", "f0 f1 b0 b1", "f0 b0 f1 b1"));
}

TEST(PublishedOrder, Of2BWAlternatesAndNeverDrains) {
  EXPECT_THAT(lines_of(pipeline("2bw", 4, 4)),
              ElementsAre("f3 b0 f4 b1 f5 b2 f6 b3", "f2 b0 f3 b1 f4 b2 f5 b3",
                          "f1 b0 f2 b1 f3 b2 f4 b3", "f0 b0 f1 b1 f2 b2 f3 b3"));
}

TEST(PublishedOrder, OfPaciIsThatOf2BW) {
  EXPECT_EQ(lines_of(pipeline("paci", 4, 4)), lines_of(pipeline("2bw", 4, 4)));
  EXPECT_THAT(lines_of(pipeline("paci", 4, 1)), ElementsAre("f3 b0", "f2 b0", "f1 b0", "f0 b0"));
}

TEST(PublishedOrder, OfModelParallelismHasOneMicrobatchInFlight) {
  EXPECT_THAT(lines_of(pipeline("model-parallel", 2, 2)),
              ElementsAre("f0 b0 f1 b1", "f0 b0 f1 b1"));
}

// ---- Weight versions by formula ----

/// Every (microbatch from 1, version) that forwards, recomputations and backwards read.
template <class Expected>
void expect_versions(const Pipeline& wanted, Expected expected) {
  const Program program = program_of(wanted);
  const WeightVersions versions(program);
  for (const Instance& instance : instances_of_run(program, 6)) {
    const Op& op = program[instance.id].op;
    if (!reads_weights(op.kind)) continue;
    const std::int64_t k = instance.microbatch + 1;
    EXPECT_EQ(versions(instance), expected(k, index(op.replica)))
        << wanted.name() << " " << name(op.kind) << " " << k << " of stage " << index(op.replica);
  }
}

TEST(Versions, Of2BWAreTheOneBeforeTheNewestOnEveryStageAlike) {
  for (const int p : {1, 2, 4, 5}) {
    for (const std::int32_t m : {p, p + 1, 2 * p - 1, 2 * p}) {
      for (const std::int32_t extra : {0, m - p + 1}) {
        Pipeline wanted = pipeline("2bw", p, m, extra);
        wanted.request.recompute = m % 2 == 0 ? Recompute::stage : Recompute::none;
        expect_versions(wanted, [&](std::int64_t k, std::size_t) {
          return std::max<std::int64_t>((k - 1) / m - 1, 0);
        });
      }
    }
  }
}

TEST(Versions, OfFlushedSchedulesAreTheNewest) {
  for (const char* flushed :
       {"model-parallel", "gpipe", "1f1b", "1f1b-eager", "interleaved", "looped-bfs"}) {
    Pipeline wanted = pipeline(flushed, 3, 4);
    if (find_schedule(flushed).replicas_per_device == 0) wanted.request.chunks = 2;
    expect_versions(wanted, [](std::int64_t k, std::size_t) { return (k - 1) / 4; });
  }
}

TEST(Versions, OfPipeDreamLagByTheRoundsBehindAStage) {
  // An update a microbatch, depth − 1 − stage behind: the versions of PipeDream's stashing.
  expect_versions(pipeline("pipedream", 3, 4), [](std::int64_t k, std::size_t stage) {
    return std::max<std::int64_t>(k - 1 - (2 - static_cast<std::int64_t>(stage)), 0);
  });
}

TEST(Versions, OfPipeDreamWithVerticalSyncAreThoseThatTheFirstStageFound) {
  Pipeline wanted = pipeline("pipedream", 3, 4);
  wanted.request.vertical_sync = true;
  expect_versions(wanted,
                  [](std::int64_t k, std::size_t) { return std::max<std::int64_t>(k - 1 - 2, 0); });
}

TEST(Versions, OfPaciAreTheNewestForwardsAndBackwards) {
  // The forward of microbatch k, from 0, stands p − 1 − s backwards ahead.
  for (const int p : {1, 2, 4}) {
    for (const std::int32_t m : {1, 2, 3, 8}) {
      const Program program = program_of(pipeline("paci", p, m));
      const WeightVersions versions(program);
      for (const Instance& instance : instances_of_run(program, 6)) {
        const Op& op = program[instance.id].op;
        if (!reads_weights(op.kind)) continue;
        const std::int64_t ahead = p - 1 - static_cast<std::int64_t>(index(op.replica));
        const std::int64_t k = instance.microbatch;
        EXPECT_EQ(versions(instance),
                  op.kind == OpKind::forward ? std::max<std::int64_t>(k - ahead, 0) / m : k / m)
            << "p " << p << " m " << m << " k " << k;
      }
    }
  }
}

TEST(Versions, OfReplicatedStagesWithVerticalSyncHoldTheSameMicrobatches) {
  for (const std::vector<std::uint16_t>& replicas :
       {std::vector<std::uint16_t>{2, 1, 1}, {4, 2, 1}, {2, 2}, {6, 3, 1}}) {
    const int p = std::accumulate(replicas.begin(), replicas.end(), 0);
    Pipeline wanted = pipeline("pipedream", p, 12);
    wanted.request.replicas = replicas;
    wanted.request.vertical_sync = true;
    const Program program = program_of(wanted);
    const WeightVersions versions(program);
    std::map<std::int64_t, std::set<std::int64_t>> known;  // microbatches in the weights used
    for (const Instance& instance : instances_of_run(program, 6)) {
      const Op& op = program[instance.id].op;
      if (!reads_weights(op.kind)) continue;
      const StageId stage = program.placement().stage[op.replica];
      known[instance.microbatch].insert(*versions(instance) * replicas[index(stage)]);
    }
    EXPECT_EQ(known.size(), 6u * 12u);
    for (const auto& [microbatch, counts] : known) {
      EXPECT_EQ(counts.size(), 1u) << wanted.name() << " microbatch " << microbatch;
    }
  }
}

TEST(Versions, NeedNeverMoreThanTwoIn2BW) {
  for (const Pipeline& wanted : every_pipeline("2bw", {1, 2, 4, 5}, {2, 4, 6, 9})) {
    const Program program = program_of(wanted);
    const WeightVersions versions(program);
    const std::vector<Instance> instances = instances_of_run(program, 5);
    // A version lives from its update to its last reader.
    std::map<std::pair<ReplicaId, std::int64_t>, std::size_t> last_read;
    for (std::size_t i = 0; i < instances.size(); ++i) {
      const Op& op = program[instances[i].id].op;
      if (reads_weights(op.kind)) last_read[{op.replica, *versions(instances[i])}] = i;
    }
    for (std::size_t i = 0; i < instances.size(); ++i) {
      const Op& op = program[instances[i].id].op;
      if (op.kind != OpKind::update) continue;
      const std::int64_t made = *versions(instances[i]);
      for (std::int64_t old = 0; old + 2 <= made; ++old) {
        const auto read = last_read.find({op.replica, old});
        if (read != last_read.end()) {
          EXPECT_LT(read->second, i) << wanted.name();
        }
      }
    }
  }
}

}  // namespace
}  // namespace tandem::testing
