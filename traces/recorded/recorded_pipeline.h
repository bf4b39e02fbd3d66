#pragma once
// Production timelines: Chrome traces with each rank's forwards, backwards, sends and receives, as
// published with "Understanding Stragglers in Large Model Training Using What-if Analysis"
// (arXiv 2505.05713). What is read of them: traces/recorded/FORMATS.md, "Production timelines".

#include <string>

#include "core/model/recording.h"
#include "traces/chrome/trace_source.h"

namespace tandem {

/// Reads a timeline, `.json` or `.json.gz`, at most 1 GiB uncompressed; the events may stand in any
/// order. Throws InputError with the places of what is wrong.
Recording read_recording(const TraceSource& source);

/// Throws InputError where ops, with the pauses before them, are so long that whatever a replay
/// makes of them a step might outlast the clock. REQUIRES: each device of a pass has an op.
void check_fits_clock(const Recording& recording, const std::string& name);

}  // namespace tandem
