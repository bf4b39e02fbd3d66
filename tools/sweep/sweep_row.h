#pragma once
// One configuration of a sweep: a line of its JSON Lines file (tools/sweep/FORMATS.md), and what
// ranks it.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/schedule/schedule.h"
#include "tools/cli/json_output.h"
#include "tools/sweep/sweep_space.h"

namespace tandem::tools {

/// What rows are ranked by and shown with.
struct SweepMetric {
  std::string_view name;   // of --rank
  std::string_view title;  // of a column
  std::string_view key;    // in CSV, with its unit
  std::string_view axis;   // of a picture, with its unit
  double scale = 1.0;      // to that unit
  bool more_is_better = true;
  double (*of)(const Json& row) = nullptr;  // not a number: nothing is known of it
  std::string (*print)(double) = nullptr;
};
std::span<const SweepMetric> sweep_metrics();
/// The index of a metric. REQUIRES: there is one of this name.
std::size_t sweep_metric(std::string_view name);

/// How devices are shared out; 0: not known, as the tensor degree at plain costs.
struct Shape {
  std::int64_t tensor = 0, depth = 0, width = 0;
};

/// What is kept of a line.
struct SweepRow {
  std::size_t index = 0;            // of the configuration
  std::vector<std::string> values;  // of each axis; empty: no option of the row's schedule
  std::string command;              // of simulate, that says the same
  std::string subject;              // model and cluster, where the options name them
  std::string refusal;              // empty: it was simulated
  int code = 0;                     // what simulate exits with
  std::vector<double> metrics;      // one each
  std::optional<bool> fits;         // all devices; empty: not known
  std::optional<double> capacity;   // in bytes, of the fullest device; empty: not known
  bool impossible = false;          // refused for sizes that don't go together
  Shape shape;
  std::optional<WeightSemantics> weights = {};  // empty: not known
  std::string reserve;     // of its devices' memory, where it is known whether it fits
  std::uint64_t plan = 0;  // the same of those that are one plan, figure by figure

  bool simulated() const { return refusal.empty(); }
  /// Simulated, and nothing is known to be too large.
  bool works() const { return simulated() && fits.value_or(true); }
};

/// The configuration as simulate answers it: config, assumptions, result and warnings, or the
/// error. Throws Interrupted when Ctrl-C cut its search short.
Json sweep_line(const SweepSpace& space, std::size_t index);

/// Throw Json::exception where `line` is none of a sweep.
SweepIdentity identity_of(const Json& line);
SweepRow row_of(const Json& line);

/// Where a row is in the sweep: "schedule 2bw, depth 4". Empty: it has no axes.
std::string place_of(const SweepIdentity& sweep, const SweepRow& row);

}  // namespace tandem::tools
