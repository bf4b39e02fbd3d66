#include "traces/chrome/drawn_spans.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "tests/traces/tiny_runs.h"

namespace tandem::testing {
namespace {

using namespace std::chrono_literals;

/// The spans on a lane, as they are drawn, in the order in which they ran.
std::vector<Span> on_lane(const Program& program, const Timeline& timeline,
                          const std::vector<Span>& drawn, LaneId lane) {
  std::vector<std::size_t> used;
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    const auto lanes = program.lanes(program[drawn[i].instruction]);
    if (std::find(lanes.begin(), lanes.end(), lane) != lanes.end()) used.push_back(i);
  }
  std::stable_sort(used.begin(), used.end(), [&](std::size_t a, std::size_t b) {
    const Span &one = timeline.spans[a], &other = timeline.spans[b];
    return std::pair(one.start, one.end) < std::pair(other.start, other.end);
  });
  std::vector<Span> spans;
  for (const std::size_t i : used) spans.push_back(drawn[i]);
  return spans;
}

TEST(DrawnSpans, AreTheTimelinesWhereNoneIsShort) {
  const Program program = tiny_2bw(2, 4);
  const Timeline timeline = tiny_timeline(
      program, 2, TinyCosts{.forward = 2ns, .backward = 2ns, .transfer = 2ns, .update = 2ns});
  EXPECT_EQ(drawn_spans(program, timeline), timeline.spans);
}

TEST(DrawnSpans, HaveALengthAndDoNotOverlap) {
  const Program program = tiny_2bw(3, 4);
  for (const TinyCosts& costs :
       {TinyCosts{.forward = 1ms, .backward = 2ms}, TinyCosts{.forward = 1ns, .backward = 1ns},
        TinyCosts{.forward = 1ns, .backward = 3ns, .transfer = 1ns, .update = 1ns}, TinyCosts{}}) {
    const Timeline timeline = tiny_timeline(program, 3, costs);
    const std::vector<Span> drawn = drawn_spans(program, timeline);
    ASSERT_EQ(drawn.size(), timeline.spans.size());
    for (std::size_t i = 0; i < drawn.size(); ++i) {
      EXPECT_GE(drawn[i].end - drawn[i].start, kShortestDrawn);
      EXPECT_GE(drawn[i].start, timeline.spans[i].start);
      EXPECT_GE(drawn[i].end, timeline.spans[i].end);
      EXPECT_EQ(drawn[i].instruction, timeline.spans[i].instruction);
    }
    for (const LaneId lane : ids(program.lanes())) {
      const std::vector<Span> spans = on_lane(program, timeline, drawn, lane);
      for (std::size_t i = 1; i < spans.size(); ++i) EXPECT_GE(spans[i].start, spans[i - 1].end);
    }
  }
}

TEST(DrawnSpans, MoveNothingThatHasRoom) {
  const Program program = tiny_1f1b(1, 2);
  Timeline timeline = tiny_timeline(program, 1, TinyCosts{.forward = 10ns, .backward = 10ns});
  ASSERT_EQ(timeline.spans.size(), 5u);  // F, F, B, B, and an update that takes no time
  for (std::size_t i = 0; i < 5; ++i) {
    timeline.spans[i].start = Duration(20 * static_cast<std::int64_t>(i));
    timeline.spans[i].end = timeline.spans[i].start + 10ns;
  }
  timeline.spans[2].end = timeline.spans[2].start;
  const std::vector<Span> drawn = drawn_spans(program, timeline);
  EXPECT_EQ(drawn[2].end, timeline.spans[2].start + kShortestDrawn);
  for (const std::size_t i : {0u, 1u, 3u, 4u}) EXPECT_EQ(drawn[i], timeline.spans[i]);
}

}  // namespace
}  // namespace tandem::testing
