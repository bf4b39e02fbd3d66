// Output that differs from what a page shows is found, and a page is rewritten with the same parts
// left out.

#include "tests/documents/shown_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

TEST(ShownOutput, IsWhatWasPrinted) {
  const Lines printed = {"one 1", "two 2  ", "", "three 3", ""};
  EXPECT_EQ(difference({"one 1", "two 2", "", "three 3"}, printed, Numbers::exact), "");
  EXPECT_THAT(difference({"one 1", "two 3", "", "three 3"}, printed, Numbers::exact),
              HasSubstr("shown:   two 3\nprinted: two 2"));
  EXPECT_THAT(difference({"one 1"}, printed, Numbers::exact), HasSubstr("printed: two 2"));
  EXPECT_THAT(difference({"one 1", "two 2", "", "three 3", "four"}, printed, Numbers::exact),
              HasSubstr("shown:   four\nprinted: nothing more"));
  EXPECT_THAT(difference({}, printed, Numbers::exact), HasSubstr("printed: one 1"));
}

TEST(ShownOutput, MayLeaveOutLines) {
  const Lines printed = {"a", "b", "c", "d", "e"};
  for (const Lines& shown : {Lines{"a", "…"}, Lines{"…", "e"}, Lines{"…", "c", "…"},
                             Lines{"a", "…", "c", "…", "d", "e"}, Lines{"…"}}) {
    EXPECT_EQ(difference(shown, printed, Numbers::exact), "");
  }
  for (const Lines& shown : {Lines{"b", "…"}, Lines{"…", "d"}, Lines{"…", "c", "b", "…"},
                             Lines{"…", "d", "…", "c", "…"}, Lines{"…", "f", "…"}}) {
    EXPECT_NE(difference(shown, printed, Numbers::exact), "");
  }
}

TEST(ShownOutput, MayLeaveOutPartsOfALine) {
  EXPECT_EQ(difference({"best … fits"}, {"best 2bw, which fits"}, Numbers::exact), "");
  EXPECT_EQ(difference({"best…"}, {"best 2bw"}, Numbers::exact), "");
  EXPECT_NE(difference({"best … fits"}, {"best 2bw, which fails"}, Numbers::exact), "");
  EXPECT_EQ(difference({"for what …"}, {"for what …"}, Numbers::exact), "");
}

TEST(ShownOutput, OfMachinesIsComparedByShape) {
  EXPECT_EQ(shape_of("step  +3.9 %,  77.42 ms of 1.2e+04 s, 18 MiB ----"),
            shape_of("step -12 %, 8 us of 3 s, 2.5 GiB --"));
  const Lines shown = {"forward  1.5 ms  +4.2 %"};
  EXPECT_EQ(difference(shown, {"forward   980 us  -14.0 %"}, Numbers::by_shape), "");
  EXPECT_NE(difference(shown, {"forward   980 us  -14.0 %"}, Numbers::exact), "");
  EXPECT_NE(difference(shown, {"backward  980 us  -14.0 %"}, Numbers::by_shape), "");
  EXPECT_NE(difference(shown, {"forward   980 us"}, Numbers::by_shape), "");
}

TEST(ShownOutput, IsRewrittenWithTheSamePartsLeftOut) {
  const Lines printed = {"title 8", "row 1", "row 2", "", "total 4 ms", "note", "end 7"};
  EXPECT_THAT(rewritten({"title 9", "…", "total 5 ms", "…"}, printed, Numbers::exact),
              ElementsAre("title 8", "…", "total 4 ms", "…"));
  EXPECT_THAT(rewritten({"title 9", "row 1", "…", "end 6"}, printed, Numbers::exact),
              ElementsAre("title 8", "row 1", "…", "end 7"));
  EXPECT_THAT(rewritten({"title 9"}, printed, Numbers::exact), ElementsAreArray(printed));
  const Lines too_few = {"title 1"};
  EXPECT_THAT(rewritten({"title 9", "…", "a", "b", "…"}, too_few, Numbers::exact),
              ElementsAreArray(too_few));
}

TEST(ShownOutput, OfMachinesStaysWhileItsShapeHolds) {
  EXPECT_THAT(rewritten({"step 5 ms"}, {"step 6 ms"}, Numbers::by_shape), ElementsAre("step 5 ms"));
  EXPECT_THAT(rewritten({"step 5 ms"}, {"batch 6 ms"}, Numbers::by_shape),
              ElementsAre("batch 6 ms"));
}

}  // namespace
}  // namespace tandem::testing
