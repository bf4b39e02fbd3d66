#include "tools/options/schedule_options.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/ascii.h"
#include "tools/cli/split.h"
#include "tools/options/perturbation_options.h"

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

void declare(Options& options, const ScheduleOption& option) {
  const std::string flag(option.flag);
  if (option.argument.empty()) {
    options.flag(flag, help_of(option));
  } else {
    options.value(flag, std::string(option.argument), help_of(option));
  }
}

const ScheduleOption& row_of(OptionMember member) {
  return *std::ranges::find(schedule_options(), member, &ScheduleOption::member);
}

void set_from(const Options& options, const ScheduleOption& option, ScheduleRequest& request) {
  const std::string flag(option.flag);
  const std::string text = option.argument.empty() ? "yes" : options.text(flag);
  if (const auto expected = parse_option(option, text, request)) options.reject(flag, *expected);
}

/// What stands for --devices where it is not given: the replicas of all stages, or the only number
/// that the schedule takes.
std::uint16_t devices_of(const Options& options, const ScheduleTraits& traits,
                         const std::vector<std::uint16_t>& replicas) {
  const std::int64_t all = std::accumulate(replicas.begin(), replicas.end(), std::int64_t{0});
  const std::int64_t otherwise = replicas.empty() ? traits.only_devices : all;
  if (!options.has("devices") && otherwise == 0) refuse(options, "--devices is missing");
  return static_cast<std::uint16_t>(options.integer("devices", 1, kMostScheduleDevices,
                                                    std::min(otherwise, kMostScheduleDevices)));
}

}  // namespace

void add_schedule_options(Options& options) {
  options.group("Schedule")
      .value("devices", "P", "devices of the pipeline")
      .value("microbatches", "M", "microbatches of a batch (one update)");
  for (const ScheduleOption& option : schedule_options()) {
    if (!option.flag.empty()) declare(options, option);
  }
  add_clip_option(options);
  options.absent("slices");
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

void add_clip_option(Options& options) {
  options.value("clip", "NORM",
                "clip by the norm of all gradients, which every update then waits for; "
                "per-stage[:NORM]: each stage by its own");
}

void add_post_validation_option(Options& options) {
  declare(options, row_of(&ScheduleRequest::post_validation));
}

bool has_post_validation(const Options& options) {
  return options.has(std::string(row_of(&ScheduleRequest::post_validation).flag));
}

std::optional<bool> global_norm(const Options& options) {
  const std::optional<Clipping> clip = clipping(options);
  if (!clip) return std::nullopt;
  return !clip->per_stage;
}

std::optional<Clipping> clipping(const Options& options) {
  if (!options.has("clip")) return std::nullopt;
  constexpr std::string_view kPerStage = "per-stage";
  const std::string text = options.text("clip");
  std::string_view norm = text;
  Clipping clip;
  if (norm.starts_with(kPerStage)) {
    clip.per_stage = true;
    norm.remove_prefix(kPerStage.size());
    if (norm.empty()) return clip;
    norm = norm.front() == ':' ? norm.substr(1) : std::string_view();
  }
  clip.norm = number_in<double>(norm).value_or(0.0);
  if (!std::isfinite(clip.norm) || clip.norm <= 0.0) {
    throw UsageError(fmt::format(
        "--clip: expected a norm above 0, such as 1.0, or per-stage[:NORM], found \"{}\"", text));
  }
  return clip;
}

ScheduleRequest schedule_options_of(const Options& options, const ScheduleTraits& traits,
                                    OtherOptions others) {
  ScheduleRequest request;
  for (const ScheduleOption& option : schedule_options()) {
    const std::string flag(option.flag);
    if (flag.empty()) continue;
    const bool taken = takes(traits, option);
    if (options.has(flag)) {
      if (taken) {
        set_from(options, option, request);
      } else if (others == OtherOptions::refused && !is_of_scenarios(options, flag)) {
        throw UsageError(fmt::format("schedule {} has no option --{}", traits.name, flag));
      }
    } else if (taken && option.otherwise) {
      request.*std::get<std::uint16_t ScheduleRequest::*>(option.member) = *option.otherwise;
    }
  }
  request.global_norm = global_norm(options).value_or(false);
  return request;
}

ScheduleRequest schedule_request(const Options& options, const ScheduleTraits& traits,
                                 OtherOptions others) {
  ScheduleRequest request = schedule_options_of(options, traits, others);
  request.devices = devices_of(options, traits, request.replicas);
  if (!options.has("microbatches")) refuse(options, "--microbatches is missing");
  request.microbatches = static_cast<std::int32_t>(options.integer("microbatches", 1, 65535, 1));
  return request;
}

}  // namespace tandem::tools
