#pragma once
// drawn_spans(): a timeline with no span too short for a viewer. Internal to traces/.

#include <vector>

#include "core/program/program.h"
#include "core/program/timeline.h"

namespace tandem {

/// An arrow's end needs a nanosecond strictly inside its slice, or viewers bind it to a neighbour.
inline constexpr Duration kShortestDrawn{2};

/// The timeline's spans, in their order, each drawn at least so long. What follows one that was
/// made longer, on any of its lanes, begins when that ends; so the order on each lane stays, and
/// no more overlaps than did.
std::vector<Span> drawn_spans(const Program& program, const Timeline& timeline);

}  // namespace tandem
