#include "core/schedule/schedule.h"

#include <algorithm>
#include <array>
#include <limits>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/schedule/options.h"
#include "core/schedule/passes.h"
#include "core/schedule/refusals.h"

namespace tandem {

std::string_view name(WeightSemantics semantics) {
  constexpr std::array<std::string_view, kWeightSemantics> kNames{"vanilla", "delayed by one",
                                                                  "stashed", "latest"};
  return kNames[static_cast<std::size_t>(semantics)];
}

const ScheduleTraits& find_schedule(std::string_view wanted) {
  std::vector<std::string> known;
  for (const ScheduleTraits& row : schedules()) {
    if (row.name == wanted) return row;
    for (const std::string_view alias : row.aliases) {
      if (alias == wanted) return row;
      known.emplace_back(alias);
    }
    known.emplace_back(row.name);
  }
  throw UsageError(fmt::format("unknown schedule \"{}\"{} (tandem schedule --list shows all)",
                               wanted, did_you_mean(wanted, known)));
}

/// With the mark behind it where the definition is our own.
static std::string marked(std::string_view name, std::string_view mark) {
  const auto row = std::ranges::find(schedules(), name, &ScheduleTraits::name);
  const bool is_own = row != schedules().end() && row->own_definition;
  return fmt::format("{}{}", name, is_own ? mark : "");
}

std::string schedule_heading(std::string_view name) {
  return marked(name, " (our own definition)");
}

std::string schedule_in_table(std::string_view name) { return marked(name, " (ours)"); }

const ScheduleTraits& plain_schedule() {
  return *std::ranges::find_if(schedules(), &ScheduleTraits::plain);
}

/// Sizes that no schedule can serve, whatever its own reasons.
static std::optional<std::string> bad_size(const ScheduleTraits& traits,
                                           const ScheduleRequest& request) {
  constexpr std::int32_t kMostMicrobatches = std::numeric_limits<std::uint16_t>::max();
  constexpr std::int64_t kMostReplicas = std::numeric_limits<std::uint16_t>::max();
  constexpr std::int64_t kMostCells = 1 << 22;  // some seconds and 1.5 GiB to simulate
  if (request.devices < 1) return "a schedule needs at least one device";
  if (request.slices.count < 1)
    return "slices by time are found for a model, whose times are known (--slices N)";
  if (request.units() > kMostMicrobatches && request.microbatches <= kMostMicrobatches) {
    return fmt::format("{} microbatches of {} slices are {} slices a batch: at most {}",
                       request.microbatches, request.slices.count, request.units(),
                       kMostMicrobatches);
  }
  if (request.microbatches < 1 || request.microbatches > kMostMicrobatches) {
    return fmt::format("microbatches a batch must be 1 to {}, found {}", kMostMicrobatches,
                       request.microbatches);
  }
  if (request.width < 1) return "a pipeline needs at least one replica, found width 0";
  if (request.chunks < 1) return "a device needs at least one stage, found 0 chunks";
  if (request.extra_in_flight < 0)
    return fmt::format("extra in flight can't be negative, found {}", request.extra_in_flight);
  const std::int64_t replicas =
      request.devices * static_cast<std::int64_t>(replicas_per_device(traits, request));
  if (replicas <= kMostReplicas && replicas * request.units() <= kMostCells) return std::nullopt;
  return fmt::format(
      "{} stages of {} microbatches each are too large a schedule: at most {} stages, and {} "
      "microbatches on all of them together",
      replicas, request.units(), kMostReplicas, kMostCells);
}

static std::optional<std::string> bad_cap(const ScheduleTraits& traits,
                                          const ScheduleRequest& request) {
  const std::size_t caps = request.activation_caps.size();
  if (caps > 1 && (!traits.caps_each_device || caps != request.devices)) {
    return fmt::format("{} takes one activation cap{}: found {}", traits.name,
                       traits.caps_each_device
                           ? fmt::format(", or one for each of {} devices", request.devices)
                           : "",
                       caps);
  }
  for (const double cap : request.activation_caps) {
    if (!(cap >= 1.0)) return fmt::format("an activation cap must be at least 1, found {}", cap);
  }
  return std::nullopt;
}

static std::optional<std::string> bad_costs(const ScheduleTraits& traits,
                                            const ScheduleRequest& request) {
  if (!request.costs) return std::nullopt;
  const std::size_t stages = stage_count(traits, request), found = request.costs->stages.size();
  if (stages != found) {
    return fmt::format("schedule {} cuts the model into {} stages, found costs of {}", traits.name,
                       stages, found);
  }
  const std::vector<Duration>& links = request.costs->links;
  if (!links.empty() && links.size() + 1 != request.devices) {
    return fmt::format("{} devices have {} links in a line, found costs of {}", request.devices,
                       request.devices - 1, links.size());
  }
  double all = 0.0;  // one after the other
  const auto add = [&](Duration time) {
    all += static_cast<double>(time.count()) * static_cast<double>(request.units());
  };
  for (const StageOrderCosts& stage : request.costs->stages) {
    for (const Duration time : {stage.forward, stage.backward_input, stage.backward_weight,
                                stage.update, request.costs->transfer, request.costs->transfer})
      add(time);
  }
  for (const Duration link : links) add(2 * link);
  if (all < 0x1p62) return std::nullopt;
  return "the ops of a batch take longer than the clock counts: at most 146 years";
}

std::size_t replicas_per_device(const ScheduleTraits& traits, const ScheduleRequest& request) {
  return traits.replicas_per_device == 0 ? request.chunks : traits.replicas_per_device;
}

std::size_t stage_count(const ScheduleTraits& traits, const ScheduleRequest& request) {
  if (!request.replicas.empty()) return request.replicas.size();
  return request.devices * replicas_per_device(traits, request) / traits.replicas_per_stage;
}

std::optional<std::string> reason_against(const ScheduleTraits& traits,
                                          const ScheduleRequest& request) {
  if (auto reason = bad_size(traits, request)) return reason;
  if (request.slices.count > 1 && !option_of(traits, &ScheduleRequest::slices))
    return fmt::format("schedule {} does not cut sequences into slices", traits.name);
  if (auto reason = bad_cap(traits, request)) return reason;
  if (auto reason = bad_costs(traits, request)) return reason;
  if (traits.only_devices != 0 && request.devices != traits.only_devices) {
    return fmt::format(
        "schedule {} is a pipeline of {} device, found {}: --width gives it replicas", traits.name,
        traits.only_devices, request.devices);
  }
  if (request.post_validation && !request.global_norm)
    return "post-validation needs clipping by a global norm (--clip NORM)";
  if (auto reason = refused(
          traits.name, {traits.weights, traits.updates_together, traits.reads_planes}, request))
    return reason;
  return traits.reject == nullptr ? std::nullopt : traits.reject(request);
}

Schedule make_schedule(const ScheduleTraits& traits, const ScheduleRequest& request) {
  if (const auto reason = reason_against(traits, request)) throw InputError(*reason);
  Schedule schedule = traits.make(request);
  schedule.name = traits.name;
  if (request.recompute == Recompute::stage) insert_recompute(schedule);
  insert_reduction(schedule, request.global_norm);
  if (request.post_validation) insert_validation(schedule);
  return schedule;
}

}  // namespace tandem
