#include "traces/chrome/flow_binding.h"

#include <gtest/gtest.h>

namespace tandem::testing {
namespace {

constexpr std::int64_t kNanosecond = 1, kMicrosecond = 1000;

TEST(FlowBinding, FindsTheSliceAround) {
  const NestedSlices lane({{0, 0, 1000}, {1, 1000, 2000}, {2, 5000, 6000}}, kNanosecond);
  for (const std::int64_t time : {0, 1, 999, 1001, 5000, 5999})
    EXPECT_EQ(lane.bind(time), FlowBinding::bound) << time;
  for (const std::int64_t time : {2001, 4999, 6001})
    EXPECT_EQ(lane.bind(time), FlowBinding::outside) << time;
  EXPECT_EQ(lane.bind(1000), FlowBinding::either);
  EXPECT_EQ(NestedSlices({}, kNanosecond).bind(0), FlowBinding::outside);
}

TEST(FlowBinding, LosesASliceOfNoLengthAtTheEndOfTheLastOne) {
  EXPECT_EQ(NestedSlices({{0, 0, 1000}, {1, 1000, 1000}}, kNanosecond).bind(1000),
            FlowBinding::hidden);
  EXPECT_EQ(NestedSlices({{0, 0, 999}, {1, 1000, 1000}}, kNanosecond).bind(1000),
            FlowBinding::bound);
  EXPECT_EQ(NestedSlices({{0, 0, 1000}, {1, 1000, 1002}}, kNanosecond).bind(1001),
            FlowBinding::bound);
}

TEST(FlowBinding, LosesWhatIsShorterThanTheUnit) {
  const std::vector<TraceSlice> slices{{0, 0, 1100}, {1, 1100, 1400}};
  EXPECT_EQ(NestedSlices(slices, kMicrosecond).bind(1200), FlowBinding::hidden);
  EXPECT_EQ(NestedSlices(slices, kNanosecond).bind(1200), FlowBinding::bound);
}

TEST(FlowBinding, LooksInsideNestedSlices) {
  const NestedSlices lane({{0, 0, 9000},
                           {1, 1000, 4000},
                           {2, 2000, 3000},
                           {3, 5000, 8000},
                           {4, 10000, 12000},
                           {5, 10500, 11000}},
                          kNanosecond);
  for (const std::int64_t time : {500, 1500, 2500, 3500, 4500, 5500, 8500, 10700, 11500})
    EXPECT_EQ(lane.bind(time), FlowBinding::bound) << time;
  EXPECT_EQ(lane.bind(4000), FlowBinding::either);  // inside of event 1, or only of event 0
  EXPECT_EQ(lane.bind(9500), FlowBinding::outside);
}

}  // namespace
}  // namespace tandem::testing
