#include "tools/options/given_options.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/check.h"
#include "tools/options/cluster_options.h"
#include "tools/options/cost_options.h"
#include "tools/options/perturbation_options.h"
#include "tools/options/scenario_options.h"
#include "tools/options/schedule_options.h"

namespace tandem::tools {

namespace {

/// Null: no row of a scenario has this flag. Those of core/schedule/options.h aside.
const ScenarioOption* find_row(std::string_view flag) {
  for (const auto rows : {scenario_rows(), batch_rows(), cost_rows(), run_rows(), cluster_rows(),
                          assumption_rows(), perturbation_rows()}) {
    const auto found = std::ranges::find(rows, flag, &ScenarioOption::flag);
    if (found != rows.end()) return &*found;
  }
  return nullptr;
}

Setting setting_of_schedule(const ScheduleOption& option, const OptionValue& value) {
  ScheduleRequest holds;
  const std::string_view text = option.argument.empty() ? "yes" : std::string_view(value.text());
  if (const auto expected = parse_option(option, text, holds)) value.reject(*expected);
  return [&option, holds](GivenOptions& given) { given.of_schedule[&option] = holds; };
}

void declare_row(Options& options, const ScenarioOption& row) {
  options.declare({.name = row.flag, .argument = row.argument, .use = row.use, .help = row.help});
}

}  // namespace

std::optional<bool> GivenOptions::global_norm() const {
  return clip ? std::optional(!clip->per_stage) : std::nullopt;
}

bool GivenOptions::post_validation() const { return has(post_validation_option().flag); }

ScenarioOption text_option(std::string flag, std::string argument, std::string help,
                           std::string GivenOptions::* member, Options::Use use) {
  return {std::move(flag), std::move(argument), std::move(help),
          [member](const OptionValue& value) { return setting(member, value.text()); }, use};
}

void declare(Options& options, std::span<const ScenarioOption> rows) {
  for (const ScenarioOption& row : rows) declare_row(options, row);
}

void declare(Options& options, std::string_view flag) {
  const ScenarioOption* row = find_row(flag);
  TANDEM_CHECK(row != nullptr, flag);
  declare_row(options, *row);
}

std::optional<Setting> setting_of(const OptionValue& value) {
  const auto options = schedule_options();
  const auto option = std::ranges::find(options, value.name(), &ScheduleOption::flag);
  if (option != options.end()) return setting_of_schedule(*option, value);
  const ScenarioOption* row = find_row(value.name());
  return row == nullptr ? std::nullopt : std::optional(row->read(value));
}

GivenOptions given_options(const Options& options, const std::vector<std::string_view>& which) {
  GivenOptions given{.command = options.command()};
  for (const std::string& flag : options.given()) {
    given.flags.insert(flag);
    if (which.size() > 0 && std::ranges::find(which, flag) == which.end()) continue;
    if (const auto set = setting_of(options[flag])) (*set)(given);
  }
  if (which.size() == 0 && !options.words().empty()) given.plan = options.words()[0];
  return given;
}

void refuse(const GivenOptions& given, const std::string& why) {
  throw UsageError(fmt::format("tandem {}: {}", given.command, why));
}

void check_most(const GivenOptions& given, std::string_view flag, std::int64_t value,
                std::int64_t most) {
  if (value <= most) return;
  OptionValue(given.command, std::string(flag), fmt::format("{}", value))
      .reject(fmt::format("an integer from 1 to {}", most));
}

}  // namespace tandem::tools
