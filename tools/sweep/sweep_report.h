#pragma once
// What is made of the rows of a sweep: a ranked table, CSV and pictures; the same for one that was
// run and one that was merged.

#include <cstddef>
#include <string>
#include <vector>

#include "tools/cli/options.h"
#include "tools/print/plot.h"
#include "tools/sweep/sweep_row.h"
#include "tools/sweep/sweep_space.h"

namespace tandem::tools {

void add_report_options(Options& options);

class SweepReport {
 public:
  /// Throws UsageError, and DeviceError where a file can't be written.
  explicit SweepReport(const Options& options);

  /// Throws UsageError where a picture is asked for that this sweep has not.
  void check(const SweepIdentity& sweep) const;
  /// Prints the table and the picture, and writes the files.
  void make(const SweepIdentity& sweep, const std::vector<SweepRow>& rows) const;

 private:
  Plot plot(const SweepIdentity& sweep, const std::vector<SweepRow>& rows) const;

  std::size_t metric_;
  std::size_t top_;
  bool table_, picture_;
  std::string csv_, svg_, over_, by_;
};

/// Those that work, by their metric, the best first; then those that do not fit; then those that
/// can't be simulated. Of equal ones the first configuration first.
std::vector<std::size_t> ranking(const std::vector<SweepRow>& rows, std::size_t metric);

/// For people: the first `top` of the ranking, and why others are not in it.
std::string sweep_table(const SweepIdentity& sweep, const std::vector<SweepRow>& rows,
                        std::size_t metric, std::size_t top);
/// A line each, in the order of the configurations.
std::string sweep_csv(const SweepIdentity& sweep, const std::vector<SweepRow>& rows,
                      std::size_t metric);

}  // namespace tandem::tools
