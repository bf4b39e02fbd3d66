#include "tools/options/schedule_options.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/ascii.h"
#include "planner/search/candidates.h"

namespace tandem::tools {

namespace {

constexpr std::int64_t kMostScheduleDevices = 4096;

/// "interleaved, looped-bfs: stages on each device"; of an option of all schedules what it says.
std::string help_of(const ScheduleOption& option) {
  if (option.of_all) return std::string(option.help);
  std::vector<std::string_view> names;
  for (const ScheduleTraits& traits : schedules()) {
    if (takes(traits, option)) names.push_back(traits.name);
  }
  return fmt::format("{}: {}", fmt::join(names, ", "), option.help);
}

void declare_option(Options& options, const ScheduleOption& option) {
  options.declare({.name = std::string(option.flag),
                   .argument = std::string(option.argument),
                   .help = help_of(option)});
}

Clipping clipping_of(const OptionValue& value) {
  constexpr std::string_view kPerStage = "per-stage";
  std::string_view norm = value.text();
  Clipping clip;
  if (norm.starts_with(kPerStage)) {
    clip.per_stage = true;
    norm.remove_prefix(kPerStage.size());
    if (norm.empty()) return clip;
    norm = norm.front() == ':' ? norm.substr(1) : std::string_view();
  }
  clip.norm = number_in<double>(norm).value_or(0.0);
  if (!std::isfinite(clip.norm) || clip.norm <= 0.0)
    value.reject("a norm above 0, such as 1.0, or per-stage[:NORM]");
  return clip;
}

/// What stands for --devices where it is not given: the replicas of all stages, or the only number
/// that the schedule takes.
std::uint16_t devices_of(const GivenOptions& given, const ScheduleTraits& traits,
                         const std::vector<std::uint16_t>& replicas) {
  const std::int64_t all = std::accumulate(replicas.begin(), replicas.end(), std::int64_t{0});
  const std::int64_t otherwise = replicas.empty() ? traits.only_devices : all;
  if (!given.devices && otherwise == 0) refuse(given, "--devices is missing");
  return static_cast<std::uint16_t>(
      given.devices.value_or(std::min(otherwise, kMostScheduleDevices)));
}

}  // namespace

std::span<const ScenarioOption> batch_rows() {
  using Given = GivenOptions;
  static const std::array<ScenarioOption, 3> kRows{
      {integer_option("devices", "P", "devices of the pipeline", &Given::devices,
                      kMostScheduleDevices),
       integer_option("microbatches", "M", "microbatches of a batch (one update)",
                      &Given::microbatches, kMostPlannedMicrobatches),
       {"clip", "NORM",
        "clip by the norm of all gradients, which every update then waits for; per-stage[:NORM]: "
        "each stage by its own",
        [](const OptionValue& value) { return setting(&Given::clip, clipping_of(value)); }}}};
  return kRows;
}

void add_schedule_options(Options& options) {
  options.group("Schedule");
  for (const char* flag : {"devices", "microbatches"}) declare(options, flag);
  for (const ScheduleOption& option : schedule_options()) {
    if (!option.flag.empty()) declare_option(options, option);
  }
  declare(options, "clip");
}

std::vector<std::string> flags_of_some_schedules() {
  std::vector<std::string> flags;
  for (const ScheduleOption& option : schedule_options()) {
    if (!option.of_all) flags.emplace_back(option.flag);
  }
  return flags;
}

std::vector<std::string> schedule_flags(bool beside_plans) {
  std::vector<std::string> flags{"devices", "microbatches"};
  for (const ScheduleOption& option : schedule_options()) {
    if (!option.flag.empty() && (!beside_plans || !option.joins_plans))
      flags.emplace_back(option.flag);
  }
  return flags;
}

const ScheduleOption& post_validation_option() {
  return *std::ranges::find(schedule_options(), OptionMember(&ScheduleRequest::post_validation),
                            &ScheduleOption::member);
}

void add_post_validation_option(Options& options) {
  declare_option(options, post_validation_option());
}

ScheduleRequest schedule_options_of(const GivenOptions& given, const ScheduleTraits& traits,
                                    OtherOptions others) {
  ScheduleRequest request;
  for (const ScheduleOption& option : schedule_options()) {
    if (option.flag.empty()) continue;
    const bool taken = takes(traits, option);
    if (const auto found = given.of_schedule.find(&option); found != given.of_schedule.end()) {
      if (taken) {
        copy_option(option, found->second, request);
      } else if (others == OtherOptions::refused && !given.is_of_scenarios(option.flag)) {
        throw UsageError(fmt::format("schedule {} has no option --{}", traits.name, option.flag));
      }
    } else if (taken && option.otherwise) {
      request.*std::get<std::uint16_t ScheduleRequest::*>(option.member) = *option.otherwise;
    }
  }
  request.global_norm = given.global_norm().value_or(false);
  return request;
}

ScheduleRequest schedule_request(const GivenOptions& given, const ScheduleTraits& traits,
                                 OtherOptions others) {
  ScheduleRequest request = schedule_options_of(given, traits, others);
  if (request.recompute == Recompute::full) {
    request.recompute = Recompute::stage;  // nobody says what blocks it has: it is one
  } else if (request.recompute.by_block()) {
    refuse(given, "--recompute {} is for a model, whose blocks are known: give full",
           name(request.recompute));
  }
  request.devices = devices_of(given, traits, request.replicas);
  if (!given.microbatches) refuse(given, "--microbatches is missing");
  request.microbatches = static_cast<std::int32_t>(*given.microbatches);
  return request;
}

}  // namespace tandem::tools
