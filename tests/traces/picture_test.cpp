#include "traces/picture.h"

#include <algorithm>
#include <initializer_list>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/golden.h"
#include "tests/traces/tiny_runs.h"

namespace tandem::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// The text without its colours.
std::string plain(const std::string& text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      i = text.find('m', i);
    } else {
      result += text[i];
    }
  }
  return result;
}

/// A V of two devices: backward split on the way up, one microbatch recomputed.
Program tiny_v() {
  const auto op = [](OpKind kind, int stage, int microbatch) {
    return Op{.kind = kind,
              .replica = id_at<ReplicaId>(static_cast<std::size_t>(stage)),
              .microbatch = microbatch};
  };
  using enum OpKind;
  return tiny_program(
      "v", 2, v_placement(2),
      {{op(forward, 0, 0), op(forward, 0, 1), op(forward, 3, 0), op(backward_input, 3, 0),
        op(backward_weight, 3, 0), op(forward, 3, 1), op(backward_input, 3, 1),
        op(backward_weight, 3, 1), op(backward, 0, 0), op(recompute, 0, 1), op(backward, 0, 1)},
       {op(forward, 1, 0), op(forward, 2, 0), op(forward, 1, 1), op(forward, 2, 1),
        op(backward, 2, 0), op(backward, 1, 0), op(backward, 2, 1), op(backward, 1, 1)}});
}

TEST(Picture, IsThePapersGridAtUnitCosts) {
  const Program program = tiny_1f1b(4, 8);
  expect_golden("1f1b-4x8.picture", picture(program, tiny_timeline(program, 1, kUnitCosts)));
}

TEST(Picture, ShowsTheBeginningOfARunThatDoesNotFit) {
  const Program program = tiny_2bw(4, 8);
  const std::string text = picture(program, tiny_timeline(program, 3, kUnitCosts));
  expect_golden("2bw-4x8-three-batches.picture", text);
  EXPECT_THAT(text, HasSubstr("the first 31 ms of 81 ms"));
}

TEST(Picture, DrawsUpdatesThatTakeTimeAndLatencyAsIdle) {
  const Program program = tiny_2bw(4, 8);
  TinyCosts costs = kUnitCosts;
  costs.transfer = 100us;
  costs.update = 500us;
  expect_golden("2bw-4x8-latency.picture",
                picture(program, tiny_timeline(program, 1, costs), {.columns = 120}));
}

TEST(Picture, MarksTheSecondStageOfADeviceAndEveryKind) {
  const Program program = tiny_v();
  expect_golden("v-2x2.picture", picture(program, tiny_timeline(program, 1, kUnitCosts)));
}

TEST(Picture, GivesLongNumbersRoom) {
  const Program program = tiny_1f1b(2, 120);
  const std::string text =
      picture(program, tiny_timeline(program, 1, kUnitCosts), {.columns = 2000});
  EXPECT_THAT(text, HasSubstr("|0   1   .   .   0-------2   1-------3   "));
  EXPECT_THAT(text, HasSubstr("101-----103 102-----"));
}

TEST(Picture, SurvivesVeryUnequalDurations) {
  const Program program = tiny_1f1b(4, 8);
  const TinyCosts costs{.forward = 1us, .backward = 100us, .update = 5us};
  const std::string text = picture(program, tiny_timeline(program, 1, costs));
  expect_golden("1f1b-4x8-unequal.picture", text);
  EXPECT_THAT(text, HasSubstr("too short to draw"));
}

TEST(Picture, NeverExceedsItsColumns) {
  for (const std::uint16_t devices : std::initializer_list<std::uint16_t>{1, 3, 12}) {
    const Program program = tiny_1f1b(devices, 12);
    const Timeline timeline = tiny_timeline(program, 2, kUnitCosts);
    for (int columns = 40; columns < 300; columns += 7) {
      for (const std::string& line :
           lines_of(picture(program, timeline, {.columns = columns, .legend = false}))) {
        EXPECT_LE(line.size(), static_cast<std::size_t>(columns)) << line;
      }
    }
  }
}

TEST(Picture, IsTheSameTextInColour) {
  const Program program = tiny_v();
  const Timeline timeline = tiny_timeline(program, 1, kUnitCosts);
  const std::string colored = picture(program, timeline, {.color = true});
  EXPECT_THAT(colored, HasSubstr("\x1b[30;48;2;86;180;233m"));
  EXPECT_THAT(plain(colored), HasSubstr(lines_of(picture(program, timeline))[1]));
  EXPECT_THAT(picture(program, timeline), Not(HasSubstr("\x1b")));
}

TEST(Picture, SaysSoWhenThereIsNothingToDraw) {
  const Program program = tiny_1f1b(2, 2);
  EXPECT_THAT(picture(program, Timeline{}), HasSubstr("nothing to draw"));
  EXPECT_THAT(picture(program, tiny_timeline(program, 1, TinyCosts{})),
              HasSubstr("nothing to draw"));
}

TEST(PictureDeathTest, RefusesATimelineOfAnotherProgram) {
  const Program program = tiny_1f1b(2, 2);
  const Timeline timeline{.spans = {{.instruction = InstructionId{10'000}, .end = 1ms}}};
  EXPECT_DEATH(picture(program, timeline), "instruction");
}

}  // namespace
}  // namespace tandem::testing
