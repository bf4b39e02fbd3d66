#pragma once
// What is made of the rows of a sweep: a ranked table, CSV and pictures; the same for one that was
// run and one that was merged.

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
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

/// Throws UsageError where a picture is asked for that this sweep has not.
void check_report(const SweepReportRequest& request, const SweepIdentity& sweep);
/// Prints the table and the picture, and writes the files. REQUIRES: rows by their index.
void make_report(const SweepReportRequest& request, const SweepIdentity& sweep,
                 const std::vector<SweepRow>& rows);

/// For people: the first `top` of the ranking, and why others are not in it.
std::string sweep_table(const SweepIdentity& sweep, const std::vector<SweepRow>& rows,
                        std::size_t metric, std::size_t top);
/// A line each, in the order of the configurations.
std::string sweep_csv(const SweepIdentity& sweep, const std::vector<SweepRow>& rows,
                      std::size_t metric);

// ---- Pictures ----

/// What a metric needs for what it costs in memory: every configuration a point, a series for each
/// value of `by`, hollow what does not fit, numbered those that no other beats in both. Of
/// activations where no bytes are known.
Plot frontier_plot(const SweepIdentity& sweep, const std::vector<SweepRow>& rows,
                   std::size_t metric, std::optional<std::size_t> by);

/// The best by a metric, of those that work, over the values of the axis `over`; a line for each
/// value of the axis `by`.
Plot lines_plot(const SweepIdentity& sweep, const std::vector<SweepRow>& rows, std::size_t metric,
                std::size_t over, std::optional<std::size_t> by);

// ---- Where nothing fits: what is nearest, and what would make it fit ----

/// Some lines about those that need least memory. Empty: something fits, or nothing is known.
/// `request`: of a configuration.
std::string nearest_misses(const SweepIdentity& sweep, const std::vector<SweepRow>& rows,
                           const std::function<ScenarioRequest(std::size_t)>& request);

}  // namespace tandem::tools
