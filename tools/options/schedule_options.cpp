#include "tools/options/schedule_options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <string_view>

#include <fmt/format.h>

#include "tools/options/order_search.h"

namespace tandem::tools {

namespace {

constexpr std::int64_t kMostScheduleDevices = 4096;

std::vector<std::uint16_t> parse_replicas(const std::string& text) {
  std::vector<std::uint16_t> replicas;
  for (const char *at = text.data(), *end = at + text.size(); at <= end; ++at) {
    std::uint16_t count = 0;
    const auto [after, error] = std::from_chars(at, end, count);
    if (error != std::errc{} || count == 0 || (after != end && *after != '-')) {
      throw UsageError(
          fmt::format("--replicas: expected counts such as 2-1-1, found \"{}\"", text));
    }
    replicas.push_back(count);
    at = after;
  }
  return replicas;
}

constexpr const char* kOptionsOfSome[] = {"chunks",        "group",          "extra-in-flight",
                                          "replicas",      "directions",     "waves",
                                          "vertical-sync", "activation-cap", "seed",
                                          "orders",        "time-limit"};

/// What stands for --devices where it is not given: the replicas of all parts, or the only number
/// that the schedule takes.
std::uint16_t devices_of(const Options& options, const ScheduleTraits& traits,
                         const std::vector<std::uint16_t>& replicas) {
  const std::int64_t all = std::accumulate(replicas.begin(), replicas.end(), std::int64_t{0});
  const std::int64_t otherwise = replicas.empty() ? traits.only_devices : all;
  if (!options.has("devices") && otherwise == 0) throw UsageError("--devices is missing");
  return static_cast<std::uint16_t>(options.integer("devices", 1, kMostScheduleDevices,
                                                    std::min(otherwise, kMostScheduleDevices)));
}

}  // namespace

void add_schedule_options(Options& options) {
  options.group("Schedule")
      .value("devices", "P", "devices of the pipeline")
      .value("microbatches", "M", "microbatches of a batch (one update)")
      .value("width", "W", "replicas of the whole pipeline (default 1)")
      .value("recompute", "KIND", "none|selective|full: recompute activations in the backward")
      .value("chunks", "V", "interleaved, looped-bfs: stages on each device (default 2)")
      .value("group", "G",
             "interleaved: microbatches of a chunk in a row (default: the fewest that work, P "
             "where M is a multiple of it); gpipe: microbatches until the pipeline is drained "
             "(default: M)")
      .value("extra-in-flight", "N",
             "2bw: microbatches in flight beyond the minimum on the first stage")
      .value("replicas", "A-B-C", "pipedream: replicas of each stage, such as 2-1-1")
      .value("waves", "W", "hanayo: waves, each down the devices and back up (default 1)")
      .value("directions", "K", "chimera: pipelines, half of them each way (default 2)")
      .flag("vertical-sync", "pipedream: a microbatch uses one version on all stages")
      .value("activation-cap", "X",
             "zb-auto, v-adaptive, search: microbatches whose activations a device may hold "
             "(default: any number, P, any number); search also takes one number for each device");
  add_search_options(options);
  add_clip_option(options);
  add_post_validation_option(options);
  options.absent("slices");
}

std::span<const char* const> options_of_some_schedules() { return kOptionsOfSome; }

bool takes(const ScheduleTraits& traits, std::string_view option) {
  return std::find(traits.options.begin(), traits.options.end(), option) != traits.options.end();
}

void add_clip_option(Options& options) {
  options.value("clip", "NORM",
                "clip by the norm of all gradients, which every update then waits for; "
                "per-stage[:NORM]: each stage by its own");
}

void add_post_validation_option(Options& options) {
  options.flag(
      "post-validation",
      "updates do not wait for the norm: each is validated in the next batch's warm-up, and "
      "rolled back where it was wrong");
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
  const auto [end, error] = std::from_chars(norm.data(), norm.data() + norm.size(), clip.norm);
  const bool whole = end == norm.data() + norm.size() && error == std::errc{};
  if (!whole || !std::isfinite(clip.norm) || clip.norm <= 0.0) {
    throw UsageError(fmt::format(
        "--clip: expected a norm above 0, such as 1.0, or per-stage[:NORM], found \"{}\"", text));
  }
  return clip;
}

ScheduleRequest schedule_request(const Options& options, const ScheduleTraits& traits) {
  for (const std::string name : kOptionsOfSome) {
    if (options.has(name) && !takes(traits, name)) {
      throw UsageError(fmt::format("schedule {} has no option --{}", traits.name, name));
    }
  }
  ScheduleRequest request;
  if (options.has("replicas")) request.replicas = parse_replicas(options.text("replicas"));
  request.devices = devices_of(options, traits, request.replicas);
  if (!options.has("microbatches")) throw UsageError("--microbatches is missing");
  request.microbatches = static_cast<std::int32_t>(options.integer("microbatches", 1, 65535, 1));
  const std::int64_t waves = options.integer("waves", 1, kMostScheduleDevices / 2, 1);
  request.chunks = static_cast<std::uint16_t>(
      takes(traits, "waves")
          ? 2 * waves
          : options.integer("chunks", 1, kMostScheduleDevices, takes(traits, "chunks") ? 2 : 1));
  request.group = static_cast<std::int32_t>(options.integer("group", 1, 65535, 0));
  request.width = static_cast<std::uint16_t>(options.integer("width", 1, 65535, 1));
  request.extra_in_flight =
      static_cast<std::int32_t>(options.integer("extra-in-flight", 0, 65535, 0));
  request.directions =
      static_cast<std::uint16_t>(options.integer("directions", 1, kMostScheduleDevices, 2));
  request.vertical_sync = options.has("vertical-sync");
  if (is_search(traits)) {
    read_search_options(options, request);
  } else if (options.has("activation-cap")) {
    request.activation_cap = options.number("activation-cap", 0.0, 65535.0, 0.0);
  }
  const std::string recompute = options.choice("recompute", {"none", "selective", "full"});
  request.recompute = recompute == "full"        ? Recompute::full
                      : recompute == "selective" ? Recompute::selective
                                                 : Recompute::none;
  request.global_norm = global_norm(options).value_or(false);
  request.post_validation = options.has("post-validation");
  return request;
}

}  // namespace tandem::tools
