#include "tools/print/collective_report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "core/files/constants_files.h"
#include "core/import/nccl_tests.h"
#include "core/text/files.h"
#include "core/text/output_place.h"
#include "simulator/cost/collective_fit.h"
#include "tools/cli/json_output.h"

namespace tandem::tools {

namespace {

constexpr Bytes kLeastBytes = 1024;  // below it is launches and latencies as at it

struct Measured {
  std::vector<AllReduceMeasurement> out_of_place, in_place;
  std::vector<std::size_t> log, parity;  // of each out of place: its log, of its row there
  std::vector<CollectiveGroup> groups;   // of each log
  std::vector<std::string> notes;
};

Measured measured(const std::vector<std::string>& paths) {
  std::vector<NcclTestsLog> logs;
  Measured all;
  for (const std::string& path : paths) {
    NcclTestsLog log = read_nccl_tests(path);
    if (log.group.devices == 1)
      all.notes.push_back(fmt::format("{}: one device, which sums nothing: left out", path));
    else
      logs.push_back(std::move(log));
  }
  std::ranges::stable_sort(logs, {}, [](const NcclTestsLog& log) { return log.group.devices; });
  for (const NcclTestsLog& log : logs) {
    std::size_t row = 0;
    for (const NcclTestsRow& one : log.rows) {
      if (one.bytes < kLeastBytes) continue;
      all.out_of_place.push_back({log.group, one.bytes, one.out_of_place});
      if (one.in_place) all.in_place.push_back({log.group, one.bytes, *one.in_place});
      all.log.push_back(all.groups.size());
      all.parity.push_back(row++ % 2);
    }
    all.groups.push_back(log.group);
  }
  if (std::ranges::all_of(logs, [](const NcclTestsLog& log) { return log.group.nodes == 1; }))
    all.notes.emplace_back(
        "all logs are of one node: simulate --collectives will refuse sums over several nodes");
  const std::string lack = lacking(all.out_of_place);
  if (!lack.empty())
    throw InputError(fmt::format("{} of {} or more in these logs", lack, print_bytes(kLeastBytes)));
  return all;
}

struct CollectiveReport {
  CollectiveConstants constants;
  std::vector<double> errors;  // of each out of place
  double mean = 0.0;
  std::size_t worst = 0;
  std::optional<double> in_place, held_out_sizes, held_out_logs;
};

CollectiveReport report_of(const Measured& all) {
  CollectiveReport report;
  report.constants = fit_collectives(all.out_of_place);
  for (const AllReduceMeasurement& one : all.out_of_place)
    report.errors.push_back(relative_error(report.constants, one));
  report.mean = mean_error(report.constants, all.out_of_place);
  const auto worst = std::ranges::max_element(
      report.errors, [](double a, double b) { return std::abs(a) < std::abs(b); });
  report.worst = static_cast<std::size_t>(worst - report.errors.begin());
  if (!all.in_place.empty()) report.in_place = mean_error(report.constants, all.in_place);
  report.held_out_sizes = held_out_error(all.out_of_place, all.parity);
  report.held_out_logs = held_out_error(all.out_of_place, all.log);
  return report;
}

void print_constants(const CollectiveConstants& constants) {
  const auto line = [](const char* what, double value, const char* unit) {
    if (value > 0.0)
      fmt::print("{:<46}{:>10.4g} {}\n", what, value, unit);
    else
      fmt::print("{:<46}{:>10}\n", what, "unknown");
  };
  line("launch of a kernel", constants.launch_s * 1e6, "us");
  line("step from node to node", constants.node_hop_s * 1e6, "us");
  line("protocol of full rate waits for", constants.simple_s * 1e6, "us");
  line("message by the protocol of low latency", constants.low_latency_bytes_per_s / 1e9, "GB/s");
  line("within a node, into and out of each device", constants.within_node_bytes_per_s / 1e9,
       "GB/s");
  line("out of a node and into it, for each device", constants.between_nodes_bytes_per_s / 1e9,
       "GB/s");
}

/// A row a size, a column a log.
void print_errors(const Measured& all, const CollectiveReport& report) {
  std::map<Bytes, std::map<std::size_t, double>> rows;
  for (std::size_t i = 0; i < report.errors.size(); ++i)
    rows[all.out_of_place[i].bytes][all.log[i]] = report.errors[i];
  fmt::print("\nprediction over measurement, less 1, in percent, out of place\n{:>12}", "devices");
  for (const CollectiveGroup& group : all.groups) fmt::print("{:>8}", group.devices);
  fmt::print("\n");
  for (const auto& [bytes, errors] : rows) {
    std::string line = fmt::format("{:>12}", print_bytes(bytes));
    for (std::size_t log = 0; log < all.groups.size(); ++log) {
      const auto error = errors.find(log);
      line += error == errors.end() ? fmt::format("{:>8}", "-")
                                    : fmt::format("{:>+8.1f}", 100.0 * error->second);
    }
    fmt::print("{}\n", line);
  }
}

void print_report(const Measured& all, const CollectiveReport& report) {
  for (const std::string& line : all.notes) fmt::print("{}\n", line);
  fmt::print("{} all-reduces of {} or more over {} to {} devices\n\n", all.out_of_place.size(),
             print_bytes(kLeastBytes), all.groups.front().devices, all.groups.back().devices);
  print_constants(report.constants);
  print_errors(all, report);
  const AllReduceMeasurement& worst = all.out_of_place[report.worst];
  fmt::print("\nmean of absolute errors {:.1f} %, worst {:+.1f} % ({} over {} devices)\n",
             100.0 * report.mean, 100.0 * report.errors[report.worst], print_bytes(worst.bytes),
             worst.group.devices);
  const auto line = [](const char* what, const std::optional<double>& error) {
    if (error) fmt::print("{}: mean {:.1f} %\n", what, 100.0 * *error);
  };
  line("in place, by the same constants", report.in_place);
  line("not seen by the fit: every other size", report.held_out_sizes);
  line("not seen by the fit: each log in turn", report.held_out_logs);
}

Json json_of(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

void print_json(const Measured& all, const CollectiveReport& report,
                const std::vector<std::string>& logs) {
  Json rows = Json::array();
  for (std::size_t i = 0; i < report.errors.size(); ++i) {
    const AllReduceMeasurement& one = all.out_of_place[i];
    rows.push_back({{"devices", one.group.devices},
                    {"nodes", one.group.nodes},
                    {"bytes", one.bytes},
                    {"time_s", to_seconds(one.time)},
                    {"relative_error", report.errors[i]}});
  }
  print_result("import", {{"from", "nccl-tests"}, {"files", logs}}, Json::object(),
               {{"constants", collectives_json(report.constants)},
                {"mean_error", report.mean},
                {"worst_error", report.errors[report.worst]},
                {"in_place_mean_error", json_of(report.in_place)},
                {"held_out_sizes_mean_error", json_of(report.held_out_sizes)},
                {"held_out_logs_mean_error", json_of(report.held_out_logs)},
                {"measurements", std::move(rows)}},
               all.notes);
}

}  // namespace

void import_collectives(const std::vector<std::string>& logs, const std::string& output,
                        bool json) {
  if (!output.empty()) check_can_write(output);
  const Measured all = measured(logs);
  const CollectiveReport report = report_of(all);
  if (!output.empty()) write_file(output, collectives_text(report.constants));
  if (json) return print_json(all, report, logs);
  print_report(all, report);
}

}  // namespace tandem::tools
