#include "executor/checkpoint/semantics_digest.h"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/hash.h"

namespace tandem {
namespace {

/// A row of microbatches in which all are alike is one number; zeros are none.
std::string row_text(const std::vector<std::int32_t>& row) {
  const bool even =
      std::ranges::all_of(row, [&](std::int32_t each) { return each == row.front(); });
  if (!even) return fmt::format("{}", fmt::join(row, ","));
  return row.empty() || row.front() == 0 ? std::string() : fmt::format("{}", row.front());
}

std::string reading_text(const Reading& reading) {
  return fmt::format("{} {} {} {} {}", reading.forward_horizon, reading.backward_horizon,
                     reading.delay, reading.kept, reading.shares_prediction);
}

/// A line for each layer, so that the cut into stages says nothing.
template <class Describe>
std::uint64_t digest_of_layers(const ModelSpec& model, const ReferenceConfig& config,
                               std::string text, const Describe& describe) {
  for (const ReferenceStage& stage : stages_of(model, config)) {
    for (std::int32_t layer = stage.layers.first; layer < stage.layers.last; ++layer)
      text += fmt::format("{}\n", describe(stage));
  }
  return hash_of_text(text);
}

}  // namespace

std::uint64_t semantics_digest(const ModelSpec& model, const ReferenceConfig& config) {
  const auto clip_ranges =
      config.guard.clip == ClipScope::per_stage ? config.clip_ranges.size() : std::size_t{0};
  return digest_of_layers(
      model, config, fmt::format("clips {}\n", clip_ranges), [&](const ReferenceStage& stage) {
        // An older version is read where both rows say how old; a backward's row that is the
        // forward's adds nothing.
        const auto& backward = stage.backward_staleness;
        return fmt::format(
            "{}|{}|{}|{}",
            stage.microbatches / config.slice_count() * config.width * config.microbatch_size,
            row_text(stage.staleness),
            backward.empty() || backward == stage.staleness ? std::string() : row_text(backward),
            reading_text(stage.reading));
      });
}

std::uint64_t summation_digest(const ModelSpec& model, const ReferenceConfig& config) {
  return digest_of_layers(
      model, config,
      fmt::format("{} {} {} {}\n", config.width, config.microbatches, config.microbatch_size,
                  fmt::join(config.slices, ",")),
      [](const ReferenceStage& stage) {
        const bool ascends = std::ranges::is_sorted(stage.order);
        return fmt::format(
            "{}|{}|{}", stage.replicas,
            stage.replicas > 1 ? fmt::format("{}", fmt::join(stage.replica, ",")) : std::string(),
            ascends ? std::string() : fmt::format("{}", fmt::join(stage.order, ",")));
      });
}

}  // namespace tandem
