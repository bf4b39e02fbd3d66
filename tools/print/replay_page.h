#pragma once
// replay --report: one step of one replica as a page or a picture, as it was measured, as replayed
// and as it could have been.

#include <cstddef>
#include <string>

#include "simulator/replay/replay.h"
#include "tools/print/replay_report.h"

namespace tandem::tools {

/// `command`: the one that was given.
void write_replay_page(const std::string& path, const std::string& command, const Replay& replay,
                       const ReplayReport& report, std::size_t pass);

}  // namespace tandem::tools
