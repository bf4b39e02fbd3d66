#pragma once
// What tandem replay says of a recording: tables for people, or an object.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/units.h"
#include "core/model/recording.h"
#include "simulator/replay/replay.h"
#include "tools/cli/json_output.h"

namespace tandem::tools {

/// A variation of the recording and its pipeline phases, a row a step.
struct VariationAnswer {
  std::string name;
  ReplayVariation variation;
  std::vector<Duration> phases{};
  double mean_s = 0.0;
};

/// Of the pipeline phases replayed.
struct ReplayErrors {
  double mean = 0.0, worst = 0.0;  // of absolute values
};

struct ReplayReport {
  std::string order;  // the schedule whose order it is; empty: none of ours
  std::int32_t microbatches = 1;
  std::vector<ReplayedStep> steps;
  ReplayErrors errors, plain_errors;  // plain: without pauses
  std::vector<VariationAnswer>
      ideal;  // as replayed, no stragglers, balanced, and what was asked for
  std::vector<VariationAnswer> culprits;  // without one stage, replica or rank; the best first
  double outside_s = 0.0;                 // mean of what a step takes beside its pipeline phase
};

/// `plain`: the same without pauses. `asked` stands for `without`, which may be empty.
ReplayReport make_replay_report(const Replay& replay, const Replay& plain,
                                const Recording& recording, const std::vector<Straggler>& without,
                                const std::string& asked);
/// On stdout, warnings on stderr.
void print_replay_report(const std::string& title, const Replay& replay, const Recording& recording,
                         const ReplayReport& report);
Json replay_json(const Replay& replay, const Recording& recording, const ReplayReport& report);

/// --report: one step of one replica as a page or a picture, as it was measured, as replayed and as
/// it could have been. `command`: the one that was given.
void write_replay_page(const std::string& path, const std::string& command, const Replay& replay,
                       const ReplayReport& report, std::size_t pass);

}  // namespace tandem::tools
