// tandem import --from FORMAT FILE: what other programs wrote, as files of tandem.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/files/cluster_file.h"
#include "core/files/constants_files.h"
#include "core/files/costs_file.h"
#include "core/files/model_file.h"
#include "core/import/importers.h"
#include "core/import/nccl_tests.h"
#include "core/import/topology.h"
#include "core/notation/notation.h"
#include "core/text/count_text.h"
#include "core/text/files.h"
#include "core/text/json_document.h"
#include "core/text/json_text.h"
#include "core/text/output_place.h"
#include "planner/search/partition.h"
#include "planner/study/schedule_file.h"
#include "simulator/cost/collective_fit.h"
#include "tools/cli/json_output.h"
#include "tools/cli/options.h"
#include "tools/commands/command.h"
#include "tools/options/cluster_options.h"

namespace tandem::tools {

namespace {

constexpr int kMostImportedFiles = 1000;
constexpr std::int64_t kMostStages = 1024;

Json import_model(const std::string& path) {
  const ModelSpec model = model_at(path);
  const std::int64_t all = parameter_count(model), active = active_parameter_count(model);
  fmt::print(
      stderr, "{}: {} parameters ({}){}\n", model.name, print_count(all), all,
      active < all ? fmt::format(", {} of them active for a token", print_count(active)) : "");
  if (const std::string note = long_sequence_note(model, path); !note.empty())
    fmt::print(stderr, "{}\n", note);
  return model_json(model);
}

/// What a format says of a run beside its model: said, for a model file has no place for it.
void describe_run(const Importer& importer, const std::string& path) {
  const std::string text = read_file(path, kLargestJson);
  if (importer.run == nullptr || !importer.detects(text)) return;
  const MegatronRun run = importer.run(path, text);
  const std::string options = options_text(run);
  std::string passed_over;
  for (const std::string& name : run.passed_over) passed_over += fmt::format(" --{}", name);
  if (!options.empty()) fmt::print(stderr, "options of simulate:{}\n", options);
  if (!passed_over.empty()) fmt::print(stderr, "not used:{}\n", passed_over);
}

/// As --tensor devices that share each layer see it.
LayerGraph graph_of(ReadGraph read, const std::string& path, const Options& options) {
  const auto tensor = static_cast<std::int32_t>(options.integer("tensor", 1, kMostStages, 1));
  PiperGraph found = read(path, read_file(path, kLargestJson), tensor);
  if (found.interpolated) {
    fmt::print(
        stderr,
        "warning: tensor degree {} was not measured: layer times are interpolated as a + b / T\n",
        tensor);
  }
  return std::move(found.graph);
}

/// Stages of layers in a row whose busiest one computes least.
Json import_graph(const LayerGraph& graph, const std::string& path, const Options& options) {
  const auto layers = static_cast<std::int32_t>(graph.layers.size());
  const auto depth = static_cast<std::int32_t>(options.integer("stages", 1, kMostStages, 1));
  std::vector<std::int64_t> before{0};
  for (const ProfiledLayer& layer : graph.layers)
    before.push_back(before.back() + (layer.forward + layer.backward).count());
  const auto stages =
      partition({.layers = layers, .depth = depth, .cost = [&](LayerRange range, std::size_t) {
                   return before[static_cast<std::size_t>(range.last)] -
                          before[static_cast<std::size_t>(range.first)];
                 }});
  if (!stages)
    throw InputError(fmt::format("{}: {} layers can't be cut into {} stages", path, layers, depth));
  const double link_rate = options.has("link-rate") ? options["link-rate"].rate() : 0.0;
  return costs_json(stage_costs_of(graph, *stages, link_rate));
}

/// "pipedream and piper": the importers that are so.
std::string those_that(const std::function<bool(const Importer&)>& are) {
  std::vector<std::string_view> names;
  for (const Importer& one : importers()) {
    if (are(one)) names.push_back(one.name);
  }
  return fmt::format("{}", fmt::join(names, " and "));
}

std::string graphs() { return those_that(&Importer::gives<ReadGraph>); }
std::string graphs_by_degree() { return those_that(&Importer::by_tensor_degree); }

/// Those that are for other formats.
void refuse_options(const Options& options, const Importer& from) {
  const auto is_for = [&](const char* name, const std::string& what) {
    if (options.has(name)) refuse(options, "--{} is for {}, not for {}", name, what, from.name);
  };
  if (!from.gives<ReadGraph>()) {
    is_for("stages", "graphs of layers");
    is_for("link-rate", "graphs of layers");
  }
  if (!from.by_tensor_degree) is_for("tensor", graphs_by_degree());
  if (!from.gives<ReadCluster>()) is_for("gpu", "clusters");
}

struct Imported {
  Json content;      // a schedule's text, or a JSON object
  std::string text;  // of the file
};

Imported as_file(Json json) {
  std::string text = json_text(json);
  return {std::move(json), std::move(text)};
}

Imported imported(const Importer& from, const std::string& path, const Options& options) {
  if (const auto* read = std::get_if<ReadCluster>(&from.read))
    return as_file(
        cluster_json((*read)(path, read_file(path, kLargestJson),
                             options.has("gpu") ? &gpu_of_name(options.text("gpu")) : nullptr)));
  if (const auto* read = std::get_if<ReadGraph>(&from.read)) {
    if (!options.has("stages")) refuse(options, "--stages is missing");
    return as_file(import_graph(graph_of(*read, path, options), path, options));
  }
  if (from.gives<ReadModel>()) {
    describe_run(from, path);
    return as_file(import_model(path));
  }
  const std::string text = print_schedule(read_schedule_as(from, path));
  return {text, text};
}

// ---- Logs of all-reduces: constants that fit them, and how well ----

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
  std::vector<std::optional<double>> errors_without_log;  // of each out of place
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
  report.held_out_sizes = mean_of_known(held_out_errors(all.out_of_place, all.parity));
  report.errors_without_log = held_out_errors(all.out_of_place, all.log);
  report.held_out_logs = mean_of_known(report.errors_without_log);
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

void print_json(const Measured& all, const CollectiveReport& report,
                const std::vector<std::string>& logs) {
  Json rows = Json::array();
  for (std::size_t i = 0; i < report.errors.size(); ++i) {
    const AllReduceMeasurement& one = all.out_of_place[i];
    rows.push_back({{"devices", one.group.devices},
                    {"nodes", one.group.nodes},
                    {"bytes", one.bytes},
                    {"time_s", to_seconds(one.time)},
                    {"relative_error", report.errors[i]},
                    {"held_out_log_error", or_null(report.errors_without_log[i])}});
  }
  print_result("import", {{"from", "nccl-tests"}, {"files", logs}}, Json::object(),
               {{"constants", collectives_json(report.constants)},
                {"mean_error", report.mean},
                {"worst_error", report.errors[report.worst]},
                {"in_place_mean_error", or_null(report.in_place)},
                {"held_out_sizes_mean_error", or_null(report.held_out_sizes)},
                {"held_out_logs_mean_error", or_null(report.held_out_logs)},
                {"measurements", std::move(rows)}},
               all.notes);
}

void import_collectives(const Options& options) {
  if (options.has("output")) check_can_write(options.text("output"));
  const Measured all = measured(options.words());
  const CollectiveReport report = report_of(all);
  if (options.has("output")) write_file(options.text("output"), collectives_text(report.constants));
  if (options.has("json")) return print_json(all, report, options.words());
  print_report(all, report);
}

}  // namespace

Options options_of_import() {
  std::vector<std::string> described;
  for (const Importer& one : importers())
    described.push_back(fmt::format("{}: {}", one.name, one.help));
  Options options(
      "import", "--from FORMAT FILE... [--output FILE]",
      "Converts a schedule, model, cluster or profile of another program to a file of tandem, or "
      "fits the constants of simulate --collectives to logs of all-reduces.");
  options.words("FILE", 1, kMostImportedFiles);
  options.value("from", "FORMAT", fmt::format("{}", fmt::join(described, "; ")))
      .value("gpu", "NAME", "GPU model, if the cluster's file names none")
      .value("stages", "N", graphs() + ": stages that the graph is cut into")
      .value("link-rate", "RATE",
             graphs() + ": rate of the links between stages (default: transfers are free)")
      .value("tensor", "T", graphs_by_degree() + ": devices that share each layer (default 1)")
      .output("output", "FILE", "where to write it (default: standard output; constants: nowhere)");
  return options;
}

int run_import(const Options& options) {
  if (!options.has("from")) refuse(options, "--from is missing");
  const Importer& from = find_importer(options.choice("from", names_of(importers())));
  if (from.gives<ReadLog>()) {
    refuse_options(options, from);
    import_collectives(options);
    return 0;
  }
  if (options.words().size() > 1) refuse(options, "{} is read from one FILE", from.name);
  if (options.has("output")) check_can_write(options.text("output"));
  refuse_options(options, from);
  const auto [content, text] = imported(from, options.words()[0], options);
  if (options.has("output")) write_file(options.text("output"), text);
  if (options.has("json")) {
    print_result("import", {{"from", from.name}, {"files", options.words()}}, Json::object(),
                 {{"content", content}});
  } else if (!options.has("output")) {
    fmt::print("{}", text);
  }
  return 0;
}

}  // namespace tandem::tools
