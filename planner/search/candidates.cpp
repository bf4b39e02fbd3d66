#include "planner/search/candidates.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/schedule/options.h"
#include "core/schedule/user_schedule.h"
#include "core/text/count_text.h"
#include "simulator/cost/fitted_slices.h"

namespace tandem {

namespace {

/// Stashed and latest weights are of another age on each stage, several copies of the model are not
/// planned, a cap is to be chosen, what is evicted pays where links are faster than they often are,
/// and without times of slices sequences stay whole: for those who ask.
bool only_when_asked(const ScheduleTraits& row, bool slices_are_priced) {
  return row.weights == WeightSemantics::stashed || row.weights == WeightSemantics::latest ||
         row.replicas_per_stage > 1 || (!row.whole.empty() && !slices_are_priced) ||
         option_of(row, &ScheduleRequest::activation_caps) != nullptr || row.evicts;
}

/// The slices that the profile times, where they make up its sequence one after the other; else
/// none.
Slicing measured_slices(const Profile& profile) {
  std::vector<std::int32_t> lengths;
  std::int32_t before = 0;
  for (const SliceCosts& slice : profile.slices) {
    if (slice.before != before) return {};
    lengths.push_back(slice.tokens);
    before += slice.tokens;
  }
  if (lengths.size() < 2 || before != profile.model.sequence) return {};
  return Slicing::of_lengths(std::move(lengths));
}

/// How a shape's sequences may be cut. One whole one stands for a schedule that can't, or a profile
/// without times of slices. As many microbatches as stages stand for those of any shape: the more,
/// the longer its fastest slices.
std::vector<Slicing> slicings(const PlanRequest& request, const Shape& shape) {
  const Profile& profile = request.profile;
  if (option_of(*shape.schedule, &ScheduleRequest::slices) == nullptr || profile.slices.empty())
    return {Slicing{}};
  std::vector<Slicing> all{measured_slices(profile)};
  const auto add = [&](Slicing slicing) {
    if (slicing.count > 1 && std::ranges::find(all, slicing) == all.end())
      all.push_back(std::move(slicing));
  };
  const std::int32_t stages = shape.depth * shape.chunks;
  add(slicing_by_time(profile, shape.microbatch_size, stages, shape.microbatches));
  const std::int32_t shortest =
      std::ranges::min_element(profile.slices, {}, &SliceCosts::tokens)->tokens;
  for (const std::int32_t count : {2, 4, 8, 16}) {
    if (request.model.sequence / count >= (shortest + 1) / 2)
      add(Slicing::of_lengths(slice_lengths({.count = count}, request.model)));
  }
  if (all.front().count == 1) all.erase(all.begin());
  if (all.empty()) all.emplace_back();
  return all;
}

/// The microbatch sizes that serve the request, ascending.
std::vector<std::int32_t> microbatch_sizes(const PlanRequest& request,
                                           std::vector<Rejected>& rejected) {
  const std::vector<LayerKind> layers = layers_of(request.model);
  const std::set<LayerKind> needed(layers.begin(), layers.end());
  std::map<std::int32_t, std::set<LayerKind>> measured;
  for (const LayerCost& row : request.profile.layers)
    measured[row.microbatch_size].insert(row.kind);
  std::vector<std::int32_t> sizes;
  for (const auto& [size, kinds] : measured) {
    const std::string what = fmt::format("microbatch size {}", size);
    const auto lacks =
        std::ranges::find_if(needed, [&](LayerKind kind) { return !kinds.contains(kind); });
    if (lacks != needed.end()) {
      rejected.push_back({RejectCause::not_measured, what,
                          fmt::format("the profile has no layer \"{}\" of it", name(*lacks))});
    } else if (request.global_batch % size != 0) {
      rejected.push_back(
          {RejectCause::not_divisible, what,
           fmt::format("a global batch of {} samples is no multiple of it", request.global_batch)});
    } else {
      sizes.push_back(size);
    }
  }
  return sizes;
}

/// The deepest pipeline that the model has layers for.
std::uint16_t deepest(const PlanRequest& request, std::vector<Rejected>& rejected) {
  const std::size_t layers = layers_of(request.model).size();
  if (layers > static_cast<std::size_t>(kMostPlannedLayers)) {
    throw InputError(fmt::format("the model has {} layers; the planner cuts at most {}", layers,
                                 kMostPlannedLayers));
  }
  if (request.devices < 1 || request.devices > kMostPlannedDevices) {
    throw InputError(fmt::format("the planner takes 1 to {} devices, found {}", kMostPlannedDevices,
                                 request.devices));
  }
  const auto depth = static_cast<std::uint16_t>(std::min<std::size_t>(request.devices, layers));
  if (depth < request.devices) {
    const std::string what = depth + 1 == request.devices
                                 ? fmt::format("{} stages", depth + 1)
                                 : fmt::format("{} to {} stages", depth + 1, request.devices);
    rejected.push_back({RejectCause::few_layers, what,
                        fmt::format("more stages than layers: the model has {}", layers)});
  }
  return depth;
}

/// Replicas of a pipeline of `depth` devices. One device's are data parallelism, whatever the
/// schedule: only its own row has them.
std::vector<std::uint16_t> widths(const PlanRequest& request, const ScheduleTraits& row,
                                  std::uint16_t depth) {
  const bool data_parallel = row.only_devices == 1;
  std::vector<std::uint16_t> all;
  if (!data_parallel) all.push_back(1);
  if (depth == 1 && !data_parallel) return all;
  for (std::uint16_t width = 2; width * depth <= request.devices; ++width) all.push_back(width);
  return all;
}

/// Stages on each device. One is the schedule without its loops, which has a row of its own.
std::vector<std::uint16_t> chunk_counts(const PlanRequest& request, const ScheduleTraits& row,
                                        std::uint16_t depth) {
  constexpr std::uint16_t kMostChunks = 4;
  const std::size_t layers = layers_of(request.model).size();
  if (row.replicas_per_device != 0) {
    const std::uint16_t fixed = row.replicas_per_device;
    if (fixed > 1 && (depth == 1 || std::size_t{depth} * fixed > layers)) return {};
    return {fixed};
  }
  const ScheduleOption* option = option_of(row, &ScheduleRequest::chunks);
  std::vector<std::uint16_t> all;
  for (std::uint16_t chunks = 2; depth > 1 && chunks <= kMostChunks; ++chunks) {
    if (option != nullptr && chunks % option->times != 0) continue;
    if (std::size_t{depth} * chunks <= layers) all.push_back(chunks);
  }
  return all;
}

/// Sets the extras that the schedule accepts; why it accepts not even none, where it doesn't.
std::optional<std::string> set_extras(const PlanRequest& request, Shape& shape) {
  const bool more = option_of(*shape.schedule, &ScheduleRequest::extra_in_flight) != nullptr;
  const std::int32_t most = more ? 2 * (shape.depth - 1) : 0;
  shape.extras.clear();
  for (std::int32_t extra = 0; extra <= most; ++extra) {
    const auto reason =
        reason_against(*shape.schedule, schedule_request(plan_of(request, shape, extra)));
    if (reason && extra == 0) return reason;
    if (!reason) shape.extras.push_back(extra);
  }
  return std::nullopt;
}

std::optional<Rejected> too_long(const PlanRequest& request, const Shape& shape) {
  const std::int64_t stages = std::int64_t{shape.depth} * shape.chunks;
  const Plan plan = plan_of(request, shape, 0);
  const std::int64_t cells = stages * plan.request.units();
  if (plan.request.units() <= kMostPlannedMicrobatches && cells <= kMostPlannedCells)
    return std::nullopt;
  return Rejected{
      RejectCause::too_long, describe(plan),
      fmt::format("{} microbatches on {} stages are more than the planner simulates "
                  "(at most {} a batch, {} on all stages)",
                  plan.request.units(), stages, kMostPlannedMicrobatches, kMostPlannedCells)};
}

/// Its depth, width and microbatches are given: what is left is the size of these, and
/// recomputation where the schedule says nothing of it.
SearchSpace own_space(const PlanRequest& request) {
  SearchSpace space;
  const Schedule& own = *request.user_schedule;
  const Placement& placement = own.placement;
  const auto reject_all = [&](RejectCause cause, std::string reason) {
    space.rejected.push_back({cause, own.name, std::move(reason)});
    return space;
  };
  if (placement.stages() != placement.replicas())
    return reject_all(RejectCause::copies, "its pipeline holds several copies of stages");
  if (request.vanilla_only && weight_semantics(own) != WeightSemantics::vanilla)
    return reject_all(RejectCause::semantics, "its weights are not vanilla");
  if (auto reason = reason_against(request.optimizer.correction, weight_semantics(own), own.name)) {
    return reject_all(RejectCause::schedule, std::move(*reason));
  }
  if (own.slices > 1 && own.slices != measured_slices(request.profile).count) {
    return reject_all(RejectCause::not_measured,
                      fmt::format("it cuts sequences into {} slices, which the profile does not "
                                  "time (tandem profile --slices)",
                                  own.slices));
  }
  const std::vector<std::int32_t> sizes = microbatch_sizes(request, space.rejected);
  deepest(request, space.rejected);
  if (placement.stages() > layers_of(request.model).size()) {
    return reject_all(RejectCause::few_layers,
                      fmt::format("it cuts the model into {} stages, and the model has {} layers",
                                  placement.stages(), layers_of(request.model).size()));
  }
  for (const std::int32_t size : sizes) {
    if (std::int64_t{size} * own.whole_microbatches() * own.width != request.global_batch) {
      space.rejected.push_back(
          {RejectCause::not_divisible, fmt::format("microbatch size {}", size),
           fmt::format("its {} microbatches would make a global batch of {}",
                       own.whole_microbatches() * own.width,
                       std::int64_t{size} * own.whole_microbatches() * own.width)});
      continue;
    }
    for (const Recompute recompute : {Recompute::none, Recompute::full, Recompute::stage}) {
      if ((recompute == Recompute::stage) != recomputes(own)) continue;
      Shape shape{.depth = placement.devices,
                  .width = own.width,
                  .chunks = static_cast<std::uint16_t>(chunks_of(placement)[DeviceId{}]),
                  .microbatch_size = size,
                  .microbatches = own.whole_microbatches(),
                  .recompute = recompute,
                  .slices = own.slices > 1 ? measured_slices(request.profile) : Slicing{}};
      if (auto long_one = too_long(request, shape))
        space.rejected.push_back(std::move(*long_one));
      else
        space.shapes.push_back(std::move(shape));
    }
  }
  return space;
}

}  // namespace

std::string_view name(RejectCause cause) {
  constexpr auto kNames = std::to_array<std::string_view>(
      {"several copies", "delayed weights", "not measured", "global batch not divisible",
       "more stages than layers", "too long to simulate", "not possible with the schedule",
       "does not fit in memory"});
  return kNames[static_cast<std::size_t>(cause)];
}

std::vector<const ScheduleTraits*> chosen_schedules(const ScheduleChoice& choice,
                                                    std::vector<Rejected>& rejected) {
  std::set<const ScheduleTraits*> asked;
  for (const std::string& name : choice.names) asked.insert(&find_schedule(name));
  std::vector<const ScheduleTraits*> rows;
  for (const ScheduleTraits& row : schedules()) {
    if (!asked.empty() && !asked.contains(&row)) continue;
    if (asked.empty() && only_when_asked(row, choice.slices_are_priced)) continue;
    if (row.replicas_per_stage > 1) {
      rejected.push_back({RejectCause::copies, std::string(row.name),
                          "a pipeline holds several copies of the model: it can be simulated and "
                          "trained by a plan written by hand, not planned"});
    } else if (choice.vanilla_only && row.weights != WeightSemantics::vanilla) {
      rejected.push_back({RejectCause::semantics, std::string(row.name),
                          fmt::format("its weights are {}, and only vanilla ones were asked for",
                                      name(row.weights))});
    } else if (auto reason = reason_against(choice.correction, row.weights, row.name)) {
      rejected.push_back({RejectCause::schedule, std::string(row.name), std::move(*reason)});
    } else {
      rows.push_back(&row);
    }
  }
  return rows;
}

SearchSpace search_space(const PlanRequest& request) {
  if (request.user_schedule != nullptr) return own_space(request);
  SearchSpace space;
  const std::vector<const ScheduleTraits*> rows =
      chosen_schedules({.names = request.schedules,
                        .vanilla_only = request.vanilla_only,
                        .correction = request.optimizer.correction,
                        .slices_are_priced = !request.profile.slices.empty()},
                       space.rejected);
  const std::vector<std::int32_t> sizes = microbatch_sizes(request, space.rejected);
  const std::uint16_t most = deepest(request, space.rejected);
  const auto add = [&](Shape shape) {
    if (auto rejected = too_long(request, shape))
      space.rejected.push_back(std::move(*rejected));
    else if (auto reason = set_extras(request, shape))
      space.rejected.push_back(
          {RejectCause::schedule, describe(plan_of(request, shape, 0)), std::move(*reason)});
    else
      space.shapes.push_back(std::move(shape));
  };
  const auto add_sliced = [&](Shape shape) {
    const auto microbatches =
        even_microbatches(request.global_batch, shape.width, shape.microbatch_size);
    if (!microbatches) return;
    shape.microbatches = static_cast<std::int32_t>(*microbatches);
    for (Slicing& slicing : slicings(request, shape)) {
      shape.slices = std::move(slicing);
      add(shape);
      // Of slices whole stages too: what each leaves meanwhile are keys and values alone.
      if (shape.slices.count == 1 || shape.recompute != Recompute::full) continue;
      Shape again = shape;
      again.recompute = Recompute::stage;
      add(std::move(again));
    }
  };
  const auto add_ways = [&](Shape shape) {
    add_sliced(shape);
    shape.single_backwards = true;
    if (option_of(*shape.schedule, &ScheduleRequest::single_backwards) != nullptr)
      add_sliced(std::move(shape));
  };
  for (const ScheduleTraits* row : rows) {
    for (std::uint16_t depth = 1; depth <= most; ++depth) {
      if (row->only_devices != 0 && row->only_devices != depth) continue;
      for (const std::uint16_t width : widths(request, *row, depth)) {
        for (const std::uint16_t chunks : chunk_counts(request, *row, depth)) {
          for (const std::int32_t size : sizes) {
            for (const Recompute recompute : {Recompute::none, Recompute::full}) {
              Shape shape;
              shape.schedule = row;
              shape.depth = depth;
              shape.width = width;
              shape.chunks = chunks;
              shape.microbatch_size = size;
              shape.recompute = recompute;
              add_ways(std::move(shape));
            }
          }
        }
      }
    }
  }
  return space;
}

Plan plan_of(const PlanRequest& request, const Shape& shape, std::int32_t extra_in_flight) {
  Plan plan;
  plan.model = request.model;
  if (shape.schedule == nullptr) {
    plan.schedule = request.user_schedule->name;
    plan.schedule_file = request.schedule_file;
    plan.user_schedule = request.user_schedule;
  } else {
    plan.schedule = shape.schedule->name;
    if (shape.schedule->replicas_per_device == 0) plan.request.chunks = shape.chunks;
  }
  plan.request.slices = shape.slices;
  plan.request.devices = shape.depth;
  plan.request.width = shape.width;
  plan.request.global_norm = request.global_norm;
  plan.microbatch_size = shape.microbatch_size;
  plan.request.microbatches = shape.microbatches;
  plan.request.extra_in_flight = extra_in_flight;
  plan.request.recompute = shape.recompute;
  plan.request.single_backwards = shape.single_backwards;
  plan.optimizer = request.optimizer;
  return plan;
}

std::string describe(const Plan& plan) {
  const std::size_t stages = stage_count(plan);
  std::string text =
      fmt::format("{}, {}", schedule_heading(plan.schedule), counted(stages, "stage"));
  if (stages != plan.request.devices) text += fmt::format(" on {} devices", plan.request.devices);
  if (plan.request.width > 1) text += fmt::format(", width {}", plan.request.width);
  text += fmt::format(", microbatches {} x {}", plan.microbatch_size, plan.request.microbatches);
  if (plan.request.slices.count > 1)
    text += fmt::format(", slices of {} tokens", name(plan.request.slices));
  if (plan.request.recompute != Recompute::none)
    text += fmt::format(", recompute {}", name(plan.request.recompute));
  if (plan.request.extra_in_flight > 0)
    text += fmt::format(", {} extra in flight", plan.request.extra_in_flight);
  if (plan.request.single_backwards) text += ", single backwards";
  return text;
}

}  // namespace tandem
