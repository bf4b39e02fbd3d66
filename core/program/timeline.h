#pragma once
// Timeline: when each instance of a program ran, simulated or measured.

#include <compare>
#include <cstdint>
#include <vector>

#include "core/base/ids.h"
#include "core/base/units.h"

namespace tandem {

/// One instance of an instruction. Times count from the start of the run.
struct Span {
  InstructionId instruction{};
  std::int64_t body = 0;  // which turn of the loop; before batch 0 those of the ramp, below 0
  Duration start{}, end{};
  friend auto operator<=>(const Span&, const Span&) = default;
};

/// By which a timeline was made.
enum class Clock : std::uint8_t { simulated, measured };

/// All instances of a run.
struct Timeline {
  Clock clock = Clock::simulated;
  std::vector<Span> spans;
};

}  // namespace tandem
