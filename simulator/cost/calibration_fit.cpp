#include "simulator/cost/calibration_fit.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/check.h"
#include "core/base/random.h"
#include "core/base/units.h"
#include "simulator/cost/least_squares.h"

namespace tandem {

namespace {

constexpr std::size_t kConstants = kCalibrationConstants.size();
constexpr double kGuessWeight = 0.02;  // of an e-fold
constexpr double kBend = 0.02;         // errors far above count by themselves, not their squares

/// What a framework on a device of today may take, before anything is known.
constexpr Calibration kGuess{.product_fraction = 0.6,
                             .product_s = 10e-6,
                             .memory_fraction = 0.7,
                             .link_fraction = 0.73,
                             .network_fraction = 0.6,
                             .protocol_s = 60e-6,
                             .low_latency_bytes_per_s = 2e9,
                             .sum_s = 20e-6,
                             .transfer_s = 100e-6,
                             .launch_s = 50e-6,
                             .unfused_launches = 8.0,
                             .loss_passes = 3.0,
                             .batch_s = 2e-3};

/// Huber's loss, smooth, as what is squared.
double bent(double error) {
  const double ratio = error / kBend;
  return std::copysign(kBend * std::sqrt(2.0 * (std::sqrt(1.0 + ratio * ratio) - 1.0)), error);
}

Calibration constants_at(std::span<const double> logarithms) {
  Calibration constants;
  for (std::size_t i = 0; i < kConstants; ++i) {
    const CalibrationConstant& one = kCalibrationConstants[i];
    constants.*one.member = std::clamp(std::exp(logarithms[i]), one.least, one.most);
  }
  return constants;
}

std::vector<double> guess() {
  std::vector<double> logarithms;
  for (const CalibrationConstant& one : kCalibrationConstants)
    logarithms.push_back(std::log(kGuess.*one.member));
  return logarithms;
}

/// What the naive fit adds up.
NaiveFit terms_of(const MeasuredIteration& one) {
  const ModelSpec& model = one.model;
  const double tensor = one.tensor, depth = one.depth, hidden = model.width;
  const double turns = one.microbatches + one.depth - 1;
  const double blocks = turns * model.blocks / depth;
  const double tokens = static_cast<double>(one.microbatch_size) * model.sequence;
  const double flops = tokens * (24.0 * hidden * hidden + 4.0 * model.sequence * hidden) / tensor;
  const double parameters = 12.0 * hidden * hidden * model.blocks / (tensor * depth);
  return {1.0,
          turns * tokens * hidden * model.vocabulary / tensor,
          blocks,
          blocks * flops,
          blocks * tokens * hidden,
          one.tensor > 1 ? blocks * tokens * hidden : 0.0,
          parameters,
          one.width > 1 ? parameters : 0.0};
}

double naive_seconds(const NaiveFit& fit, const NaiveFit& terms) {
  double sum = 0.0;
  for (std::size_t i = 0; i < kNaiveCoefficients; ++i) sum += fit[i] * terms[i];
  return sum;
}

}  // namespace

Seconds seconds_of(const std::vector<MeasuredIteration>& measured) {
  Seconds seconds;
  for (const MeasuredIteration& one : measured) seconds.push_back(to_seconds(one.time));
  return seconds;
}

Rows shuffled_rows(std::size_t count, std::uint64_t seed) {
  Rows rows(count);
  for (std::size_t i = 0; i < count; ++i) rows[i] = i;
  std::uint64_t state = seed;
  for (std::size_t left = count; left > 1; --left)
    std::swap(rows[left - 1], rows[split_mix(state += kSplitMixGamma) % left]);
  return rows;
}

Calibration fit_calibration(const IterationModel& model, const Seconds& measured,
                            const Rows& rows) {
  TANDEM_CHECK(rows.size() >= kLeastRows, rows.size());
  const std::vector<double> start = guess();
  const auto residuals = [&](std::span<const double> point) {
    const Calibration constants = constants_at(point);
    std::vector<double> values;
    values.reserve(rows.size() + kConstants);
    for (const std::size_t row : rows)
      values.push_back(bent(std::log(model.seconds(row, constants) / measured[row])));
    for (std::size_t i = 0; i < kConstants; ++i)
      values.push_back(kGuessWeight * (point[i] - start[i]));
    return values;
  };
  constexpr int kSteps = 30;
  return constants_at(least_squares(residuals, start, kSteps));
}

std::vector<double> relative_errors(const IterationModel& model, const Calibration& calibration,
                                    const Seconds& measured, const Rows& rows) {
  std::vector<double> errors;
  for (const std::size_t row : rows)
    errors.push_back(model.seconds(row, calibration) / measured[row] - 1.0);
  return errors;
}

double mean_absolute(std::span<const double> errors) {
  TANDEM_CHECK(!errors.empty());
  double sum = 0.0;
  for (const double error : errors) sum += std::abs(error);
  return sum / static_cast<double>(errors.size());
}

NaiveFit fit_naive(const std::vector<MeasuredIteration>& all, const Seconds& measured,
                   const Rows& rows) {
  TANDEM_CHECK(rows.size() >= kNaiveCoefficients, rows.size());
  // Each term by its largest value: coefficients of a kind.
  NaiveFit largest{};
  for (const std::size_t row : rows) {
    const NaiveFit terms = terms_of(all[row]);
    for (std::size_t i = 0; i < kNaiveCoefficients; ++i)
      largest[i] = std::max(largest[i], terms[i]);
  }
  const auto scaled = [&](std::span<const double> point) {
    NaiveFit fit{};
    for (std::size_t i = 0; i < kNaiveCoefficients; ++i)
      fit[i] = largest[i] > 0.0 ? point[i] / largest[i] : 0.0;
    return fit;
  };
  constexpr double kNothing = 1e-9;  // holds a coefficient that no row asks for
  const auto residuals = [&](std::span<const double> point) {
    std::vector<double> values = relative_errors(scaled(point), all, measured, rows);
    for (const double coefficient : point) values.push_back(kNothing * coefficient);
    return values;
  };
  constexpr int kSteps = 50;
  return scaled(least_squares(residuals, std::vector<double>(kNaiveCoefficients), kSteps));
}

std::vector<double> relative_errors(const NaiveFit& fit, const std::vector<MeasuredIteration>& all,
                                    const Seconds& measured, const Rows& rows) {
  std::vector<double> errors;
  for (const std::size_t row : rows)
    errors.push_back(naive_seconds(fit, terms_of(all[row])) / measured[row] - 1.0);
  return errors;
}

}  // namespace tandem
