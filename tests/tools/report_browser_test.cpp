// The page of a report in a real browser, headless: it draws every box without an error, its slider
// and keys do what they say, and many boxes are drawn.

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "tests/tools/tandem.h"

namespace tandem::testing {
namespace {

constexpr const char* kBrowser = "/usr/bin/chromium";

/// At the end of the page: uses it as a person would, and writes what it saw into attributes.
constexpr std::string_view kDriver = R"(<script>
{
const seen = document.documentElement.dataset;
const press = (key) => element("timeline").dispatchEvent(new KeyboardEvent("keydown", { key }));
const slide = (id, value) => {
  element(id).value = value;
  element(id).dispatchEvent(new Event("input"));
};
const middleOf = (box) => {
  const { boxes, rows } = current.frame;
  const above = rows[rowOf(current.frame, box)].y + 2;  // the number
  return [timeX((boxes.start[box] + boxes.end[box]) / 2), above];
};
const colourAt = (x, y) => {
  const pixel = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const density = devicePixelRatio;
  pixel.drawImage(timeline.canvas, x * density, y * density, 1, 1, 0, 0, 1, 1);
  const { data } = pixel.getImageData(0, 0, 1, 1);
  return "#" + [...data].slice(0, 3).map((of) => of.toString(16).padStart(2, "0")).join("");
};

// The forwards of a lane are where they should be, and in their colour.
let wrong = 0, looked = 0;
for (let box = 0; box < Math.min(current.frame.count, 200); box++) {
  const [x, y] = middleOf(box);
  const wide = timeX(current.frame.boxes.end[box]) - timeX(current.frame.boxes.start[box]) > 8;
  if (kindOf(current.frame, box) !== "forward" || !wide) continue;
  looked++;
  if (colourAt(x, y) !== kinds.forward.colour) wrong++;
}
Object.assign(seen, { looked, wrong });

// At a point of a box the tooltip tells of it.
const where = timeline.canvas.getBoundingClientRect();
const [x, y] = middleOf(0);
element("timeline").dispatchEvent(
  new PointerEvent("pointermove", { clientX: where.left + x, clientY: where.top + y }));
seen.tooltip = element("tooltip").textContent;

press(".");
press(".");
seen.chosen = element("chosen").textContent;
const before = view.end - view.start;
press("+");
seen.zoomed = (before / (view.end - view.start)).toFixed(2);
press("0");

// The critical path: its boxes keep their colour and get a frame, the others fade.
const { boxes } = current.frame;
const first = timeX(boxes.start[0]), row0 = current.frame.rows[0].y;
seen.frameBefore = colourAt(first + 1, row0 + 10);
press("Escape");
const whole = view.end - view.start;
look(0, whole / 3);
element("critical").click();
seen.criticalBoxes = boxes.critical.reduce((sum, of) => sum + of, 0);
seen.frameAfter = colourAt(first + 1, row0 + 10);
let strong = 0, pale = 0;
for (let box = 0; box < Math.min(current.frame.count, 200); box++) {
  const from = timeX(boxes.start[box]), to = timeX(boxes.end[box]);
  if (kindOf(current.frame, box) !== "forward" || to - from < 20 || to > view.width) continue;
  const kept = colourAt(from + 6, row0 + 6 + current.frame.rows[rowOf(current.frame, box)].y - row0)
    === kinds.forward.colour;
  if (kept !== (boxes.critical[box] === 1)) seen.misdrawn = box;
  if (kept) strong++; else pale++;
}
Object.assign(seen, { strong, pale });
seen.criticalLegend = element("legend").textContent;
const criticalTimes = [];
for (let i = 0; i < 9; i++) {
  const begin = performance.now();
  draw();
  colourAt(0, 0);
  criticalTimes.push(performance.now() - begin);
}
seen.criticalMedian = criticalTimes.sort((a, b) => a - b)[4].toFixed(1);
element("critical").click();
look(0, whole);
draw();
seen.frameAgain = colourAt(first + 1, row0 + 10);

seen.fact = element("facts").textContent;
seen.positions = element("slider-0").max;
slide("slider-0", element("slider-0").max);
seen.changedFrame = seen.frame;
seen.changedFact = element("facts").textContent;
seen.changedBoxes = seen.boxes;
slide("slider-0", 3);
seen.backFrame = seen.frame;

// Schedules are a list, where there is room for them.
const list = document.querySelector("#sliders select");
if (list) {
  seen.listed = [...list.options].map((option) => option.textContent).join(" ");
  const asked = list.selectedIndex;
  list.selectedIndex = 0;
  list.dispatchEvent(new Event("input"));
  seen.listedFrame = seen.frame;
  list.selectedIndex = asked;
  list.dispatchEvent(new Event("input"));
}

// Until the pixels are there, not only until the commands are given.
const times = [];
for (let i = 0; i < 9; i++) {
  const begin = performance.now();
  view.end -= (view.end - view.start) * 0.01;
  draw();
  colourAt(0, 0);
  times.push(performance.now() - begin);
}
seen.median = times.sort((a, b) => a - b)[4].toFixed(1);

// All devices at once, or lanes of full height; the table is as wide as the page.
seen.lowLane = current.frame.rows[0].height.toFixed(2);
seen.allSeen = timeline.height <= timeline.scroller.clientHeight;
element("overview").click();
seen.fullLane = current.frame.rows[0].height;
seen.allSeenInFull = timeline.height <= timeline.scroller.clientHeight;
const scroller = element("table").parentElement;
seen.tableBeyond = scroller.scrollWidth - scroller.clientWidth;
seen.tableNote = element("table-note").textContent;
seen.columns = document.querySelectorAll("#table thead th").length;
seen.cells = document.querySelectorAll("#table tbody td").length;
}
</script>
)";

/// Fingers on the timeline and on the curves.
constexpr std::string_view kFingers = R"(<script>
{
const seen = document.documentElement.dataset;
const finger = (chart) => (type, pointerId, clientX) => element(chart).dispatchEvent(
  new PointerEvent(type, { pointerId, clientX, clientY: 9, pointerType: "touch", bubbles: true }));
const length = () => view.end - view.start;
for (const chart of ["timeline", "memory"]) {
  const send = finger(chart), left = element(chart).getBoundingClientRect().left;
  const whole = length(), kept = timeAt(600 - left);
  send("pointerdown", 1, 500);
  send("pointerdown", 2, 700);
  send("pointermove", 1, 400);
  send("pointermove", 2, 800);
  seen[`${chart}Zoom`] = (whole / length()).toFixed(3);
  seen[`${chart}Slip`] = Math.abs(timeX(kept) + left - 600).toFixed(3);
  send("pointerup", 2, 800);  // the other one goes on
  const narrow = length(), under = timeAt(400 - left);
  send("pointermove", 1, 350);
  seen[`${chart}Pan`] = (timeX(under) + left).toFixed(3);
  seen[`${chart}PanZoom`] = (narrow / length()).toFixed(3);
  send("pointercancel", 1, 350);
  send("pointermove", 1, 100);
  seen[`${chart}Released`] = (timeX(under) + left).toFixed(3);
  seen[`${chart}Action`] = getComputedStyle(element(chart)).touchAction;
  fit();
}
seen.chosen = element("chosen").textContent;
}
</script>
)";

/// Of a run whose boxes are narrower than two pixels: the mean colour of 100 columns of device 1,
/// against what takes their time.
constexpr std::string_view kMean = R"(<script>
{
const seen = document.documentElement.dataset;
const [from, to] = [600, 700];
const row = current.frame.rows.find((of) => of.compute && of.device === 1);
const { boxes } = current.frame, idle = partsOf(theme().idle);
const parts = idle.map((part) => part * (to - from));
let busy = 0, widest = 0;
for (let box = row.first; box < row.last; box++) {
  const start = timeX(boxes.start[box]), end = timeX(boxes.end[box]);
  const width = Math.min(end, to) - Math.max(start, from);
  if (width <= 0) continue;
  busy += width;
  widest = Math.max(widest, end - start);
  partsOf(kinds[kindOf(current.frame, box)].colour).forEach((part, i) => {
    parts[i] += (part - idle[i]) * width;
  });
}
const pixel = document.createElement("canvas");
pixel.width = to - from;
const density = devicePixelRatio, context = pixel.getContext("2d");
context.drawImage(timeline.canvas, from * density, (row.y + 8) * density, (to - from) * density, 1,
  0, 0, to - from, 1);
const { data } = context.getImageData(0, 0, to - from, 1);
const drawn = [0, 0, 0];
data.forEach((value, at) => { if (at % 4 < 3) drawn[at % 4] += value; });
const error = drawn.map((part, i) => Math.abs(part - parts[i]) / (to - from));
seen.widest = widest.toFixed(2);
seen.idleShare = (1 - busy / (to - from)).toFixed(3);
seen.meanError = Math.max(...error).toFixed(1);
}
</script>
)";

class ReportInABrowser : public CommandLine {
 protected:
  void SetUp() override {
    if (std::filesystem::exists(kBrowser)) return;
    ASSERT_EQ(std::getenv("CI"), nullptr) << "chromium is not installed";
    GTEST_SKIP() << "chromium is not installed";
  }

  struct Page {
    std::map<std::string, std::string> attributes;  // of the root element
    std::string console;
    std::string operator[](const std::string& name) const {
      const auto found = attributes.find(name);
      return found == attributes.end() ? "missing" : found->second;
    }
    double number(const std::string& name) const {
      return std::strtod((*this)[name].c_str(), nullptr);
    }
  };

  /// Opens the page of a command, with `driver` at its end.
  Page open(const std::string& line, std::string_view driver = kDriver) const {
    const Ran made = tandem(line + " --report r.html");
    EXPECT_EQ(made.code, 0) << made.err;
    write("driven.html", with(read("r.html"), "</body>", std::string(driver) + "</body>"));
    RunOptions options;
    options.folder = folder();
    const Ran ran = run_command(
        {kBrowser, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
         "--no-first-run", "--window-size=1400,1000", "--enable-logging=stderr",
         "--user-data-dir=" + (folder() / "profile").string(), "--dump-dom",
         "file://" + (folder() / "driven.html").string()},
        options);
    EXPECT_EQ(ran.code, 0) << ran.err;
    Page page{.attributes = {}, .console = {}};
    for (std::size_t at = ran.err.find("CONSOLE"); at != std::string::npos;
         at = ran.err.find("CONSOLE", at + 1)) {
      page.console += ran.err.substr(at, ran.err.find('\n', at) - at) + "\n";
    }
    read_attributes(ran.out.substr(0, ran.out.find("<head>")), page);
    return page;
  }

 private:
  static void read_attributes(std::string_view tag, Page& page) {
    constexpr std::string_view kOpen = " data-";
    for (std::size_t at = tag.find(kOpen); at != std::string_view::npos; at = tag.find(kOpen, at)) {
      at += kOpen.size();
      const std::size_t equal = tag.find("=\"", at), end = tag.find('"', equal + 2);
      if (equal == std::string_view::npos || end == std::string_view::npos) return;
      page.attributes.emplace(tag.substr(at, equal - at), tag.substr(equal + 2, end - equal - 2));
      at = end;
    }
  }
};

TEST_F(ReportInABrowser, DrawsAndAnswers) {
  const Page page = open(
      "simulate --schedule 2bw --devices 4 --microbatches 8 --forward 1ms --backward 2ms "
      "--transfer 100us --batches 3 --activation-bytes 10MiB --memory 64MiB");
  EXPECT_EQ(page["errors"], "0");
  EXPECT_EQ(page.console, "");
  EXPECT_EQ(page.number("boxes"), 4 * 3 * 8 * 2 + 3 * 3 * 8 * 2 * 2 + 4 * 3);
  EXPECT_GT(page.number("looked"), 20);
  EXPECT_EQ(page["wrong"], "0");
  EXPECT_THAT(page["tooltip"], HasSubstr("forward of microbatch 0, stage 0"));
  EXPECT_THAT(page["chosen"], HasSubstr("forward of microbatch 1, stage 0"));
  EXPECT_EQ(page["zoomed"], "1.40");
  EXPECT_EQ(page["frame-after"], "#000000");
  EXPECT_NE(page["frame-before"], "#000000");
  EXPECT_EQ(page["frame-again"], page["frame-before"]);
  EXPECT_EQ(page["misdrawn"], "missing");
  EXPECT_GT(page.number("strong"), 0);
  EXPECT_GT(page.number("pale"), 0);
  EXPECT_GT(page.number("critical-boxes"), 10);
  EXPECT_LT(page.number("critical-boxes"), page.number("boxes"));
  EXPECT_THAT(page["critical-legend"], HasSubstr("path"));
  EXPECT_EQ(page["positions"], "5");
  EXPECT_NE(page["changed-frame"], "0");
  EXPECT_NE(page["changed-fact"], page["fact"]);
  EXPECT_THAT(page["changed-fact"], HasSubstr("+"));
  EXPECT_EQ(page["changed-boxes"], page["boxes"]);
  EXPECT_EQ(page["back-frame"], "0");
  EXPECT_EQ(page["listed"], "gpipe 1f1b zb-h1 2bw");
  EXPECT_NE(page["listed-frame"], "0");
  EXPECT_EQ(page.number("cells"), 4 * page.number("columns"));
  EXPECT_GT(page.number("columns"), 10);
}

TEST_F(ReportInABrowser, IsMovedByFingers) {
  const Page page = open(
      "simulate --schedule 1f1b --devices 2 --microbatches 8 --forward 1ms --backward 2ms "
      "--activation-bytes 10MiB --memory 64MiB",
      kFingers);
  EXPECT_EQ(page["errors"], "0");
  for (const std::string chart : {"timeline-", "memory-"}) {
    EXPECT_EQ(page[chart + "zoom"], "2.000") << chart;
    EXPECT_EQ(page[chart + "slip"], "0.000") << chart;
    EXPECT_EQ(page[chart + "pan"], "350.000") << chart;
    EXPECT_EQ(page[chart + "pan-zoom"], "1.000") << chart;
    EXPECT_EQ(page[chart + "released"], "350.000") << chart;
    EXPECT_EQ(page[chart + "action"], "pan-y") << chart;
  }
  EXPECT_EQ(page["chosen"], "");
}

TEST_F(ReportInABrowser, ALongRunIsMixedByShareOfTime) {
  const Page page = open(
      "simulate --schedule 1f1b --devices 4 --microbatches 600 --forward 1ms --backward 2ms "
      "--transfer 500us --lanes ideal",
      kMean);
  EXPECT_EQ(page["errors"], "0");
  EXPECT_LT(page.number("widest"), 2.0);
  EXPECT_GT(page.number("idle-share"), 0.15);  // drawn without it, the mean would be off by 30
  EXPECT_LT(page.number("mean-error"), 12.0);
}

TEST_F(ReportInABrowser, ShowsManyDevicesAtOnce) {
  const Page page =
      open("simulate --schedule 2bw --devices 100 --microbatches 100 --forward 1ms --backward 2ms");
  EXPECT_EQ(page["errors"], "0");
  EXPECT_EQ(page["all-seen"], "true");
  EXPECT_EQ(page["all-seen-in-full"], "false");
  EXPECT_LT(page.number("low-lane"), 10);
  EXPECT_EQ(page["full-lane"], "27");
}

// Memory classes and all, at the window's width of 1400.
TEST_F(ReportInABrowser, TheTableOfAModelIsInSight) {
  const Page page = open(
      "simulate --model gpt-2.2b --cluster p3.16xlarge --schedule 2bw --depth 8 --width 1 "
      "--microbatch-size 8 --recompute full --global-batch 64");
  EXPECT_EQ(page["errors"], "0");
  EXPECT_GT(page.number("columns"), 15);
  EXPECT_EQ(page["table-beyond"], "0");
  EXPECT_NE(page["table-note"], "");
  EXPECT_THAT(page["changed-fact"], HasSubstr(" points"));
  EXPECT_THAT(page["fact"], ::testing::Not(HasSubstr(" points")));
}

TEST_F(ReportInABrowser, DrawsTenThousandBoxes) {
  const Page page = open(
      "simulate --schedule 1f1b --devices 8 --microbatches 240 --forward 1ms --backward 2ms "
      "--transfer 100us");
  EXPECT_EQ(page["errors"], "0");
  EXPECT_EQ(page.console, "");
  EXPECT_EQ(page.number("boxes"), 8 * 240 * 2 + 7 * 240 * 2 * 2 + 8);
  EXPECT_GT(page.number("boxes"), 10'000);
  // How fast depends on what else the machine does: traces/measurements.md has a time.
  for (const char* median : {"median", "critical-median"}) EXPECT_GT(page.number(median), 0.0);
}

// The two ways in which a fault of the page would show.
TEST_F(ReportInABrowser, SeesErrorsWhereThereAreSome) {
  const Page page =
      open("simulate --schedule 1f1b --devices 2 --microbatches 2 --forward 1ms --backward 2ms",
           "<script>console.error('planted');</script><script>nothing.at.all;</script>");
  EXPECT_EQ(page["errors"], "1");
  EXPECT_THAT(page.console, HasSubstr("planted"));
}

}  // namespace
}  // namespace tandem::testing
