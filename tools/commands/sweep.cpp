// tandem sweep: simulate, over every combination of its options' values.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/progress.h"
#include "core/text/output_place.h"
#include "executor/ranks/rank_group.h"
#include "tools/cli/for_each.h"
#include "tools/cli/interrupt.h"
#include "tools/cli/memory_limit.h"
#include "tools/commands/command.h"
#include "tools/options/rank_options.h"
#include "tools/options/scenario_options.h"
#include "tools/options/sweep_options.h"
#include "tools/options/sweep_space.h"
#include "tools/sweep/sweep_report.h"

namespace tandem::tools {

namespace {

constexpr std::int64_t kMostSweepThreads = 1024;
constexpr int kMostPlans = 10'000;

/// How many compute here: of ranks on one host each takes a part of the cores.
int threads_of(const Options& options, std::int32_t local_ranks) {
  const std::int64_t cores = std::thread::hardware_concurrency();
  return static_cast<int>(options.integer("threads", 1, kMostSweepThreads,
                                          std::max<std::int64_t>(1, cores / local_ranks)));
}

class Sweep {
 public:
  /// `ranks`: null where this process gives out what it computes; else the first rank gives out
  /// what all compute.
  Sweep(const Options& options, const Shard& shard, RankGroup* ranks, int threads)
      : space_(options),
        shard_(shard),
        ranks_(ranks),
        report_(report_request(options, shard_path(options, "csv", shard),
                               shard_path(options, "svg", shard))),
        json_(options.has("json")),
        threads_(threads),
        path_(shard_path(options, options.has("resume") ? "resume" : "json-lines", shard)) {
    if (options.has("resume") && options.has("json-lines"))
      refuse(options, "--json-lines is not taken: --resume FILE adds its rows to FILE");
    check_report(report_, space_.identity());
    if (path_.empty() || (ranks_ != nullptr && ranks_->rank() != 0)) return;
    check_can_write(path_);
    file_.emplace(path_);
    file_->keep(options.has("resume") ? read_rows() : 0);
  }

  /// Returns the exit code.
  int run() {
    const bool whole = compute();
    if (ranks_ != nullptr) {
      if (!whole) throw Interrupted("interrupted");
      gather();
      if (ranks_->rank() != 0) return 0;
    }
    std::ranges::sort(rows_, {}, &SweepRow::index);
    make_report(report_, space_.identity(), rows_);
    if (!whole) {
      fmt::print(stderr, "error: interrupted after {} of {} configurations{}\n", rows_.size(),
                 rows_.size() + which_.size() - computed_,
                 path_.empty() ? "" : fmt::format(": --resume {} goes on", path_));
      return static_cast<int>(ExitCode::interrupted);
    }
    if (!json_) {
      fmt::print("{}", nearest_misses(space_.identity(), rows_, [&](std::size_t index) {
                   return space_.run(index).request;
                 }));
    }
    const auto simulated = [](const SweepRow& row) { return row.simulated(); };
    if (rows_.empty() || std::any_of(rows_.begin(), rows_.end(), simulated)) return 0;
    fmt::print(stderr, "error: no configuration can be simulated; the first error: {}\n",
               rows_.front().refusal);
    return rows_.front().code;
  }

 private:
  /// Those that the file has. Returns the bytes to keep.
  std::int64_t read_rows() {
    std::vector<bool> seen(space_.size());
    return read_sweep_file(path_, [&](const StoredLine& line) {
      if (line.identity != space_.identity())
        reject_line(path_, line.number,
                    "a line of another sweep: its options, the files they name or the build of "
                    "tandem differ");
      if (!shard_.has(line.row.index))
        reject_line(path_, line.number, "configuration {} is not of shard {}/{}", line.row.index,
                    shard_.number, shard_.of);
      if (seen[line.row.index])
        reject_line(path_, line.number, "configuration {} is given twice", line.row.index);
      seen[line.row.index] = true;
      if (json_) fmt::print("{}", line.text);
      rows_.push_back(line.row);
    });
  }

  /// Whether it came to its end.
  bool compute() {
    std::vector<bool> done(space_.size());
    for (const SweepRow& row : rows_) done[row.index] = true;
    for (std::size_t index = 0; index < space_.size(); ++index) {
      if (shard_.has(index) && !done[index]) which_.push_back(index);
    }
    const InterruptGuard interrupt(OnInterrupt::ends_at_next_step);
    const Activity progress("sweep");
    const SearchWatch watch = search_watch(interrupt.token());
    const auto make = [&](std::size_t place) {
      if (interrupt.token().stop_requested()) throw Interrupted("interrupted");
      const std::size_t index = which_[place];
      return computed_row(space_.identity(), index, space_.configuration(index),
                          sweep_outcome([&] { return space_.run(index); }, watch));
    };
    const auto keep = [&](ComputedRow computed) {
      if (ranks_ != nullptr)
        lines_ += computed.line;
      else
        give_out(computed.line);
      take(std::move(computed.row));
      progress.say([&] { return progress_text(); });
    };
    work_in_order(threads_, which_.size(), make, keep);
    if (file_ && ranks_ == nullptr) file_->write("");  // no row is a result, too
    return computed_ == which_.size();
  }

  void give_out(const std::string& line) {
    if (file_) file_->write(line);
    if (json_) fmt::print("{}", line);
  }

  /// The first rank gives out all rows, as if it had computed them.
  void gather() {
    const std::vector<std::string> all = ranks_->gather(std::move(lines_));
    std::map<std::size_t, std::string> lines;
    for (std::size_t rank = 1; rank < all.size(); ++rank) {
      std::istringstream brought(all[rank]);
      const std::string name = ranks_->name(static_cast<std::int32_t>(rank));
      read_sweep_lines(name, brought, [&](const StoredLine& line) {
        if (line.identity != space_.identity())
          reject_line(name, line.number,
                      "a line of another sweep: files or the build of tandem differ");
        rows_.push_back(line.row);
        lines[line.row.index] = line.text;
      });
    }
    if (ranks_->rank() != 0) return;
    std::istringstream own(all[0]);
    read_sweep_lines("rank 0", own,
                     [&](const StoredLine& line) { lines[line.row.index] = line.text; });
    if (file_) file_->write("");
    for (const auto& [index, line] : lines) give_out(line);
  }

  void take(SweepRow row) {
    ++computed_;
    if (!row.simulated()) ++refused_;
    if (row.works()) {
      const double rate = row.metrics[sweep_metric("throughput")];
      if (!(rate <= best_)) best_ = rate;
    }
    rows_.push_back(std::move(row));
  }

  std::string progress_text() const {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start_;
    const double a_second = static_cast<double>(computed_) / passed.count();
    const double left = static_cast<double>(which_.size() - computed_) / a_second;
    return fmt::format(
        "{} of {}, {:.3g} a second, {:.0f} s left; {} refused, best {:.4g} "
        "samples/s",
        computed_, which_.size(), a_second, left, refused_, best_);
  }

  SweepSpace space_;
  Shard shard_;
  RankGroup* ranks_;
  SweepReportRequest report_;
  bool json_;
  int threads_;
  std::string path_;  // of the JSON Lines; empty: none
  std::vector<SweepRow> rows_;
  std::optional<GrowingFile> file_;
  std::string lines_;  // of this rank

  std::vector<std::size_t> which_;  // to be computed
  std::size_t computed_ = 0, refused_ = 0;
  double best_ = 0.0;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

Options options_of_sweep() {
  Options options(
      "sweep", "[PLAN ...] [options]  |  merge FILE ... [options]",
      "Simulates every combination of values. Any option of simulate takes several values: A,B,C; "
      "a range 1..4, 2..8+2 (step 2) or 1..64*2 (doubling); 'A,B;C' for values with commas; "
      "=yes,no for a flag.",
      "print JSON Lines on stdout, one object a configuration");
  options.group("Work")
      .value("threads", "N", "threads that compute (default: as many as cores)")
      .output("resume", "FILE", "go on with the JSON Lines file of a sweep that was cut short")
      .value("shard", "K/N|slurm|mpi|ranks|hq/N",
             "compute the Kth of N parts; slurm, mpi: take K and N from the job array, srun or "
             "mpirun; hq/N: K from HyperQueue's array 1-N; {shard} in a FILE stands for K. ranks: "
             "of those that mpirun, srun or tandem launch has started; rank 0 gives out the whole");
  add_meeting_options(options);
  add_report_options(options);
  options.values_are_lists();
  add_scenario_options(options);
  options.words("PLAN", 0, kMostPlans).first_word({"merge"}, true);
  return options;
}

/// Each of the ranks computes a part.
static int sweep_over_ranks(const Options& options, const RankPlace& place) {
  if (options.has("resume"))
    refuse(options, "--resume is for one process, or for --shard K/N: ranks begin anew");
  RankGroup ranks(group_setup(options, place));
  try {
    const Shard shard{static_cast<std::size_t>(place.rank) + 1,
                      static_cast<std::size_t>(place.ranks)};
    return Sweep(options, shard, &ranks, threads_of(options, place.local_ranks)).run();
  } catch (const std::exception& error) {
    ranks.fail(error.what());
    throw;
  }
}

int run_sweep(const Options& options) {
  const bool by_ranks = options.text("shard") == "ranks";
  if (!by_ranks) {
    refuse_given(options, {"rendezvous", "secret-file"},
                 "--{} is for ranks that compute together: --shard ranks");
  }
  const Shard shard = by_ranks ? Shard() : shard_of(options);
  check_files_differ(options, shard_outputs(options, shard));
  keep_freed_memory();
  if (by_ranks) {
    if (const auto place = rank_place_of(options)) return sweep_over_ranks(options, *place);
  }
  return Sweep(options, shard, nullptr, threads_of(options, 1)).run();
}

}  // namespace tandem::tools
