// tandem import --from FORMAT FILE: what other programs wrote, as files of tandem.

#include <cstdio>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/files/cluster_file.h"
#include "core/files/costs_file.h"
#include "core/files/model_file.h"
#include "core/import/importers.h"
#include "core/import/topology.h"
#include "core/notation/notation.h"
#include "core/text/count_text.h"
#include "core/text/files.h"
#include "core/text/json_document.h"
#include "core/text/json_text.h"
#include "core/text/output_place.h"
#include "planner/search/partition.h"
#include "planner/study/schedule_file.h"
#include "tools/cli/json_output.h"
#include "tools/cli/options.h"
#include "tools/commands/command.h"
#include "tools/options/cluster_options.h"
#include "tools/print/collective_report.h"

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
  if (!stages) {
    throw InputError(fmt::format("{}: {} layers can't be cut into {} stages", path, layers, depth));
  }
  return costs_json(stage_costs_of(graph, *stages, options.rate("link-rate").value_or(0.0)));
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
  const auto refuse = [&](const char* name, const std::string& what) {
    if (options.has(name))
      throw UsageError(
          fmt::format("tandem import: --{} is for {}, not for {}", name, what, from.name));
  };
  if (!from.gives<ReadGraph>()) {
    refuse("stages", "graphs of layers");
    refuse("link-rate", "graphs of layers");
  }
  if (!from.by_tensor_degree) refuse("tensor", graphs_by_degree());
  if (!from.gives<ReadCluster>()) refuse("gpu", "clusters");
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
    if (!options.has("stages")) throw UsageError("tandem import: --stages is missing");
    return as_file(import_graph(graph_of(*read, path, options), path, options));
  }
  if (from.gives<ReadModel>()) {
    describe_run(from, path);
    return as_file(import_model(path));
  }
  const std::string text = print_schedule(read_schedule_as(from, path));
  return {text, text};
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
  if (!options.has("from")) throw UsageError("tandem import: --from is missing");
  std::vector<std::string> names;
  for (const Importer& one : importers()) names.emplace_back(one.name);
  const Importer& from = find_importer(options.choice("from", names));
  if (from.gives<ReadLog>()) {
    refuse_options(options, from);
    import_collectives(options.words(), options.text("output"), options.has("json"));
    return 0;
  }
  if (options.words().size() > 1)
    throw UsageError(fmt::format("tandem import: {} is read from one FILE", from.name));
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
