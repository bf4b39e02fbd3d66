#include "simulator/cost/fitted_slices.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "core/base/error.h"
#include "simulator/cost/transfer_time.h"

namespace tandem {

namespace {

constexpr std::size_t kTerms = 4;
using Terms = std::array<double, kTerms>;

Terms terms_of(SequencePart part) {
  const double l = part.tokens, k = part.before;
  return {1.0, l, k, l * (2.0 * k + l)};
}

struct Timed {
  SequencePart part;
  double time = 0.0;
};

double value(const Terms& factors, SequencePart part) {
  const Terms terms = terms_of(part);
  double sum = 0.0;
  for (std::size_t i = 0; i < kTerms; ++i) sum += factors[i] * terms[i];
  return sum;
}

/// The least squares of the terms in `mask`, whose rows are as long as one another by `scale`;
/// empty: they are not independent.
std::optional<Terms> solve(std::span<const Timed> points, unsigned mask, const Terms& scale) {
  constexpr double kSingular = 1e-10;  // of a pivot, where whole columns are about 1
  std::array<std::array<double, kTerms + 1>, kTerms> rows{};
  for (const Timed& point : points) {
    Terms terms = terms_of(point.part);
    for (std::size_t i = 0; i < kTerms; ++i)
      terms[i] = (mask >> i & 1) != 0 ? terms[i] / scale[i] / point.time : 0.0;
    for (std::size_t i = 0; i < kTerms; ++i) {
      for (std::size_t j = 0; j < kTerms; ++j) rows[i][j] += terms[i] * terms[j];
      rows[i][kTerms] += terms[i];
    }
  }
  Terms factors{};
  for (std::size_t i = 0; i < kTerms; ++i) {
    if ((mask >> i & 1) == 0) continue;
    if (rows[i][i] < kSingular) return std::nullopt;
    for (std::size_t other = 0; other < kTerms; ++other) {
      if (other == i) continue;
      const double share = rows[other][i] / rows[i][i];
      for (std::size_t j = 0; j <= kTerms; ++j) rows[other][j] -= share * rows[i][j];
    }
  }
  for (std::size_t i = 0; i < kTerms; ++i) {
    if ((mask >> i & 1) != 0) factors[i] = rows[i][kTerms] / rows[i][i] / scale[i];
  }
  return factors;
}

/// Of all choices of terms, the one whose least squares are least and take no term away: that is
/// the least with factors that are not negative.
Terms fit(std::span<const Timed> points) {
  Terms scale{}, best{};
  for (const Timed& point : points) {
    const Terms terms = terms_of(point.part);
    for (std::size_t i = 0; i < kTerms; ++i) scale[i] = std::max(scale[i], terms[i] / point.time);
  }
  double least = std::numeric_limits<double>::infinity();
  for (unsigned mask = 1; mask < 1u << kTerms; ++mask) {
    if (static_cast<std::size_t>(std::popcount(mask)) > points.size()) continue;
    const auto factors = solve(points, mask, scale);
    if (!factors || std::ranges::any_of(*factors, [](double of) { return of < 0.0; })) continue;
    double error = 0.0;
    for (const Timed& point : points) {
      const double missed = value(*factors, point.part) / point.time - 1.0;
      error += missed * missed;
    }
    if (error < least) std::tie(least, best) = std::pair(error, *factors);
  }
  return best;
}

const LayerCost* row_of(const std::vector<LayerCost>& rows, const LayerCost& like) {
  const auto row = std::ranges::find_if(rows, [&](const LayerCost& one) {
    return one.kind == like.kind && one.microbatch_size == like.microbatch_size;
  });
  return row == rows.end() ? nullptr : &*row;
}

/// What layers like this one took, each on its part of the sequence.
std::vector<std::pair<SequencePart, const LayerCost*>> measured_rows(const Profile& profile,
                                                                     const LayerCost& like) {
  std::vector<std::pair<SequencePart, const LayerCost*>> rows;
  if (const LayerCost* row = row_of(profile.layers, like))
    rows.emplace_back(SequencePart{profile.model.sequence, 0}, row);
  for (const SliceCosts& slice : profile.slices) {
    if (const LayerCost* row = row_of(slice.layers, like))
      rows.emplace_back(SequencePart{slice.tokens, slice.before}, row);
  }
  return rows;
}

/// The factors of one time of layers like this one; zeros where it takes none.
template <class Read>
Terms fit_of(const Profile& profile, const LayerCost& like, const Read& read) {
  std::vector<Timed> points;
  for (const auto& [at, row] : measured_rows(profile, like)) {
    const auto time = static_cast<double>(read(*row).count());
    if (time > 0.0) points.push_back({at, time});
  }
  return points.empty() ? Terms{} : fit(points);
}

Duration time_on(const Terms& factors, SequencePart part) {
  return Duration(std::llround(value(factors, part)));
}

constexpr std::array kTimes{&LayerCost::forward, &LayerCost::backward_input,
                            &LayerCost::backward_weight, &LayerCost::backward,
                            &LayerCost::selective_recompute};

LayerCost fitted(const Profile& profile, const LayerCost& like, SequencePart part) {
  LayerCost cost = like;
  for (const auto time : kTimes) {
    const auto read = [time](const LayerCost& row) { return row.*time; };
    cost.*time = time_on(fit_of(profile, like, read), part);
  }
  if (like.recompute) {
    const auto read = [](const LayerCost& row) { return row.recompute.value_or(row.forward); };
    cost.recompute = time_on(fit_of(profile, like, read), part);
  }
  return cost;
}

}  // namespace

static void check_has_slices(const Profile& profile) {
  if (!profile.slices.empty()) return;
  throw InputError("the profile has no times of slices: measure them with tandem profile --slices");
}

bool is_measured(const Profile& profile, SequencePart part) {
  return std::ranges::any_of(profile.slices, [part](const SliceCosts& slice) {
    return slice.tokens == part.tokens && slice.before == part.before;
  });
}

std::vector<LayerCost> layers_on_slice(const Profile& profile, SequencePart part) {
  for (const SliceCosts& slice : profile.slices) {
    if (slice.tokens == part.tokens && slice.before == part.before) return slice.layers;
  }
  check_has_slices(profile);
  std::vector<LayerCost> rows;
  for (const LayerCost& row : profile.slices.front().layers)
    rows.push_back(fitted(profile, row, part));
  return rows;
}

Profile on_slices(const Profile& profile, const std::vector<SequencePart>& parts) {
  Profile sums = profile;
  sums.layers.clear();
  for (const SequencePart part : parts) {
    const std::vector<LayerCost> rows = layers_on_slice(profile, part);
    if (sums.layers.empty()) {
      sums.layers = rows;
      continue;
    }
    for (LayerCost& sum : sums.layers) {
      const LayerCost* row = row_of(rows, sum);
      if (row == nullptr) continue;
      for (const auto time : kTimes) sum.*time += row->*time;
      if (sum.recompute) *sum.recompute += row->recompute.value_or(row->forward);
    }
  }
  return sums;
}

namespace {

constexpr std::array kBothWays{&LayerCost::forward, &LayerCost::backward};

/// Forward and backward of a model's layers of one microbatch size: what was measured, and the fit.
class ModelTimes {
 public:
  ModelTimes(const Profile& profile, std::int32_t microbatch_size)
      : profile_(profile), microbatch_size_(microbatch_size), layers_(layers_of(profile.model)) {
    for (const LayerCost& row : profile.slices.front().layers) {
      if (row.microbatch_size != microbatch_size) continue;
      for (const auto time : kBothWays) {
        const Terms factors =
            fit_of(profile, row, [time](const LayerCost& of) { return of.*time; });
        for (std::size_t i = 0; i < kTerms; ++i) fitted_[i] += count(row) * factors[i];
      }
    }
  }

  double on(SequencePart part) const {
    if (part == SequencePart{profile_.model.sequence, 0}) return sum_of(profile_.layers);
    for (const SliceCosts& slice : profile_.slices) {
      if (part == SequencePart{slice.tokens, slice.before}) return sum_of(slice.layers);
    }
    return value(fitted_, part);
  }

 private:
  double count(const LayerCost& row) const {
    return static_cast<double>(std::ranges::count(layers_, row.kind));
  }
  double sum_of(const std::vector<LayerCost>& rows) const {
    double sum = 0.0;
    for (const LayerCost& row : rows) {
      if (row.microbatch_size != microbatch_size_) continue;
      for (const auto time : kBothWays)
        sum += count(row) * static_cast<double>((row.*time).count());
    }
    return sum;
  }

  const Profile& profile_;
  std::int32_t microbatch_size_;
  std::vector<LayerKind> layers_;
  Terms fitted_{};
};

}  // namespace

SliceTime measured_slice_time(const Profile& profile, std::int32_t microbatch_size,
                              std::int64_t stages) {
  check_has_slices(profile);
  return [&profile, times = ModelTimes(profile, microbatch_size), microbatch_size,
          stages](SequencePart part) {
    const Duration compute(std::llround(times.on(part) / static_cast<double>(stages)));
    if (stages == 1) return compute;
    return compute +
           2 * transfer_time(profile, boundary_bytes(profile.model, part, microbatch_size));
  };
}

Slicing slicing_by_time(const Profile& profile, std::int32_t microbatch_size, std::int64_t stages,
                        std::int64_t microbatches) {
  return fastest_slices_of(profile.model, 1, stages, microbatches,
                           measured_slice_time(profile, microbatch_size, stages))
      .slicing();
}

}  // namespace tandem
