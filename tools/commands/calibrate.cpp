// tandem calibrate ROWS: constants of the analytic costs from measured iterations, and how well
// they predict what they were not fitted to.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/files/constants_files.h"
#include "core/import/iterations.h"
#include "core/text/count_text.h"
#include "core/text/files.h"
#include "core/text/output_place.h"
#include "simulator/cost/calibration_fit.h"
#include "simulator/cost/prediction_errors.h"
#include "tools/cli/json_output.h"
#include "tools/cli/options.h"
#include "tools/commands/command.h"
#include "tools/options/cluster_options.h"

namespace tandem::tools {

namespace {

/// How rows that a fit did not see come out.
struct Held {
  std::string rows_are;
  std::size_t fitted_to = 0;
  Rows rows;
  std::vector<double> errors = {}, naive = {};
};

struct CalibrationReport {
  std::vector<MeasuredIteration> measured;
  CalibrationFile fitted = {};  // to all rows
  std::vector<double> errors = {};
  Held halves = {};
  std::optional<Held> pipelines = {};  // by those without; empty: too few of either
  double shuffled = 0.0;               // of half of them, fitted to them, with times of any row
};

Rows rows_where(const std::vector<MeasuredIteration>& measured,
                const std::function<bool(const MeasuredIteration&)>& is) {
  Rows rows;
  for (std::size_t i = 0; i < measured.size(); ++i) {
    if (is(measured[i])) rows.push_back(i);
  }
  return rows;
}

Held held_out(std::string name, const IterationModel& model, const CalibrationReport& report,
              const Rows& seen, Rows unseen) {
  const Seconds seconds = seconds_of(report.measured);
  Held held{.rows_are = std::move(name), .fitted_to = seen.size(), .rows = std::move(unseen)};
  held.errors = relative_errors(model, fit_calibration(model, seconds, seen), seconds, held.rows);
  held.naive = relative_errors(fit_naive(report.measured, seconds, seen), report.measured, seconds,
                               held.rows);
  return held;
}

/// Each half of the rows by a fit to the other.
Held halves_held_out(const IterationModel& model, const CalibrationReport& report,
                     const Rows& order) {
  const auto middle = order.begin() + static_cast<std::ptrdiff_t>(order.size() / 2);
  const Rows first(order.begin(), middle), second(middle, order.end());
  Held held = held_out("each half", model, report, first, second);
  const Held other = held_out("", model, report, second, first);
  held.rows.insert(held.rows.end(), other.rows.begin(), other.rows.end());
  held.errors.insert(held.errors.end(), other.errors.begin(), other.errors.end());
  held.naive.insert(held.naive.end(), other.naive.begin(), other.naive.end());
  return held;
}

/// Of half of the rows with times of any: what a fit that follows anything would reach.
double shuffled_error(const IterationModel& model, const CalibrationReport& report,
                      const Rows& order, std::uint64_t seed) {
  Seconds seconds = seconds_of(report.measured), mixed = seconds;
  const Rows from = shuffled_rows(seconds.size(), seed + 1);
  for (std::size_t i = 0; i < mixed.size(); ++i) mixed[i] = seconds[from[i]];
  const Rows half(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(order.size() / 2));
  return mean_absolute(relative_errors(model, fit_calibration(model, mixed, half), mixed, half));
}

FittedRange fitted_range(const std::vector<MeasuredIteration>& rows) {
  FittedRange range;
  const auto extent = [&](const auto& of) {
    const auto [least, most] = std::ranges::minmax(rows, {}, of);
    return FittedExtent{std::invoke(of, least), std::invoke(of, most)};
  };
  range.devices = extent(&MeasuredIteration::devices);
  range.tensor = extent(&MeasuredIteration::tensor);
  range.depth = extent(&MeasuredIteration::depth);
  range.width = extent(&MeasuredIteration::width);
  range.microbatch_size = extent(&MeasuredIteration::microbatch_size);
  range.model_width = extent([](const MeasuredIteration& row) { return row.model.width; });
  return range;
}

std::vector<MeasuredIteration> rows_of(const Options& options) {
  const auto unsaid = parse_recompute(options.text("recompute", name(Recompute::none)));
  if (!unsaid) options["recompute"].reject(std::string(kRecomputeNames));
  return read_iterations(options.words()[0], *unsaid);
}

CalibrationReport report_of(const Options& options) {
  const GivenOptions given = given_options(options, {"cluster", "dtype", "attention"});
  const std::shared_ptr<const Cluster> cluster = cluster_of(given);
  CalibrationReport report{.measured = rows_of(options)};
  const std::size_t count = report.measured.size();
  if (count < 2 * kLeastRows) {
    throw InputError(fmt::format("{}: {}: expected at least {}, half of them to fit {} constants",
                                 options.words()[0], counted(count, "row"), 2 * kLeastRows,
                                 kCalibrationConstants.size()));
  }
  AnalyticAssumptions assumptions;
  assumptions.format = report.fitted.format = format_of(given, *cluster);
  assumptions.attention = report.fitted.attention = attention_of(given, assumptions.format);
  report.fitted.fitted = fitted_range(report.measured);
  report.fitted.device = (*cluster)[DeviceId{}].name;
  const IterationModel model(report.measured, *cluster, assumptions);
  const Seconds seconds = seconds_of(report.measured);
  const auto seed = static_cast<std::uint64_t>(options.integer("seed", 0, 1'000'000'000, 1));
  const Rows all = shuffled_rows(count, seed);
  report.fitted.constants = fit_calibration(model, seconds, all);
  report.errors = relative_errors(model, report.fitted.constants, seconds, all);
  report.halves = halves_held_out(model, report, all);
  report.fitted.spread =
      PredictionSpread{.rows = std::ssize(report.halves.errors),
                       .within_80 = summary_of(report.halves.errors).percentile_80};
  report.shuffled = shuffled_error(model, report, all, seed);
  const Rows flat = rows_where(report.measured, [](const auto& one) { return one.depth == 1; });
  Rows deep = rows_where(report.measured, [](const auto& one) { return one.depth > 1; });
  if (flat.size() >= kLeastRows && !deep.empty())
    report.pipelines = held_out("rows with pipelines", model, report, flat, std::move(deep));
  return report;
}

/// Of rows of a group: how many, and the errors.
struct Group {
  std::string name;
  std::vector<double> errors = {}, naive = {};
};

std::vector<Group> groups_of(const CalibrationReport& report) {
  using Degree = std::int32_t MeasuredIteration::*;
  const Held& held = report.halves;
  std::vector<Group> groups;
  for (const auto& [name, degree] :
       {std::pair<const char*, Degree>{"tensor", &MeasuredIteration::tensor},
        {"width", &MeasuredIteration::width},
        {"depth", &MeasuredIteration::depth}}) {
    std::set<std::int32_t> values;
    for (const std::size_t row : held.rows) values.insert(report.measured[row].*degree);
    for (const std::int32_t value : values) {
      Group group{.name = fmt::format("  {} {}", name, value)};
      for (std::size_t i = 0; i < held.rows.size(); ++i) {
        if (report.measured[held.rows[i]].*degree != value) continue;
        group.errors.push_back(held.errors[i]);
        group.naive.push_back(held.naive[i]);
      }
      groups.push_back(std::move(group));
    }
  }
  return groups;
}

void print_group(const std::string& name, const std::vector<double>& errors,
                 const std::vector<double>& naive) {
  const PredictionErrors of = summary_of(errors);
  fmt::print("{:<50}{:>6}{:>8.1f}{:>+8.1f}{:>+8.1f}{:>11.1f}\n", name, of.rows, 100.0 * of.mean,
             100.0 * of.bias, 100.0 * of.worst, 100.0 * mean_absolute(naive));
}

void print_report(const Options& options, const CalibrationReport& report) {
  const CalibrationFile& fitted = report.fitted;
  fmt::print("{} iterations of {} on {}, {}, {} attention\n\n", report.measured.size(),
             options.words()[0], fitted.device, name(fitted.format), name(fitted.attention));
  for (const CalibrationConstant& one : kCalibrationConstants)
    fmt::print("{:<18}{:>12.4g}  {}\n", one.key, fitted.constants.*one.member, one.meaning);
  fmt::print("fitted to all rows: mean of absolute errors {:.1f} %\n\n",
             100.0 * mean_absolute(report.errors));
  fmt::print("{:<50}{:>6}{:>8}{:>8}{:>8}{:>11}\n", "error of rows that the fit did not see, %",
             "rows", "mean", "bias", "worst", "naive fit");
  const auto line = [](const Held& held) {
    print_group(fmt::format("{}, fitted to the other {} rows", held.rows_are, held.fitted_to),
                held.errors, held.naive);
  };
  line(report.halves);
  for (const Group& group : groups_of(report)) print_group(group.name, group.errors, group.naive);
  if (report.pipelines) line(*report.pipelines);
  fmt::print("{:<50}{:>6}{:>8.1f}\n", "control: one half, its times shuffled",
             report.measured.size() / 2, 100.0 * report.shuffled);
  fmt::print(
      "naive fit: a least-squares sum of eight terms, such as a stage's flops, that knows no "
      "schedule\n");
}

Json held_json(const Held& held) {
  return {{"fitted_to", held.fitted_to},
          {"rows", held.errors.size()},
          {"mean_error", mean_absolute(held.errors)},
          {"worst_error", summary_of(held.errors).worst},
          {"naive_mean_error", mean_absolute(held.naive)}};
}

void print_json(const Options& options, const CalibrationReport& report) {
  Json groups = Json::object();
  for (const Group& group : groups_of(report)) {
    groups[group.name.substr(2)] = {{"rows", group.errors.size()},
                                    {"mean_error", mean_absolute(group.errors)},
                                    {"bias", summary_of(group.errors).bias},
                                    {"naive_mean_error", mean_absolute(group.naive)}};
  }
  Json halves = held_json(report.halves);
  halves["by_degree"] = std::move(groups);
  const Seconds seconds = seconds_of(report.measured);
  halves["iterations"] = Json::array();
  for (std::size_t i = 0; i < report.halves.rows.size(); ++i)
    halves["iterations"].push_back({{"measured_s", seconds[report.halves.rows[i]]},
                                    {"relative_error", report.halves.errors[i]}});
  halves["shuffled_mean_error"] = report.shuffled;
  print_result("calibrate",
               {{"rows", options.words()[0]},
                {"cluster", options.text("cluster")},
                {"seed", options.integer("seed", 0, 1'000'000'000, 1)}},
               Json::object(),
               {{"calibration", calibration_json(report.fitted)},
                {"mean_error", mean_absolute(report.errors)},
                {"halves", std::move(halves)},
                {"pipelines", report.pipelines ? held_json(*report.pipelines) : Json()}});
}

}  // namespace

Options options_of_calibrate() {
  Options options("calibrate", "ROWS --cluster NAME [--output FILE]",
                  "Fits the constants that data sheets lack to measured iterations, for simulate "
                  "and check --calibration; says how well they predict rows that they were not "
                  "fitted to.");
  options.words("ROWS", 1, 1);
  options
      .input("cluster", "NAME",
             "where the iterations ran: nodes of the catalogue, such as DGX-A100, or a file")
      .value("dtype", "KIND", "bf16|fp16|tf32|fp32|fp8 (default: the first that all devices have)")
      .value("attention", "KIND", "plain|flash (default: flash with bf16)")
      .value("recompute", "KIND",
             fmt::format("{}: of rows that don't say (default none)", kRecomputeNames))
      .input("judge", "FILE",
             "fits nothing: how far from the rows the constants of this calibration.json are, or "
             "those of the catalogue's devices (defaults)")
      .value("seed", "N", "seed by which the rows are halved (default 1)")
      .output("output", "FILE", "where to write the constants of all rows (default: nowhere)");
  return options;
}

int run_calibrate(const Options& options) {
  if (options.has("judge")) return judge_calibration(options, rows_of(options));
  if (options.has("output")) check_can_write(options.text("output"));
  const CalibrationReport report = report_of(options);
  if (options.has("output")) write_file(options.text("output"), calibration_text(report.fitted));
  if (options.has("json")) {
    print_json(options, report);
  } else {
    print_report(options, report);
  }
  return 0;
}

}  // namespace tandem::tools
