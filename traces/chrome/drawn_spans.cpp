#include "traces/chrome/drawn_spans.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <tuple>

#include "core/base/check.h"

namespace tandem {
namespace {

/// A lane while its spans pass by, ascending in their true start.
class DrawnLane {
 public:
  /// When what truly ended by `start` has ended as it is drawn.
  Duration free_at(Duration start) {
    std::erase_if(open_, [&](const Open& open) {
      if (open.end > start) return false;
      free_ = std::max(free_, open.drawn_end);
      return true;
    });
    return free_;
  }
  void add(Duration end, Duration drawn_end) { open_.push_back({end, drawn_end}); }

 private:
  struct Open {
    Duration end, drawn_end;
  };
  std::vector<Open> open_;  // one, but for ops that are issued together
  Duration free_ = Duration::min();
};

std::vector<std::size_t> in_time(const std::vector<Span>& spans) {
  std::vector<std::size_t> order(spans.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {},
                    [&](std::size_t i) { return std::tuple(spans[i].start, spans[i].end, i); });
  return order;
}

}  // namespace

std::vector<Span> drawn_spans(const Program& program, const Timeline& timeline) {
  const std::vector<Span>& spans = timeline.spans;
  std::vector<Span> drawn = spans;
  const auto is_short = [](const Span& span) { return span.end - span.start < kShortestDrawn; };
  if (std::ranges::none_of(spans, is_short)) return drawn;
  std::vector<DrawnLane> lanes(program.lanes().size());
  for (const std::size_t i : in_time(spans)) {
    TANDEM_CHECK(index(spans[i].instruction) < program.size(), index(spans[i].instruction));
    const auto used = program.lanes(program[spans[i].instruction]);
    for (const LaneId lane : used)
      drawn[i].start = std::max(drawn[i].start, lanes[index(lane)].free_at(spans[i].start));
    drawn[i].end = std::max(drawn[i].end, drawn[i].start + kShortestDrawn);
    for (const LaneId lane : used) lanes[index(lane)].add(spans[i].end, drawn[i].end);
  }
  return drawn;
}

}  // namespace tandem
