#include "simulator/cost/measured_layers.h"

#include <optional>

#include <fmt/format.h>

#include "core/base/error.h"

namespace tandem {

namespace {

/// The rows of a layer kind nearest to a microbatch size, from below and from above; null where
/// there is none.
struct Around {
  const LayerCost *below = nullptr, *above = nullptr;
  bool measured() const { return below->microbatch_size == above->microbatch_size; }
};

Around around(const Profile& profile, LayerKind kind, std::int32_t microbatch_size) {
  Around found;
  for (const LayerCost& row : profile.layers) {
    if (row.kind != kind) continue;
    const std::int32_t size = row.microbatch_size;
    if (size <= microbatch_size && (!found.below || size > found.below->microbatch_size))
      found.below = &row;
    if (size >= microbatch_size && (!found.above || size < found.above->microbatch_size))
      found.above = &row;
  }
  return found;
}

LayerCost on_line(const LayerCost& below, const LayerCost& above, double share) {
  LayerCost between = below;
  for (const auto time :
       {&LayerCost::forward, &LayerCost::backward_input, &LayerCost::backward_weight,
        &LayerCost::backward, &LayerCost::update, &LayerCost::selective_recompute})
    between.*time = Duration(tandem::on_line((below.*time).count(), (above.*time).count(), share));
  if (below.recompute && above.recompute) {
    between.recompute =
        Duration(tandem::on_line(below.recompute->count(), above.recompute->count(), share));
  }
  return between;
}

/// `tensor`: of the profile, for the message.
LayerCost layer_cost(const Profile& profile, LayerKind kind, std::int32_t microbatch_size,
                     std::int32_t tensor) {
  const Around rows = around(profile, kind, microbatch_size);
  if (!rows.below || !rows.above) {
    const std::string what = fmt::format("the profile has no layer \"{}\" at microbatch size {}",
                                         name(kind), microbatch_size);
    throw InputError(
        tensor == 1 ? fmt::format("{}: measure it with tandem profile --microbatch-size {}", what,
                                  microbatch_size)
                    : fmt::format("{}, nor below and above it, at tensor degree {}", what, tensor));
  }
  if (rows.measured()) return *rows.below;
  const double share =
      static_cast<double>(microbatch_size - rows.below->microbatch_size) /
      static_cast<double>(rows.above->microbatch_size - rows.below->microbatch_size);
  return on_line(*rows.below, *rows.above, share);
}

TensorDegrees degrees_of(const TensorProfiles& profiles, std::int32_t tensor) {
  std::vector<std::int32_t> measured;
  for (const auto& [degree, profile] : profiles) measured.push_back(degree);
  return degrees_around(measured, tensor, "the profile");
}

StageTimes layer_times(const LayerCost& cost, Recompute recompute) {
  const Duration again = recompute == Recompute::selective ? cost.selective_recompute : Duration{};
  return {.forward = cost.forward,
          .recompute = cost.recompute.value_or(cost.forward),
          .backward = cost.backward + again,
          .backward_input = cost.backward_input + again,
          .backward_weight = cost.backward_weight,
          .update = cost.update};
}

/// What layers are built by, in words; of a transformer not its shape.
std::string dimensions(const ModelSpec& model) {
  return fmt::format("{}, width {}, {} heads, sequence {}, vocabulary {}", name(model.architecture),
                     model.width, model.heads, model.sequence, model.vocabulary);
}

}  // namespace

void check_same_layers(const Profile& profile, const ModelSpec& model) {
  const std::string measured = dimensions(profile.model), wanted = dimensions(model);
  const bool same_dimensions = measured == wanted;
  TransformerShape shape = profile.model.shape;
  shape.details = model.shape.details;  // which cost nothing
  if (same_dimensions && shape == model.shape) return;
  throw InputError(fmt::format("the profile measured model \"{}\" ({}), not \"{}\" ({}{})",
                               profile.model.name, measured, model.name, wanted,
                               same_dimensions ? ", of another shape" : ""));
}

LayerTimes measured_layers(const Profile& profile, const ModelSpec& model,
                           std::int32_t microbatch_size, Recompute recompute) {
  check_same_layers(profile, model);
  const auto times_of = [&](LayerKind kind) {
    return layer_times(layer_cost(profile, kind, microbatch_size, 1), recompute);
  };
  return times_of_layers(model, times_of, recompute, profile.instruction_overhead);
}

LayerTimes measured_layers(const TensorProfiles& profiles, const ModelSpec& model,
                           std::int32_t microbatch_size, Recompute recompute, std::int32_t tensor) {
  const Profile& any = profiles.begin()->second;
  check_same_layers(any, model);
  const TensorDegrees degrees = degrees_of(profiles, tensor);
  const auto at = [&](std::int32_t degree, LayerKind kind) {
    return layer_cost(profiles.at(degree), kind, microbatch_size, degree);
  };
  const auto times_of = [&](LayerKind kind) {
    LayerCost cost = at(degrees.below, kind);
    if (!degrees.measured()) cost = on_line(cost, at(degrees.above, kind), degrees.share);
    return layer_times(cost, recompute);
  };
  return times_of_layers(model, times_of, recompute, any.instruction_overhead);
}

std::vector<std::string> interpolations(const TensorProfiles& profiles, const ModelSpec& model,
                                        std::int32_t microbatch_size, std::int32_t tensor) {
  std::vector<std::string> lines;
  const TensorDegrees degrees = degrees_of(profiles, tensor);
  const auto interpolated = [&](std::int32_t degree) -> std::optional<Around> {
    for (const LayerKind kind : layers_of(model)) {
      const Around rows = around(profiles.at(degree), kind, microbatch_size);
      if (!rows.measured()) return rows;
    }
    return std::nullopt;
  };
  auto rows = interpolated(degrees.below);
  if (!rows) rows = interpolated(degrees.above);
  if (rows) {
    lines.push_back(fmt::format(
        "microbatches of {} were not measured: costs are interpolated between {} and {}",
        microbatch_size, rows->below->microbatch_size, rows->above->microbatch_size));
  }
  if (!degrees.measured()) {
    lines.push_back(
        fmt::format("tensor degree {} was not measured: layer times are interpolated as a + b / T "
                    "between {} and {}",
                    tensor, degrees.below, degrees.above));
  }
  return lines;
}

}  // namespace tandem
