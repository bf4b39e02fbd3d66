#include "simulator/contention/repetition.h"

#include <algorithm>

#include "core/base/hash.h"

namespace tandem {

std::optional<Repetition::Cycle> Repetition::after(std::int64_t body,
                                                   std::span<const std::int64_t> times) {
  Body now{.first_start = times.empty() ? 0 : times.front(), .last_end = 0};
  for (std::size_t i = 0; i < times.size(); i += 2) {
    now.first_start = std::min(now.first_start, times[i]);
    now.last_end = std::max(now.last_end, times[i + 1]);
  }
  if (!seen_.empty()) now.last_end = std::max(now.last_end, seen_.back().last_end);
  now.shape[0] = hash_of_times(times, now.first_start);
  now.shape[1] = hash_of_times(times, now.first_start, 0xD1B54A32D192ED03u);
  seen_.push_back(now);
  // As the last one begins, the ones before it are what is under way.
  const std::size_t last = seen_.size() - 1, begin = overlapping();
  if (begin == 0) return std::nullopt;
  std::vector<std::uint64_t> window;
  for (std::size_t i = begin; i < last; ++i) {
    window.push_back(static_cast<std::uint64_t>(now.first_start - seen_[i].first_start));
    window.insert(window.end(), std::begin(seen_[i].shape), std::end(seen_[i].shape));
  }
  const auto [found, fresh] = first_.try_emplace(std::move(window), last);
  if (fresh) return std::nullopt;
  const std::size_t first = found->second;
  const auto apart = static_cast<std::int64_t>(last - first);
  return Cycle{
      .time = now.first_start - seen_[first].first_start, .bodies = apart, .from = body - apart};
}

/// The first body that is under way as the last one seen begins, or that overlaps one which is; 0:
/// not known, all may be.
std::size_t Repetition::overlapping() const {
  const auto first_under_way = [&](std::size_t body, std::int64_t time) {
    while (body > 0 && seen_[body - 1].last_end > time) --body;
    return body;
  };
  const std::size_t last = seen_.size() - 1;
  const std::size_t first = first_under_way(last, seen_[last].first_start);
  return first_under_way(first, seen_[first].first_start);
}

double Repetition::mean_period() const {
  if (seen_.size() < 2) return 0.0;
  const std::size_t half = (seen_.size() - 1) / 2, last = seen_.size() - 1;
  return static_cast<double>(seen_[last].first_start - seen_[half].first_start) /
         static_cast<double>(last - half);
}

}  // namespace tandem
