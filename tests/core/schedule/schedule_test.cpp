#include "core/schedule/schedule.h"

#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/support/pipelines.h"

namespace tandem::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

/// What went wrong and its exit code, as "3: message"; "" when nothing did.
template <class Act>
std::string failure_of(Act act) {
  try {
    act();
  } catch (const Error& error) {
    return fmt::format("{}: {}", static_cast<int>(error.code()), error.what());
  }
  return "";
}

std::string failure_of(const Pipeline& wanted) {
  return failure_of([&] { schedule_of(wanted); });
}

TEST(Registry, GivesEachScheduleOneNameAndSaysWhatItIs) {
  std::set<std::string_view> seen;
  for (const ScheduleTraits& row : schedules()) {
    EXPECT_TRUE(seen.insert(row.name).second) << row.name;
    for (const std::string_view alias : row.aliases) {
      EXPECT_TRUE(seen.insert(alias).second) << alias;
      EXPECT_EQ(&find_schedule(alias), &row);
    }
    EXPECT_EQ(&find_schedule(row.name), &row);
    for (const std::string_view text :
         {row.summary, row.source, row.constraints, row.bubble, row.activations}) {
      EXPECT_FALSE(text.empty()) << row.name;
    }
    EXPECT_NE(row.make, nullptr);
  }
}

TEST(Registry, ListsWhatTheContractNames) {
  EXPECT_THAT(schedule_names(),
              ::testing::IsSupersetOf(
                  {"model-parallel", "data-parallel", "gpipe",      "1f1b",       "1f1b-eager",
                   "bpipe",          "interleaved",   "looped-bfs", "zb-h1",      "zb-h2",
                   "interleaved-zb", "zbv",           "2bp-naive",  "2bp-gpipe",  "2bp-1f1b-1",
                   "2bp-1f1b-2",     "hanayo",        "chimera",    "dualpipe",   "dualpipev",
                   "zb-1p",          "zb-2p",         "zb-auto",    "zbv-auto",   "1f1b-v",
                   "v-min",          "v-half",        "v-zb",       "v-adaptive", "search",
                   "pipedream",      "2bw",           "paci",       "pipemare",   "spectrain",
                   "spectrain-v2",   "pipeoptim",     "xpipe",      "timeprest",  "timeprest-i"}));
  for (const char* alias : {"flush", "pipedream-flush", "dapple"}) {
    EXPECT_EQ(find_schedule(alias).name, "1f1b");
  }
}

TEST(Registry, SaysInHeadingsAndTablesWhichDefinitionIsOurOwn) {
  EXPECT_EQ(schedule_heading("timeprest-i"), "timeprest-i (our own definition)");
  EXPECT_EQ(schedule_in_table("timeprest-i"), "timeprest-i (ours)");
  // That of a source, and a user's own schedule, which is of no row.
  for (const char* name : {"timeprest", "1f1b", "mine"}) {
    EXPECT_EQ(schedule_heading(name), name);
    EXPECT_EQ(schedule_in_table(name), name);
  }
}

TEST(Registry, SuggestsTheNearestName) {
  for (const auto& [found, nearest] :
       {std::pair{"1f1v", "\"1f1b\""}, {"gpip", "\"gpipe\""}, {"dappel", "\"dapple\""}}) {
    EXPECT_THAT(failure_of([&] { find_schedule(found); }),
                AllOf(StartsWith("2: "), HasSubstr(found), HasSubstr(nearest)));
  }
  EXPECT_THAT(failure_of([] { find_schedule("zigzagging"); }),
              AllOf(StartsWith("2: "), Not(HasSubstr("mean"))));
  EXPECT_NE(failure_of([] { find_schedule(""); }), "");
}

TEST(Registry, OffersOptionsOnlyWhereTheyMeanSomething) {
  EXPECT_THAT(find_schedule("2bw").options, ElementsAre("extra-in-flight"));
  EXPECT_THAT(find_schedule("pipedream").options, ElementsAre("replicas", "vertical-sync"));
  EXPECT_THAT(find_schedule("interleaved").options, ElementsAre("chunks", "group"));
  EXPECT_THAT(find_schedule("looped-bfs").options, ElementsAre("chunks"));
  EXPECT_THAT(find_schedule("gpipe").options, ElementsAre("group"));
  EXPECT_THAT(find_schedule("chimera").options, ElementsAre("directions"));
  EXPECT_THAT(find_schedule("hanayo").options, ElementsAre("waves"));
  EXPECT_THAT(find_schedule("pipemare").options,
              ElementsAre("correction-decay", "published-delays"));
  for (const char* plain : {"model-parallel", "data-parallel", "1f1b", "1f1b-v"}) {
    EXPECT_THAT(find_schedule(plain).options, IsEmpty());
  }
}

TEST(MakeSchedule, Refuses2BWWithTooFewMicrobatchesAndSaysWhy) {
  EXPECT_THAT(failure_of(pipeline("2bw", 4, 3)),
              AllOf(StartsWith("3: 2bw needs at least 4 "), HasSubstr("found 3")));
  EXPECT_THAT(failure_of(pipeline("2bw", 4, 5, 3)),
              AllOf(StartsWith("3: 2bw needs at least 6 "), HasSubstr("found 5")));
  EXPECT_EQ(failure_of(pipeline("2bw", 4, 4)), "");
  EXPECT_EQ(failure_of(pipeline("2bw", 4, 4, 1)), "");
  EXPECT_EQ(failure_of(pipeline("2bw", 4, 6, 3)), "");
  EXPECT_EQ(failure_of(pipeline("2bw", 1, 1)), "");
  EXPECT_THAT(failure_of(pipeline("2bw", 4, 4, std::numeric_limits<std::int32_t>::max())),
              HasSubstr("3: 2bw needs at least 2147483650"));
}

Pipeline replicated(const std::vector<std::uint16_t>& replicas, int devices, std::int32_t m) {
  Pipeline wanted = pipeline("pipedream", devices, m);
  wanted.request.replicas = replicas;
  return wanted;
}

TEST(MakeSchedule, RefusesReplicasThatDoNotServe) {
  EXPECT_THAT(failure_of(replicated({2, 1, 1}, 3, 4)),
              AllOf(StartsWith("3: "), HasSubstr("4 devices"), HasSubstr("3 are")));
  EXPECT_EQ(failure_of(replicated({2, 1, 1}, 4, 3)),
            "3: round robin over 2 replicas needs microbatches divisible by 2, found 3");
  EXPECT_EQ(failure_of(replicated({2, 0}, 2, 2)), "3: a stage needs at least one replica");
  EXPECT_EQ(failure_of(replicated({15, 1}, 16, 30)), "");
  Pipeline tied = replicated({2, 1}, 3, 2);
  tied.request.tied_embeddings = true;
  EXPECT_EQ(failure_of(tied),
            "3: replicated stages can't share tied embeddings: the two ends would update for "
            "different microbatches (a model with \"tied\": false has none)");
  Pipeline synced = replicated({3, 2}, 5, 6);
  EXPECT_EQ(failure_of(synced), "");
  synced.request.vertical_sync = true;
  EXPECT_EQ(failure_of(synced),
            "3: vertical sync over 3 and 2 replicas: the first stage's versions fall between those "
            "of the other, unless its replicas are a multiple");
}

TEST(MakeSchedule, RefusesAPipelineOfDataParallelism) {
  EXPECT_EQ(
      failure_of(pipeline("data-parallel", 4, 2)),
      "3: schedule data-parallel is a pipeline of 1 device, found 4: --width gives it replicas");
  EXPECT_EQ(failure_of(pipeline("data-parallel", 1, 2)), "");
}

TEST(MakeSchedule, RefusesGroupsThatWouldDeadlock) {
  Pipeline wanted = pipeline("interleaved", 4, 9);
  wanted.request.chunks = 3;
  EXPECT_EQ(failure_of(wanted), "");  // by itself: 5 and 4
  wanted.request.group = 4;
  EXPECT_EQ(failure_of(wanted),
            "3: interleaved would deadlock with groups of 4 for 9 microbatches on 4 devices: each "
            "group, the last one too, needs as many microbatches as there are devices, such as "
            "groups of 5");
  wanted.request.group = 5;
  EXPECT_EQ(failure_of(wanted), "");
  wanted.request.group = -1;
  EXPECT_EQ(failure_of(wanted), "3: a group can't be negative, found -1");
  wanted.request.chunks = 0;
  EXPECT_EQ(failure_of(wanted), "3: a device needs at least one stage, found 0 chunks");
}

TEST(MakeSchedule, RefusesWhatDirectionsCanNotShareEvenly) {
  EXPECT_THAT(failure_of(pipeline("chimera", 3, 4)),
              AllOf(StartsWith("3: chimera "), HasSubstr("found 3: take 2 or 4")));
  EXPECT_EQ(failure_of(pipeline("chimera", 4, 1)),
            "3: chimera of 2 directions needs microbatches divisible by 2, found 1: take 2");
  EXPECT_EQ(failure_of(pipeline("dualpipe", 4, 9)),
            "3: dualpipe of 2 directions needs microbatches divisible by 2, found 9: take 8 or 10");
  Pipeline wide = pipeline("chimera", 6, 8);
  wide.request.directions = 4;
  EXPECT_EQ(failure_of(wide),
            "3: chimera of 4 directions needs devices divisible by 4, found 6: take 4 or 8");
  wide.request.directions = 3;
  EXPECT_EQ(failure_of(wide),
            "3: chimera needs an even number of directions, half of them each way, found 3");
  wide.request.directions = 0;
  EXPECT_NE(failure_of(wide), "");
  wide.request.directions = 6;
  wide.request.microbatches = 6;
  EXPECT_EQ(failure_of(wide), "");
}

TEST(MakeSchedule, RefusesOtherMicrobatchesThanTwoStage1F1BIsDefinedFor) {
  EXPECT_EQ(failure_of(pipeline("2bp-1f1b-1", 4, 8)),
            "3: 2bp-1f1b-1 takes 4 microbatches a batch on 4 devices, 1 for each, found 8");
  EXPECT_EQ(failure_of(pipeline("2bp-1f1b-2", 4, 4)),
            "3: 2bp-1f1b-2 takes 8 microbatches a batch on 4 devices, 2 for each, found 4");
  EXPECT_EQ(failure_of(pipeline("2bp-1f1b-2", 4, 8)), "");
}

TEST(MakeSchedule, RefusesHalfAWave) {
  Pipeline odd = pipeline("hanayo", 4, 8);
  odd.request.chunks = 3;
  EXPECT_EQ(failure_of(odd),
            "3: hanayo has two stages on each device for each wave, found 3 chunks: take 4");
  odd.request.chunks = 4;
  EXPECT_EQ(failure_of(odd), "");
}

TEST(MakeSchedule, RefusesTooFewMicrobatchesForTwoStreamsToMeet) {
  EXPECT_EQ(failure_of(pipeline("dualpipe", 4, 6)),
            "3: dualpipe needs at least 8 microbatches a batch for 4 devices, found 6: with fewer, "
            "its two streams do not meet on every device");
  EXPECT_THAT(failure_of(pipeline("dualpipev", 3, 5)), HasSubstr("needs at least 6 microbatches"));
  EXPECT_EQ(failure_of(pipeline("dualpipe", 4, 8)), "");
  EXPECT_EQ(failure_of(pipeline("dualpipev", 3, 6)), "");
}

TEST(MakeSchedule, RefusesAbsurdRequests) {
  EXPECT_EQ(failure_of(pipeline("gpipe", 0, 1)), "3: a schedule needs at least one device");
  for (const std::int32_t m : {-1, 0, 65'536, std::numeric_limits<std::int32_t>::max()}) {
    EXPECT_EQ(failure_of(pipeline("gpipe", 1, m)),
              fmt::format("3: microbatches a batch must be 1 to 65535, found {}", m));
  }
  EXPECT_EQ(failure_of(pipeline("2bw", 2, 2, -1)),
            "3: extra in flight can't be negative, found -1");
  Pipeline narrow = pipeline("1f1b", 2, 2);
  narrow.request.width = 0;
  EXPECT_EQ(failure_of(narrow), "3: a pipeline needs at least one replica, found width 0");
  EXPECT_EQ(failure_of(pipeline("1f1b", 65'535, 65'535)),
            "3: 65535 stages of 65535 microbatches each are too large a schedule: at most 65535 "
            "stages, and 4194304 microbatches on all of them together");
  EXPECT_THAT(failure_of(pipeline("1f1b-v", 40'000, 1)), HasSubstr("80000 stages"));
  EXPECT_EQ(failure_of(pipeline("1f1b", 1, 65'535)), "");
}

std::vector<OpKind> kinds_on(const Schedule& schedule, int device) {
  std::vector<OpKind> kinds;
  for (const Op& op : schedule.order[id_at<DeviceId>(static_cast<std::size_t>(device))]) {
    kinds.push_back(op.kind);
  }
  return kinds;
}

TEST(MakeSchedule, RecomputesRightBeforeEachBackward) {
  Pipeline wanted = pipeline("2bw", 1, 2);
  wanted.request.recompute = Recompute::stage;
  const Schedule schedule = schedule_of(wanted);
  using enum OpKind;
  EXPECT_THAT(kinds_on(schedule, 0),
              ElementsAre(forward, recompute, backward, forward, recompute, backward, update));
  const std::vector<Op>& order = schedule.order[DeviceId{0}];
  EXPECT_EQ(order[4].microbatch, order[5].microbatch);
  EXPECT_EQ(order[4].staleness, 1);
}

TEST(MakeSchedule, PutsSumsBeforeTheUpdatesThatNeedThem) {
  using enum OpKind;
  Pipeline wanted = pipeline("gpipe", 3, 1);
  EXPECT_THAT(kinds_on(schedule_of(wanted), 0), ElementsAre(forward, backward, update));
  wanted.request.tied_embeddings = true;
  EXPECT_THAT(kinds_on(schedule_of(wanted), 0),
              ElementsAre(forward, backward, reduce_tied, update));
  EXPECT_THAT(kinds_on(schedule_of(wanted), 1), ElementsAre(forward, backward, update));
  EXPECT_THAT(kinds_on(schedule_of(wanted), 2),
              ElementsAre(forward, backward, reduce_tied, update));
  wanted.request.width = 2;
  EXPECT_THAT(kinds_on(schedule_of(wanted), 0),
              ElementsAre(forward, backward, reduce_tied, reduce_gradient, update));
  EXPECT_THAT(kinds_on(schedule_of(wanted), 1),
              ElementsAre(forward, backward, reduce_gradient, update));
  wanted.request.global_norm = true;
  EXPECT_THAT(kinds_on(schedule_of(wanted), 0),
              ElementsAre(forward, backward, reduce_tied, reduce_gradient, reduce_norm, update));
}

TEST(MakeSchedule, RefusesAGlobalNormWhereStagesUpdateAtTimesOfTheirOwn) {
  Pipeline wanted = pipeline("pipedream", 4, 4);
  wanted.request.global_norm = true;
  EXPECT_THAT(failure_of(wanted),
              AllOf(StartsWith("3: schedule pipedream "), HasSubstr("(--clip per-stage)")));
}

TEST(MakeSchedule, RefusesWhatCanNotBeDoneByTwoVersionsOfTheWeights) {
  const auto refusal = [](const auto& change, int devices = 4) {
    Pipeline wanted = pipeline("paci", devices, 4);
    change(wanted.request);
    return failure_of(wanted);
  };
  EXPECT_EQ(refusal([](ScheduleRequest&) {}), "");
  for (const Recompute recompute : {Recompute::selective, Recompute::full, Recompute::stage}) {
    EXPECT_EQ(refusal([&](ScheduleRequest& request) { request.recompute = recompute; }),
              "3: schedule paci can't recompute activations: a backward would make them again from "
              "newer weights than its forward read, and so train something else (--recompute "
              "none)");
  }
  const auto tie = [](ScheduleRequest& request) { request.tied_embeddings = true; };
  EXPECT_EQ(refusal(tie),
            "3: schedule paci can't train tied embeddings: the last stage updates before the first "
            "one's gradient of the shared table is there (a model with \"tied\": false has none)");
  EXPECT_EQ(refusal(tie, 1), "") << "one stage holds both ends";
  EXPECT_THAT(refusal([](ScheduleRequest& request) { request.global_norm = true; }),
              StartsWith("3: schedule paci has no global norm: "));
  EXPECT_THAT(refusal([](ScheduleRequest& request) { request.post_validation = true; }),
              StartsWith("3: post-validation needs clipping by a global norm"));
  EXPECT_THAT(failure_of(pipeline("timeprest", 5, 3)),
              StartsWith("3: timeprest needs m >= max(2, p-1) = 4 microbatches, found 3: "));
  EXPECT_THAT(failure_of(pipeline("timeprest", 1, 1)), HasSubstr("max(2, p-1) = 2"));
  EXPECT_EQ(failure_of(pipeline("timeprest", 5, 4)), "");
  EXPECT_THAT(failure_of(pipeline("timeprest-i", 5, 3)),
              StartsWith("3: timeprest-i needs m >= max(2, p-1) = 4 microbatches, found 3: "));
  // Rows that read one version take what they took.
  for (const char* name : {"1f1b", "2bw", "pipedream"}) {
    Pipeline wanted = pipeline(name, 4, 4);
    wanted.request.recompute = Recompute::stage;
    tie(wanted.request);
    EXPECT_EQ(failure_of(wanted), "") << name;
  }
}

TEST(MakeSchedule, CorrectsForTheMeanDelayOfEachStage) {
  for (const std::int32_t m : {1, 2, 3, 8}) {
    Pipeline wanted = pipeline("pipemare", 4, m);
    for (const bool published : {false, true}) {
      wanted.request.published_delays = published;
      const Schedule schedule = schedule_of(wanted);
      ASSERT_EQ(schedule.readings.size(), 4u);
      for (int stage = 0; stage < 4; ++stage) {
        const Reading& found = schedule.readings[id_at<StageId>(static_cast<std::size_t>(stage))];
        const int ahead = 3 - stage;
        // The paper's: (2(P − i) + 1)/N, stages i from 1.
        EXPECT_EQ(found.delay, (published ? 2.0 * ahead + 1.0 : ahead) / m);
        if (found.delay > 0.0) {
          EXPECT_DOUBLE_EQ(std::pow(found.kept, found.delay), 0.135);
        }
      }
    }
    // The updates between a forward's version and its backward's are as many, on average.
    const Schedule schedule = schedule_of(pipeline("pipemare", 4, m));
    for (const DeviceId device : ids(schedule.order)) {
      double sum = 0.0;
      for (const Op& op : schedule.order[device])
        sum += op.kind == OpKind::forward ? op.staleness : 0;
      EXPECT_DOUBLE_EQ(sum / m, schedule.readings[id_at<StageId>(index(device))].delay);
    }
  }
  Pipeline wanted = pipeline("pipemare", 4, 1);
  wanted.request.correction_decay = 1.0;
  EXPECT_EQ(schedule_of(wanted).readings[StageId{0}].kept, 1.0);
  EXPECT_FALSE(schedule_of(pipeline("pipemare", 1, 1)).readings[StageId{0}].corrects());
}

/// Of each stage, horizon of forwards and of backwards.
std::vector<std::pair<double, double>> horizons_of(const char* name, std::uint16_t devices,
                                                   std::int32_t m) {
  std::vector<std::pair<double, double>> all;
  for (const Reading& reading : schedule_of(pipeline(name, devices, m)).readings)
    all.emplace_back(reading.forward_horizon, reading.backward_horizon);
  return all;
}

// The table of the papers and of released code, four stages and five, a microbatch an update.
TEST(MakeSchedule, PredictsForTheHorizonsOfThePapers) {
  using Horizons = std::vector<std::pair<double, double>>;
  EXPECT_EQ(horizons_of("spectrain", 4, 1), (Horizons{{3, 0}, {2, 0}, {2, 1}, {1, 1}}));
  EXPECT_EQ(horizons_of("spectrain", 5, 1), (Horizons{{4, 0}, {3, 0}, {3, 1}, {2, 1}, {2, 2}}));
  EXPECT_EQ(horizons_of("spectrain-v2", 4, 1), (Horizons{{3, 3}, {2, 2}, {1, 1}, {0, 0}}));
  EXPECT_EQ(horizons_of("pipeoptim", 4, 1), (Horizons{{3, 0}, {2, 0}, {1, 0}, {0, 0}}));
  EXPECT_EQ(horizons_of("pipeoptim", 4, 2), (Horizons{{1.5, 0}, {1, 0}, {0.5, 0}, {0, 0}}));
  // round((p + T − ⌈s/2⌉ − 2)/T) and round((T + ⌊s/2⌋ − 1)/T).
  EXPECT_EQ(horizons_of("xpipe", 4, 4), (Horizons{{2, 1}, {1, 1}, {1, 1}, {1, 1}}));
  for (const std::uint16_t devices : {std::uint16_t{2}, std::uint16_t{5}, std::uint16_t{8}})
    EXPECT_EQ(horizons_of("xpipe", devices, 1), horizons_of("spectrain", devices, 1));
  EXPECT_EQ(failure_of(pipeline("spectrain-v2", 2, 1)), "");
  Pipeline tied = pipeline("spectrain-v2", 2, 1);
  tied.request.tied_embeddings = true;
  EXPECT_THAT(failure_of(tied),
              HasSubstr("each stage reads weights predicted for a time of its own"));
}

// With equal gradients and plain SGD a prediction is the version so many updates on: that which the
// backward finds, if the horizon is the staleness of the forward; of several microbatches an
// update, its mean.
TEST(MakeSchedule, PredictsWhatTheBackwardFinds) {
  for (const char* name : {"pipeoptim", "spectrain-v2"}) {
    for (const std::int32_t m : {1, 2, 3, 8}) {
      const Schedule schedule = schedule_of(pipeline(name, 5, m));
      for (const DeviceId device : ids(schedule.order)) {
        double sum = 0.0;
        for (const Op& op : schedule.order[device])
          sum += op.kind == OpKind::forward ? op.staleness : 0;
        EXPECT_DOUBLE_EQ(sum / m, schedule.readings[id_at<StageId>(index(device))].forward_horizon)
            << name << " of " << m;
      }
    }
  }
}

TEST(MakeSchedule, TiesNothingOnASingleStage) {
  Pipeline wanted = pipeline("1f1b", 1, 2);
  wanted.request.tied_embeddings = true;
  EXPECT_TRUE(schedule_of(wanted).placement.tied.empty());
}

TEST(MakeSchedule, GivesTheExtraMicrobatchesASlope) {
  const Schedule schedule = schedule_of(pipeline("2bw", 5, 8, 3));
  const auto ahead = [&](int device) {
    return schedule.order[id_at<DeviceId>(static_cast<std::size_t>(device))].front().microbatch;
  };
  // p − 1 − d, and ⌈3 (p − 1 − d) / 4⌉ more.
  EXPECT_EQ(ahead(0), 4 + 3);
  EXPECT_EQ(ahead(1), 3 + 3);
  EXPECT_EQ(ahead(2), 2 + 2);
  EXPECT_EQ(ahead(3), 1 + 1);
  EXPECT_EQ(ahead(4), 0);
}

}  // namespace
}  // namespace tandem::testing
