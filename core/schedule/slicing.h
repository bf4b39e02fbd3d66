#pragma once
// How sequences are cut into slices, which pass the pipeline one after the other.

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

/// How each sequence of a microbatch is cut. Only how many slices there are is known without a
/// model: slice_lengths() gives the lengths for one.
struct Slicing {
  enum class Kind : std::uint8_t {
    equal,    // as many tokens each; the first ones get one more where they don't divide
    by_work,  // as many operations each: Seq1F1B's partition (arXiv 2406.03488)
    by_time,  // as TeraPipe's dynamic programme finds them (arXiv 2102.07988)
    given,
  };
  Kind kind = Kind::equal;
  std::int32_t count = 1;                  // 0: not known before the programme has run
  std::vector<std::int32_t> lengths = {};  // given: tokens of each, in their order

  static Slicing of_lengths(std::vector<std::int32_t> lengths);
  friend auto operator<=>(const Slicing&, const Slicing&) = default;
};

/// What parse_slicing() takes.
inline constexpr std::string_view kSlicingNames =
    "how many slices (4), by-work:N, by-time, or the tokens of each (512,256,256)";

/// "4", "by-work:4", "by-time", "512,256,256".
std::string name(const Slicing& slicing);
/// Empty: not one of these.
std::optional<Slicing> parse_slicing(std::string_view text);

}  // namespace tandem
