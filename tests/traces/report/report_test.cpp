#include "traces/report/report.h"

#include <cstdlib>
#include <sstream>
#include <string>
#include <string_view>

#include <boost/property_tree/xml_parser.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "tests/traces/tiny_runs.h"
#include "tests/traces/trace_files.h"

namespace tandem::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

constexpr TinyCosts kReportCosts{
    .forward = 1ms, .backward = 2ms, .transfer = 200us, .update = 500us};
constexpr std::string_view kHostile =
    "</script><script>alert(1)</script><!-- & \" ' \\ \x01 \xff ]]> \u2028";

Report report_of(const Program& program, std::int64_t batches = 2, std::string title = "tiny") {
  const Timeline timeline = tiny_timeline(program, batches, kReportCosts);
  const Table<ReplicaId, StashBytes> stash(program.placement().replicas(), {.stash = 100});
  ChartMemory memory{.peak = {},
                     .activations = curves_of(program, timeline, stash).activation_bytes,
                     .capacity = Table<DeviceId, Bytes>(program.placement().devices, 2000)};
  for (const Curve& curve : memory.activations)
    memory.peak.push_back({.weights = 500, .activations = peak_of(curve)});
  ReportFrame frame{.label = title,
                    .chart = chart_of(program, timeline, std::move(memory)),
                    .facts = {{title, "1 s", 1.0}},
                    .table = {.columns = {"device", title}, .rows = {{"0", title}}}};
  return {.title = title,
          .summary = title,
          .command = title,
          .tool = title,
          .assumptions = {title},
          .frames = {frame, frame},
          .variations = {{.name = title, .asked = title, .frames = {0, 1}}}};
}

/// What the page's script reads.
Json data_of(const std::string& page) {
  constexpr std::string_view kOpen = R"(<script type="application/json" id="data">)";
  const std::size_t first = page.find(kOpen) + kOpen.size();
  return Json::parse(page.substr(first, page.find("</script>", first) - first));
}

std::size_t count(std::string_view text, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

TEST(ReportPage, HoldsEveryBoxExactly) {
  const Report report = report_of(tiny_2bw(3, 4));
  const Chart& chart = report.frames[0].chart;
  const Json frame = data_of(report_page(report))["frames"][0];
  const Json& boxes = frame["boxes"];
  ASSERT_EQ(boxes["type"].size(), chart.boxes.size());
  EXPECT_EQ(frame["length"], (chart.end - chart.start).count());
  std::size_t at = 0;
  for (std::size_t row = 0; row < chart.rows.size(); ++row) {
    EXPECT_EQ(frame["rows"][row]["boxes"], chart.row_end(row) - at);
    for (std::int64_t free = 0; at < chart.row_end(row); ++at) {
      const ChartBox& box = chart.boxes[at];
      const Json& type = boxes["types"][boxes["type"][at].get<std::size_t>()];
      EXPECT_EQ(type["kind"], name(box.kind));
      EXPECT_EQ(type["stage"], index(box.replica));
      EXPECT_EQ(boxes["microbatch"][at], box.microbatch);
      EXPECT_EQ(boxes["version"][at], box.version.value_or(-1));
      const std::int64_t start = free + boxes["gap"][at].get<std::int64_t>();
      free = start + boxes["length"][at].get<std::int64_t>();
      EXPECT_EQ(start, (box.start - chart.start).count());
      EXPECT_EQ(free, (box.end - chart.start).count());
    }
  }
}

TEST(ReportPage, HoldsBubblesAndCurves) {
  const Report report = report_of(tiny_1f1b(3, 4), 1);
  const Chart& chart = report.frames[0].chart;
  const Json frame = data_of(report_page(report))["frames"][0];
  ASSERT_EQ(frame["idle"]["length"].size(), chart.idle.size());
  for (std::size_t i = 0; i < chart.idle.size(); ++i) {
    const ChartIdle& idle = chart.idle[i];
    EXPECT_EQ(frame["idle"]["length"][i], (idle.end - idle.start).count());
    EXPECT_EQ(frame["idle"]["cause"][i], idle.cause ? static_cast<std::int64_t>(*idle.cause) : -1);
  }
  for (const Json& device : frame["memory"]["devices"]) {
    std::int64_t standing = 0, most = 0;
    for (const auto& [name, bytes] : device["bands"].items()) standing += bytes.get<Bytes>();
    for (const Json& value : device["curve"]["value"]) most = std::max(most, value.get<Bytes>());
    EXPECT_EQ(standing + most, device["peak"]);
    EXPECT_EQ(device["capacity"], 2000);
  }
}

TEST(ReportPage, NamesCannotBreakOut) {
  const Program program = tiny_1f1b(2, 2);
  const std::string page = report_page(report_of(program, 1, std::string(kHostile)));
  const std::string harmless = report_page(report_of(program, 1));
  for (const std::string_view part : {"</script", "<script", "<!--", "alert"}) {
    const bool text = part == "alert";  // it is there, but only as data
    EXPECT_EQ(count(page, part) > count(harmless, part), text) << part;
  }
  const std::string title = data_of(page)["title"];
  EXPECT_THAT(title,
              ::testing::StartsWith("</script><script>alert(1)</script><!-- & \" ' \\ \\u0001"));
  // What the count is of: unescaped, the same name would end the script.
  EXPECT_GT(count(harmless + std::string(kHostile), "</script"), count(harmless, "</script"));
}

TEST(ReportPage, AsksTheNetworkForNothing) {
  const std::string page = report_page(report_of(tiny_1f1b(2, 2), 1));
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  for (const char* part : {"http:", "https:", "src=", "@import", "url(", "fetch("})
    EXPECT_THAT(page, Not(HasSubstr(part))) << part;
}

boost::property_tree::ptree xml_of(const std::string& text) {
  std::istringstream stream(text);
  boost::property_tree::ptree tree;
  boost::property_tree::read_xml(stream, tree);
  return tree;
}

TEST(ReportPicture, IsWellFormedWhateverTheNames) {
  const std::string picture = report_picture(report_of(tiny_1f1b(2, 2), 1, std::string(kHostile)));
  const auto tree = xml_of(picture);
  EXPECT_THAT(tree.get<std::string>("svg.title"), HasSubstr("</script><script>alert(1)"));
  EXPECT_THAT(picture, Not(HasSubstr("<script")));
  EXPECT_ANY_THROW(xml_of(picture.substr(0, picture.size() / 2)));
}

TEST(ReportPicture, DrawsEachBoxAndCurve) {
  const Report report = report_of(tiny_1f1b(3, 4));
  const std::string picture = report_picture(report);
  const auto drawn = [&](std::string_view colour) {
    return count(picture, "<rect fill=\"" + std::string(colour) + "\"") +
           count(picture, "<rect class=\"e\" fill=\"" + std::string(colour) + "\"");
  };
  const std::size_t legend = 1, batches = 2;
  EXPECT_EQ(drawn("#56b4e9"), 3 * 4 * batches + legend);      // forwards
  EXPECT_EQ(drawn("#e69f00"), 3 * 4 * batches + legend);      // backwards
  EXPECT_EQ(drawn("#cc79a7"), 3 * batches + legend);          // updates
  EXPECT_EQ(drawn("#d55e00"), 2 * 2 * 4 * batches + legend);  // gradients, on two lanes each
  EXPECT_EQ(count(picture, "<path fill=\"#009e73\""), 3U);    // a curve a device
}

TEST(ReportPicture, NamesWhatIsRunAndEachLinkLane) {
  Report report = report_of(tiny_1f1b(3, 4));
  report.summary = "a model on a cluster\nwidth 2, depth 3";
  const std::string picture = report_picture(report);
  for (const char* text : {">a model on a cluster<", ">width 2, depth 3<", ">activation \u2192 1<",
                           ">activation \u2190 0<", ">gradient \u2192 0<"})
    EXPECT_THAT(picture, HasSubstr(text));
}

TEST(ReportPicture, TwoKindsOfOneColourDifferByAHatch) {
  for (const OpTraits& one : kOpTraits) {
    for (const OpTraits& other : kOpTraits) {
      if (one.kind == other.kind) continue;
      EXPECT_TRUE(one.colour != other.colour || one.hatch != other.hatch) << one.title;
      EXPECT_NE(one.viewer, other.viewer) << one.title;
    }
  }
}

// What is too narrow to see takes as much of the row as it does of the time: the rest stays idle.
TEST(ReportPicture, ALongRunShowsHowMuchOfItIsIdle) {
  Report report = report_of(tiny_1f1b(2, 1000), 1);
  const Chart& chart = report.frames[0].chart;
  double busy = 0.0, drawn = 0.0;
  for (std::size_t row = 0; row < chart.rows.size(); ++row) {
    for (std::size_t i = chart.rows[row].first_box; i < chart.row_end(row); ++i) {
      if (on_compute_lane(chart.boxes[i].kind))
        busy += to_seconds(chart.boxes[i].end - chart.boxes[i].start);
    }
  }
  const std::string picture = report_picture(report);
  constexpr std::string_view kRow = "stroke-width=\"24\" d=\"";
  for (std::size_t at = picture.find(kRow); at != std::string::npos; at = picture.find(kRow, at)) {
    const std::size_t end = picture.find('"', at += kRow.size());
    for (at = picture.find('h', at); at < end; at = picture.find('h', at + 1))
      drawn += std::strtod(picture.c_str() + at + 1, nullptr);
  }
  const double share = busy / (2.0 * to_seconds(chart.end - chart.start));
  EXPECT_LT(share, 0.95);
  EXPECT_NEAR(drawn / (2.0 * 880.0), share, 0.01);
}

TEST(ReportPicture, StaysSmallHoweverManyBoxes) {
  const Report small = report_of(tiny_1f1b(3, 4)), large = report_of(tiny_1f1b(3, 2000));
  EXPECT_GT(large.frames[0].chart.boxes.size(), 200 * small.frames[0].chart.boxes.size());
  EXPECT_LT(report_picture(large).size(), 1'000'000U);
}

TEST(ReportPicture, IsDrawnWithoutBytesToo) {
  Report report = report_of(tiny_2bw(2, 2));
  report.frames[0].chart.memory.reset();
  const std::string picture = report_picture(report);
  EXPECT_THAT(picture, HasSubstr("microbatches in flight"));
  EXPECT_THAT(picture, HasSubstr("at most 2"));
  EXPECT_NO_THROW(xml_of(picture));
}

TEST(Report, AppearsWholeOrNotAtAll) {
  const Folder folder;
  const Report report = report_of(tiny_1f1b(2, 2), 1);
  for (const std::string name : {"a.html", "a.svg"}) {
    write_report(folder / name, report);
    EXPECT_EQ(text_of(folder / name),
              name == "a.html" ? report_page(report) : report_picture(report));
    EXPECT_THROW(write_report(folder / "none" / name, report), DeviceError);
    std::filesystem::remove(folder / name);
    EXPECT_TRUE(folder.empty());
  }
}

TEST(ReportDeath, VariationsHoldTheRunAskedFor) {
  Report report = report_of(tiny_1f1b(2, 2), 1);
  report.variations[0].frames = {1};
  EXPECT_DEATH(report_page(report), "asked_for");
}

}  // namespace
}  // namespace tandem::testing
