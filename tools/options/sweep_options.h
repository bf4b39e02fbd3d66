#pragma once
// What a sweep, run or merged, has beside the options of simulate: its part for each of many
// processes, on one machine or on many; what is made of its rows.

#include <cstddef>
#include <string>
#include <vector>

#include "tools/cli/options.h"
#include "tools/sweep/sweep_report.h"

namespace tandem::tools {

struct Shard {
  std::size_t number = 1, of = 1;  // counted from 1
  /// Neighbours go to different shards: they take about as long.
  bool has(std::size_t configuration) const { return configuration % of == number - 1; }
};

/// --shard K/N; `slurm`: the task of the job array, or of srun's step; `mpi`: the rank of mpirun;
/// hq/N: the task of HyperQueue's array 1-N.
/// Throws UsageError, and AbsentError where the environment says nothing of it.
Shard shard_of(const Options& options);

/// The path of --NAME, which is written, with the shard's number for each {shard}; empty: not
/// given. Throws UsageError where all processes of one command line would write the same file.
std::string shard_path(const Options& options, const std::string& name, const Shard& shard);
/// All outputs with such paths.
std::vector<NamedFile> shard_outputs(const Options& options, const Shard& shard);

void add_report_options(Options& options);

/// `csv`, `svg`: where they are written; empty: nowhere. Throws UsageError, and DeviceError where a
/// file can't be written.
SweepReportRequest report_request(const Options& options, std::string csv, std::string svg);

}  // namespace tandem::tools
