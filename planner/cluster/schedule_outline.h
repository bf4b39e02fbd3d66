#pragma once
// ScheduleOutline: what is known of a schedule before it is made.

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>

#include "core/schedule/schedule.h"
#include "planner/search/batch_work.h"

namespace tandem {

/// A schedule's stages, and how often each runs what, without the order. Of those with several
/// stages a device, in one line, each stage on one device.
struct ScheduleOutline {
  BatchWork work;           // the schedule's own, with its placement
  std::int32_t passes = 0;  // of a stage in a batch: its microbatches, or slices of them
  bool flushes = false;     // every batch reads weights that all batches before it have updated
  bool spans = false;       // an op may do what several microbatches or slices ask for
  bool overlaps = false;    // a forward and a backward may be one unit

  const Placement& placement() const { return work.placement(); }
};

/// Outlines of rows, by a small schedule of each. To be used by one thread.
class ScheduleOutlines {
 public:
  /// Empty: the row is none of those, or what it does depends on more than is known here.
  std::optional<ScheduleOutline> of(const ScheduleTraits& row, const ScheduleRequest& request);

 private:
  /// A way to place stages, and a stage's ops: a multiple of its passes, or so many a batch.
  struct Pattern {
    Placement (*place)(std::uint16_t devices, std::uint16_t chunks) = nullptr;
    OpCounts a_pass = {}, a_batch = {};
    bool spans = false, overlaps = false;
  };
  static std::optional<Pattern> pattern_of(const ScheduleTraits& row,
                                           const ScheduleRequest& request);

  /// By row, chunks and slices.
  std::map<std::tuple<const ScheduleTraits*, std::uint16_t, std::int32_t>, std::optional<Pattern>>
      known_;
};

}  // namespace tandem
