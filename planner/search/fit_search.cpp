#include "planner/search/fit_search.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <ranges>
#include <utility>

#include "core/base/error.h"
#include "core/base/progress.h"

namespace tandem {

namespace {

constexpr std::size_t kMostChanges = 3, kMostListed = 6, kEnough = 4;
/// Of all plans tried: their stages × microbatches, and what else a plan takes in such.
constexpr std::int64_t kMostTriedCells = 1 << 20, kCellsOfAPlan = 2048;

/// To find an order, where it is not just written down.
std::int64_t effort_of(const Plan& plan) {
  const ScheduleTraits& traits = find_schedule(plan.schedule);
  return traits.effort == nullptr ? 0 : traits.effort(plan.request);
}

/// Where ops are ordered by costs, all devices are priced.
std::int64_t cells_of(const FitDraft& draft) {
  const Plan& plan = draft.request.plan;
  const auto priced = static_cast<std::int64_t>(draft.devices);
  return kCellsOfAPlan + static_cast<std::int64_t>(stage_count(plan)) * plan.request.units() +
         (find_schedule(plan.schedule).orders_by_costs ? priced : 0);
}

/// Of each kind how far it is changed: 0 not at all.
using Strengths = std::array<std::size_t, kFitChanges>;

std::size_t count(const Strengths& strengths) {
  return kFitChanges - static_cast<std::size_t>(std::ranges::count(strengths, 0U));
}

class FitSearch {
 public:
  explicit FitSearch(FitProblem problem) : problem_(std::move(problem)) {
    if (const auto known = made({})) peak_ = known->fit.peak_bytes;
  }

  std::vector<NearFit> run() {
    keep_what_saves();
    for (std::size_t changes = 1; changes <= kMostChanges && found_.size() < kEnough; ++changes)
      vary({}, 0, changes);
    std::ranges::stable_sort(found_, {}, [](const Found& one) {
      const auto& of = one.strengths;
      return std::pair(count(of), std::accumulate(of.begin(), of.end(), std::size_t{0}));
    });
    std::vector<NearFit> nearest;
    for (Found& one : found_ | std::views::take(kMostListed)) nearest.push_back(std::move(one.fit));
    return nearest;
  }

 private:
  struct Found {
    Strengths strengths{};
    NearFit fit;
    bool fits = false;
  };

  /// False: that is more than is left. One that is dear leaves others their turn.
  bool spend(std::int64_t cells) {
    if (cells_ + cells > kMostTriedCells) return false;
    cells_ += cells;
    return true;
  }

  /// What the changes make; empty where they make nothing that runs.
  std::optional<Found> made(const Strengths& strengths) {
    progress_.step();
    FitDraft draft = problem_.from;
    // The last kinds first: more nodes make deeper pipelines, unless a depth is chosen.
    for (std::size_t kind = kFitChanges; kind-- > 0;) {
      if (strengths[kind] > 0) problem_.steps[kind][strengths[kind] - 1](draft);
    }
    try {
      const bool free = count(strengths) == 0;  // it is to be known, whatever that takes
      if (!free && !spend(effort_of(draft.request.plan))) return std::nullopt;
      if (!problem_.shape(draft)) return std::nullopt;
      if (!free && !spend(cells_of(draft))) return std::nullopt;
      const Fullest fullest = problem_.judge(draft.request);
      Found found{strengths,
                  {.request = std::move(draft.request),
                   .changes = {},
                   .fullest = fullest.device,
                   .peak_bytes = fullest.bytes},
                  fullest.fits};
      for (std::size_t kind = 0; kind < kFitChanges; ++kind) {
        if (strengths[kind] > 0) found.fit.changes.push_back(static_cast<FitChange>(kind));
      }
      return found;
    } catch (const InputError&) {
      return std::nullopt;
    }
  }

  /// Leaves those steps that make less of the fullest device than the one before.
  void keep_what_saves() {
    for (std::size_t kind = 0; kind < kFitChanges; ++kind) {
      Bytes least = peak_;
      std::vector<FitStep> saving;
      for (std::size_t i = 1; i <= problem_.steps[kind].size(); ++i) {
        Strengths one{};
        one[kind] = i;
        const std::optional<Found> found = made(one);
        if (!found || found->fit.peak_bytes >= least) continue;
        least = found->fit.peak_bytes;
        saving.push_back(problem_.steps[kind][i - 1]);
      }
      problem_.steps[kind] = std::move(saving);
    }
  }

  /// All ways of `changes` more changes, of kinds from `first` on.
  void vary(const Strengths& strengths, std::size_t first, std::size_t changes) {
    if (changes == 0) return consider(strengths);
    for (std::size_t kind = first; kind < kFitChanges; ++kind) {
      Strengths next = strengths;
      for (next[kind] = 1; next[kind] <= problem_.steps[kind].size(); ++next[kind])
        vary(next, kind + 1, changes - 1);
    }
  }

  void consider(const Strengths& strengths) {
    if (cells_ + kCellsOfAPlan > kMostTriedCells) return;
    const bool more_than_enough = std::ranges::any_of(found_, [&](const Found& one) {
      return std::ranges::equal(one.strengths, strengths, std::less_equal{});
    });
    if (more_than_enough) return;
    std::optional<Found> found = made(strengths);
    if (found && found->fits) found_.push_back(std::move(*found));
  }

  FitProblem problem_;
  const Activity progress_{"looking for what fits"};
  Bytes peak_ = 0;
  std::int64_t cells_ = 0;
  std::vector<Found> found_;
};

}  // namespace

std::vector<NearFit> search_fits(FitProblem problem) { return FitSearch(std::move(problem)).run(); }

}  // namespace tandem
