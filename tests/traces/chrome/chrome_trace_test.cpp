#include "traces/chrome/chrome_trace.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/lower/lower.h"
#include "core/schedule/schedule.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/golden.h"
#include "tests/traces/tiny_runs.h"
#include "tests/traces/trace_files.h"
#include "traces/chrome/timeline_file.h"
#include "traces/chrome/trace_check.h"

namespace tandem::testing {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using ::testing::HasSubstr;

constexpr TinyCosts kTraceCosts{.forward = 1ms,
                                .backward = 2ms,
                                .backward_weight = 1ms,
                                .transfer = 100'003ns,
                                .update = 500us};

TraceMemory tiny_memory(const Program& program) {
  TraceMemory memory;
  memory.devices = Table<DeviceId, MemoryByClass>(
      program.placement().devices,
      {.weights = 100, .versions = 100, .gradients = 50, .optimizer = 200, .buffers = 7});
  memory.stash = Table<ReplicaId, StashBytes>(program.placement().replicas(), {.stash = 10});
  return memory;
}

TEST(ChromeTrace, IsWrittenInOurDialect) {
  const Program program = tiny_2bw(2, 2);
  const Timeline timeline = tiny_timeline(program, 1, kTraceCosts);
  const TraceRun run{.timeline = &timeline, .memory = tiny_memory(program)};
  const Folder folder;
  write_chrome_trace(folder / "t.json", program, {&run, 1},
                     {.tool = "tandem 0.0.0", .about = {{"command", "a \"test\"\n"}}});
  expect_golden("2bw-2x2.trace.json", text_of(folder / "t.json"));
}

TEST(ChromeTrace, ReadsBackAsItWasWritten) {
  const Program program = tiny_2bw(4, 8);
  const Timeline timeline = tiny_timeline(program, 3, kTraceCosts);
  const TraceRun run{.timeline = &timeline};
  const Folder folder;
  for (const char* name : {"t.json", "t.json.gz"}) {
    write_chrome_trace(folder / name, program, {&run, 1});
    const TimelineFile file = read_timeline(folder / name);
    EXPECT_EQ(file.schedule, "2bw");
    EXPECT_EQ(file.microbatches, 8);
    EXPECT_EQ(file.devices, 4);
    ASSERT_EQ(file.runs.size(), 1u);
    EXPECT_EQ(file.runs[0].clock, Clock::simulated);
    EXPECT_TRUE(file.runs[0].records == records_of(program, timeline)) << name;
    EXPECT_TRUE(check_trace(folder / name).good())
        << print_trace_check(check_trace(folder / name), name);
  }
  EXPECT_LT(std::filesystem::file_size(folder / "t.json.gz"),
            std::filesystem::file_size(folder / "t.json") / 4);
}

TEST(ChromeTrace, HoldsSimulatedAndMeasuredSideBySide) {
  const Program program = tiny_1f1b(2, 4);
  const Timeline simulated = tiny_timeline(program, 2, kTraceCosts);
  Timeline measured =
      tiny_timeline(program, 2, [](const Op& op) { return kTraceCosts(op) + 12'345ns; });
  measured.clock = Clock::measured;
  const std::array<TraceRun, 2> runs{
      {{.timeline = &simulated}, {.timeline = &measured, .memory = tiny_memory(program)}}};
  const Folder folder;
  write_chrome_trace(folder / "both.json", program, runs, {.base_time_ns = 1794700000123456789});
  const std::string text = text_of(folder / "both.json");
  EXPECT_THAT(text, HasSubstr("\"name\":\"simulated: device 1\""));
  EXPECT_THAT(text, HasSubstr("\"name\":\"measured: device 1\""));
  EXPECT_THAT(text, HasSubstr("\"baseTimeNanoseconds\": 1794700000123456789"));
  EXPECT_THAT(text, HasSubstr("\"kind\": \"simulated and measured\""));
  const TraceCheck check = check_trace({text, "both.json"});
  EXPECT_TRUE(check.good()) << print_trace_check(check, "both.json");
  EXPECT_TRUE(check.ours);
  EXPECT_EQ(check.summary.processes, 4);
  const TimelineFile file = read_timeline({text, "both.json"});
  ASSERT_EQ(file.runs.size(), 2u);
  EXPECT_TRUE(file.runs[0].records == records_of(program, simulated));
  EXPECT_TRUE(file.runs[1].records == records_of(program, measured));
  EXPECT_EQ(file.runs[1].clock, Clock::measured);
}

/// Of a busy machine: some transfers take no time, and begin where the lane's last one ended.
Duration some_free(const Op& op) {
  if (is_transfer(op.kind)) return op.microbatch % 2 == 1 ? 0ns : 1ms;
  return kTraceCosts(op);
}

TEST(ChromeTrace, GivesEverySliceALengthAndKeepsItsTrueTimes) {
  const Program program = tiny_2bw(3, 4);
  for (const OpCost& cost : {OpCost(some_free), OpCost(TinyCosts{.forward = 1ms, .backward = 1ms}),
                             OpCost(TinyCosts{})}) {
    Timeline timeline = tiny_timeline(program, 3, cost);
    timeline.clock = Clock::measured;
    const std::string text = trace_text(program, timeline);
    int moved = 0;
    const json trace = json::parse(text);
    for (const json& event : trace["traceEvents"]) {
      if (event["ph"] != "X") continue;
      EXPECT_GE(event["dur"].get<double>(), 0.002) << event;
      if (event["args"].contains("start_ns")) ++moved;
    }
    EXPECT_GT(moved, 0);
    const TraceCheck check = check_trace({text, "t.json"});
    EXPECT_TRUE(check.good()) << print_trace_check(check, "t.json");
    EXPECT_TRUE(read_timeline({text, "t.json"}).runs[0].records == records_of(program, timeline));
  }
}

TEST(ChromeTrace, PaintsEachKindInOneColour) {
  const Program program = tiny_2bw(2, 2);
  std::map<std::string, std::set<std::string>> colours;
  std::set<std::string> all;
  const json trace = json::parse(trace_text(program, tiny_timeline(program, 2, kTraceCosts)));
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    colours[event["args"]["kind"]].insert(event["cname"]);
    all.insert(event["cname"]);
  }
  EXPECT_EQ(colours.size(), 5u);
  EXPECT_EQ(all.size(), colours.size());
  for (const auto& [kind, of] : colours) EXPECT_EQ(of.size(), 1u) << kind;
}

TEST(ChromeTrace, PutsTimesAsExactDecimals) {
  const Program program = tiny_1f1b(1, 1);
  Timeline timeline = tiny_timeline(program, 1, kTraceCosts);
  timeline.spans[0].start = 1ns;
  timeline.spans[0].end = 3'600'000'000'123ns;
  EXPECT_THAT(trace_text(program, timeline), HasSubstr("\"ts\":0.001,\"dur\":3600000000.122,"));
}

TEST(ChromeTrace, NamesVersionsReadAndMade) {
  const Program program = tiny_2bw(2, 2);
  const json trace = json::parse(trace_text(program, tiny_timeline(program, 4, kTraceCosts)));
  int reads = 0, updates = 0;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] != "X" || !event["args"].contains("weight_version")) continue;
    const json& args = event["args"];
    const auto batch = args["batch"].get<std::int64_t>();
    const auto version = args["weight_version"].get<std::int64_t>();
    if (args["kind"] == "update") {
      EXPECT_EQ(version, batch + 1);
      EXPECT_EQ(event["name"], "U " + std::to_string(version));
      ++updates;
    } else {
      EXPECT_EQ(version, std::max<std::int64_t>(batch - 1, 0));
      ++reads;
    }
  }
  EXPECT_EQ(updates, 8);
  EXPECT_EQ(reads, 2 * 2 * 8);
}

TEST(ChromeTrace, DropsFlowsAndCountersWhenAsked) {
  const Program program = tiny_2bw(2, 2);
  const std::string text = trace_text(program, tiny_timeline(program, 1, kTraceCosts),
                                      {.flows = false, .counters = false});
  const TraceCheck check = check_trace({text, "t.json"});
  EXPECT_TRUE(check.good());
  EXPECT_EQ(check.summary.flows, 0);
  EXPECT_EQ(check.summary.counters, 0);
}

TEST(ChromeTrace, OfNothingIsStillATrace) {
  const Program program = tiny_1f1b(2, 2);
  const std::string text = trace_text(program, Timeline{});
  EXPECT_TRUE(check_trace({text, "t.json"}).good());
  EXPECT_TRUE(read_timeline({text, "t.json"}).runs[0].records.empty());
}

TEST(ChromeTrace, LeavesNoFileWhenTheDiskIsFull) {
  const Program program = tiny_2bw(4, 8);
  const Timeline timeline = tiny_timeline(program, 100, kTraceCosts);
  const TraceRun run{.timeline = &timeline};
  const Folder folder;
  const FileSizeLimit full(64);
  for (const char* name : {"t.json", "t.json.gz"}) {
    EXPECT_THROW(write_chrome_trace(folder / name, program, {&run, 1}), DeviceError);
    EXPECT_TRUE(folder.empty()) << name;
  }
}

TEST(ChromeTraceDeathTest, RefusesTwoRunsOfOneName) {
  const Program program = tiny_1f1b(2, 2);
  const Timeline timeline;
  const std::array<TraceRun, 2> runs{{{.timeline = &timeline}, {.timeline = &timeline}}};
  const Folder folder;
  EXPECT_DEATH(write_chrome_trace(folder / "t.json", program, runs), "label_of");
}

/// Each schedule of the registry, on link lanes and on none.
class ChromeTraceOfSchedule : public ::testing::TestWithParam<std::string> {};

TEST_P(ChromeTraceOfSchedule, IsGoodAndReadsBack) {
  const ScheduleTraits& traits = find_schedule(GetParam());
  ScheduleRequest request;
  request.devices = 4;
  request.microbatches = 8;
  if (traits.only_devices != 0) request.devices = traits.only_devices;
  if (traits.replicas_per_device == 0) request.chunks = 2;
  while (reason_against(traits, request) && request.microbatches > 1) --request.microbatches;
  for (const TransferLanes lanes : {TransferLanes::shared, TransferLanes::ideal}) {
    const Program program = lower(make_schedule(traits, request), lanes);
    for (const OpCost& cost : {OpCost(kTraceCosts), OpCost(some_free)}) {
      const Timeline timeline = tiny_timeline(program, 3, cost);
      const std::string text = trace_text(program, timeline);
      const TraceCheck check = check_trace({text, "t.json"});
      EXPECT_TRUE(check.good()) << print_trace_check(check, "t.json");
      EXPECT_TRUE(read_timeline({text, "t.json"}).runs[0].records == records_of(program, timeline));
    }
  }
}

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const ScheduleTraits& traits : schedules()) names.emplace_back(traits.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Registry, ChromeTraceOfSchedule, ::testing::ValuesIn(schedule_names()),
                         [](const auto& each) {
                           std::string name = each.param;
                           for (char& letter : name) {
                             if (std::isalnum(static_cast<unsigned char>(letter)) == 0)
                               letter = '_';
                           }
                           return name;
                         });

}  // namespace
}  // namespace tandem::testing
