// 2BW's rule W(t+1) = W(t) − ν∇f(W(t−1)) in exact arithmetic: a chain of small linear maps on
// dyadic numbers, trained by the executor in double and, apart from it, in rationals. Every number
// fits the mantissa, so there is no tolerance.

#include <map>

#include <boost/multiprecision/cpp_int.hpp>
#include <gtest/gtest.h>

#include "tests/support/training.h"

namespace tandem {
namespace {

using Rational = boost::multiprecision::cpp_rational;
using Matrix = std::vector<Rational>;  // d × d, row-major
using testing::TrainingCase;

/// Undelayed numbers grow faster, and fit the mantissa for fewer updates.
TrainingCase linear_case(const std::string& schedule, std::int64_t batches) {
  TrainingCase test{.schedule = schedule,
                    .model = {.name = "linear",
                              .architecture = Architecture::linear,
                              .blocks = 2,
                              .width = 2,
                              .heads = 1,
                              .sequence = 1,
                              .vocabulary = 256,
                              .tied = false},
                    .devices = 2,
                    .microbatches = 4,
                    .batches = batches};
  test.optimizer = {.kind = OptimizerKind::sgd, .learning_rate = 0.0625};
  return test;
}

std::vector<Rational> row_times(const std::vector<Rational>& x, const Matrix& w, bool transposed) {
  const std::size_t d = x.size();
  std::vector<Rational> y(d);
  for (std::size_t i = 0; i < d; ++i) {
    for (std::size_t j = 0; j < d; ++j) {
      y[j] += x[i] * (transposed ? w[j * d + i] : w[i * d + j]);
    }
  }
  return y;
}

/// Gradient of the mean over the batch of ½·Σ(y − t)², at `weights`.
std::vector<Matrix> batch_gradient(const TrainingCase& test, const Data& data,
                                   const std::vector<Matrix>& weights, std::int64_t batch) {
  const auto d = static_cast<std::size_t>(test.model.width);
  std::vector<Matrix> gradient(weights.size(), Matrix(d * d));
  for (std::int64_t k = batch * test.microbatches; k < (batch + 1) * test.microbatches; ++k) {
    Sample<double> sample;
    data.fill(k, sample);
    std::vector<std::vector<Rational>> x{{sample.inputs.begin(), sample.inputs.end()}};
    for (const Matrix& w : weights) x.push_back(row_times(x.back(), w, false));
    std::vector<Rational> error = x.back();
    for (std::size_t i = 0; i < d; ++i)
      error[i] = (error[i] - Rational(sample.expected[i])) / test.microbatches;
    for (std::size_t layer = weights.size(); layer-- > 0;) {
      for (std::size_t i = 0; i < d * d; ++i) gradient[layer][i] += x[layer][i / d] * error[i % d];
      error = row_times(error, weights[layer], true);
    }
  }
  return gradient;
}

/// Weights after each update, by the rule with the given delay. Where the test corrects it, a step
/// counts twice, and the step before is given back; the first one is plain.
std::vector<std::vector<Matrix>> by_rationals(const TrainingCase& test, std::int64_t delay,
                                              DelayCorrection correction) {
  const Data data = testing::data_of(test);
  const Stage<cpu::Kernels<double>> whole(test.model, {0, test.model.blocks + 1}, 1, 1.0);
  std::vector<double> initial(static_cast<std::size_t>(whole.sizes().parameters));
  whole.initialise(initial, test.seed);
  std::vector<Matrix> first;
  for (const Tensor& tensor : whole.parameters()) {
    const auto from = initial.begin() + tensor.offset;
    first.emplace_back(from, from + tensor.size());
  }
  std::vector<std::vector<Matrix>> versions{first};
  std::vector<Matrix> last_step(first.size(), Matrix(first.front().size()));
  for (std::int64_t t = 0; t < test.batches; ++t) {
    const auto read = static_cast<std::size_t>(std::max<std::int64_t>(t - delay, 0));
    const std::vector<Matrix> gradient = batch_gradient(test, data, versions[read], t);
    std::vector<Matrix> next = versions.back();
    for (std::size_t layer = 0; layer < next.size(); ++layer) {
      for (std::size_t i = 0; i < next[layer].size(); ++i) {
        const Rational step = Rational(test.optimizer.learning_rate) * gradient[layer][i];
        const bool corrects = correction != DelayCorrection::none && t > 0;
        next[layer][i] -= corrects ? 2 * step - last_step[layer][i] : step;
        last_step[layer][i] = step;
      }
    }
    versions.push_back(std::move(next));
  }
  return versions;
}

/// Weights after each update, by the executor, as rationals: exactly the doubles it holds.
std::map<std::pair<std::int64_t, std::int64_t>, Matrix> by_executor(const TrainingCase& test) {
  const Program program = lower(test.make());
  const Data data = testing::data_of(test);
  TrainingSetup<double> setup = testing::setup_of<double>(test, program, data);
  std::map<std::pair<std::int64_t, std::int64_t>, Matrix> found;
  setup.on_update = [&](const UpdateView<double>& update) {
    const LayerRange layers = setup.layers[index(update.replica)];
    const std::span<const double> weights = update.weights;
    const auto square = static_cast<std::size_t>(test.model.width * test.model.width);
    for (std::size_t at = 0; at + square <= weights.size(); at += square) {
      const auto layer = layers.first + static_cast<std::int64_t>(at / square);
      found[{update.version, layer}] = {weights.begin() + static_cast<std::ptrdiff_t>(at),
                                        weights.begin() + static_cast<std::ptrdiff_t>(at + square)};
    }
  };
  train_on_cpu<double>(program, setup);
  return found;
}

void expect_rule(const TrainingCase& test, std::int64_t delay, DelayCorrection correction,
                 bool holds) {
  const auto expected = by_rationals(test, delay, correction);
  const auto found = by_executor(test);
  ASSERT_EQ(found.size(), static_cast<std::size_t>(test.batches * test.model.blocks));
  bool equal = true;
  for (const auto& [key, matrix] : found) {
    const Matrix& exact =
        expected[static_cast<std::size_t>(key.first)][static_cast<std::size_t>(key.second)];
    equal = equal && matrix == exact;
  }
  EXPECT_EQ(equal, holds) << test.schedule << " with delay " << delay << ", correction "
                          << name(correction);
}

void expect_rule(const std::string& schedule, std::int64_t batches, std::int64_t delay,
                 bool holds) {
  expect_rule(linear_case(schedule, batches), delay, DelayCorrection::none, holds);
}

TEST(ExactArithmetic, TwoBufferedWeightsFollowTheirRule) { expect_rule("2bw", 4, 1, true); }
TEST(ExactArithmetic, FlushFollowsPlainGradientDescent) {
  expect_rule("1f1b", 2, 0, true);
  expect_rule("gpipe", 2, 0, true);
}
TEST(ExactArithmetic, ErrorFeedbackTakesAStepTwiceAndGivesBackTheOneBefore) {
  TrainingCase test = linear_case("2bw", 4);
  test.optimizer.correction = DelayCorrection::error_feedback;
  expect_rule(test, 1, DelayCorrection::error_feedback, true);
  expect_rule(test, 1, DelayCorrection::none, false);
  expect_rule(test, 0, DelayCorrection::error_feedback, false);
}
TEST(ExactArithmetic, TellsTheRulesApart) {
  expect_rule("2bw", 4, 0, false);
  expect_rule("1f1b", 2, 1, false);
}

}  // namespace
}  // namespace tandem
