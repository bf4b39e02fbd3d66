#pragma once
// What several generators need to say.

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/schedule.h"

namespace tandem {

/// A schedule with no ops yet: name, m, width and the tied first and last part set from the
/// request.
inline Schedule empty_schedule(std::string_view name, const ScheduleRequest& request,
                               Placement placement) {
  Schedule schedule;
  schedule.name = name;
  schedule.microbatches = request.microbatches;
  schedule.width = request.width;
  schedule.placement = std::move(placement);
  if (request.tied_embeddings && schedule.placement.parts() > 1) {
    schedule.placement.tied = {{PartId{0}, id_at<PartId>(schedule.placement.parts() - 1)}};
  }
  schedule.order.resize(schedule.placement.devices);
  return schedule;
}

inline Op forward(StageId stage, std::int32_t microbatch, std::uint16_t staleness = 0) {
  return {
      .kind = OpKind::forward, .stage = stage, .microbatch = microbatch, .staleness = staleness};
}

inline Op backward(StageId stage, std::int32_t microbatch, std::uint16_t staleness = 0) {
  return {
      .kind = OpKind::backward, .stage = stage, .microbatch = microbatch, .staleness = staleness};
}

/// The two halves of a backward (zero bubble's B and W): the gradient of the stage's input, which
/// the stage before waits for, and that of its weights, which only the update does.
inline Op backward_input(StageId stage, std::int32_t microbatch) {
  return {.kind = OpKind::backward_input, .stage = stage, .microbatch = microbatch};
}

inline Op backward_weight(StageId stage, std::int32_t microbatch) {
  return {.kind = OpKind::backward_weight, .stage = stage, .microbatch = microbatch};
}

/// One update for the `span` microbatches that end with `last`.
inline Op update(StageId stage, std::int32_t last, std::int32_t span) {
  return {.kind = OpKind::update,
          .stage = stage,
          .microbatch = last,
          .span = static_cast<std::uint16_t>(span)};
}

}  // namespace tandem
