#include "tools/commands/plan_graph.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/base/units.h"
#include "core/text/count_text.h"
#include "core/text/files.h"
#include "core/text/json_document.h"
#include "planner/published/graph_plan.h"
#include "planner/published/max_load.h"
#include "planner/published/pipedream.h"
#include "tools/cli/json_output.h"
#include "tools/cli/split.h"

namespace tandem::tools {

namespace {

constexpr std::int32_t kMostMachines = 1024;  // of a level
constexpr std::int64_t kMostAccelerators = 64;

/// "4,2" and "15.75GB/s,7GB/s": as many of both.
std::vector<PipeDreamLevel> levels_of(const Options& options) {
  std::vector<PipeDreamLevel> levels;
  const std::string machines = options.text("devices"), rates = options.text("link-rate");
  for (const std::string_view word : split(machines, ",")) {
    const OptionValue value(options.command(), "devices", std::string(word));
    levels.push_back({.machines = static_cast<std::int32_t>(value.integer(1, kMostMachines))});
  }
  const std::vector<std::string_view> words = split(rates, ",");
  if (words.size() != levels.size()) {
    refuse(options, "--link-rate has {}, and --devices {}: expected a rate for each level",
           counted(std::ssize(words), "value"), levels.size());
  }
  for (std::size_t level = 0; level < words.size(); ++level) {
    const OptionValue value(options.command(), "link-rate", std::string(words[level]));
    levels[level].bytes_per_s = value.rate();
  }
  return levels;
}

void refuse_all_but(const Options& options, const std::vector<std::string_view>& taken) {
  for (const std::string& name : options.given()) {
    if (std::ranges::find(taken, name) == taken.end())
      refuse(options, "--{} is not for {} of a graph", name, options.text("planner"));
  }
}

PipeDreamQuestion pipedream_question(const Options& options) {
  refuse_all_but(options, {"graph", "planner", "devices", "link-rate", "memory", "json"});
  for (const char* name : {"devices", "link-rate"}) {
    if (!options.has(name)) refuse(options, "--{} is missing", name);
  }
  PipeDreamQuestion question{.graph = {}, .levels = levels_of(options)};
  if (options.has("memory")) question.memory_bytes = static_cast<double>(options["memory"].bytes());
  const std::string path = options.text("graph");
  question.graph = parse_layer_graph(path, read_file(path, kLargestJson));
  return question;
}

/// "node2 … node18": the first and the last.
std::string layers_text(const LayerGraph& graph, const PipeDreamStage& stage) {
  const std::string& first = graph.layers[stage.layers.front()].name;
  if (stage.layers.size() == 1) return first;
  return fmt::format("{} … {}", first, graph.layers[stage.layers.back()].name);
}

double stage_s(const LayerGraph& graph, const PipeDreamStage& stage) {
  double seconds = 0.0;
  for (const std::size_t layer : stage.layers)
    seconds += to_seconds(graph.layers[layer].forward + graph.layers[layer].backward);
  return seconds / stage.replicas;
}

void print_plan(const PipeDreamQuestion& question, const PipeDreamPlan& plan,
                std::optional<double> simulated_s) {
  fmt::print("PipeDream promises {:.6g} s a microbatch, {:.4g} times as fast as one device.\n",
             plan.bottleneck_s, plan.one_device_s / plan.bottleneck_s);
  if (simulated_s) {
    fmt::print("Simulated exactly: {:.6g} s a microbatch ({:+.1f} %).\n", *simulated_s,
               100.0 * (*simulated_s / plan.bottleneck_s - 1.0));
  } else {
    fmt::print(
        "Not simulated: where machines stand in machines, it does not say which device is "
        "which.\n");
  }
  fmt::print("\n{:>5}  {:>8}  {:>6}  {:>12}  layers\n", "stage", "replicas", "layers", "compute");
  for (std::size_t stage = 0; stage < plan.stages.size(); ++stage) {
    const PipeDreamStage& of = plan.stages[stage];
    fmt::print("{:>5}  {:>8}  {:>6}  {:>10.4g} s  {}\n", stage, of.replicas, of.layers.size(),
               stage_s(question.graph, of), layers_text(question.graph, of));
  }
  fmt::print("Compute: of a microbatch, over the replicas.\n");
}

Json stages_of(const PipeDreamQuestion& question, const PipeDreamPlan& plan) {
  Json stages = Json::array();
  for (const PipeDreamStage& stage : plan.stages) {
    Json layers = Json::array();
    for (const std::size_t layer : stage.layers)
      layers.push_back(question.graph.layers[layer].name);
    stages.push_back({{"replicas", stage.replicas},
                      {"compute_s", stage_s(question.graph, stage)},
                      {"layers", std::move(layers)}});
  }
  return stages;
}

int run_pipedream(const Options& options) {
  const PipeDreamQuestion question = pipedream_question(options);
  const std::optional<PipeDreamPlan> plan = plan_pipedream(question);
  if (!plan) throw InfeasibleError("no plan of the graph fits in --memory, as PipeDream counts it");
  std::optional<double> simulated_s;
  if (question.levels.size() == 1) {
    simulated_s =
        simulated_microbatch_s(question.graph, *plan, question.levels.front().bytes_per_s);
  }
  if (!options.has("json")) {
    print_plan(question, *plan, simulated_s);
    return 0;
  }
  Json levels = Json::array();
  for (const PipeDreamLevel& level : question.levels)
    levels.push_back({{"machines", level.machines}, {"bytes_per_s", level.bytes_per_s}});
  print_result(
      "plan",
      {{"graph", options.text("graph")},
       {"planner", "pipedream"},
       {"levels", std::move(levels)},
       {"memory_bytes", question.memory_bytes > 0.0 ? Json(question.memory_bytes) : Json()}},
      Json::object(),
      {{"promised_microbatch_s", plan->bottleneck_s},
       {"simulated_microbatch_s", simulated_s ? Json(*simulated_s) : Json()},
       {"one_device_s", plan->one_device_s},
       {"cuts", plan->states},
       {"stages", stages_of(question, *plan)}});
  return 0;
}

OperatorGraph operator_graph(const Options& options) {
  refuse_all_but(options, {"graph", "planner", "devices", "memory", "json"});
  const std::string path = options.text("graph");
  OperatorGraph graph = parse_operator_graph(path, read_file(path, kLargestJson));
  graph.accelerators = static_cast<std::int32_t>(
      options.integer("devices", 1, kMostAccelerators, graph.accelerators));
  if (options.has("memory")) graph.memory_bytes = static_cast<double>(options["memory"].bytes());
  return graph;
}

void print_plan(const OperatorGraph& graph, const MaxLoadPlan& plan) {
  fmt::print(
      "Max-load: the busiest device is busy for {:.6g} of each sample, and no contiguous split is "
      "better.\n\n{:>6}  {:<11}  {:>10}  {:>9}  operators\n",
      plan.load, "device", "kind", "busy", "count");
  for (std::size_t device = 0; device < plan.devices.size(); ++device) {
    const MaxLoadDevice& of = plan.devices[device];
    fmt::print("{:>6}  {:<11}  {:>10.6g}  {:>9}  {} …\n", device,
               of.accelerator ? "accelerator" : "processor", of.load, of.nodes.size(),
               graph.nodes[of.nodes.front()].name);
  }
  fmt::print(
      "Busy: in the file's unit of time. Not simulated: its parts are no chain of stages. {} that "
      "stand together, {} looked at.\n",
      counted(std::ssize(graph.nodes), "operator") + " in " +
          counted(static_cast<std::int64_t>(plan.classes), "class"),
      counted(static_cast<std::int64_t>(plan.cuts), "cut"));
}

int run_max_load(const Options& options) {
  const OperatorGraph graph = operator_graph(options);
  const std::optional<MaxLoadPlan> plan = plan_max_load(graph);
  if (!plan) throw InfeasibleError("no split of the graph fits in the accelerators' memory");
  if (!options.has("json")) {
    print_plan(graph, *plan);
    return 0;
  }
  Json devices = Json::array();
  for (const MaxLoadDevice& device : plan->devices) {
    Json nodes = Json::array();
    for (const std::size_t node : device.nodes) nodes.push_back(graph.nodes[node].name);
    devices.push_back({{"kind", device.accelerator ? "accelerator" : "processor"},
                       {"load", device.load},
                       {"operators", std::move(nodes)}});
  }
  print_result("plan",
               {{"graph", options.text("graph")},
                {"planner", "max-load"},
                {"accelerators", graph.accelerators},
                {"processors", graph.processors},
                {"memory_bytes", graph.memory_bytes}},
               Json::object(),
               {{"max_load", plan->load},
                {"devices", std::move(devices)},
                {"classes", plan->classes},
                {"cuts", plan->cuts}});
  return 0;
}

}  // namespace

void add_graph_plan_options(Options& options) {
  options.group("Of a profiled graph, in place of a model")
      .input(
          "graph", "FILE",
          "PipeDream's graph.txt, for --planner pipedream, where --devices says how many of each "
          "level, innermost first, such as 4,2; or operators with times on accelerators and "
          "processors (JSON of dnn-partitioning), for --planner max-load")
      .value("link-rate", "RATES", "between the devices of each level, such as 15.75GB/s,7GB/s");
}

int run_plan_of_graph(const Options& options) {
  if (!options.has("planner")) refuse(options, "--planner is missing");
  return options.choice("planner", {"pipedream", "max-load"}) == "pipedream"
             ? run_pipedream(options)
             : run_max_load(options);
}

}  // namespace tandem::tools
