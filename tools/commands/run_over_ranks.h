#pragma once
// RunOverRanks: what a training run over several ranks has beside one of a single process.

#include <optional>

#include "executor/copies/state_copies.h"
#include "executor/ranks/rank_keeper.h"
#include "executor/run/training_setup.h"
#include "tools/cli/options.h"
#include "tools/commands/training.h"
#include "tools/options/rank_options.h"

namespace tandem::tools {

class RunOverRanks {
 public:
  /// Connects them, and has `setup` keep the state of all: checkpoints by the first one's writer,
  /// copies by each rank.
  RunOverRanks(Ranks& ranks, const Training& training, const Options& options,
               TrainingSetup<float>& setup);
  /// Waits for what is on its way: of copies not where the run was interrupted.
  void finish(bool interrupted);

 private:
  RankRun& run_;
  KeptCopies* const copies_;  // may be null
  std::optional<RankKeeperService> service_;
  std::optional<RankKeeper> keeper_;
  std::optional<StateKeepers> keepers_;
};

}  // namespace tandem::tools
