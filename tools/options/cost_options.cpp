#include "tools/options/cost_options.h"

#include <fmt/format.h>

#include "tools/cli/file_cache.h"

namespace tandem::tools {

namespace {

void check_times(const Options& options) {
  if (!options.has("forward"))
    refuse(options, "--forward is missing: give a plan, --costs FILE, or plain costs");
  const bool halves = options.has("backward-input") || options.has("backward-weight");
  const bool both = options.has("backward-input") && options.has("backward-weight");
  if (options.has("backward") == halves || halves != both)
    refuse(options, "give either --backward, or --backward-input and --backward-weight");
}

PlainTimes plain_times(const Options& options) {
  check_times(options);
  PlainTimes times;
  for (const PlainTimeRow& row : kPlainTimeRows) {
    const std::string flag(row.flag);
    if (options.has(flag)) times.*row.member = options.duration(flag);
  }
  times.of_device = options.choice("costs-per", {"stage", "device"}) == "device";
  times.activation = options.bytes("activation-bytes");
  times.weight_gradient = options.bytes("weight-gradient-bytes");
  if (times.weight_gradient && (!times.activation || *times.weight_gradient > *times.activation)) {
    refuse(options,
           "--weight-gradient-bytes is a part of --activation-bytes: expected at most as many");
  }
  return times;
}

}  // namespace

void add_cost_options(Options& options) {
  options.group("Plain costs, the same for every stage");
  for (const PlainTimeRow& row : kPlainTimeRows)
    options.value(std::string(row.flag), "T", std::string(row.help));
  options.value("costs-per", "UNIT", "stage|device: unit of the times above (default stage)")
      .input("costs", "FILE", "times for each stage, from a file")
      .value("activation-bytes", "A",
             "bytes that a stage holds for one microbatch from forward to backward")
      .value("weight-gradient-bytes", "G",
             "bytes of it kept between the input and weight gradients (default A)");
}

std::vector<std::string> cost_flags() {
  std::vector<std::string> flags;
  for (const PlainTimeRow& row : kPlainTimeRows) flags.emplace_back(row.flag);
  for (const char* other : {"costs-per", "costs", "activation-bytes", "weight-gradient-bytes"})
    flags.emplace_back(other);
  return flags;
}

PlainCosts plain_costs_of(const Options& options) {
  if (!options.has("costs")) return {.times = plain_times(options)};
  for (const std::string& flag : cost_flags()) {
    if (flag != "costs" && options.has(flag))
      refuse(options, fmt::format("--{} and --costs exclude each other", flag));
  }
  const std::string path = options.text("costs");
  return {.path = path,
          .file = std::make_shared<const StageCostFile>(read_cached<read_costs>(path))};
}

}  // namespace tandem::tools
