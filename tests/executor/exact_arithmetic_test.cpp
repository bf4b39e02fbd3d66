// The rules of weights in exact arithmetic: a chain of small linear maps on dyadic numbers, trained
// by the executor in double and, apart from it, in rationals. Every number fits the mantissa, so
// there is no tolerance.

#include <cmath>
#include <functional>
#include <map>
#include <utility>

#include <boost/multiprecision/cpp_int.hpp>
#include <gtest/gtest.h>

#include "tests/support/kept_states.h"
#include "tests/support/training.h"

namespace tandem {
namespace {

using Rational = boost::multiprecision::cpp_rational;
using Row = std::vector<Rational>;
using Matrix = std::vector<Rational>;  // d × d, row-major
using Weights = std::vector<Matrix>;   // a layer each
using testing::TrainingCase;

/// What is trained: a chain of linear maps, ½·Σ(y − t)², W ← W − rate·gradient, the mean over the
/// `microbatches` of an update.
struct Task {
  Weights initial;
  std::int64_t microbatches = 1, updates = 1;
  Rational rate;
  std::function<std::pair<Row, Row>(std::int64_t)> sample;  // input and target of a microbatch
};

/// Which versions microbatch k reads, of each layer. Version u is there after u updates.
struct Rule {
  std::function<std::int64_t(std::int64_t k, std::size_t layer)> forward, backward;
  /// Backwards read w − delay·δ, δ ← kept·δ + (1 − kept)·(change of w); by layer. Empty: w.
  std::vector<Rational> delay = {}, kept = {};
  /// Passes read w + horizon · (the step that made w); by layer. Empty: w.
  std::vector<Rational> forward_horizon = {}, backward_horizon = {};
  Rational momentum = 0;                    // what is left of the mean of gradients
  std::vector<Rational> rate_divisor = {};  // by layer; empty: 1
  bool feeds_back = false;                  // a step counts twice, and the one before is given back
};

/// Every microbatch reads version max(⌊k/m⌋ − delay, 0).
Rule delayed(std::int64_t m, std::int64_t delay) {
  const auto read = [=](std::int64_t k, std::size_t) {
    return std::max<std::int64_t>(k / m - delay, 0);
  };
  return {read, read};
}

/// 1F1B without flush over stages that hold these layers: stage s runs a microbatch's forward
/// p − 1 − s backwards ahead, and finds what is newest then; so does its backward.
Rule newest(std::int64_t m, const std::vector<LayerRange>& stages) {
  std::vector<std::int64_t> ahead;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    ahead.insert(ahead.end(), static_cast<std::size_t>(stages[stage].size()),
                 std::ssize(stages) - 1 - static_cast<std::int64_t>(stage));
  }
  return {[=](std::int64_t k, std::size_t layer) {
            return std::max<std::int64_t>(k - ahead[layer], 0) / m;
          },
          [=](std::int64_t k, std::size_t) { return k / m; }};
}

/// The same, but a backward reads what its forward found.
Rule stashed(std::int64_t m, const std::vector<LayerRange>& stages) {
  const Rule rule = newest(m, stages);
  return {rule.forward, rule.forward};
}

Row row_times(const Row& x, const Matrix& w, bool transposed) {
  const std::size_t d = x.size();
  Row y(d);
  for (std::size_t i = 0; i < d; ++i) {
    for (std::size_t j = 0; j < d; ++j) {
      y[j] += x[i] * (transposed ? w[j * d + i] : w[i * d + j]);
    }
  }
  return y;
}

/// What there is of each version: the weights, what forwards and backwards read, δ, the mean of
/// gradients, and the step that made it.
struct Version {
  Weights weights, forward, backward, drift, mean, step;
};

/// Adds what microbatch k leaves by the versions that the rule says.
void add_gradient(const Task& task, const Rule& rule, std::int64_t k,
                  const std::vector<Version>& versions, Weights& gradient) {
  auto [input, target] = task.sample(k);
  const std::size_t d = input.size(), layers = task.initial.size();
  const auto read = [&](const auto& version, std::size_t layer) -> const Version& {
    return versions.at(static_cast<std::size_t>(version(k, layer)));
  };
  std::vector<Row> x{std::move(input)};
  for (std::size_t layer = 0; layer < layers; ++layer)
    x.push_back(row_times(x.back(), read(rule.forward, layer).forward[layer], false));
  Row error = x.back();
  for (std::size_t i = 0; i < d; ++i) error[i] = (error[i] - target[i]) / task.microbatches;
  for (std::size_t layer = layers; layer-- > 0;) {
    for (std::size_t i = 0; i < d * d; ++i) gradient[layer][i] += x[layer][i / d] * error[i % d];
    error = row_times(error, read(rule.backward, layer).backward[layer], true);
  }
}

Version next_version(const Task& task, const Rule& rule, const Version& now,
                     const Weights& gradient, bool is_first) {
  Version next = now;
  for (std::size_t layer = 0; layer < gradient.size(); ++layer) {
    const Rational rate =
        rule.rate_divisor.empty() ? task.rate : task.rate / rule.rate_divisor[layer];
    for (std::size_t i = 0; i < gradient[layer].size(); ++i) {
      Rational& mean = next.mean[layer][i];
      mean = rule.momentum * mean + (1 - rule.momentum) * gradient[layer][i];
      const Rational step = -rate * mean;
      const bool twice = rule.feeds_back && !is_first;
      const Rational change = twice ? 2 * step - now.step[layer][i] : step;
      next.step[layer][i] = step;
      next.weights[layer][i] += change;
      const auto predicted = [&](const std::vector<Rational>& horizon) -> Rational {
        return next.weights[layer][i] + (horizon.empty() ? Rational(0) : horizon[layer] * step);
      };
      next.forward[layer][i] = predicted(rule.forward_horizon);
      next.backward[layer][i] = predicted(rule.backward_horizon);
      if (rule.delay.empty()) continue;
      Rational& drift = next.drift[layer][i];
      drift = rule.kept[layer] * drift + (1 - rule.kept[layer]) * change;
      next.backward[layer][i] -= rule.delay[layer] * drift;
    }
  }
  return next;
}

Weights zeros_of(const Task& task) {
  Weights zeros;
  for (const Matrix& matrix : task.initial) zeros.emplace_back(matrix.size());
  return zeros;
}

/// The initial weights, alone.
std::vector<Version> first_version(const Task& task) {
  const Weights zeros = zeros_of(task);
  return {{task.initial, task.initial, task.initial, zeros, zeros, zeros}};
}

/// Adds what updates make, until there are `updates` in all.
void go_on(const Task& task, const Rule& rule, std::int64_t updates,
           std::vector<Version>& versions) {
  for (std::int64_t u = std::ssize(versions) - 1; u < updates; ++u) {
    Weights gradient = zeros_of(task);
    for (std::int64_t k = u * task.microbatches; k < (u + 1) * task.microbatches; ++k)
      add_gradient(task, rule, k, versions, gradient);
    versions.push_back(next_version(task, rule, versions.back(), gradient, u == 0));
  }
}

/// The weights after each update, the initial ones first.
std::vector<Weights> by_rationals(const Task& task, const Rule& rule) {
  std::vector<Version> versions = first_version(task);
  go_on(task, rule, task.updates, versions);
  std::vector<Weights> weights;
  for (Version& version : versions) weights.push_back(std::move(version.weights));
  return weights;
}

/// Undelayed numbers grow faster, and fit the mantissa for fewer updates; so do those of many
/// layers.
TrainingCase linear_case(const std::string& schedule, std::int64_t batches,
                         std::int32_t layers = 2) {
  TrainingCase test{.schedule = schedule,
                    .model = {.name = "linear",
                              .architecture = Architecture::linear,
                              .blocks = layers,
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

/// What the executor is given, as a task.
Task task_of(const TrainingCase& test) {
  const Stage<cpu::Kernels<double>> whole(test.model, {0, test.model.blocks + 1}, 1, 1.0);
  std::vector<double> initial(static_cast<std::size_t>(whole.sizes().parameters));
  whole.initialise(initial, test.seed);
  Task task{.initial = {},
            .microbatches = test.microbatches,
            .updates = test.batches,
            .rate = Rational(test.optimizer.learning_rate),
            .sample = [data = testing::data_of(test)](std::int64_t k) {
              Sample<double> sample;
              data.fill(k, sample);
              return std::pair{Row(sample.inputs.begin(), sample.inputs.end()),
                               Row(sample.expected.begin(), sample.expected.end())};
            }};
  for (const Tensor& tensor : whole.parameters()) {
    const auto from = initial.begin() + tensor.offset;
    task.initial.emplace_back(from, from + tensor.size());
  }
  return task;
}

/// By version and layer.
using FoundWeights = std::map<std::pair<std::int64_t, std::int64_t>, Matrix>;

/// Weights after each update, by the executor, as rationals: exactly the doubles it holds. `change`
/// sets what the case does not say.
FoundWeights by_executor(const TrainingCase& test, const Schedule& schedule,
                         const std::function<void(TrainingSetup<double>&)>& change = {}) {
  const Program program = lower(schedule);
  const Data data = testing::data_of(test);
  TrainingSetup<double> setup = testing::setup_of<double>(test, program, data);
  if (change) change(setup);
  FoundWeights found;
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

void expect_rule(const TrainingCase& test, const Schedule& schedule, const Rule& rule, bool holds) {
  const std::vector<Weights> expected = by_rationals(task_of(test), rule);
  const auto found = by_executor(test, schedule);
  ASSERT_EQ(found.size(), static_cast<std::size_t>(test.batches * test.model.blocks));
  bool equal = true;
  for (const auto& [key, matrix] : found) {
    const Matrix& exact =
        expected[static_cast<std::size_t>(key.first)][static_cast<std::size_t>(key.second)];
    equal = equal && matrix == exact;
  }
  EXPECT_EQ(equal, holds) << test.schedule;
}
void expect_rule(const TrainingCase& test, const Rule& rule, bool holds) {
  expect_rule(test, test.make(), rule, holds);
}

TEST(ExactArithmetic, TwoBufferedWeightsFollowTheirRule) {
  expect_rule(linear_case("2bw", 4), delayed(4, 1), true);
}
TEST(ExactArithmetic, FlushFollowsPlainGradientDescent) {
  expect_rule(linear_case("1f1b", 2), delayed(4, 0), true);
  expect_rule(linear_case("gpipe", 2), delayed(4, 0), true);
}
TEST(ExactArithmetic, ErrorFeedbackTakesAStepTwiceAndGivesBackTheOneBefore) {
  TrainingCase test = linear_case("2bw", 4);
  test.optimizer.correction = DelayCorrection::error_feedback;
  const auto feeding_back = [](std::int64_t delay) {
    Rule rule = delayed(4, delay);
    rule.feeds_back = true;
    return rule;
  };
  expect_rule(test, feeding_back(1), true);
  expect_rule(test, delayed(4, 1), false);
  expect_rule(test, feeding_back(0), false);
}
TEST(ExactArithmetic, TellsTheRulesApart) {
  expect_rule(linear_case("2bw", 4), delayed(4, 0), false);
  expect_rule(linear_case("1f1b", 2), delayed(4, 1), false);
}

// ---- Forward and backward each read the newest ----

/// Four stages, the last with the loss alone, and two, the first with two layers: where stages are
/// few and have a layer each little is seen, for what the first one's backward reads does not
/// matter, and the last one reads what its forward did. More layers' numbers would not fit.
std::vector<TrainingCase> cases_of(const std::string& schedule) {
  std::vector<TrainingCase> cases;
  for (const std::int32_t m : {1, 2}) {
    for (const std::uint16_t devices : {std::uint16_t{4}, std::uint16_t{2}}) {
      TrainingCase test = linear_case(schedule, 2, 3);
      test.devices = devices;
      test.microbatches = m;
      test.optimizer.learning_rate = 0.25;
      cases.push_back(test);
    }
  }
  return cases;
}

std::vector<LayerRange> stages_of(const TrainingCase& test) {
  std::vector<LayerRange> stages = testing::even_stages(test.model, test.devices);
  --stages.back().last;  // the loss has no weights
  return stages;
}

TEST(ExactArithmetic, PaciFollowsItsRule) {
  for (const TrainingCase& test : cases_of("paci")) {
    expect_rule(test, newest(test.microbatches, stages_of(test)), true);
    expect_rule(test, stashed(test.microbatches, stages_of(test)), false);
    expect_rule(test, delayed(test.microbatches, 0), false);
  }
}

/// TiMePReSt: on every stage a forward reads what there is on the first one, which runs it
/// 2(p − 1) backwards ahead; a backward reads the newest.
Rule vertical(std::int64_t m, std::size_t stages) {
  const auto ahead = static_cast<std::int64_t>(2 * (stages - 1));
  return {[=](std::int64_t k, std::size_t) { return std::max<std::int64_t>(k - ahead, 0) / m; },
          [=](std::int64_t k, std::size_t) { return k / m; }};
}

TEST(ExactArithmetic, TimeprestFollowsItsRule) {
  for (TrainingCase test : cases_of("timeprest")) {
    if (test.microbatches == 1) continue;
    test.devices = std::min<std::uint16_t>(test.devices, 3);
    const std::vector<LayerRange> stages = stages_of(test);
    for (const bool single : {false, true}) {
      test.single_backwards = single;
      const Rule right = vertical(2, stages.size()), stash{right.forward, right.forward};
      expect_rule(test, right, true);
      expect_rule(test, newest(2, stages), false);
      expect_rule(test, stash, false);
      expect_rule(test, delayed(2, 0), false);
    }
  }
}

/// A rule whose backwards correct what they read, on stages that hold these layers.
Rule corrected(Rule rule, const std::vector<LayerRange>& stages,
               const std::vector<Rational>& delays, const std::vector<Rational>& kept) {
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    const auto layers = static_cast<std::size_t>(stages[stage].size());
    rule.delay.insert(rule.delay.end(), layers, delays[stage]);
    rule.kept.insert(rule.kept.end(), layers, kept[stage]);
  }
  return rule;
}

TEST(ExactArithmetic, PipeMareFollowsItsRule) {
  for (const TrainingCase& test : cases_of("pipemare")) {
    const std::int64_t m = test.microbatches;
    const std::vector<LayerRange> stages = stages_of(test);
    Schedule schedule = test.make();
    std::vector<Rational> delays, published, negated, kept, swapped;
    for (const StageId stage : ids(schedule.readings)) {
      Reading& reading = schedule.readings[stage];
      reading.kept = 0.25;  // the default's powers are no dyadic numbers
      const auto ahead = std::ssize(stages) - 1 - static_cast<std::int64_t>(index(stage));
      delays.push_back(Rational(ahead, m));
      EXPECT_EQ(Rational(reading.delay), delays.back());
      published.push_back(Rational(2 * ahead + 1, m));
      negated.push_back(-delays.back());
      kept.push_back(Rational(1, 4));
      swapped.push_back(Rational(3, 4));
    }
    expect_rule(test, schedule, corrected(newest(m, stages), stages, delays, kept), true);
    expect_rule(test, schedule, corrected(newest(m, stages), stages, published, kept), false);
    expect_rule(test, schedule, corrected(newest(m, stages), stages, negated, kept), false);
    expect_rule(test, schedule, corrected(newest(m, stages), stages, delays, swapped), false);
    expect_rule(test, schedule, newest(m, stages), false);
    expect_rule(test, schedule, stashed(m, stages), false);
  }
}

/// A run of four stages, an update a microbatch, that begins with what one batch by a flush program
/// has left (T3).
class RestartedPipeMare {
 public:
  RestartedPipeMare() {
    test_.batches = 3;
    stages_ = stages_of(test_);
    schedule_ = test_.make();
    for (const StageId stage : ids(schedule_.readings)) {
      schedule_.readings[stage].kept = 0.25;
      delays_.emplace_back(std::ssize(stages_) - 1 - static_cast<std::int64_t>(index(stage)));
    }
    TrainingCase flush = test_;
    flush.schedule = "1f1b";
    flush.batches = 1;
    by_executor(flush, flush.make(),
                [&](TrainingSetup<double>& setup) { setup.keeper = &states_; });
  }

  testing::KeptState<double> left_by_flush() { return states_.at(1); }
  /// The same, and the weights of before it.
  testing::KeptState<double> left_with_initial_weights() {
    testing::KeptState<double> state = left_by_flush();
    const Stage<cpu::Kernels<double>> whole(test_.model, {0, test_.model.blocks + 1}, 1, 1.0);
    const Task exact = task_of(test_);
    for (std::size_t layer = 0; layer < exact.initial.size(); ++layer) {
      std::vector<double> initial;
      for (const Rational& number : exact.initial[layer])
        initial.push_back(static_cast<double>(number));
      state.keep({PlaneKind::weights, 1}, whole.parameters()[layer].name, initial);
    }
    return state;
  }

  FoundWeights from(const TrainingStart<double>& start) const {
    return by_executor(test_, schedule_,
                       [&](TrainingSetup<double>& setup) { setup.start = &start; });
  }
  /// `oldest`: version that forwards read where theirs is older. `drift`: share of the flush's
  /// change of weights that δ has at first.
  FoundWeights by_rule(std::int64_t oldest, const Rational& drift) const {
    const Task exact = task_of(test_);
    std::vector<Version> versions = first_version(exact);
    go_on(exact, delayed(1, 0), 1, versions);
    const std::vector<Rational> kept(stages_.size(), Rational(1, 4));
    Rule rule = corrected(newest(1, stages_), stages_, delays_, kept);
    rule.forward = [read = rule.forward, oldest](std::int64_t k, std::size_t layer) {
      return std::max(read(k, layer), oldest);
    };
    Version& restart = versions.back();
    for (std::size_t layer = 0; layer < exact.initial.size(); ++layer) {
      for (std::size_t i = 0; i < exact.initial[layer].size(); ++i) {
        Rational& of = restart.drift[layer][i];
        of = drift * (restart.weights[layer][i] - exact.initial[layer][i]);
        restart.backward[layer][i] -= rule.delay[layer] * of;
      }
    }
    go_on(exact, rule, test_.batches, versions);
    FoundWeights after;
    for (std::size_t version = 2; version < versions.size(); ++version) {
      for (std::size_t layer = 0; layer < exact.initial.size(); ++layer)
        after[{static_cast<std::int64_t>(version), static_cast<std::int64_t>(layer)}] =
            versions[version].weights[layer];
    }
    return after;
  }

 private:
  TrainingCase test_ = cases_of("pipemare").front();
  std::vector<LayerRange> stages_;
  Schedule schedule_;
  std::vector<Rational> delays_;
  testing::AllStates<double> states_;
};

// Forwards read max(u − σ, version at the restart), backwards the newest, from δ = 0.
TEST(ExactArithmetic, PipeMareGoesOnFromTheDrainedStateOfAFlushProgram) {
  RestartedPipeMare pipemare;
  const FoundWeights found = pipemare.from(pipemare.left_by_flush());
  ASSERT_EQ(found.size(), 2u * 3u);
  EXPECT_EQ(found, pipemare.by_rule(1, 0));
  EXPECT_NE(found, pipemare.by_rule(0, 0));               // forwards read what was before
  EXPECT_NE(found, pipemare.by_rule(1, Rational(3, 4)));  // δ goes on through the flush
  // A state that is not drained: the executor reads what was before where that is kept.
  EXPECT_EQ(pipemare.from(pipemare.left_with_initial_weights()), pipemare.by_rule(0, 0));
}

// By our definition: the newest weights less s of their last change, s the mean of a e^-a over the
// ages a of an update's forwards.
TEST(ExactArithmetic, TimeprestIMixesWhatTheForwardReadWithTheNewest) {
  for (TrainingCase test : cases_of("timeprest-i")) {
    if (test.microbatches == 1) continue;
    test.devices = std::min<std::uint16_t>(test.devices, 3);
    const std::vector<LayerRange> stages = stages_of(test);
    Schedule schedule = test.make();
    // p = 3, m = 2: ages 2, 2; p = 2: 1, 1.
    const double age = test.devices == 3 ? 2.0 : 1.0;
    for (Reading& reading : schedule.readings) {
      EXPECT_DOUBLE_EQ(reading.delay, age * std::exp(-age));
      EXPECT_EQ(reading.kept, 0.0);
      reading.delay = 0.5;  // e is no dyadic number
    }
    const std::vector<Rational> half(stages.size(), Rational(1, 2)), none(stages.size());
    const std::vector<Rational> wrong(stages.size(), Rational(-1, 2));
    const Rule plain = vertical(2, stages.size());
    expect_rule(test, schedule, corrected(plain, stages, half, none), true);
    expect_rule(test, schedule, corrected(plain, stages, wrong, none), false);
    expect_rule(test, schedule, corrected(plain, stages, half, half), false);
    expect_rule(test, schedule, corrected(newest(2, stages), stages, half, none), false);
    expect_rule(test, schedule, plain, false);
  }
}

TEST(ExactArithmetic, TimeprestIOfAgesUpToOneIsTheMeanOfTheMixesOfItsForwards) {
  // m = 5, p = 3: four of five forwards read the version before the newest.
  const Schedule schedule = make_schedule(find_schedule("timeprest-i"),
                                          {.devices = 3, .microbatches = 5, .replicas = {}});
  for (const Reading& reading : schedule.readings)
    EXPECT_DOUBLE_EQ(reading.delay, 4 * std::exp(-1.0) / 5);
}

/// Horizons of stages that hold these layers, by layer.
std::vector<Rational> by_layer(const std::vector<LayerRange>& stages,
                               const std::vector<Rational>& of_stages) {
  std::vector<Rational> all;
  for (std::size_t stage = 0; stage < stages.size(); ++stage)
    all.insert(all.end(), static_cast<std::size_t>(stages[stage].size()), of_stages[stage]);
  return all;
}

/// A rule whose passes predict what they read.
Rule predicted(Rule rule, const std::vector<LayerRange>& stages,
               const std::vector<Rational>& forward, const std::vector<Rational>& backward) {
  rule.forward_horizon = by_layer(stages, forward);
  rule.backward_horizon = by_layer(stages, backward);
  return rule;
}

/// The papers' horizons in backwards, of p stages: (p − 1 − s) + ⌊s/2⌋, p − 1 − s and ⌊s/2⌋.
struct Horizons {
  std::vector<Rational> both, ahead, back, none;
};
Horizons horizons(std::size_t p, std::int64_t m) {
  Horizons all;
  for (std::size_t s = 0; s < p; ++s) {
    all.both.push_back(Rational(p - 1 - s + s / 2, m));
    all.ahead.push_back(Rational(p - 1 - s, m));
    all.back.push_back(Rational(s / 2, m));
    all.none.emplace_back(0);
  }
  return all;
}

TEST(ExactArithmetic, PredictingSchedulesFollowTheirRules) {
  for (const char* schedule : {"spectrain", "spectrain-v2", "pipeoptim"}) {
    for (TrainingCase test : cases_of(schedule)) {
      test.batches = test.microbatches == 1 ? 3 : 2;
      test.optimizer = {.kind = OptimizerKind::momentum, .learning_rate = 0.25, .momentum = 0.5};
      const std::int64_t m = test.microbatches;
      const std::vector<LayerRange> stages = stages_of(test);
      const Horizons by = horizons(stages.size(), m);
      const auto [v1, v2, optim] =
          std::tuple{predicted(newest(m, stages), stages, by.both, by.back),
                     predicted(stashed(m, stages), stages, by.ahead, by.ahead),
                     predicted(newest(m, stages), stages, by.ahead, by.none)};
      Rule right = test.schedule == "spectrain" ? v1 : test.schedule == "spectrain-v2" ? v2 : optim;
      right.momentum = Rational(1, 2);
      expect_rule(test, right, true);
      // Of a prediction nothing is seen before a forward finds an update, and its gradient another.
      if (test.devices != 4 || m != 1) continue;
      for (std::vector<Rational> Rule::* const horizon :
           {&Rule::forward_horizon, &Rule::backward_horizon}) {
        Rule negated = right, further = right, unpredicted = right;
        for (Rational& of : negated.*horizon) of = -of;
        for (Rational& of : further.*horizon) of += 1;
        (unpredicted.*horizon).clear();
        expect_rule(test, further, false);
        // PipeOptim's backwards predict nothing.
        const bool predicts = (right.*horizon).back() != 0 || (right.*horizon).front() != 0;
        for (const Rule& wrong : {negated, unpredicted}) expect_rule(test, wrong, !predicts);
      }
    }
  }
}

/// All forwards of an update read the version that its first one finds.
Rule shared(std::int64_t m, const std::vector<LayerRange>& stages) {
  const Rule rule = newest(m, stages);
  return {[=](std::int64_t k, std::size_t layer) { return rule.forward(k - k % m, layer); },
          rule.backward};
}

TEST(ExactArithmetic, XPipeFollowsItsRule) {
  std::vector<TrainingCase> cases = cases_of("xpipe");
  cases.push_back(linear_case("xpipe", 3));
  cases.back().devices = 3;
  cases.back().microbatches = 2;
  for (TrainingCase& test : cases) {
    if (test.microbatches == 1) test.batches = 3;
    test.optimizer = {.kind = OptimizerKind::momentum, .learning_rate = 0.25, .momentum = 0.5};
    const std::int64_t m = test.microbatches, p = test.devices;
    const std::vector<LayerRange> stages = stages_of(test);
    // round((p+m-ceil(s/2)-2)/m) and round((m+floor(s/2)-1)/m), halves up.
    std::vector<Rational> forward, backward, further, later;
    for (std::int64_t s = 0; s < p; ++s) {
      forward.emplace_back((2 * (p + m - (s + 1) / 2 - 2) + m) / (2 * m));
      backward.emplace_back((2 * (m + s / 2 - 1) + m) / (2 * m));
      further.push_back(forward.back() + 1);
      later.push_back(backward.back() + 1);
    }
    const auto rule = [&](Rule read, const std::vector<Rational>& ahead,
                          const std::vector<Rational>& back) {
      read = predicted(std::move(read), stages, ahead, back);
      read.momentum = Rational(1, 2);
      return read;
    };
    expect_rule(test, rule(shared(m, stages), forward, backward), true);
    expect_rule(test, rule(shared(m, stages), forward, later), false);
    if (test.batches != 3) continue;
    const std::vector<Rational> none(stages.size());
    expect_rule(test, rule(shared(m, stages), further, backward), false);
    expect_rule(test, rule(shared(m, stages), none, backward), false);
    // Of an update of one microbatch the first forward is the only one.
    expect_rule(test, rule(newest(m, stages), forward, backward), m == 1);
  }
}

/// On two devices with a layer each: the backward's weights on the first one reach nobody, and the
/// last one's are its forward's.
TEST(ExactArithmetic, OfTwoStagesOfALayerNothingIsSeenOfWhatBackwardsRead) {
  const auto small = [](const char* schedule) {
    TrainingCase test = linear_case(schedule, 3);
    test.microbatches = 1;
    test.optimizer.learning_rate = 0.25;
    return test;
  };
  const TrainingCase paci = small("paci");
  const std::vector<LayerRange> stages = stages_of(paci);
  ASSERT_EQ(stages.size(), 2u);
  for (const LayerRange& layers : stages) ASSERT_EQ(layers.size(), 1);
  expect_rule(paci, newest(1, stages), true);
  expect_rule(paci, stashed(1, stages), true);
  expect_rule(paci, delayed(1, 0), false);
  Schedule corrects = small("pipemare").make();
  for (Reading& reading : corrects.readings) reading.kept = 0.25;
  const std::vector<Rational> kept(2, Rational(1, 4));
  for (const int delay : {-1, 0, 1, 2})
    expect_rule(small("pipemare"), corrects, corrected(newest(1, stages), stages, {delay, 0}, kept),
                true);
  // The same fault, a backward's horizon or delay on all stages but the last, with four stages.
  for (const std::uint16_t devices : {std::uint16_t{2}, std::uint16_t{4}}) {
    TrainingCase test = small("spectrain");
    test.devices = devices;
    test.model.blocks = devices == 2 ? 2 : 3;
    test.optimizer = {.kind = OptimizerKind::momentum, .learning_rate = 0.25, .momentum = 0.5};
    const std::vector<LayerRange> of = stages_of(test);
    const Horizons by = horizons(devices, 1);
    std::vector<Rational> wrong = by.back;
    for (std::size_t stage = 0; stage + 1 < wrong.size(); ++stage) wrong[stage] += 1;
    for (const auto& back : {by.back, wrong}) {
      Rule rule = predicted(newest(1, of), of, by.both, back);
      rule.momentum = Rational(1, 2);
      expect_rule(test, rule, devices == 2 || back == by.back);
    }
  }
}

/// Weights that are numbers, one at first, as are the inputs.
Task scalars(std::size_t layers, const std::vector<int>& targets) {
  return {.initial = Weights(layers, Matrix{1}),
          .microbatches = 1,
          .updates = 3,
          .rate = Rational(1, 4),
          .sample = [targets](std::int64_t k) {
            return std::pair{Row{1}, Row{targets[static_cast<std::size_t>(k) % targets.size()]}};
          }};
}

/// The trajectory of a layer, behind its initial weight.
std::vector<std::string> written(const std::vector<Weights>& versions, std::size_t layer) {
  std::vector<std::string> numbers;
  for (std::size_t u = 1; u < versions.size(); ++u) numbers.push_back(versions[u][layer][0].str());
  return numbers;
}
using Numbers = std::vector<std::string>;

// Recomputed apart from this code, by hand and by a script.
TEST(GoldenTrajectories, OfThreeStages) {
  const std::vector<LayerRange> stages{{0, 1}, {1, 2}, {2, 3}};
  const Task task = scalars(3, {2});
  const auto stash = by_rationals(task, stashed(1, stages));
  EXPECT_EQ(written(stash, 0), (Numbers{"5/4", "95/64", "25815/16384"}));
  EXPECT_EQ(written(stash, 1), (Numbers{"5/4", "95/64", "6379/4096"}));
  EXPECT_EQ(written(stash, 2), (Numbers{"5/4", "23/16", "1537/1024"}));
  const auto latest = by_rationals(task, newest(1, stages));
  EXPECT_EQ(written(latest, 0), (Numbers{"5/4", "395/256", "432885/262144"}));
  const std::vector<Rational> half(3, Rational(1, 2));
  const auto t2 = by_rationals(task, corrected(newest(1, stages), stages, {2, 1, 0}, half));
  EXPECT_EQ(written(t2, 0), (Numbers{"5/4", "775/512", "843533/524288"}));
  const auto wrong_sign =
      by_rationals(task, corrected(newest(1, stages), stages, {-2, -1, 0}, half));
  EXPECT_EQ(written(wrong_sign, 0)[1], "805/512");
  const auto published = by_rationals(task, corrected(newest(1, stages), stages, {5, 3, 1}, half));
  EXPECT_EQ(written(published, 0)[1], "1469/1024");
  Rule slow = newest(1, stages);
  slow.rate_divisor = {2, 1, 1};
  const auto t1 = by_rationals(task, slow);
  EXPECT_EQ(written(t1, 0), (Numbers{"9/8", "651/512", "695029/524288"}));
  for (const auto* versions : {&latest, &t2, &t1}) {
    EXPECT_EQ(written(*versions, 1), written(stash, 1));
    EXPECT_EQ(written(*versions, 2), written(stash, 2));
  }
}

TEST(GoldenTrajectories, OfThreeStagesThatPredict) {
  const std::vector<LayerRange> stages{{0, 1}, {1, 2}, {2, 3}};
  const Task task = scalars(3, {2});
  const auto trajectory = [&](Rule rule, const std::vector<Rational>& forward,
                              const std::vector<Rational>& backward) {
    rule = predicted(std::move(rule), stages, forward, backward);
    rule.momentum = Rational(1, 2);
    return by_rationals(task, rule);
  };
  const std::vector<Rational> none(3, 0), ahead{2, 1, 0};
  const auto latest = trajectory(newest(1, stages), none, none);
  EXPECT_EQ(written(latest, 0), (Numbers{"9/8", "5431/4096", "206874001/134217728"}));
  EXPECT_EQ(written(latest, 1), (Numbers{"9/8", "671/512", "390863/262144"}));
  EXPECT_EQ(written(latest, 2), (Numbers{"9/8", "83/64", "47805/32768"}));
  const auto pipeoptim = trajectory(newest(1, stages), ahead, none);
  EXPECT_EQ(written(pipeoptim, 0), (Numbers{"9/8", "5431/4096", "101125741/67108864"}));
  EXPECT_EQ(written(pipeoptim, 1), (Numbers{"9/8", "671/512", "191987/131072"}));
  EXPECT_EQ(written(pipeoptim, 2), (Numbers{"9/8", "83/64", "11813/8192"}));
  const auto kept = trajectory(stashed(1, stages), ahead, ahead);
  EXPECT_EQ(written(kept, 0)[1], "671/512");
  EXPECT_EQ(written(kept, 1), (Numbers{"9/8", "671/512", "191987/131072"}));
  EXPECT_EQ(written(kept, 2), written(pipeoptim, 2));
  // By predictions that the backward makes anew, of what is newest then, stage 0 has others.
  const auto anew = trajectory(newest(1, stages), ahead, ahead);
  EXPECT_NE(written(anew, 0)[1], written(kept, 0)[1]);
  const auto spectrain = trajectory(newest(1, stages), {2, 1, 1}, {0, 0, 1});
  EXPECT_EQ(written(spectrain, 0), (Numbers{"9/8", "1351/1024", "1535245/1048576"}));
  EXPECT_EQ(written(spectrain, 1), (Numbers{"9/8", "167/128", "11723/8192"}));
  EXPECT_EQ(written(spectrain, 2), (Numbers{"9/8", "41/32", "2849/2048"}));
  // A wrong horizon, and one against time.
  EXPECT_NE(written(trajectory(newest(1, stages), {3, 2, 1}, none), 2), written(pipeoptim, 2));
  EXPECT_NE(written(trajectory(newest(1, stages), {-2, -1, 0}, none), 1), written(pipeoptim, 1));
}

TEST(GoldenTrajectories, OfThreeStagesThatReadVertically) {
  Task task = scalars(3, {2});
  task.microbatches = 2;
  const Rule rule = vertical(2, 3);
  const auto timeprest = by_rationals(task, rule);
  EXPECT_EQ(written(timeprest, 0), (Numbers{"5/4", "105/64", "285/128"}));
  EXPECT_EQ(written(timeprest, 1), (Numbers{"5/4", "25/16", "31/16"}));
  EXPECT_EQ(written(timeprest, 2), (Numbers{"5/4", "3/2", "7/4"}));
  const auto kept = by_rationals(task, {rule.forward, rule.forward});
  for (const std::size_t layer : {0u, 1u, 2u})
    EXPECT_EQ(written(kept, layer), (Numbers{"5/4", "3/2", "7/4"}));
}

TEST(GoldenTrajectories, OfTwoStagesOfTwoLayers) {
  const std::vector<LayerRange> stages{{0, 2}, {2, 4}};
  const Task task = scalars(4, {2, 0, 2});
  const auto stash = by_rationals(task, stashed(1, stages));
  const auto latest = by_rationals(task, newest(1, stages));
  const auto t2 = by_rationals(
      task, corrected(newest(1, stages), stages, {1, 0}, {Rational(1, 2), Rational(1, 2)}));
  EXPECT_EQ(written(stash, 0)[1], "655/1024");
  EXPECT_EQ(written(latest, 0)[1], "1995/4096");
  EXPECT_EQ(written(t2, 0)[1], "4615/8192");
  for (const auto& versions : {stash, latest, t2}) {
    EXPECT_EQ(written(versions, 1)[1], "655/1024");
    EXPECT_EQ(written(versions, 2)[1], "195/256");
    EXPECT_EQ(written(versions, 3)[1], "195/256");
  }
}

}  // namespace
}  // namespace tandem
