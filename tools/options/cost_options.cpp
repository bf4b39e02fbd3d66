#include "tools/options/cost_options.h"

#include <optional>
#include <string>

#include <fmt/format.h>

#include "core/files/read.h"
#include "tools/cli/file_cache.h"

namespace tandem::tools {

namespace {

constexpr const char* kPlainTimes[] = {
    "forward", "backward", "backward-input", "backward-weight", "recompute-time",
    "update",  "reduce",   "norm",           "transfer",        "overlapped",
    "move"};
constexpr const char* kCostOptions[] = {
    "forward", "backward",  "backward-input", "backward-weight",  "recompute-time",
    "update",  "reduce",    "norm",           "transfer",         "overlapped",
    "move",    "costs-per", "costs",          "activation-bytes", "weight-gradient-bytes"};

/// The plain costs of the command line: those of one stage, held by every stage.
StageTimes plain_times(const Options& options, std::size_t chunks) {
  if (!options.has("forward")) {
    refuse(options, "--forward is missing: give a plan, --costs FILE, or plain costs");
  }
  StageTimes times;
  times.forward = options.duration("forward");
  const bool halves = options.has("backward-input") || options.has("backward-weight");
  const bool both = options.has("backward-input") && options.has("backward-weight");
  if (options.has("backward") == halves || halves != both) {
    refuse(options, "give either --backward, or --backward-input and --backward-weight");
  }
  if (halves) {
    times.backward_input = options.duration("backward-input");
    times.backward_weight = options.duration("backward-weight");
    times.backward = times.backward_input + times.backward_weight;
  } else {
    times.backward = options.duration("backward");
    times.backward_input = times.backward / 2;
    times.backward_weight = times.backward - times.backward_input;
  }
  times.recompute = options.duration("recompute-time", times.forward);
  times.update = options.duration("update");
  times.reduce = options.duration("reduce");
  if (options.has("overlapped")) times.overlapped = options.duration("overlapped");
  if (options.has("move")) times.move = options.duration("move");
  if (options.choice("costs-per", {"stage", "device"}) == "device" && chunks > 1) {
    for (Duration* time :
         {&times.forward, &times.backward, &times.backward_input, &times.backward_weight,
          &times.recompute, &times.update, &times.reduce}) {
      *time /= static_cast<std::int64_t>(chunks);
    }
    for (auto* time : {&times.overlapped, &times.move}) {
      if (*time) **time /= static_cast<std::int64_t>(chunks);
    }
  }
  return times;
}

void set_plain_memory(const Options& options, GivenCosts& given) {
  const std::optional<Bytes> all = options.bytes("activation-bytes");
  const std::optional<Bytes> after = options.bytes("weight-gradient-bytes");
  if (after && (!all || *after > *all)) {
    refuse(options,
           "--weight-gradient-bytes is a part of --activation-bytes: expected at most as many");
  }
  if (!all) return;
  const auto bytes = static_cast<double>(*all);
  const auto kept = static_cast<double>(after.value_or(*all));
  given.activation_after_input = bytes > 0 ? kept / bytes : 1.0;
  given.held = Table<PartId, HeldActivation>(given.held.size(), {bytes, kept});
  given.sized = true;
}

GivenCosts costs_from_file(const Options& options, std::size_t parts, std::size_t devices) {
  const std::string path = options.text("costs");
  for (const char* name : kCostOptions) {
    if (options.has(name) && std::string_view(name) != "costs")
      refuse(options, fmt::format("--{} and --costs exclude each other", name));
  }
  const StageCostFile& file = read_once<read_costs>(path);
  if (file.stages.size() != parts) {
    throw InputError(fmt::format("{}: the schedule has {} stages, the file has {} costs", path,
                                 parts, file.stages.size()));
  }
  if (!file.links.empty() && file.links.size() + 1 != devices) {
    throw InputError(fmt::format("{}: {} devices have {} links in a line, the file has {} costs",
                                 path, devices, devices - 1, file.links.size()));
  }
  GivenCosts given{.times = {.parts = {},
                             .transfer = file.transfer,
                             .links = file.links,
                             .reduce_tied = {},
                             .norm = file.norm},
                   .held = {}};
  for (const StageCostRow& row : file.stages) {
    given.times.parts.push_back({.forward = row.forward,
                                 .recompute = row.recompute,
                                 .backward = row.backward,
                                 .backward_input = row.backward_input,
                                 .backward_weight = row.backward_weight,
                                 .update = row.update,
                                 .reduce = file.reduce,
                                 .overlapped = row.overlapped,
                                 .move = row.move});
    const Bytes all = row.activation.value_or(0);
    given.held.push_back(
        {static_cast<double>(all), static_cast<double>(row.weight_gradient.value_or(all))});
    given.sized = given.sized || row.activation.has_value();
  }
  given.config = {{"costs", path}};
  return given;
}

}  // namespace

void add_cost_options(Options& options) {
  options.group("Plain costs, the same for every stage")
      .value("forward", "T", "time of a stage's forward for one microbatch")
      .value("backward", "T", "time of its whole backward")
      .value("backward-input", "T", "time of its input-gradient half")
      .value("backward-weight", "T", "time of its weight-gradient half")
      .value("transfer", "T", "time on every edge between different devices (default 0)")
      .value("recompute-time", "T", "time of a recomputation (default: forward)")
      .value("update", "T", "time of a stage's update (default 0)")
      .value("reduce", "T", "time of a stage's gradient sum over replicas (default 0)")
      .value("overlapped", "T",
             "time of a forward and a backward issued as one unit (default: their sum)")
      .value("move", "T",
             "bpipe: time to move a stash to the partner, or back (default: as a transfer)")
      .value("norm", "T", "time of the norm of all gradients (default 0)")
      .value(
          "costs-per", "WHAT",
          "stage|device: whether the times above are for each stage or each device (default stage)")
      .input("costs", "FILE", "times for each stage, from a file")
      .value("activation-bytes", "A",
             "bytes that a stage holds for one microbatch from forward to backward")
      .value("weight-gradient-bytes", "G",
             "the part of it that stays from input- to weight-gradient (default A)");
}

std::span<const char* const> cost_options() { return kCostOptions; }

GivenCosts given_costs(const Options& options, std::size_t parts, std::size_t chunks,
                       std::size_t devices) {
  if (options.has("costs")) return costs_from_file(options, parts, devices);
  GivenCosts given{
      .times = uniform_costs(parts, plain_times(options, chunks), options.duration("transfer")),
      .held = Table<PartId, HeldActivation>(parts, {0.0, 0.0})};
  given.times.norm = options.duration("norm");
  set_plain_memory(options, given);
  for (const char* name : kPlainTimes) {
    if (options.has(name))
      given.config[fmt::format("{}_s", name)] = to_seconds(options.duration(name));
  }
  return given;
}

OrderCosts order_costs(const GivenCosts& given, Recompute recompute) {
  OrderCosts costs = order_costs(given.times, recompute);
  for (const PartId part : ids(costs.parts)) {
    const HeldActivation& held = given.held[part];
    if (held.all > 0.0) costs.parts[part].kept = held.after_input / held.all;
  }
  return costs;
}

}  // namespace tandem::tools
