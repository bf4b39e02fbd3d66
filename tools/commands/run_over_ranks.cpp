#include "tools/commands/run_over_ranks.h"

#include "tools/options/checkpoint_options.h"

namespace tandem::tools {

RunOverRanks::RunOverRanks(Ranks& ranks, const Training& training, const Options& options,
                           TrainingSetup<float>& setup)
    : run_(ranks.connect(training.prepared.program, setup.by_messages)),
      copies_(training.copies.get()) {
  setup.others = &run_;
  if (training.checkpoints)
    service_.emplace(run_, *training.checkpoints);
  else if (options.has("checkpoint"))
    setup.keeper = &keeper_.emplace(run_, checkpoint_interval(options), training.steps);
  if (copies_ != nullptr) setup.keeper = &keepers_.emplace(copies_->writer.get(), setup.keeper);
  if (FaultInjector* const faults = ranks.faults())
    setup.before_work = [faults](DeviceId, Instance) { faults->at_op(); };
}

void RunOverRanks::finish(bool interrupted) {
  if (copies_ != nullptr) copies_->exchange->finish(interrupted);
  if (service_) service_->finish();
}

}  // namespace tandem::tools
