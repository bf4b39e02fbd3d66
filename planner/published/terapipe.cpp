#include "planner/published/terapipe.h"

#include <algorithm>
#include <utility>

namespace tandem {

namespace {

TeraPipeLayout by_step(const TeraPipeQuestion& question, TeraPipePlan plan) {
  TeraPipeLayout plans;
  const std::int64_t samples = question.global_batch / plan.width;
  for (const std::int32_t size : question.microbatch_sizes) {
    if (samples % size != 0) continue;
    plan.microbatch_size = size;
    plan.microbatches = samples / size;
    plan.slices = question.slices(plan);
    plans.push_back(plan);
  }
  std::ranges::stable_sort(plans, {}, [](const TeraPipePlan& of) { return of.slices.value; });
  return plans;
}

}  // namespace

std::vector<TeraPipeLayout> plan_terapipe(const TeraPipeQuestion& question) {
  std::vector<TeraPipeLayout> layouts;
  for (const std::int32_t tensor : question.tensors) {
    for (std::int32_t depth = 2; depth <= question.devices / tensor; ++depth) {
      if (question.blocks % depth != 0) continue;
      std::int32_t width = question.devices / tensor / depth;
      while (question.global_batch % width != 0) --width;
      TeraPipeLayout plans = by_step(question, {.tensor = tensor, .depth = depth, .width = width});
      if (!plans.empty()) layouts.push_back(std::move(plans));
    }
  }
  return layouts;
}

}  // namespace tandem
