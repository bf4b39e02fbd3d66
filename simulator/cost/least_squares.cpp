#include "simulator/cost/least_squares.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <utility>

#include "core/base/check.h"

namespace tandem {

namespace {

using Vector = std::vector<double>;

double sum_of_squares(const Vector& values) {
  double sum = 0.0;
  for (const double value : values) sum += value * value;
  return sum;
}

/// Normal equations at a point: J'J and -J'r.
struct Equations {
  std::vector<Vector> matrix;
  Vector right;
};

Equations equations_at(const Residuals& residuals, const Vector& point, const Vector& value) {
  constexpr double kStep = 1e-4;
  const std::size_t unknowns = point.size();
  std::vector<Vector> slopes;
  for (std::size_t i = 0; i < unknowns; ++i) {
    const double step = kStep * std::max(1.0, std::abs(point[i]));
    Vector moved = point;
    moved[i] += step;
    slopes.push_back(residuals(moved));
    TANDEM_CHECK(slopes.back().size() == value.size(), slopes.back().size(), value.size());
    for (std::size_t row = 0; row < value.size(); ++row)
      slopes[i][row] = (slopes[i][row] - value[row]) / step;
  }
  Equations equations{std::vector<Vector>(unknowns, Vector(unknowns, 0.0)), Vector(unknowns, 0.0)};
  for (std::size_t i = 0; i < unknowns; ++i) {
    for (std::size_t row = 0; row < value.size(); ++row)
      equations.right[i] -= slopes[i][row] * value[row];
    for (std::size_t k = 0; k <= i; ++k) {
      double sum = 0.0;
      for (std::size_t row = 0; row < value.size(); ++row) sum += slopes[i][row] * slopes[k][row];
      equations.matrix[i][k] = equations.matrix[k][i] = sum;
    }
  }
  return equations;
}

/// By Cholesky's factors; empty where the matrix is not positive definite.
std::optional<Vector> solve(const Equations& equations, double damping) {
  const std::size_t size = equations.right.size();
  std::vector<Vector> factor(size, Vector(size, 0.0));
  Vector answer = equations.right;
  for (std::size_t i = 0; i < size; ++i) {
    for (std::size_t k = 0; k <= i; ++k) {
      double sum = equations.matrix[i][k] * (i == k ? 1.0 + damping : 1.0);
      for (std::size_t j = 0; j < k; ++j) sum -= factor[i][j] * factor[k][j];
      if (i == k && !(sum > 0.0)) return std::nullopt;
      factor[i][k] = i == k ? std::sqrt(sum) : sum / factor[k][k];
    }
    for (std::size_t j = 0; j < i; ++j) answer[i] -= factor[i][j] * answer[j];
    answer[i] /= factor[i][i];
  }
  for (std::size_t i = size; i-- > 0;) {
    for (std::size_t j = i + 1; j < size; ++j) answer[i] -= factor[j][i] * answer[j];
    answer[i] /= factor[i][i];
  }
  return answer;
}

}  // namespace

std::vector<double> least_squares(const Residuals& residuals, std::vector<double> start,
                                  int most_steps) {
  constexpr double kLeastGain = 1e-5, kMostDamping = 1e8;
  double damping = 1e-2;
  Vector point = std::move(start);
  Vector value = residuals(point);
  double sum = sum_of_squares(value);
  for (int i = 0; i < most_steps && sum > 0.0; ++i) {
    const Equations equations = equations_at(residuals, point, value);
    const double before = sum;
    for (; damping < kMostDamping && sum == before; damping *= 4.0) {
      const auto step = solve(equations, damping);
      if (!step) continue;
      Vector next = point;
      for (std::size_t k = 0; k < next.size(); ++k) next[k] += (*step)[k];
      Vector next_value = residuals(next);
      const double next_sum = sum_of_squares(next_value);
      if (!(next_sum < sum)) continue;
      point = std::move(next);
      value = std::move(next_value);
      sum = next_sum;
    }
    // The loop above has made it four times what served.
    damping = std::max(damping / 40.0, 1e-9);
    if (before - sum < kLeastGain * before) break;
  }
  return point;
}

}  // namespace tandem
