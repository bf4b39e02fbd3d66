#pragma once
// A command run as several ranks: who this process is, by its launcher's environment and options,
// and the group that it joins.

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>

#include "core/program/program.h"
#include "executor/ranks/rank_group.h"
#include "executor/ranks/rank_place.h"
#include "executor/ranks/rank_run.h"
#include "tools/cli/options.h"

namespace tandem::tools {

void add_rank_options(Options& options);
/// Of these, where and how ranks meet.
void add_meeting_options(Options& options);

/// Empty: the process runs all there is. Throws InputError as find_rank_place(), and UsageError for
/// options that would be ignored.
std::optional<RankPlace> rank_place_of(const Options& options);

/// What all ranks must have alike: this version, and the options that are no file's name. Throws
/// InputError where a secret is needed.
RankGroupSetup group_setup(const Options& options, const RankPlace& place);

/// A rank's group and what it needs.
class Ranks {
 public:
  /// Joins the others. `path`: of the plan, which must be the same everywhere, as must be the
  /// options that are no file's name.
  Ranks(const Options& options, const RankPlace& place, const std::string& path);

  bool is_first() const { return group_->rank() == 0; }
  std::int32_t count() const { return group_->ranks(); }
  RankGroup& group() const { return *group_; }
  /// Tells all ranks, unless one has failed before.
  void fail(const std::exception& error) const;
  /// The ranks of a run's devices, as --ranks maps them.
  DeviceRanks device_ranks(const Program& program) const;
  /// These, connected. `by_messages`: of what they send one
  /// another, norms alone go this way.
  RankRun& connect(const Program& program, bool by_messages);
  /// Null where nothing is to go wrong.
  FaultInjector* faults() const { return faults_.get(); }

 private:
  const std::string map_;
  std::unique_ptr<FaultInjector> faults_;
  std::unique_ptr<RankGroup> group_;
  std::unique_ptr<RankRun> run_;
};

}  // namespace tandem::tools
