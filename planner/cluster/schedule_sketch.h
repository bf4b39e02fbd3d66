#pragma once
// ScheduleSketch: what bounds need to know of a schedule before it is made.

#include <map>

#include "core/schedule/schedule.h"

namespace tandem {

struct ScheduleSketch {
  bool flushes = false;                // vanilla
  bool whole = false, halves = false;  // all backwards are; neither: some are
};

/// Those of rows, by a small schedule of each. To be used by one thread.
class ScheduleSketches {
 public:
  const ScheduleSketch& of(const ScheduleTraits& row);

 private:
  std::map<const ScheduleTraits*, ScheduleSketch> known_;
};

}  // namespace tandem
