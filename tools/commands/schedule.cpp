// tandem schedule NAME: prints a schedule; tandem schedule --list: the registry.

#include <cstdio>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>

#include <boost/algorithm/string/replace.hpp>
#include <fmt/format.h>

#include "core/base/progress.h"
#include "core/lower/lower.h"
#include "core/notation/notation.h"
#include "core/notation/pytorch_csv.h"
#include "core/program/graph.h"
#include "simulator/cost/stage_costs.h"
#include "simulator/simulate.h"
#include "tools/cli/completion.h"
#include "tools/cli/interrupt.h"
#include "tools/cli/json_output.h"
#include "tools/cli/safe_output.h"
#include "tools/cli/terminal.h"
#include "tools/commands/command.h"
#include "tools/options/cost_options.h"
#include "tools/options/scenario_options.h"
#include "tools/options/schedule_options.h"
#include "tools/print/simulation_report.h"
#include "traces/picture.h"

namespace tandem::tools {

namespace {

constexpr std::string_view kLegend =
    "Bubble: idle time of a batch beyond m(F+B), with equal stages, slices of equal times and no "
    "latency. Span: the bubble, not counting a device's wait for its first op. Activations: peak "
    "of microbatches on device d of p. F: forward, B: whole backward, I and W: its halves for the "
    "input and the weights; each is the time of all stages that a device holds. m: microbatches of "
    "a batch; v: chunks of a device; g: group; n: slices of a sequence. Weights: copies of them, "
    "those that are corrected, mixed or predicted beside the others; hF, hB: xpipe's horizons, "
    "round((p+m-2-ceil(d/2))/m) and round((m-1+floor(d/2))/m), halves up. All take --width and "
    "--clip, and all but those with latest weights --recompute.";

int list_schedules(bool json) {
  if (!json) {
    fmt::print("{:<20} {:<15} {:<23} {:<31} {}\n", "name", "weights", "bubble", "activations",
               "constraints");
    for (const ScheduleTraits& row : schedules()) {
      fmt::print("{:<20} {:<15} {:<23} {:<31} {}\n", row.name, name(row.weights), row.bubble,
                 row.activations, row.constraints);
      fmt::print("  {} ({})\n", row.summary, row.source);
      if (!row.options.empty()) fmt::print("  options: --{}\n", fmt::join(row.options, ", --"));
    }
    fmt::print("\n{}\n", wrapped(kLegend, text_columns()));
    return 0;
  }
  const auto row_json = [](const ScheduleTraits& row) -> Json {
    return {
        {"name", row.name},     {"aliases", row.aliases},         {"summary", row.summary},
        {"source", row.source}, {"weights", name(row.weights)},   {"constraints", row.constraints},
        {"bubble", row.bubble}, {"activations", row.activations}, {"options", row.options}};
  };
  print_result("schedule", {{"list", true}}, Json::object(),
               {{"schedules", array_of(schedules(), row_json)}});
  return 0;
}

/// F = B = W = 1, whole backward 2, transfers free.
StageCosts unit_costs(std::size_t stages) {
  constexpr Duration kUnit = std::chrono::milliseconds(1);
  const StageTimes unit{.forward = kUnit,
                        .recompute = kUnit,
                        .backward = 2 * kUnit,
                        .backward_input = kUnit,
                        .backward_weight = kUnit,
                        .update = {},
                        .reduce = {}};
  return uniform_costs(stages, unit, {});
}

/// The costs that were given to a schedule that orders by them, for any other none.
std::optional<GivenCosts> costs_to_order_by(const GivenOptions& given, const ScheduleTraits& traits,
                                            const ScheduleRequest& request) {
  for (const std::string& name : cost_flags()) {
    if (!given.has(name)) continue;
    if (traits.orders_by_costs) {
      return given_costs(plain_costs_of(given), stage_count(traits, request),
                         replicas_per_device(traits, request), request.devices);
    }
    throw UsageError(fmt::format("schedule {} has the same order at any costs: --{} is not taken",
                                 traits.name, name));
  }
  return std::nullopt;
}

/// Until it is read no further, or an end is asked for.
void print_piece(std::string_view text) {
  keep_going();
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size())
    throw std::runtime_error("standard output: cannot write");
}

void draw(const Schedule& schedule, StageCosts costs, bool as_graph) {
  const Program program = lower(schedule);
  if (as_graph) return to_dot(program, print_piece);
  const CostTable table = price(program, cost_model(program.placement(), std::move(costs)));
  const SimulationResult result = simulate(program, table, {.batches = 1, .record = true});
  print_as_it_is(stdout, picture(program, *result.timeline, picture_options()));
}

Json as_json(const Op& op) {
  return {{"kind", name(op.kind)}, {"stage", index(op.replica)}, {"microbatch", op.microbatch},
          {"span", op.span},       {"staleness", op.staleness},  {"group", op.group}};
}

/// The object of print_result(), an op at a time: all of them at once may take gigabytes.
void print_json(const Schedule& schedule, const ScheduleTraits& traits,
                const std::optional<OrderSearch>& search) {
  Json result{{"name", schedule.name},
              {"microbatches", schedule.whole_microbatches()},
              {"slices", schedule.slices},
              {"width", schedule.width},
              {"devices", nullptr}};
  if (search) result["search"] = search_json(*search);
  const std::string text =
      result_text("schedule", {{"schedule", traits.name}, {"devices", schedule.placement.devices}},
                  Json::object(), std::move(result));
  const std::size_t devices = text.find("null", text.find("\"devices\": null"));
  print_piece(text.substr(0, devices));
  for (const DeviceId device : ids(schedule.order)) {
    print_piece(fmt::format("{}\n      {{\n        \"device\": {},\n        \"order\": ",
                            device == DeviceId{} ? "[" : ",", index(device)));
    std::string_view before = "[";
    for (const Op& op : schedule.order[device]) {
      constexpr std::string_view kLine = "\n          ";
      print_piece(fmt::format("{}{}{}", std::exchange(before, ","), kLine,
                              boost::replace_all_copy(indented(as_json(op)), "\n", kLine)));
    }
    print_piece("\n        ]\n      }");
  }
  print_piece("\n    ]" + text.substr(devices + 4) + "\n");
}

}  // namespace

Options options_of_schedule() {
  Options options("schedule", "NAME --devices P --microbatches M [options]",
                  "Prints a schedule, one row a device. Automatic schedules order their ops by the "
                  "costs given.");
  add_schedule_options(options);
  add_cost_options(options);
  options.value("format", "F", "text|picture|json|pytorch-csv|dot (default text)")
      .flag("list", "list all schedules")
      .words("NAME", 0, 1)
      .first_word(schedule_names());
  return options;
}

int run_schedule(const Options& options) {
  if (options.has("list")) {
    refuse_given(options, {"devices", "microbatches", "format"}, "--list takes no --{}");
    if (!options.words().empty()) refuse(options, "--list takes no NAME");
    return list_schedules(options.has("json"));
  }
  if (options.words().empty())
    refuse(options, "NAME is missing (tandem schedule --list shows all)");
  const ScheduleTraits& traits = find_schedule(options.words()[0]);
  const std::string format =
      options.choice("format", {"text", "picture", "json", "pytorch-csv", "dot"});
  if (options.has("json") && options.has("format") && format != "json")
    refuse(options, "--json and --format {} exclude each other", format);
  const GivenOptions said = given_options(options);
  ScheduleRequest request = schedule_request(said, traits);
  if (const auto reason = reason_against(traits, request)) throw InputError(*reason);
  std::optional<GivenCosts> given = costs_to_order_by(said, traits, request);
  if (given) request.costs = order_costs(*given, request.recompute);
  std::optional<OrderSearch> search;
  if (is_search(traits)) {
    const StageCosts costs = given ? given->times : unit_costs(request.devices);
    if (!given) request.costs = order_costs(costs, request.recompute);
    const InterruptGuard interrupt(OnInterrupt::ends_by_itself);
    search = timed_search(traits, request, costs, search_watch(interrupt.token()));
  }
  const Schedule schedule = search ? search->found.schedule : make_schedule(traits, request);
  const bool json = format == "json" || options.has("json");
  if (json) {
    print_json(schedule, traits, search);
  } else if (format == "pytorch-csv") {
    print_pytorch_csv(schedule, print_piece);
  } else if (format == "text") {
    print_schedule(schedule, print_piece);
  } else {
    draw(schedule, given ? given->times : unit_costs(schedule.placement.stages()), format == "dot");
  }
  if (!search) return 0;
  if (!json) fmt::print(stderr, "{}", search_text(*search));
  return search_exit_code(*search);
}

}  // namespace tandem::tools
