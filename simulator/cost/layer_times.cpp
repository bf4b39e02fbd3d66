#include "simulator/cost/layer_times.h"

namespace tandem {

LayerTimes::LayerTimes(const std::vector<StageTimes>& layers, Duration overhead)
    : overhead_(overhead) {
  sums_.emplace_back();
  for (const StageTimes& times : layers) {
    StageTimes sum = sums_.back();
    for (const auto time : kOpTimes) sum.*time += times.*time;
    sums_.push_back(sum);
  }
}

StageTimes LayerTimes::sum(LayerRange range) const {
  const StageTimes& before = sums_[static_cast<std::size_t>(range.first)];
  StageTimes times = sums_[static_cast<std::size_t>(range.last)];
  for (const auto time : kOpTimes) times.*time -= before.*time;
  return times;
}

StageTimes LayerTimes::of(LayerRange range) const {
  StageTimes times = sum(range);
  for (const auto time : kOpTimes) times.*time += overhead_;
  return times;
}

}  // namespace tandem
