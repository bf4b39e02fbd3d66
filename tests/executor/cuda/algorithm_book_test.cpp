// Which algorithm is taken for a product, by times alone; and that all who ask get the same.

#include "executor/cuda/kernels/algorithm_book.h"

#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace tandem::cuda {
namespace {

std::vector<Duration> times(std::initializer_list<int> nanoseconds) {
  std::vector<Duration> result;
  for (const int each : nanoseconds) result.emplace_back(each);
  return result;
}

using Times = std::vector<std::vector<Duration>>;

TEST(Quickest, IsByTheMedian) {
  EXPECT_EQ(quickest(Times{times({1000, 1000, 1}), times({900, 900, 9000})}), 1u);
  EXPECT_EQ(quickest(Times{times({1000}), times({900}), times({800}), times({850})}), 2u);
}

TEST(Quickest, IsTheFirstWhereNoOtherIsClearlyQuicker) {
  EXPECT_EQ(quickest(Times{times({1000}), times({981})}), 0u);
  EXPECT_EQ(quickest(Times{times({1000}), times({979})}), 1u);
  // By a little only from one that already is.
  EXPECT_EQ(quickest(Times{times({1000}), times({979}), times({978})}), 2u);
}

TEST(Quickest, IsNoneThatCouldNotRun) {
  EXPECT_EQ(quickest(Times{{}, times({1000}), {}}), 1u);
  EXPECT_EQ(quickest(Times{{}, {}}), std::nullopt);
  EXPECT_EQ(quickest(Times{}), std::nullopt);
}

TEST(Hexadecimal, ReadsBack) {
  const std::vector<std::byte> bytes{std::byte{0}, std::byte{0x1f}, std::byte{0xff}};
  EXPECT_EQ(hexadecimal(bytes), "001fff");
  EXPECT_EQ(bytes_of("001fff", 3), bytes);
  for (const char* other : {"001ff", "001fff00", "001ffg", "001FFF", ""})
    EXPECT_EQ(bytes_of(other, 3), std::nullopt) << other;
}

const ProductAlgorithm kKnown{.product = "a", .library = "l 1", .algorithm = "01"};

TEST(AlgorithmBook, KeepsWhatItKnowsAndMeasuresOnlyIfItMay) {
  const auto never = []() -> std::optional<ProductAlgorithm> {
    ADD_FAILURE() << "chosen again";
    return std::nullopt;
  };
  AlgorithmBook book({kKnown});
  EXPECT_EQ(book.algorithm_of("a", never), kKnown);
  EXPECT_EQ(book.algorithm_of("b", never), std::nullopt);
  EXPECT_EQ(book.all(), std::vector<ProductAlgorithm>{kKnown});
}

TEST(AlgorithmBook, ChoosesOnceForAll) {
  AlgorithmBook book({kKnown}, true);
  std::atomic<int> chosen = 0;
  const auto choose = [&]() -> std::optional<ProductAlgorithm> {
    return ProductAlgorithm{.product = "b", .algorithm = std::to_string(++chosen)};
  };
  {
    std::vector<std::jthread> devices;
    for (int i = 0; i < 4; ++i) {
      devices.emplace_back([&] {
        const auto algorithm = book.algorithm_of("b", choose);
        EXPECT_TRUE(algorithm && algorithm->algorithm == "1");
      });
    }
  }
  EXPECT_EQ(chosen, 1);
  EXPECT_EQ(book.all().size(), 2u);
  // What can't be chosen is not known, and asked for again.
  EXPECT_EQ(book.algorithm_of("c", [] { return std::nullopt; }), std::nullopt);
  EXPECT_EQ(book.all().size(), 2u);
}

TEST(AlgorithmBook, SaysOnceWhatIsRefused) {
  std::string said;
  AlgorithmBook book({kKnown}, false, [&](const std::string& line) { said += line; });
  book.refuse(kKnown, "l 2");
  book.refuse(kKnown, "l 2");
  ProductAlgorithm other = kKnown;
  other.product = "b";
  book.refuse(other, "l 2");
  EXPECT_EQ(said,
            "the profile's algorithms for products are of l 1, and l 2 does not take them: it "
            "chooses anew, so bits differ from runs with the other");
}

}  // namespace
}  // namespace tandem::cuda
