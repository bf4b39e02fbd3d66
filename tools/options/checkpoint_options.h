#pragma once
// What a training begins with and what it leaves: --resume, --init, --checkpoint and what goes with
// them.

#include <cstdint>
#include <memory>
#include <string>

#include "core/model/plan.h"
#include "executor/checkpoint/checkpoint.h"
#include "executor/checkpoint/checkpoint_writer.h"
#include "executor/copies/state_copies.h"
#include "executor/ranks/rank_place.h"
#include "tools/cli/options.h"

namespace tandem::tools {

void add_checkpoint_options(Options& options);

/// What a run begins with; all null: initial weights.
struct Beginning {
  std::unique_ptr<Checkpoint> checkpoint = {};
  std::unique_ptr<CopiedState> copy = {};              // that a start before has left in memory
  std::unique_ptr<TrainingStart<float>> weights = {};  // of others
  std::string other_folder = {};  // of weights, or where the copied run's began

  const TrainingStart<float>* start() const {
    if (copy) return copy.get();
    return checkpoint != nullptr ? checkpoint.get() : weights.get();
  }
  /// Of the run that it goes on from; null: of none.
  const CheckpointInfo* info() const {
    if (copy) return &copy->info();
    return checkpoint != nullptr ? &checkpoint->info() : nullptr;
  }
  /// Where the run's tokenizer may be; empty: nowhere.
  std::string folder() const { return checkpoint ? checkpoint->path() : other_folder; }
  /// Steps that were trained before.
  std::int64_t batches() const { return start() == nullptr ? 0 : start()->batches(); }
};

/// Reads, and checks, all that is there. Throws InputError where it is not of the plan's model, or
/// its optimizer is another one; tells what was read otherwise than it stands. `restarted`: by a
/// launcher, after a failure: then the newest checkpoint that the run has kept itself goes first,
/// and before it `copy`, which may be null.
Beginning beginning_of(const Options& options, const Plan& plan, bool restarted,
                       std::unique_ptr<CopiedState> copy);

/// Batches of the newest checkpoint in --checkpoint DIR; 0: there is none.
std::int64_t newest_checkpoint_of(const Options& options);

/// Where --buddy has copies; empty: it is not given. Throws UsageError where no launcher has a
/// place for them.
std::string copies_folder(const Options& options, const RankPlace* place);

/// Tells in what the run that goes on differs from the one that made the checkpoint. `info`: of the
/// run that goes on.
void tell_differences(const CheckpointInfo& before, const CheckpointInfo& info);

/// --checkpoint-every; 0: at the end alone.
std::int64_t checkpoint_interval(const Options& options);

/// Null where --checkpoint is not given. Throws as CheckpointWriter does, and UsageError for
/// options that would be ignored. `files`: kept beside the model.
std::unique_ptr<CheckpointWriter> checkpoint_writer(const Options& options, CheckpointInfo info,
                                                    std::int64_t last,
                                                    const std::vector<KeptTensor>& tensors,
                                                    std::vector<KeptFile> files = {});

}  // namespace tandem::tools
