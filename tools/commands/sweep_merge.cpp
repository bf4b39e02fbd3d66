// tandem sweep merge: the shards of one sweep as the whole.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/text/output_place.h"
#include "tools/cli/options.h"
#include "tools/commands/command.h"
#include "tools/options/sweep_options.h"
#include "tools/sweep/sweep_report.h"
#include "traces/chrome/atomic_file.h"

namespace tandem::tools {

namespace {

constexpr int kMostMergedFiles = 100'000;

/// Where a configuration's line is.
struct Place {
  std::size_t file = 0;
  std::int64_t offset = 0, number = 0;
  std::size_t size = 0;  // 0: it is nowhere
};

class Merge {
 public:
  explicit Merge(std::vector<std::string> files) : files_(std::move(files)) {
    for (std::size_t file = 0; file < files_.size(); ++file) read(file);
    if (!sweep_) throw InputError("tandem sweep merge: all files are empty");
    check_complete();
    std::ranges::sort(rows_, {}, &SweepRow::index);
  }

  const SweepIdentity& sweep() const { return *sweep_; }
  const std::vector<SweepRow>& rows() const { return rows_; }

  /// The lines in the order of the configurations, as they stand in the files.
  template <class Write>
  void copy(const Write& write) const {
    std::ifstream file;
    std::size_t open = files_.size();
    std::string line;
    for (const Place& place : places_) {
      if (place.file != open) {
        file = std::ifstream(files_[place.file], std::ios::binary);
        open = place.file;
      }
      line.resize(place.size);
      if (!file.seekg(place.offset) || !file.read(line.data(), std::ssize(line)))
        throw InputError(fmt::format("{}: changed while it was read", files_[place.file]));
      write(line);
    }
  }

 private:
  void read(std::size_t file) {
    const std::string& path = files_[file];
    const std::int64_t whole =
        read_sweep_file(path, [&](const StoredLine& line) { take(file, line); });
    std::error_code ignored;
    const auto size = static_cast<std::int64_t>(std::filesystem::file_size(path, ignored));
    if (whole != size)
      throw InputError(
          fmt::format("{}: its last line is cut off: complete that shard with --resume", path));
  }

  void take(std::size_t file, const StoredLine& line) {
    const std::string& path = files_[file];
    if (!sweep_) {
      sweep_ = line.identity;
      places_.resize(sweep_->configurations);
    }
    if (line.identity != *sweep_)
      reject_line(path, line.number, "a line of another sweep than the lines before it, in {}",
                  files_[0]);
    Place& place = places_[line.row.index];
    if (place.size != 0)
      reject_line(path, line.number, "configuration {} is already in {}:{}", line.row.index,
                  files_[place.file], place.number);
    place = {file, line.offset, line.number, line.text.size()};
    rows_.push_back(line.row);
  }

  void check_complete() const {
    if (rows_.size() == places_.size()) return;
    std::string missing;
    constexpr std::size_t kMost = 8;
    std::size_t listed = 0;
    for (std::size_t index = 0; index < places_.size() && listed < kMost; ++index) {
      if (places_[index].size != 0) continue;
      missing += fmt::format("{}{}", missing.empty() ? "" : ", ", index);
      ++listed;
    }
    const std::size_t count = places_.size() - rows_.size();
    throw InputError(
        fmt::format("tandem sweep merge: {} of {} configurations are in none of the files: {}{}",
                    count, places_.size(), missing, count > kMost ? ", …" : ""));
  }

  std::vector<std::string> files_;
  std::optional<SweepIdentity> sweep_;
  std::vector<SweepRow> rows_;
  std::vector<Place> places_;
};

}  // namespace

Options options_of_sweep_merge() {
  Options options("sweep merge", "FILE ... [options]",
                  "Joins the JSON Lines files of all shards of one sweep.",
                  "print JSON Lines on stdout, one object a configuration");
  add_report_options(options);
  options.words("FILE", 1, kMostMergedFiles);
  return options;
}

int run_sweep_merge(const Options& options) {
  const SweepReportRequest report =
      report_request(options, options.text("csv"), options.text("svg"));
  const std::string path = options.text("json-lines");
  if (!path.empty()) check_can_write(path);
  const Merge merge(options.words());
  check_report(report, merge.sweep());
  if (!path.empty()) {
    AtomicFile file(path);
    merge.copy([&](const std::string& line) { file.write(line); });
    file.finish();
  }
  if (options.has("json")) merge.copy([](const std::string& line) { fmt::print("{}", line); });
  make_report(report, merge.sweep(), merge.rows());
  return 0;
}

}  // namespace tandem::tools
