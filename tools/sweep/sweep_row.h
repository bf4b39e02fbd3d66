#pragma once
// One configuration of a sweep: what ranks it, and a line of its JSON Lines file, which is read to
// go on with it or to merge it (tools/sweep/FORMATS.md).

#include <cstddef>
#include <cstdint>
#include <functional>
#include <istream>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

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

/// What rows are ranked by.
struct SweepMetric {
  std::string_view name;
  bool more_is_better = true;
  std::string_view title;
  std::string_view key;   // in CSV, with its unit
  std::string_view axis;  // of a picture, with its unit
  double scale = 1.0;     // to that unit
  std::string (*print)(double) = nullptr;
  /// Of a line of the file, by `key`; not a number: not known.
  double (*of)(const Json& line, std::string_view key) = nullptr;
};
std::span<const SweepMetric> sweep_metrics();
/// The index of a metric. REQUIRES: there is one of this name.
std::size_t sweep_metric(std::string_view name);

/// How devices are shared out; 0: not known, as the tensor degree at plain costs.
struct SweepShape {
  std::int64_t tensor = 0, depth = 0, width = 0;
};

/// What is kept of a configuration.
struct SweepRow {
  std::size_t index = 0;                // of the configuration
  std::string refusal = {};             // empty: it was simulated
  std::vector<double> metrics = {};     // one each; not a number: not known
  std::optional<bool> fits = {};        // all devices; empty: not known
  std::optional<double> capacity = {};  // in bytes, of the fullest device; empty: not known
  SweepShape shape = {};
  std::optional<WeightSemantics> weights = {};  // empty: not known
  std::vector<std::string> values = {};  // of each axis; empty: no option of the row's schedule
  std::string command = {};              // of simulate, that says the same
  std::string subject = {};              // model and cluster, where the options name them
  int code = 0;                          // what simulate exits with
  bool impossible = false;               // refused for sizes that don't go together
  std::string reserve = {};  // of its devices' memory, where it is known whether it fits
  std::string fits_by = {};  // "framework", "tandem", or "" where there is one figure
  std::uint64_t plan = 0;    // the same of those that are one plan, figure by figure

  bool simulated() const { return refusal.empty(); }
  /// Simulated, and nothing is known to be too large.
  bool works() const { return simulated() && fits.value_or(true); }
};

/// Those that work, by their metric, the best first; then those that do not fit; then those that
/// can't be simulated. Of equal ones the first configuration first.
std::vector<std::size_t> ranking(const std::vector<SweepRow>& rows, std::size_t metric);

struct ComputedRow {
  SweepRow row;
  std::string line;  // of the JSON Lines file
};

/// A configuration and what became of it: config, assumptions, result and warnings as simulate
/// answers, or the error. `options`: by their names, as they were given; of a flag true or false.
ComputedRow computed_row(const SweepIdentity& sweep, std::size_t index, Json options,
                         const SweepOutcome& outcome);

/// A whole line of the file.
struct StoredLine {
  std::string_view text;    // with its newline
  std::int64_t offset = 0;  // of it in the file
  std::int64_t number = 1;  // counted from 1
  SweepIdentity identity;
  SweepRow row;
};

/// Reads line by line. Returns the bytes of whole lines: what follows was cut off when it was
/// written. Throws InputError with the line where one is none of a sweep, and where the file can't
/// be read.
std::int64_t read_sweep_file(const std::string& path,
                             const std::function<void(const StoredLine&)>& take);
/// The same of a stream; `path` names it in messages.
std::int64_t read_sweep_lines(const std::string& path, std::istream& file,
                              const std::function<void(const StoredLine&)>& take);

/// Throws the InputError of a line that is not as it should be.
[[noreturn]] void reject_at(const std::string& path, std::int64_t number, std::size_t column,
                            const std::string& why);
template <class... Args>
[[noreturn]] void reject_line(const std::string& path, std::int64_t number,
                              fmt::format_string<Args...> why, Args&&... args) {
  reject_at(path, number, 1, fmt::format(why, std::forward<Args>(args)...));
}

/// Where a row is in the sweep: "schedule 2bw, depth 4". Empty: it has no axes.
std::string place_of(const SweepIdentity& sweep, const SweepRow& row);

}  // namespace tandem::tools
