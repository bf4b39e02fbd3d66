#pragma once
// One configuration of a sweep: what ranks it, and a line of its JSON Lines file
// (tools/sweep/FORMATS.md).

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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
  std::string name;   // "plan": of what is no option
  std::string value;  // of a flag yes or no
  bool flag = false;
};
using Configuration = std::vector<SweptOption>;

/// How a metric is shown.
struct SweepColumn {
  std::string_view title;
  std::string_view key;   // in CSV, with its unit
  std::string_view axis;  // of a picture, with its unit
  double scale = 1.0;     // to that unit
  std::string (*print)(double) = nullptr;
};
const SweepColumn& sweep_column(std::size_t metric);

/// What is kept of a configuration.
struct SweepRow : SweptRow {
  std::vector<std::string> values = {};  // of each axis; empty: no option of the row's schedule
  std::string command = {};              // of simulate, that says the same
  std::string subject = {};              // model and cluster, where the options name them
  int code = 0;                          // what simulate exits with
  bool impossible = false;               // refused for sizes that don't go together
  std::string reserve = {};  // of its devices' memory, where it is known whether it fits
  std::uint64_t plan = 0;    // the same of those that are one plan, figure by figure
};

struct ComputedRow {
  SweepRow row;
  std::string line;  // of the JSON Lines file
};

/// A configuration and what became of it: config, assumptions, result and warnings as simulate
/// answers, or the error.
ComputedRow computed_row(const SweepIdentity& sweep, std::size_t index,
                         const Configuration& configuration, const SweepOutcome& outcome);

/// Of a line that was read. Throw Json::exception where it is none of a sweep.
SweepIdentity identity_of(const Json& line);
SweepRow row_of(const Json& line);

/// Where a row is in the sweep: "schedule 2bw, depth 4". Empty: it has no axes.
std::string place_of(const SweepIdentity& sweep, const SweepRow& row);

}  // namespace tandem::tools
