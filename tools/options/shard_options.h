#pragma once
// A part of a sweep for each of many processes, on one machine or on many.

#include <cstddef>

#include "tools/cli/options.h"

namespace tandem::tools {

struct Shard {
  std::size_t number = 1, of = 1;  // counted from 1
  /// Neighbours go to different shards: they take about as long.
  bool has(std::size_t configuration) const { return configuration % of == number - 1; }
};

/// --shard K/N; `slurm`: the task of the job array, or of srun's step; `mpi`: the rank of mpirun.
/// Throws UsageError, and AbsentError where the environment says nothing of it.
Shard shard_of(const Options& options);

/// Puts this shard's number for each {shard} in the paths of files that are written. Throws
/// UsageError where all processes of one command line would write the same file, or one that is
/// read.
void name_shard_in_outputs(Options& options);

}  // namespace tandem::tools
