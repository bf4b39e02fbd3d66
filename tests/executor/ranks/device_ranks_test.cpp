// Which rank runs which device.

#include "executor/ranks/device_ranks.h"

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::int32_t> list(const DeviceRanks& ranks) { return {ranks.begin(), ranks.end()}; }

TEST(DeviceRanks, AreEvenAndConsecutive) {
  EXPECT_THAT(list(even_device_ranks(4, 2)), ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(list(even_device_ranks(5, 2)), ElementsAre(0, 0, 1, 1, 1));
  EXPECT_THAT(list(even_device_ranks(3, 3)), ElementsAre(0, 1, 2));
  EXPECT_THROW(even_device_ranks(2, 3), InputError);
}

TEST(DeviceRanks, AreReadAsTheyAreWritten) {
  EXPECT_THAT(list(parse_device_ranks("0-1/2,3", 4, 2)), ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(list(parse_device_ranks("0,3/1-2", 4, 2)), ElementsAre(0, 1, 1, 0));
}

TEST(DeviceRanks, SayWhatIsWrongWithThem) {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"0-1/2", "device 3 is missing"},
      {"0-1/1-3", "device 1 stands there twice"},
      {"0-1/2-4", "device 4 of 4"},
      {"0-3", "devices of 1 ranks, but there are 2"},
      {"0-1//2-3", "a device is missing at position 4"},
      {"0-1/3-2", "the range from 3 has no end"},
      {"0-1;2-3", "unexpected \";\""},
      {"", "a device is missing at position 0"}};
  for (const auto& [text, why] : wrong) {
    try {
      parse_device_ranks(text, 4, 2);
      ADD_FAILURE() << text;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr(why)) << text;
    }
  }
}

}  // namespace
}  // namespace tandem
