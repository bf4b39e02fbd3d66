// tandem import --from FORMAT FILE: what other programs wrote, as files of tandem.

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/files/read.h"
#include "core/import/graph_file.h"
#include "core/import/megatron_arguments.h"
#include "core/import/piper_file.h"
#include "core/import/topology.h"
#include "core/notation/notation.h"
#include "core/text/count_text.h"
#include "core/text/files.h"
#include "core/text/json_document.h"
#include "planner/search/partition.h"
#include "tools/cli/options.h"
#include "tools/cli/output_file.h"
#include "tools/commands/command.h"
#include "tools/options/cluster_setup.h"
#include "tools/options/schedule_file.h"
#include "tools/print/collective_report.h"

namespace tandem::tools {

namespace {

constexpr int kMostImportedFiles = 1000;
constexpr std::int64_t kMostStages = 1024;
constexpr std::array<std::pair<std::string_view, ClusterFormat>, 3> kClusters{
    {{"nvidia-smi", ClusterFormat::nvidia_smi},
     {"nccl-xml", ClusterFormat::nccl_xml},
     {"astra-sim", ClusterFormat::astra_sim}}};

std::string import_model(const std::string& path) {
  const ModelSpec model = model_at(path);
  const std::int64_t all = parameter_count(model), active = active_parameter_count(model);
  fmt::print(
      stderr, "{}: {} parameters ({}){}\n", model.name, print_count(all), all,
      active < all ? fmt::format(", {} of them active for a token", print_count(active)) : "");
  if (const std::string note = long_sequence_note(model, path); !note.empty())
    fmt::print(stderr, "{}\n", note);
  return model_text(model);
}

/// What Megatron's arguments say beside the model: said, for a model file has no place for it.
void describe_run(const std::string& path) {
  const std::string text = read_file(path, kLargestJson);
  if (!is_megatron(text)) return;
  const MegatronRun run = parse_megatron_run(path, text);
  const std::string options = options_text(run);
  std::string passed_over;
  for (const std::string& name : run.passed_over) passed_over += fmt::format(" --{}", name);
  if (!options.empty()) fmt::print(stderr, "options of simulate:{}\n", options);
  if (!passed_over.empty()) fmt::print(stderr, "not used:{}\n", passed_over);
}

std::string import_cluster(ClusterFormat format, const std::string& path, const Options& options) {
  return cluster_text(
      parse_cluster_as(format, path, read_file(path, kLargestJson), named_gpu(options)));
}

/// As --tensor devices that share each layer see it.
LayerGraph piper_graph(const std::string& path, const Options& options) {
  const auto tensor = static_cast<std::int32_t>(options.integer("tensor", 1, kMostStages, 1));
  PiperGraph found = read_piper_graph(path, tensor);
  if (found.interpolated) {
    fmt::print(
        stderr,
        "warning: tensor degree {} was not measured: layer times are interpolated as a + b / T\n",
        tensor);
  }
  return std::move(found.graph);
}

/// Stages of layers in a row whose busiest one computes least.
std::string import_graph(const LayerGraph& graph, const std::string& path, const Options& options) {
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
  return costs_text(stage_costs_of(graph, *stages, options.rate("link-rate").value_or(0.0)));
}

bool is_cluster(const std::string& from) {
  return std::any_of(kClusters.begin(), kClusters.end(),
                     [&](const auto& row) { return row.first == from; });
}

/// Those that are for other formats.
void refuse_options(const Options& options, const std::string& from) {
  const auto refuse = [&](const char* name, const char* what) {
    if (options.has(name))
      throw UsageError(fmt::format("tandem import: --{} is for {}, not for {}", name, what, from));
  };
  if (from != "pipedream" && from != "piper") {
    refuse("stages", "graphs of layers");
    refuse("link-rate", "graphs of layers");
  }
  if (from != "piper") refuse("tensor", "piper");
  if (!is_cluster(from)) refuse("gpu", "clusters");
}

std::string imported(const std::string& from, const std::string& path, const Options& options) {
  refuse_options(options, from);
  for (const auto& [name, format] : kClusters) {
    if (name == from) return import_cluster(format, path, options);
  }
  if (from == "pipedream" || from == "piper") {
    if (!options.has("stages")) throw UsageError("tandem import: --stages is missing");
    const bool is_piper = from == "piper";
    return import_graph(is_piper ? piper_graph(path, options) : read_layer_graph(path), path,
                        options);
  }
  if (from == "megatron") describe_run(path);
  if (from == "hugging-face" || from == "megatron") return import_model(path);
  return print_schedule(read_pytorch_csv(path));
}

}  // namespace

int run_import(const Arguments& arguments) {
  Options options(
      "import", "--from FORMAT FILE... [--output FILE]",
      "Converts a schedule, model, cluster or profile of another program to a file of tandem, or "
      "fits the constants of simulate --collectives to logs of all-reduces.");
  options.words("FILE", 1, kMostImportedFiles);
  options
      .value("from", "FORMAT",
             "pytorch-csv: PyTorch's pipelining CSV, old and new; hugging-face: a model's "
             "config.json; megatron: its arguments; pipedream: graph.txt, as costs of --stages; "
             "piper: layers at tensor degrees, as costs of --stages, too; nvidia-smi: topo -m; "
             "nccl-xml: NCCL_TOPO_DUMP_FILE; astra-sim: network yml; nccl-tests: logs of "
             "all_reduce_perf")
      .value("gpu", "NAME", "GPU model, if the cluster's file names none")
      .value("stages", "N", "pipedream, piper: stages that the graph is cut into")
      .value("link-rate", "RATE",
             "pipedream, piper: rate of the links between stages (default: transfers are free)")
      .value("tensor", "T", "piper: devices that share each layer (default 1)")
      .output("output", "FILE", "where to write it (default: standard output; constants: nowhere)");
  options.parse(arguments);
  if (!options.has("from")) throw UsageError("tandem import: --from is missing");
  const std::string from =
      options.choice("from", {"pytorch-csv", "hugging-face", "megatron", "pipedream", "piper",
                              "nvidia-smi", "nccl-xml", "astra-sim", "nccl-tests"});
  if (from == "nccl-tests") {
    refuse_options(options, from);
    import_collectives(options);
    return 0;
  }
  if (options.words().size() > 1)
    throw UsageError(fmt::format("tandem import: {} is read from one FILE", from));
  if (options.has("output")) check_can_write(options.text("output"));
  const std::string text = imported(from, options.words()[0], options);
  if (options.has("output")) {
    write_file(options.text("output"), text);
  } else {
    fmt::print("{}", text);
  }
  return 0;
}

}  // namespace tandem::tools
