#include "tools/options/forward_options.h"

#include <algorithm>
#include <numeric>
#include <thread>

#include "executor/checkpoint/named_parts.h"
#include "planner/search/partition.h"

namespace tandem::tools {

void add_depth_option(Options& options) {
  options.value("depth", "P",
                "devices in a row, a thread each, that the model is cut onto (default: the "
                "machine's processors); results do not depend on it");
}

std::vector<LayerRange> stages_of(const Options& options, const ModelSpec& model) {
  // A token is multiplied with each weight once, but for the embedding, where one row is read.
  std::vector<std::int64_t> weights(layers_of(model).size());
  for (const LayerTensor& each : tensors_of(model)) {
    if (each.layer > 0) weights[static_cast<std::size_t>(each.layer)] += each.tensor.size();
  }
  const auto layers = static_cast<std::int32_t>(weights.size());
  const auto processors = static_cast<std::int32_t>(std::thread::hardware_concurrency());
  const auto depth = static_cast<std::int32_t>(
      options.integer("depth", 1, layers, std::clamp(processors, 1, layers)));
  return partition({.layers = layers,
                    .depth = depth,
                    .cost =
                        [&weights](LayerRange range, std::size_t) {
                          return std::accumulate(weights.begin() + range.first,
                                                 weights.begin() + range.last, std::int64_t{0});
                        }})
      .value();
}

}  // namespace tandem::tools
