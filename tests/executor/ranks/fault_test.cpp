// Faults on purpose: whatever happens to a frame, a run ends right, or says what was wrong.

#include "executor/ranks/fault.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/support/rank_processes.h"
#include "tests/support/rank_threads.h"
#include "tests/support/sanitizers.h"
#include "tests/support/training.h"

namespace tandem {
namespace {

using ::testing::ContainsRegex;
using testing::RankEnd;
using testing::RankProcessEnd;
using testing::RankProcesses;
using testing::RankThreads;
using testing::TrainingCase;
using namespace std::chrono_literals;

/// TANDEM_FAULT_RUNS asks for more than a test has time for.
int runs() {
  const char* const asked = std::getenv("TANDEM_FAULT_RUNS");
  return asked == nullptr ? 18 : std::atoi(asked);
}

/// How long nothing may end before the watchdog speaks. At a delay it must not, and a killed
/// process is known by its closed connections, which a loaded machine closes late. Whoever else
/// waits, waits for the watchdog.
std::chrono::milliseconds patience(const std::string& kind) {
  if (kind == "kill" || kind == "delay") return 5s;
  return testing::kSanitized ? 2'000ms : 400ms;
}

constexpr std::int32_t kFaultyRanks = 3;
constexpr const char* kFaultKinds[] = {"drop", "delay", "duplicate", "corrupt", "stall", "kill"};

/// What is to go wrong, where, and by which words it is known.
struct FaultDraw {
  std::string kind;
  std::int64_t at = 0;
  std::int32_t culprit = 0;

  FaultDraw(int run, std::mt19937_64& random) : kind(kFaultKinds[run % 6]) {
    // More than there are: some come to nothing.
    at = static_cast<std::int64_t>(random() % (kind == "kill" ? 120 : 60));
    culprit = static_cast<std::int32_t>(random() % kFaultyRanks);
  }
  std::string text() const {
    return fmt::format("{}:{}={}", kind, kind == "kill" ? "op" : "frame", at);
  }
  /// A frame that never comes is seen by the next one on its lane, or by what waits for it.
  std::string words() const {
    const std::string absent = fmt::format(
        "frame [0-9]+ arrived where frame [0-9]+ was due|frame [0-9]+ of .* has not come from rank "
        "{} .*; nothing has ended",
        culprit);
    if (kind == "drop" || kind == "stall" || kind == "duplicate") return absent;
    if (kind == "corrupt") return "the checksum of frame [0-9]+ is wrong";
    if (kind == "kill")
      return fmt::format("rank {} \\(host .*, process [0-9]+\\) is lost", culprit);
    return "no words: it does no harm";
  }
};

/// What came of a draw, in processes where one is killed, else in threads.
std::vector<RankProcessEnd> ends_of(const FaultDraw& draw, const TrainingCase& test,
                                    const Program& program) {
  FaultInjector faults(parse_fault(draw.text()));
  // Stalls wait for the watchdog, and runs of this size for no longer than this.
  const std::chrono::milliseconds watchdog = patience(draw.kind);
  const RankThreads threads{.ranks = kFaultyRanks,
                            .change_group =
                                [&](std::int32_t rank, RankGroupSetup& group) {
                                  // Longer than the culprit takes to be named by who saw it.
                                  group.doubt = testing::kSanitized ? 2000ms : 100ms;
                                  group.beat = 20ms;
                                  if (rank == draw.culprit) group.faults = &faults;
                                },
                            .change =
                                [&](std::int32_t rank, TrainingSetup<float>& setup) {
                                  setup.watchdog = watchdog;
                                  if (rank == draw.culprit)
                                    setup.before_work = [&faults](DeviceId, Instance) {
                                      faults.at_op();
                                    };
                                }};
  if (draw.kind == "kill") return RankProcesses(threads, test, program).ends();
  std::vector<RankProcessEnd> ends;
  for (const RankEnd& end : threads.train(test, program))
    ends.push_back({.losses = end.report.losses, .error = end.error});
  return ends;
}

TEST(Faults, EndRightOrAreNamed) {
  TrainingCase test{.schedule = "2bw", .devices = kFaultyRanks, .width = 2};
  test.guard = {.clip = ClipScope::global, .most_norm = 0.5};
  const Program program = lower(test.make());
  const Data data = testing::data_of(test);
  const std::vector<double> losses =
      train_on_cpu<float>(program, testing::setup_of<float>(test, program, data)).losses;
  std::mt19937_64 random(11);
  std::map<std::string, int> harmless, named;
  for (int run = 0; run < runs(); ++run) {
    const FaultDraw draw(run, random);
    SCOPED_TRACE(fmt::format("run {}: {} on rank {}", run, draw.text(), draw.culprit));
    const std::vector<RankProcessEnd> ends = ends_of(draw, test, program);
    const bool fails = std::ranges::any_of(
        ends, [](const RankProcessEnd& end) { return !end.error.empty() || end.signal != 0; });
    ++(fails ? named : harmless)[draw.kind];
    if (!fails) {
      EXPECT_EQ(ends.front().losses, losses);
    }
    for (std::int32_t rank = 0; fails && rank < kFaultyRanks; ++rank) {
      const RankProcessEnd& end = ends[static_cast<std::size_t>(rank)];
      EXPECT_FALSE(end.hangs) << "rank " << rank;
      if (draw.kind == "kill" && rank == draw.culprit) {
        EXPECT_EQ(end.signal, SIGKILL);
        continue;
      }
      EXPECT_THAT(end.error, ContainsRegex(draw.words())) << "rank " << rank;
    }
  }
  std::string table;
  for (const char* kind : kFaultKinds)
    table += fmt::format("{}: {} right, {} named; ", kind, harmless[kind], named[kind]);
  RecordProperty("ends", table);
  if (std::getenv("TANDEM_FAULT_RUNS") != nullptr) fmt::print("{}\n", table);
  EXPECT_EQ(named["delay"], 0);
  for (const char* kind : {"drop", "duplicate", "corrupt", "stall", "kill"})
    EXPECT_GT(named[kind], 0) << kind;
}

TEST(Faults, AreReadOrRefused) {
  EXPECT_EQ(parse_fault("corrupt:frame=17").at, 17);
  EXPECT_EQ(parse_fault("kill:op=0").kind, FaultKind::kill);
  for (const char* wrong : {"corrupt", "corrupt:frame=", "corrupt:frame=-1", "kill:frame=3", "x"})
    EXPECT_THROW(parse_fault(wrong), InputError) << wrong;
}

}  // namespace
}  // namespace tandem
