#pragma once
// The file beside a production timeline, which says what job it is of: `key: value` lines.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/model/recording.h"

namespace tandem {

/// Degrees of parallelism; a file may leave out any.
struct RecordedJob {
  std::optional<std::int64_t> data_parallel, data_sequence_parallel, pipeline_parallel,
      tensor_parallel, chunks, world_size;
  bool cut_off = false;  // perhaps: its last line has no end
};

/// Throws InputError with the places of what is wrong.
RecordedJob parse_recorded_job(std::string_view text, const std::string& name);

/// Throws InputError where the timeline is not of the job; `name` stands for the job's file.
/// Replicas, and ranks of a stage, may be missing, which becomes a warning; not where one rank
/// stands for all of its stage, as in timelines that are published.
void check_job(const RecordedJob& job, const std::string& name, Recording& recording);

}  // namespace tandem
