#pragma once
// Idle time explained: what a device's compute lane waited for in each of its bubbles.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/program/program.h"
#include "core/program/timeline.h"

namespace tandem {

/// An op that ran while a device stood still, and held it up.
struct HeldUp {
  Span span;
  Duration time{};  // how much of the bubble it ran
};

/// A time in which a compute lane stood still.
struct Bubble {
  Duration start{}, end{};
  /// What ended it; instruction and body mean nothing where `last`.
  Span next{};
  bool last = false;  // the device had nothing left to do until the run ended
  /// What the device waited for, then what that waited for, and so on to the cause: what ran as the
  /// bubble began. One after the other without a gap: their times sum up to the bubble's.
  std::vector<HeldUp> chain;
  Duration time() const { return end - start; }
};

/// The bubbles of a device's compute lane in a run, from its start to the end of its last op, in
/// time. Where several ended at the same moment, the chain follows what was on the same lane, or
/// else the first wait of the op's. REQUIRES: `timeline` has every instance of the run; the device
/// has a compute lane.
std::vector<Bubble> bubbles_of(const Program& program, const Timeline& timeline, DeviceId device);

/// "forward on device 2", "send activation 2→3", "reduce tied": an op as a cause; with `which`
/// behind its kind. Where devices hold several stages it says the stage, too.
std::string cause(const Program& program, InstructionId id, std::string_view which = {});

/// How long each cause held a device up, the longest first.
struct Cause {
  std::string name;
  Duration time{};
  std::int64_t bubbles = 0;  // in how many
};
std::vector<Cause> causes_of(const Program& program, const std::vector<Bubble>& bubbles);

}  // namespace tandem
