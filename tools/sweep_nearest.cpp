#include "tools/sweep_nearest.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/error.h"
#include "core/utf8.h"
#include "tools/json_output.h"
#include "tools/near_fits.h"

namespace tandem::tools {

namespace {

constexpr std::size_t kMostRows = 3, kMostFits = 3;

std::string place_of(const SweepIdentity& sweep, const SweepRow& row) {
  std::string place;
  for (std::size_t i = 0; i < sweep.axes.size(); ++i) {
    if (!row.values[i].empty())
      place += fmt::format("{}{} {}", place.empty() ? "" : ", ", sweep.axes[i], row.values[i]);
  }
  return printable_line(place.empty() ? "the configuration" : place);
}

}  // namespace

std::string nearest_misses(const SweepSpace& space, const std::vector<SweepRow>& rows) {
  const std::size_t memory = sweep_metric("memory");
  std::vector<const SweepRow*> misses;
  for (const SweepRow& row : rows) {
    if (row.works()) return {};
    if (row.simulated()) misses.push_back(&row);
  }
  if (misses.empty()) return {};
  std::ranges::stable_sort(misses, {}, [&](const SweepRow* row) { return row->metrics[memory]; });
  std::string text = "\nnothing fits; nearest by memory, and with which options instead it fits:\n";
  for (std::size_t i = 0; i < std::min(misses.size(), kMostRows); ++i) {
    const SweepRow& row = *misses[i];
    text += fmt::format("{}: {} on the fullest device\n", place_of(space.identity(), row),
                        sweep_metrics()[memory].print(row.metrics[memory]));
    const std::vector<std::string> fits = near_fits(space.options(row.index), kMostFits);
    for (const std::string& line : fits) text += "  " + line + "\n";
    if (fits.empty()) text += "  nothing near to it fits\n";
  }
  return text;
}

}  // namespace tandem::tools
