#include "tools/sweep/sweep_nearest.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/error.h"
#include "tools/cli/json_output.h"
#include "tools/print/near_fits.h"

namespace tandem::tools {

namespace {

constexpr std::size_t kMostMisses = 3, kMostFits = 3;

std::vector<std::string> nearest(const ScenarioRequest& request) {
  if (request.cluster() == nullptr) return {};
  std::vector<std::string> lines = near_fits(set_up_on_cluster(*request.cluster()));
  lines.resize(std::min(lines.size(), kMostFits));
  return lines;
}

}  // namespace

std::string nearest_misses(const SweepIdentity& sweep, const std::vector<SweepRow>& rows,
                           const std::function<ScenarioRequest(std::size_t)>& request) {
  const std::size_t memory = sweep_metric("memory");
  std::vector<const SweepRow*> misses;
  for (const SweepRow& row : rows) {
    if (row.works()) return {};
    if (row.simulated()) misses.push_back(&row);
  }
  if (misses.empty()) return {};
  std::ranges::stable_sort(misses, {}, [&](const SweepRow* row) { return row->metrics[memory]; });
  std::string text =
      "\nnothing fits; these are nearest by memory, each with options that fit instead:\n";
  for (std::size_t i = 0; i < std::min(misses.size(), kMostMisses); ++i) {
    const SweepRow& row = *misses[i];
    const std::string place = place_of(sweep, row);
    text +=
        fmt::format("{}: {} on the fullest device\n", place.empty() ? "the configuration" : place,
                    sweep_column(memory).print(row.metrics[memory]));
    const std::vector<std::string> fits = nearest(request(row.index));
    for (const std::string& line : fits) text += "  " + line + "\n";
    if (fits.empty()) text += "  nothing similar fits\n";
  }
  return text;
}

}  // namespace tandem::tools
