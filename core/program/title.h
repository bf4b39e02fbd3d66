#pragma once
// What an instance is called in traces and profilers, and so in both the same.

#include <string>
#include <string_view>

#include "core/program/program.h"
#include "core/program/run.h"
#include "core/program/versions.h"

namespace tandem {

/// "reduce_norm" → "reduce norm".
std::string words(std::string_view identifier);

/// "F 17", "send activation 3", "U 5": an update by the version that it makes, the others by the
/// microbatch, counted from the start of the run. On a receiver's lane a transfer is received.
std::string title_of(const Program& program, const WeightVersions& versions,
                     const Instance& instance, LaneKind lane);

/// "send activation to 1": a lane named for people.
std::string title_of(const Lane& lane);

}  // namespace tandem
