#pragma once
// To which slice a viewer ties the end of an arrow. Internal to traces/.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace tandem {

/// Of a trace, in nanoseconds; `event` is its position in the file.
struct TraceSlice {
  std::int64_t event = 0;
  std::int64_t start = 0, end = 0;
};

enum class FlowBinding : std::uint8_t {
  bound,    // to one slice
  either,   // at the border of two: a viewer's rounding decides
  outside,  // no slice is there
  hidden,   // one is, but a viewer takes it for a part of a slice that ends before
};

/// The slices of one lane as chrome://tracing nests them (Catapult's slice_group.html): one that
/// begins and ends within the last one is inside it, times being rounded to `unit` nanoseconds. So
/// one of no length is inside the one that ends where it begins. A point of time is then looked
/// for among the outermost, next among those inside, by exact times, the end included: but as
/// binary fractions, so that whether an end is found is chance.
class NestedSlices {
 public:
  /// REQUIRES: `slices` ascend in their start, those of one start in their event.
  NestedSlices(const std::vector<TraceSlice>& slices, std::int64_t unit);
  FlowBinding bind(std::int64_t time) const;

 private:
  struct Node {
    TraceSlice slice;
    std::size_t first_inside = 0, last_inside = 0;  // of the next level
  };
  std::optional<std::int64_t> found(std::int64_t time, bool end_included) const;

  std::vector<std::vector<Node>> levels_;     // outermost first
  std::vector<std::int64_t> starts_, reach_;  // of all: the largest end so far
};

}  // namespace tandem
