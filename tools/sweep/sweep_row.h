#pragma once
// One configuration of a sweep: what ranks it, and a line of its JSON Lines file
// (tools/sweep/FORMATS.md).

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/schedule/schedule.h"
#include "planner/study/sweep.h"
#include "tools/cli/json_output.h"

namespace tandem::tools {

inline constexpr std::size_t kMostConfigurations = 1'000'000;  // of a sweep

struct SweepIdentity {
  std::string id;  // of its options, the files they name, and this build
  std::size_t configurations = 0;
  std::vector<std::string> axes;  // options of several values
  friend bool operator==(const SweepIdentity&, const SweepIdentity&) = default;
};

/// An option of a configuration as it was given.
struct SweptOption {
  std::string name;                  // "plan": of what is no option
  std::optional<std::string> value;  // empty: a flag
  bool on = true;                    // of a flag
};
using Configuration = std::vector<SweptOption>;

/// The figures of a simulated configuration; not a number: nothing is known of it.
struct SweepFigures {
  double samples_per_s, tokens_per_s, flops_per_s_per_device;
  double devices;  // of all pipelines
  double period_s, makespan_s;
  double ideal_s_a_batch;               // computing of the busiest device
  double peak_bytes, peak_activations;  // of the fullest device
};

/// What rows are ranked by and shown with.
struct SweepMetric {
  std::string_view name;   // of --rank
  std::string_view title;  // of a column
  std::string_view key;    // in CSV, with its unit
  std::string_view axis;   // of a picture, with its unit
  double scale = 1.0;      // to that unit
  bool more_is_better = true;
  double (*of)(const SweepFigures&) = nullptr;
  std::string (*print)(double) = nullptr;
};
std::span<const SweepMetric> sweep_metrics();
/// The index of a metric. REQUIRES: there is one of this name.
std::size_t sweep_metric(std::string_view name);

/// How devices are shared out; 0: not known, as the tensor degree at plain costs.
struct Shape {
  std::int64_t tensor = 0, depth = 0, width = 0;
};

/// What is kept of a configuration.
struct SweepRow {
  std::size_t index = 0;                 // of the configuration
  std::vector<std::string> values = {};  // of each axis; empty: no option of the row's schedule
  std::string command = {};              // of simulate, that says the same
  std::string subject = {};              // model and cluster, where the options name them
  std::string refusal = {};              // empty: it was simulated
  int code = 0;                          // what simulate exits with
  std::vector<double> metrics = {};      // one each
  std::optional<bool> fits = {};         // all devices; empty: not known
  std::optional<double> capacity = {};   // in bytes, of the fullest device; empty: not known
  bool impossible = false;               // refused for sizes that don't go together
  Shape shape = {};
  std::optional<WeightSemantics> weights = {};  // empty: not known
  std::string reserve = {};  // of its devices' memory, where it is known whether it fits
  std::uint64_t plan = 0;    // the same of those that are one plan, figure by figure

  bool simulated() const { return refusal.empty(); }
  /// Simulated, and nothing is known to be too large.
  bool works() const { return simulated() && fits.value_or(true); }
};

struct ComputedRow {
  SweepRow row;
  std::string line;  // of the JSON Lines file
};

/// A configuration and what became of it: config, assumptions, result and warnings as simulate
/// answers, or the error.
ComputedRow computed_row(const SweepIdentity& sweep, std::size_t index,
                         const Configuration& configuration, const SweepOutcome& outcome);

/// Of a line, just made or read. Throw Json::exception where it is none of a sweep.
SweepIdentity identity_of(const Json& line);
SweepRow row_of(const Json& line);

/// Where a row is in the sweep: "schedule 2bw, depth 4". Empty: it has no axes.
std::string place_of(const SweepIdentity& sweep, const SweepRow& row);

}  // namespace tandem::tools
