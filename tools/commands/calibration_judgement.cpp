// tandem calibrate --judge: how far predictions are from measured iterations that no constant was
// fitted to.

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/files/constants_files.h"
#include "core/text/count_text.h"
#include "planner/cluster/cluster_setup.h"
#include "simulator/cost/calibration_fit.h"
#include "simulator/cost/iteration_model.h"
#include "simulator/cost/prediction_errors.h"
#include "tools/cli/json_output.h"
#include "tools/commands/command.h"
#include "tools/options/cluster_options.h"

namespace tandem::tools {

namespace {

constexpr std::string_view kDefaults = "defaults";

struct Judged {
  std::vector<MeasuredIteration> rows;
  Seconds measured, predicted;
  std::vector<bool> fits;  // in the devices' memory
};

/// Rows that something is the same in.
struct Regime {
  std::string name;
  PredictionErrors errors;
  double rank_correlation = 0.0;
  std::size_t misfits = 0;  // that would not fit in memory, though they were run
};

Judged judged(const Options& options, std::vector<MeasuredIteration> rows) {
  const GivenOptions given = given_options(options, {"cluster", "dtype", "attention"});
  const std::shared_ptr<const Cluster> cluster = cluster_of(given);
  Judged all{.rows = std::move(rows), .measured = {}, .predicted = {}, .fits = {}};
  AnalyticAssumptions assumptions;
  assumptions.format = format_of(given, *cluster);
  assumptions.attention = attention_of(given, assumptions.format);
  if (options.text("judge") != kDefaults) {
    const CalibrationFile file = read_calibration(options.text("judge"));
    if (!given.has("dtype")) assumptions.format = file.format;
    if (!given.has("attention")) assumptions.attention = file.attention;
    assumptions.calibration = file.constants;
  }
  assumptions.reserve = kReserveOnCluster;
  const IterationModel model(all.rows, *cluster, assumptions);
  all.measured = seconds_of(all.rows);
  for (std::size_t row = 0; row < all.rows.size(); ++row) {
    all.predicted.push_back(model.seconds(row));
    all.fits.push_back(memory_on_cluster(model.plan(row), model.layout(row), model.assumptions(row),
                                         StageCut::given)
                           .fits());
  }
  return all;
}

/// The rows by what `of` says of each, in the order of its values.
template <class Of>
void add_regimes(std::vector<Regime>& regimes, const Judged& all, std::string_view what, Of of) {
  std::map<decltype(of(all.rows.front())), std::vector<std::size_t>> groups;
  for (std::size_t row = 0; row < all.rows.size(); ++row) groups[of(all.rows[row])].push_back(row);
  for (const auto& [value, rows] : groups) {
    Regime regime{.name = fmt::format("{}{}", what, value), .errors = {}};
    Seconds predicted, measured;
    std::vector<double> errors;
    for (const std::size_t row : rows) {
      predicted.push_back(all.predicted[row]);
      measured.push_back(all.measured[row]);
      errors.push_back(predicted.back() / measured.back() - 1.0);
      if (!all.fits[row]) ++regime.misfits;
    }
    regime.errors = summary_of(errors);
    regime.rank_correlation = rank_correlation(predicted, measured);
    regimes.push_back(std::move(regime));
  }
}

std::vector<Regime> regimes_of(const Judged& all) {
  std::vector<Regime> regimes;
  add_regimes(regimes, all, "", [](const MeasuredIteration&) { return "all rows"; });
  add_regimes(regimes, all, "model width ", [](const auto& row) { return row.model.width; });
  add_regimes(regimes, all, "microbatches of ",
              [](const auto& row) { return row.microbatch_size; });
  add_regimes(regimes, all, "tensor ", [](const auto& row) { return row.tensor; });
  add_regimes(regimes, all, "width ", [](const auto& row) { return row.width; });
  add_regimes(regimes, all, "depth ", [](const auto& row) { return row.depth; });
  add_regimes(regimes, all, "recompute ", [](const auto& row) { return name(row.recompute); });
  return regimes;
}

void print_regimes(const std::vector<Regime>& regimes) {
  fmt::print("{:<24}{:>6}{:>8}{:>8}{:>8}{:>8}{:>8}{:>8}{:>8}{:>13}\n", "error of times, %", "rows",
             "mean", "median", "P80", "P95", "worst", "bias", "rank", "do not fit");
  for (const Regime& regime : regimes) {
    const PredictionErrors& of = regime.errors;
    fmt::print("{:<24}{:>6}{:>8.1f}{:>8.1f}{:>8.1f}{:>8.1f}{:>+8.1f}{:>+8.1f}{:>8.3f}{:>13}\n",
               regime.name, of.rows, 100 * of.mean, 100 * of.median, 100 * of.percentile_80,
               100 * of.percentile_95, 100 * of.worst, 100 * of.bias, regime.rank_correlation,
               regime.misfits);
  }
  fmt::print("rank: Spearman's correlation of predicted and measured times\n");
}

Json regimes_json(const std::vector<Regime>& regimes) {
  Json rows = Json::array();
  for (const Regime& regime : regimes) {
    const PredictionErrors& of = regime.errors;
    rows.push_back({{"rows_are", regime.name},
                    {"rows", of.rows},
                    {"mean_error", of.mean},
                    {"median_error", of.median},
                    {"percentile_80_error", of.percentile_80},
                    {"percentile_95_error", of.percentile_95},
                    {"worst_error", of.worst},
                    {"bias", of.bias},
                    {"rank_correlation", regime.rank_correlation},
                    {"do_not_fit", regime.misfits}});
  }
  return rows;
}

}  // namespace

int judge_calibration(const Options& options, std::vector<MeasuredIteration> rows) {
  const Judged all = judged(options, std::move(rows));
  const std::vector<Regime> regimes = regimes_of(all);
  if (options.has("json")) {
    print_result("calibrate",
                 {{"rows", options.words()[0]},
                  {"cluster", options.text("cluster")},
                  {"judge", options.text("judge")}},
                 Json::object(), {{"regimes", regimes_json(regimes)}});
    return 0;
  }
  fmt::print(
      "{} of {} by {}, none of them fitted\n\n", counted(all.rows.size(), "iteration"),
      options.words()[0],
      options.text("judge") == kDefaults ? "the catalogue's constants" : options.text("judge"));
  print_regimes(regimes);
  return 0;
}

}  // namespace tandem::tools
