#include "planner/study/layer_gains.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <utility>

#include <fmt/format.h>

namespace tandem {

namespace {

constexpr std::size_t kMostNamed = 8;

LayerGain gain_of(const LayerShares& shares, const CriticalPaths* period,
                  const CriticalPaths& makespan, std::vector<std::size_t> layers) {
  LayerGain gain{.layers = std::move(layers), .period = {}, .makespan = {}};
  if (period != nullptr) gain.period = period->spent_on(shares, gain.layers);
  gain.makespan = makespan.spent_on(shares, gain.layers);
  return gain;
}

std::vector<LayerGain> of_each(const LayerShares& shares, const CriticalPaths* period,
                               const CriticalPaths& makespan) {
  std::vector<LayerGain> each;
  for (const CriticalShare& share : makespan.spent_on_layers(shares))
    each.push_back({.layers = {each.size()}, .period = {}, .makespan = share});
  if (period == nullptr) return each;
  const std::vector<CriticalShare> shares_of_period = period->spent_on_layers(shares);
  for (std::size_t layer = 0; layer < each.size(); ++layer)
    each[layer].period = shares_of_period[layer];
  return each;
}

/// By the endless run, where that is known; of equals by this run.
std::array<double, 4> rank(const LayerGain& gain) {
  const CriticalShare first = gain.period.value_or(CriticalShare{});
  return {first.least.seconds_a_batch(), first.most.seconds_a_batch(),
          gain.makespan.least.seconds_a_batch(), gain.makespan.most.seconds_a_batch()};
}

}  // namespace

LayerGains layer_gains(const LayerShares& shares, const CriticalPaths* period,
                       const CriticalPaths& makespan) {
  LayerGains gains{.kinds = shares.kinds,
                   .stages = stages_of_layers(shares),
                   .each = of_each(shares, period, makespan),
                   .alike = {},
                   .most = {},
                   .rest = {}};
  std::map<LayerKind, std::vector<std::size_t>> by_kind;
  for (std::size_t layer = 0; layer < gains.kinds.size(); ++layer)
    by_kind[gains.kinds[layer]].push_back(layer);
  for (auto& [kind, layers] : by_kind)
    gains.alike.push_back(gain_of(shares, period, makespan, std::move(layers)));
  std::vector<std::size_t> order(gains.each.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [&](std::size_t layer) { return rank(gains.each[layer]); });
  const std::size_t named = std::min(order.size(), kMostNamed);
  for (std::size_t i = 0; i < named; ++i) gains.most.push_back(gains.each[order[i]]);
  order.erase(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(named));
  if (!order.empty()) gains.rest = gain_of(shares, period, makespan, std::move(order));
  return gains;
}

std::string name(const LayerGains& gains, const LayerGain& gain) {
  const std::string_view kind = tandem::name(gains.kinds[gain.layers.front()]);
  if (gain.layers.size() == 1) return fmt::format("layer {}, {}", gain.layers.front(), kind);
  return fmt::format("{} {} layers", gain.layers.size(), kind);
}

}  // namespace tandem
