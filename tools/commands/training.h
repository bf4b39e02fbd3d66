#pragma once
// What a run of `train` is made from: the plan, data, optimizer and beginning that its options say.

#include <cstdint>
#include <memory>
#include <optional>

#include "core/text/descriptor.h"
#include "executor/copies/copy_exchange.h"
#include "executor/ranks/rank_place.h"
#include "executor/stage/reference.h"
#include "planner/study/prepared_plan.h"
#include "tools/cli/options.h"
#include "tools/options/checkpoint_options.h"
#include "tools/options/held_out_loss.h"
#include "tools/options/rank_options.h"
#include "tools/print/run_monitors.h"

namespace tandem::tools {

/// Of --buddy: of this rank's stages in its host's memory, and on the way to another host.
struct KeptCopies {
  Descriptor folder;  // which is in use
  std::unique_ptr<CopyExchange> exchange;
  std::unique_ptr<StateCopies> writer;
};

struct Training {
  PreparedPlan prepared;
  OptimizerConfig optimizer;
  GradientGuard guard;
  std::optional<double> link_rate;  // bytes/s
  Duration watchdog{};
  std::int64_t steps = 1;
  std::uint64_t seed = 0;
  Data data;
  std::unique_ptr<HeldOutEvaluation> held_out;  // may be null
  Beginning beginning;
  std::unique_ptr<CheckpointWriter> checkpoints;  // may be null
  std::unique_ptr<KeptCopies> copies;             // the same

  std::int64_t first_step() const { return beginning.batches(); }
};

/// Of the serial reference of the same training.
ReferenceConfig reference_config(const PreparedPlan& prepared, const OptimizerConfig& optimizer,
                                 const GradientGuard& guard, std::uint64_t seed);

/// Throws, before anything is trained, for whatever can't be: files, options, memory. `ranks`,
/// `place`: null where there is one process; checkpoints are the first rank's to write.
Training prepare_training(const Options& options, const RankPlace* place, const Ranks* ranks);

/// What --tensorboard and --metrics say. Before folders are made: the port may be another's.
MonitorSetup monitor_setup(const Options& options);

}  // namespace tandem::tools
