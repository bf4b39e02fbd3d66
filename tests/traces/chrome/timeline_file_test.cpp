#include "traces/chrome/timeline_file.h"

#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/core/error_of.h"
#include "tests/support/data.h"
#include "tests/support/edited_text.h"
#include "tests/traces/tiny_runs.h"
#include "tests/traces/trace_files.h"
#include "traces/chrome/trace_events.h"

namespace tandem::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

std::string valid_trace() {
  const Program program = tiny_1f1b(2, 2);
  return trace_text(
      program,
      tiny_timeline(program, 1,
                    TinyCosts{.forward = 1ms, .backward = 2ms, .transfer = 100us, .update = 1ms}));
}

std::string timeline_error(const std::string& text) {
  return error_of([&] { read_timeline({text, "t.json"}); });
}

/// The valid trace with the first `from` replaced.
std::string valid_with(const std::string& from, const std::string& to) {
  return with(valid_trace(), from, to);
}

TEST(TimelineFile, RecordsATransferOnBothLanes) {
  const TimelineFile file = read_timeline({valid_trace(), "t.json"});
  TimelineRecords sends;
  for (const TimelineRecord& record : file.runs.at(0).records) {
    if (record.kind == OpKind::send_activation && record.microbatch == 1) sends.push_back(record);
  }
  ASSERT_EQ(sends.size(), 2u);
  EXPECT_EQ(sends[0].device, DeviceId{0});
  EXPECT_EQ(sends[0].lane, LaneKind::send_activation);
  EXPECT_EQ(sends[0].peer, DeviceId{1});
  EXPECT_EQ(sends[1].device, DeviceId{1});
  EXPECT_EQ(sends[1].lane, LaneKind::receive_activation);
  EXPECT_EQ(sends[1].peer, DeviceId{0});
  EXPECT_EQ(sends[0].start, sends[1].start);
  EXPECT_EQ(sends[0].replica, ReplicaId{0});
}

TEST(TimelineFile, SaysWhereAndWhatIsWrong) {
  EXPECT_THAT(timeline_error(valid_with("\"kind\":\"forward\"", "\"kind\":\"fordward\"")),
              HasSubstr("/args/kind: \"fordward\" is not known"));
  EXPECT_THAT(timeline_error(valid_with("\"microbatch\":0", "\"microbatch\":0.5")),
              HasSubstr("/args/microbatch: expected an integer from"));
  EXPECT_THAT(timeline_error(valid_with("\"stage\":0", "\"stage\":70000")),
              HasSubstr("/args/stage: expected an integer from 0 to 65535"));
  EXPECT_THAT(timeline_error(valid_with("\"dur\":1000.000", "\"dur\":-1")),
              HasSubstr("/dur: expected"));
  EXPECT_THAT(timeline_error(valid_with("\"ts\":0.000", "\"ts\":\"soon\"")),
              HasSubstr("/ts: expected a time in microseconds"));
  EXPECT_THAT(timeline_error(valid_with("\"ts\":0.000", "\"ts\":1e300")),
              HasSubstr("less than 104 days"));
  EXPECT_THAT(
      timeline_error(valid_with("\"pid\":1,\"tid\":1000,\"ts\"", "\"pid\":9,\"tid\":1000,\"ts\"")),
      HasSubstr("its pid belongs to no run"));
  EXPECT_THAT(
      timeline_error(valid_with("\"pid\":1,\"tid\":1000,\"ts\"", "\"pid\":1,\"tid\":77,\"ts\"")),
      HasSubstr("its lane has no name"));
  EXPECT_THAT(timeline_error(valid_with("\"name\":\"compute\"", "\"name\":\"compote\"")),
              HasSubstr("no lane has the name \"compote\""));
  EXPECT_THAT(timeline_error(valid_with("\"first_pid\": 1", "\"first_pid\": 0")),
              HasSubstr("/metadata/runs/0/first_pid"));
  EXPECT_THAT(
      timeline_error(valid_with("\"kind\": \"simulated\", \"first", "\"kind\": \"real\", \"first")),
      HasSubstr("expected \"simulated\" or \"measured\""));
  EXPECT_THAT(timeline_error(valid_with("\"devices\": 2", "\"devices\": -2")),
              HasSubstr("/metadata/devices"));
  EXPECT_THAT(timeline_error(valid_with("\"args\":{\"stage\"", "\"args\":{\"end_ns\":7,\"stage\"")),
              HasSubstr("/args: expected \"start_ns\""));
  EXPECT_THAT(timeline_error(valid_with("\"args\":{\"stage\"",
                                        "\"args\":{\"start_ns\":9,\"end_ns\":7,\"stage\"")),
              HasSubstr("/args/end_ns: expected an end not before the start"));
}

TEST(TimelineFile, RefusesTracesOfOtherTools) {
  EXPECT_THAT(timeline_error("[]"), HasSubstr("not a timeline of tandem"));
  EXPECT_THAT(timeline_error("{\"traceEvents\": []}"), HasSubstr("not a timeline of tandem"));
  EXPECT_THAT(timeline_error(R"({"metadata": {"runs": []}})"),
              HasSubstr("not a timeline of tandem"));
}

TEST(TimelineFile, RefusesWhatIsNotJsonWithThePlace) {
  EXPECT_THAT(timeline_error(""), HasSubstr("t.json:1:1: error: not valid JSON"));
  EXPECT_THAT(timeline_error("[{]"), HasSubstr("t.json:1:3: error: not valid JSON"));
  EXPECT_THAT(timeline_error("[\"\xff\"]"), HasSubstr("not valid JSON"));
  EXPECT_THAT(timeline_error("[1e999]"), HasSubstr("not valid JSON"));
  EXPECT_THAT(timeline_error("[] []"), HasSubstr("not valid JSON"));
  EXPECT_THAT(timeline_error(std::string(1'000'000, '[')), HasSubstr("nested too deeply"));
  const std::string text = valid_trace();
  for (std::size_t size = 0; size + 2 < text.size(); size += 37) {
    EXPECT_THAT(timeline_error(text.substr(0, size)), HasSubstr("not valid JSON")) << size;
  }
}

TEST(TimelineFile, RefusesFilesThatAreNotThere) {
  const Folder folder;
  EXPECT_THROW(read_timeline(folder / "none.json"), InputError);
  EXPECT_THROW(read_timeline(folder / "."), InputError);
}

TEST(TimelineFile, RefusesATruncatedOrDamagedArchive) {
  const Program program = tiny_1f1b(2, 2);
  const Timeline timeline = tiny_timeline(program, 9, TinyCosts{.forward = 1ms, .backward = 2ms});
  const TraceRun run{.timeline = &timeline};
  const Folder folder;
  write_chrome_trace(folder / "t.json.gz", program, {&run, 1});
  const std::string whole = text_of(folder / "t.json.gz");
  for (std::size_t size = 1; size < whole.size(); size += whole.size() / 20) {
    std::ofstream(folder / "cut.json.gz", std::ios::binary) << whole.substr(0, size);
    EXPECT_THROW(read_timeline(folder / "cut.json.gz"), InputError) << size;
  }
  std::string damaged = whole;
  damaged[whole.size() / 2] = static_cast<char>(damaged[whole.size() / 2] ^ 0x55);
  std::ofstream(folder / "bad.json.gz", std::ios::binary) << damaged;
  EXPECT_THROW(read_timeline(folder / "bad.json.gz"), InputError);
}

TEST(TraceEvents, StopAtTheirLimits) {
  const auto damage_of = [](const std::string& text, const TraceLimits& limits) {
    const TraceFrame frame =
        read_trace_events({text, "t.json"}, [](std::size_t, const nlohmann::json&) {}, limits);
    return frame.damage ? frame.damage->message : "none";
  };
  EXPECT_EQ(damage_of("[[1, 2, 3]]", {.values = 2}), "holds too many values");
  EXPECT_EQ(damage_of("[[1, 2, 3]]", {.values = 3}), "none");
  EXPECT_EQ(damage_of("[[[]]]", {.depth = 2}), "nested too deeply");
  const Folder folder;
  std::ofstream(folder / "t.json") << "[" << std::string(100'000, ' ') << "]";
  const TraceFrame frame = read_trace_events(
      folder / "t.json", [](std::size_t, const nlohmann::json&) {}, {.bytes = 1000});
  ASSERT_TRUE(frame.damage.has_value());
  EXPECT_THAT(frame.damage->message, HasSubstr("more than 1000 bytes"));
}

TEST(TraceEvents, VisitEventsAndKeepMetadataOnly) {
  std::vector<std::string> seen;
  const TraceFrame frame = read_trace_events(
      {R"({"other": {"traceEvents": [1]}, "traceEvents": [{"a": [1, {"b": 2}]}, 3, []],)"
       R"( "metadata": {"k": ["v"]}, "more": [[4]]})",
       "t.json"},
      [&seen](std::size_t position, const nlohmann::json& event) {
        EXPECT_EQ(position, seen.size());
        seen.push_back(event.dump());
      });
  EXPECT_THAT(seen, ::testing::ElementsAre(R"({"a":[1,{"b":2}]})", "3", "[]"));
  EXPECT_EQ(frame.metadata.dump(), R"({"k":["v"]})");
  EXPECT_EQ(frame.events, 3u);
  EXPECT_TRUE(frame.has_events);
}

}  // namespace
}  // namespace tandem::testing
