#include "traces/chrome/trace_check.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/support/data.h"
#include "tests/support/edited_text.h"
#include "tests/traces/tiny_runs.h"
#include "tests/traces/trace_files.h"

namespace tandem::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

std::string good_trace() {
  const Program program = tiny_2bw(2, 2);
  return trace_text(
      program,
      tiny_timeline(program, 2,
                    TinyCosts{.forward = 1ms, .backward = 2ms, .transfer = 100us, .update = 1ms}));
}

std::string good_with(const std::string& from, const std::string& to) {
  return with(good_trace(), from, to);
}

/// What the check says of a trace with exactly this fault planted.
std::string fault(const std::string& text) {
  const TraceCheck check = check_trace({text, "t.json"});
  EXPECT_FALSE(check.good()) << text.substr(0, 300);
  return print_trace_check(check, "t.json");
}

/// A foreign trace of these events, with the names that keep it free of warnings.
std::string foreign(const std::string& events) {
  return R"([{"ph":"M","name":"process_name","pid":1,"tid":7,"args":{"name":"p"}},)"
         R"({"ph":"M","name":"thread_name","pid":1,"tid":7,"args":{"name":"t"}},)" +
         events + "]";
}

std::string slice(const std::string& start, const std::string& length,
                  const std::string& tid = "7") {
  return R"({"ph":"X","name":"a","pid":1,"tid":)" + tid + R"(,"ts":)" + start + R"(,"dur":)" +
         length + "}";
}

TEST(TraceCheck, AcceptsOurTraces) {
  const TraceCheck check = check_trace({good_trace(), "t.json"});
  EXPECT_TRUE(check.good()) << print_trace_check(check, "t.json");
  EXPECT_TRUE(check.ours);
  EXPECT_EQ(check.summary.slices, 2 * (4 + 4 + 2) + 2 * (4 + 4));
  EXPECT_EQ(check.summary.flows, 8);
  EXPECT_EQ(check.summary.lanes, 6);
  EXPECT_EQ(check.summary.instants, 4);
  EXPECT_EQ(check.summary.tracks, 4);
  EXPECT_EQ(check.summary.first, 0ms);
}

TEST(TraceCheck, CatchesEachPlantedFault) {
  EXPECT_THAT(fault(good_with("\"dur\":1000.000", "\"dur\":1000.001")),
              HasSubstr("overlaps event"));
  EXPECT_THAT(fault(good_with("\"dur\":1000.000", "\"dur\":-5")), HasSubstr("\"dur\" is negative"));
  EXPECT_THAT(fault(good_with("\"ts\":1000.000", "\"ts\":-1000")), HasSubstr("\"ts\" is negative"));
  EXPECT_THAT(fault(good_with("\"ts\":1000.000", "\"ts\":null")),
              HasSubstr("\"ts\" is not a finite"));
  EXPECT_THAT(fault(good_with("\"dur\":1000.000,", "")), HasSubstr("has no \"dur\""));
  EXPECT_THAT(fault(good_with("\"ph\":\"X\",", "")), HasSubstr("has no phase"));
  EXPECT_THAT(
      fault(good_with(
          "\"ph\":\"f\",\"bp\":\"e\",\"name\":\"send_activation\",\"cat\":\"comm\",\"id\":1",
          "\"ph\":\"f\",\"bp\":\"e\",\"name\":\"send_activation\",\"cat\":\"comm\",\"id\":99")),
      HasSubstr("starts and never ends"));
  EXPECT_THAT(fault(good_with("\"ph\":\"s\",\"name\":\"send_activation\",\"cat\":\"comm\"",
                              "\"ph\":\"s\",\"name\":\"send_activation\",\"cat\":\"com\"")),
              HasSubstr("ends and never started"));
  EXPECT_THAT(fault(good_with("\"pid\":2,\"tid\":1002,\"ts\":1099.999",
                              "\"pid\":2,\"tid\":1002,\"ts\":1100.999")),
              HasSubstr("outside any slice"));
  EXPECT_THAT(fault(good_with("\"pid\":2,\"tid\":1002,\"ts\":1099.999",
                              "\"pid\":1,\"tid\":1000,\"ts\":999.999")),
              HasSubstr("ends before its start"));
  EXPECT_THAT(fault(good_with("\"name\":\"thread_name\",\"pid\":1,\"tid\":1000",
                              "\"name\":\"thread_nome\",\"pid\":1,\"tid\":1000")),
              HasSubstr("has no thread_name"));
  EXPECT_THAT(fault(good_with("\"name\":\"process_name\",\"pid\":2",
                              "\"name\":\"process_nome\",\"pid\":2")),
              HasSubstr("has no process_name"));
  EXPECT_THAT(fault(good_with("\"microbatches\":1}", "\"microbatches\":[]}")),
              HasSubstr("no number"));
  EXPECT_THAT(
      fault(good_with(
          "\"ph\":\"C\",\"name\":\"microbatches in flight\",\"pid\":1,\"tid\":0,\"ts\":0.000",
          "\"ph\":\"C\",\"name\":\"microbatches in flight\",\"pid\":1,\"tid\":0,\"ts\":1500")),
      HasSubstr("before the previous one"));
}

/// A transfer from lane 10 to lane 20 that begins where the lane's last one ended.
std::string with_transfer(const std::string& start, const std::string& length,
                          const std::string& tail, const std::string& tip,
                          const std::string& unit = "ns") {
  std::string events;
  for (const std::string pid : {"1", "2"}) {
    const std::string place = R"(,"pid":)" + pid + R"(,"tid":)" + pid + "0";
    events += R"({"ph":"M","name":"process_name")" + place + R"(,"args":{"name":"p"}},)" +
              R"({"ph":"M","name":"thread_name")" + place + R"(,"args":{"name":"t"}},)" +
              R"({"ph":"X","name":"first","ts":0,"dur":5.1)" + place + "}," +
              R"({"ph":"X","name":"second","ts":)" + start + R"(,"dur":)" + length + place + "},";
  }
  return R"({"displayTimeUnit":")" + unit + R"(","metadata":{"tool":"tandem"},"traceEvents":[)" +
         events + R"({"ph":"s","name":"n","cat":"c","id":1,"pid":1,"tid":10,"ts":)" + tail +
         R"(},{"ph":"f","bp":"e","name":"n","cat":"c","id":1,"pid":2,"tid":20,"ts":)" + tip + "}]}";
}

TEST(TraceCheck, RefusesArrowsThatChromeTracingLoses) {
  const auto check = [](const std::string& text) { return check_trace({text, "t.json"}); };
  EXPECT_TRUE(check(with_transfer("5.1", "0.002", "5.101", "5.101")).good());
  EXPECT_TRUE(check(with_transfer("5.2", "0", "5.2", "5.2")).good());
  const std::string lost = with_transfer("5.1", "0", "5.1", "5.1");
  EXPECT_THAT(fault(lost), HasSubstr("chrome://tracing may not find"));
  EXPECT_EQ(check(lost).errors, 2);
  EXPECT_THAT(fault(with_transfer("5.1", "0.1", "5.1", "5.199")), HasSubstr("border of two"));
  // Where a microsecond is the least, a slice that is shorter is nested like one of no length.
  const std::string shorter = with_transfer("5.1", "0.1", "5.15", "5.199", "ms");
  EXPECT_THAT(fault(shorter), HasSubstr("chrome://tracing may not find"));
  EXPECT_TRUE(check(with_transfer("5.1", "1", "5.15", "6.099", "ms")).good());
  EXPECT_THAT(fault(with_transfer("5.2", "0", "5.2", "5.2", "us")), HasSubstr("displayTimeUnit"));
}

TEST(TraceCheck, CatchesThreadsThatViewersConfuse) {
  const auto renumbered = [](const std::string& from, const std::string& to) {
    std::string text = good_trace();
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
      text.replace(at, from.size(), to);
    }
    return text;
  };
  EXPECT_THAT(fault(renumbered("\"tid\":1003,", "\"tid\":1000,")),
              HasSubstr("tid 1000 is in pid 1 and in pid 2"));
  EXPECT_THAT(fault(renumbered("\"tid\":1000,", "\"tid\":0,")), HasSubstr("its tid is 0"));
  EXPECT_THAT(fault(renumbered("\"tid\":1000,", "\"tid\":2,")),
              HasSubstr("its tid, 2, is also a pid"));
}

TEST(TraceCheck, CatchesTruncation) {
  const std::string text = good_trace();
  for (const std::size_t size : {text.size() / 3, text.size() / 2, text.size() - 3}) {
    EXPECT_THAT(fault(text.substr(0, size)), HasSubstr("not valid JSON"));
  }
  EXPECT_THAT(fault("{}"), HasSubstr("holds no array of events"));
  EXPECT_THAT(fault("7"), HasSubstr("holds no array of events"));
}

TEST(TraceCheck, AcceptsForeignTraces) {
  const std::vector<std::string> traces{
      "[]",
      foreign(slice("0", "5") + "," + slice("5", "1") + "," + slice("1", "2.5")),
      foreign(R"({"ph":"B","name":"a","pid":1,"tid":7,"ts":1},{"ph":"E","pid":1,"tid":7,"ts":2})"),
      foreign(R"({"ph":"Z","what":1},{"ph":"N","id":1,"pid":1,"ts":0},{"ph":"P","ts":1})"),
      foreign(R"({"ph":"b","id":1,"pid":1,"tid":7,"ts":1},{"ph":"e","id":1,"pid":1,"ts":9})"),
      foreign(slice("848671.6747283936", "0.1") + "," + slice("848671.7747283935", "1")),
      foreign(slice("1", "1", "\"text\"") +
              R"(,{"ph":"M","name":"thread_name","pid":1,"tid":"text","args":{"name":"t"}})")};
  for (const std::string& text : traces) {
    const TraceCheck check = check_trace({text, "t.json"});
    EXPECT_TRUE(check.good()) << text << "\n" << print_trace_check(check, "t.json");
    EXPECT_EQ(check.warnings, 0) << text << "\n" << print_trace_check(check, "t.json");
    EXPECT_FALSE(check.ours);
  }
}

TEST(TraceCheck, HoldsForeignTracesToTheViewersRulesOnly) {
  const TraceCheck nameless = check_trace({"[" + slice("0", "5", "0") + "]", "t.json"});
  EXPECT_TRUE(nameless.good());
  EXPECT_EQ(nameless.warnings, 3);  // two names, and tid 0
  const TraceCheck merged =
      check_trace({"[" + slice("0", "5", "0") + "," + slice("0", "5", "1") + "]", "t.json"});
  EXPECT_FALSE(merged.good());
  EXPECT_FALSE(check_trace({foreign(slice("0", "5") + "," + slice("3", "4")), "t.json"}).good());
  EXPECT_FALSE(check_trace({foreign(R"({"ph":"E","pid":1,"tid":7,"ts":2})"), "t.json"}).good());
  EXPECT_FALSE(check_trace({foreign(R"({"ph":"B","pid":1,"tid":7,"ts":2})"), "t.json"}).good());
}

TEST(TraceCheck, KeepsTheFirstProblemsAndCountsAll) {
  std::string events = slice("0", "-1");
  for (int i = 0; i < 999; ++i) events += "," + slice("0", "-1");
  const TraceCheck check = check_trace({foreign(events), "t.json"});
  EXPECT_EQ(check.errors, 1000);
  ASSERT_EQ(check.problems.size(), kMostTraceProblems);
  EXPECT_EQ(check.problems.front().event, 2);
  EXPECT_THAT(print_trace_check(check, "t.json"), HasSubstr("and 900 more"));
}

TEST(TraceCheck, ThrowsForAFileThatIsNotThere) {
  const Folder folder;
  EXPECT_THROW(check_trace(folder / "none.json"), InputError);
}

/// A trace of another project, recorded on real machines: 4 pipeline stages × 2 replicas.
class StragglerTrace : public DataTest {};

TEST_F(StragglerTrace, IsReadWholeAndItsOverlapsAreFound) {
  // Its lanes hold sends and receives together, and some of them overlap.
  const TraceCheck check = check_trace(data_path("straggler/timeline-ST.json.gz"));
  EXPECT_FALSE(check.ours);
  EXPECT_EQ(check.summary.events, 6866);
  EXPECT_EQ(check.summary.slices, 6784);
  EXPECT_EQ(check.summary.metadata, 82);
  EXPECT_EQ(check.summary.lanes, 24);
  EXPECT_EQ(check.errors, 77);
  for (const TraceProblem& problem : check.problems) {
    if (problem.severity == TraceSeverity::error) {
      EXPECT_THAT(problem.message, HasSubstr("overlaps"));
    }
  }
}

}  // namespace
}  // namespace tandem::testing
