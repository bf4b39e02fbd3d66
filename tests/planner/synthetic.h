#pragma once
// A model and a profile made up for tests: no timing, every figure chosen.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/model/model.h"
#include "planner/search/candidates.h"

namespace tandem::testing {

inline ModelSpec small_model(std::int32_t blocks = 2) {
  return {.name = "small",
          .architecture = Architecture::gpt2,
          .blocks = blocks,
          .width = 16,
          .heads = 2,
          .sequence = 8,
          .vocabulary = 32,
          .tied = true};
}

/// Times in microseconds for one sample; a microbatch of b takes b times as long plus a fixed 20 %.
struct LayerSpeed {
  LayerKind kind;
  std::int64_t forward = 0, backward = 0;
};

inline Profile profile_of(const ModelSpec& model, const std::vector<std::int32_t>& sizes,
                          const std::vector<LayerSpeed>& speeds,
                          Duration transfer = std::chrono::microseconds(50)) {
  Profile profile;
  profile.machine = "made up";
  profile.model = model;
  profile.instruction_overhead = std::chrono::microseconds(1);
  for (const std::int32_t size : sizes) {
    for (const LayerSpeed& speed : speeds) {
      const auto time = [size](std::int64_t microseconds) {
        return Duration(microseconds * (1000 * size + 200));
      };
      profile.layers.push_back({.kind = speed.kind,
                                .microbatch_size = size,
                                .forward = time(speed.forward),
                                .backward_input = time(speed.backward) / 2,
                                .backward_weight = time(speed.backward) / 2,
                                .backward = time(speed.backward),
                                .update = std::chrono::microseconds(30)});
    }
  }
  profile.transfers = {{.bytes = 1, .time = transfer},
                       {.bytes = 1 << 20, .time = transfer + std::chrono::microseconds(200)}};
  return profile;
}

inline std::vector<LayerSpeed> even_speeds() {
  return {{LayerKind::embedding, 40, 60},
          {LayerKind::attention, 200, 400},
          {LayerKind::mlp, 300, 600},
          {LayerKind::head, 250, 500}};
}

inline PlanRequest small_request(std::uint16_t devices, std::int32_t global_batch,
                                 std::int32_t blocks = 2) {
  PlanRequest request;
  request.model = small_model(blocks);
  request.profile = profile_of(request.model, {1, 2}, even_speeds());
  request.devices = devices;
  request.global_batch = global_batch;
  return request;
}

/// Calls `visit` with each cut of `layers` into `depth` stages, shorter first stages first.
template <class Visit>
void each_cut(std::int32_t layers, std::int32_t depth, Visit visit,
              std::vector<LayerRange> head = {}) {
  const std::int32_t first = head.empty() ? 0 : head.back().last;
  if (depth == 1) {
    head.push_back({first, layers});
    visit(head);
    return;
  }
  for (std::int32_t end = first + 1; end + depth - 1 <= layers; ++end) {
    head.push_back({first, end});
    each_cut(layers, depth - 1, visit, head);
    head.pop_back();
  }
}

}  // namespace tandem::testing
