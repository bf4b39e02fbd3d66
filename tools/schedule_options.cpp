#include "tools/schedule_options.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include <fmt/format.h>

namespace tandem::tools {

namespace {

constexpr std::int64_t kMostDevices = 4096;

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

}  // namespace

void add_schedule_options(Options& options) {
  options.value("devices", "P", "devices of the pipeline")
      .value("microbatches", "M", "microbatches of a batch (one update)")
      .value("width", "W", "replicas of the whole pipeline (default 1)")
      .value("recompute", "KIND", "none|full: recompute activations in the backward")
      .value("extra-in-flight", "N",
             "2bw: microbatches in flight beyond the minimum on the first stage")
      .value("replicas", "A-B-C", "probe-replicated: replicas of each part, such as 2-1-1");
  for (const char* name :
       {"chunks", "group", "vertical-sync", "activation-cap", "waves", "directions", "slices"}) {
    options.absent(name);
  }
}

ScheduleRequest schedule_request(const Options& options, const ScheduleTraits& traits) {
  for (const std::string name : {"extra-in-flight", "replicas"}) {
    const bool taken =
        std::find(traits.options.begin(), traits.options.end(), name) != traits.options.end();
    if (options.has(name) && !taken) {
      throw UsageError(fmt::format("schedule {} has no option --{}", traits.name, name));
    }
  }
  if (options.text("recompute") == "selective")
    throw UsageError("--recompute selective is not in this version");
  ScheduleRequest request;
  if (options.has("replicas")) request.replicas = parse_replicas(options.text("replicas"));
  if (!options.has("devices")) throw UsageError("--devices is missing");
  if (!options.has("microbatches")) throw UsageError("--microbatches is missing");
  request.devices = static_cast<std::uint16_t>(options.integer("devices", 1, kMostDevices, 1));
  request.microbatches = static_cast<std::int32_t>(options.integer("microbatches", 1, 65535, 1));
  request.width = static_cast<std::uint16_t>(options.integer("width", 1, 65535, 1));
  request.extra_in_flight =
      static_cast<std::int32_t>(options.integer("extra-in-flight", 0, 65535, 0));
  request.recompute =
      options.choice("recompute", {"none", "full"}) == "full" ? Recompute::full : Recompute::none;
  return request;
}

}  // namespace tandem::tools
