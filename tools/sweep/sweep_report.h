#pragma once
// What is made of the rows of a sweep: a ranked table, CSV and pictures; the same for one that was
// run and one that was merged.

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "tools/print/plot.h"
#include "tools/sweep/sweep_row.h"

namespace tandem::tools {

/// What is to be made.
struct SweepReportRequest {
  std::size_t metric = 0;  // what the table is ranked by
  std::size_t top = 20;    // rows of the table
  bool table = true, picture = false;
  std::string csv = {}, svg = {};  // files; empty: none
  std::string over = {}, by = {};  // axes of the picture; empty: not given
};

class SweepReport {
 public:
  explicit SweepReport(SweepReportRequest request) : request_(std::move(request)) {}

  /// Throws UsageError where a picture is asked for that this sweep has not.
  void check(const SweepIdentity& sweep) const;
  /// Prints the table and the picture, and writes the files. REQUIRES: rows by their index.
  void make(const SweepIdentity& sweep, const std::vector<SweepRow>& rows) const;

 private:
  Plot plot(const SweepIdentity& sweep, const std::vector<SweepRow>& rows) const;

  SweepReportRequest request_;
};

/// For people: the first `top` of the ranking, and why others are not in it.
std::string sweep_table(const SweepIdentity& sweep, const std::vector<SweepRow>& rows,
                        std::size_t metric, std::size_t top);
/// A line each, in the order of the configurations.
std::string sweep_csv(const SweepIdentity& sweep, const std::vector<SweepRow>& rows,
                      std::size_t metric);

}  // namespace tandem::tools
