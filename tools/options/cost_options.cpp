#include "tools/options/cost_options.h"

#include <fmt/format.h>

#include "tools/cli/file_cache.h"

namespace tandem::tools {

namespace {

void check_times(const GivenOptions& given) {
  if (!given.has("forward"))
    refuse(given, "--forward is missing: give a plan, --costs FILE, or plain costs");
  const bool halves = given.has("backward-input") || given.has("backward-weight");
  const bool both = given.has("backward-input") && given.has("backward-weight");
  if (given.has("backward") == halves || halves != both)
    refuse(given, "give either --backward, or --backward-input and --backward-weight");
  const PlainTimes& times = given.times;
  if (times.weight_gradient && (!times.activation || *times.weight_gradient > *times.activation)) {
    refuse(given,
           "--weight-gradient-bytes is a part of --activation-bytes: expected at most as many");
  }
}

/// A member of the times.
template <class Member, class Value>
Setting time_setting(Member PlainTimes::* member, Value value) {
  return [member, value](GivenOptions& given) { given.times.*member = value; };
}

std::vector<ScenarioOption> make_rows() {
  std::vector<ScenarioOption> rows;
  for (const PlainTimeRow& row : kPlainTimeRows) {
    rows.push_back({std::string(row.flag), "T", std::string(row.help),
                    [member = row.member](const OptionValue& value) {
                      return time_setting(member, value.duration());
                    }});
  }
  rows.push_back({"costs-per", "UNIT", "stage|device: unit of the times above (default stage)",
                  [](const OptionValue& value) {
                    return time_setting(&PlainTimes::of_device,
                                        value.choice({"stage", "device"}) == "device");
                  }});
  rows.push_back(text_option("costs", "FILE", "times for each stage, from a file",
                             &GivenOptions::costs, Options::Use::input));
  rows.push_back({"activation-bytes", "A",
                  "bytes that a stage holds for one microbatch from forward to backward",
                  [](const OptionValue& value) {
                    return time_setting(&PlainTimes::activation, value.bytes());
                  }});
  rows.push_back({"weight-gradient-bytes", "G",
                  "bytes of it kept between the input and weight gradients (default A)",
                  [](const OptionValue& value) {
                    return time_setting(&PlainTimes::weight_gradient, value.bytes());
                  }});
  return rows;
}

}  // namespace

std::span<const ScenarioOption> cost_rows() {
  static const std::vector<ScenarioOption> kRows = make_rows();
  return kRows;
}

void add_cost_options(Options& options) {
  options.group("Plain costs, the same for every stage");
  declare(options, cost_rows());
}

std::vector<std::string> cost_flags() {
  std::vector<std::string> flags;
  for (const ScenarioOption& row : cost_rows()) flags.push_back(row.flag);
  return flags;
}

PlainCosts plain_costs_of(const GivenOptions& given) {
  if (!given.has("costs")) {
    check_times(given);
    return {.times = given.times};
  }
  for (const std::string& flag : cost_flags()) {
    if (flag != "costs" && given.has(flag))
      refuse(given, "--{} and --costs exclude each other", flag);
  }
  return {.path = given.costs,
          .file = std::make_shared<const StageCostFile>(read_cached<read_costs>(given.costs))};
}

}  // namespace tandem::tools
