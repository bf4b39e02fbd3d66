// Constants come back from what they predict, and published iterations within the error claimed.

#include "simulator/cost/calibration_fit.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/lower/lower.h"
#include "core/model/catalog.h"
#include "core/model/plan.h"
#include "simulator/cost/prediction_errors.h"
#include "simulator/simulate.h"
#include "tests/support/data.h"
#include "tests/support/sanitizers.h"

namespace tandem::testing {
namespace {

constexpr Calibration kPlantedCalibration{.product_fraction = 0.5,
                                          .product_s = 30e-6,
                                          .memory_fraction = 0.6,
                                          .link_fraction = 0.4,
                                          .network_fraction = 0.6,
                                          .protocol_s = 60e-6,
                                          .low_latency_bytes_per_s = 2e9,
                                          .sum_s = 40e-6,
                                          .transfer_s = 200e-6,
                                          .launch_s = 60e-6,
                                          .unfused_launches = 12.0,
                                          .loss_passes = 5.0,
                                          .batch_s = 3e-3};

MeasuredIteration iteration(std::int32_t width, std::int32_t blocks, std::int32_t tensor,
                            std::int32_t depth, std::int32_t microbatch_size,
                            std::int32_t microbatches) {
  MeasuredIteration one;
  one.model = {.name = "model",
               .blocks = blocks,
               .width = width,
               .heads = 16,
               .sequence = 512,
               .vocabulary = 50257};
  one.tensor = tensor;
  one.depth = depth;
  one.width = 8 / tensor / depth;
  one.microbatch_size = microbatch_size;
  one.microbatches = microbatches;
  return one;
}

/// Of all kinds, 56 in all.
std::vector<MeasuredIteration> grid() {
  std::vector<MeasuredIteration> rows;
  for (const std::int32_t width : {1024, 4096}) {
    for (const std::int32_t tensor : {1, 2, 8}) {
      for (const std::int32_t depth : {1, 2, 4}) {
        if (tensor * depth > 8) continue;
        for (const std::int32_t microbatch_size : {1, 8})
          for (const std::int32_t blocks : {4, 8})
            rows.push_back(iteration(width, blocks, tensor, depth, microbatch_size, blocks));
      }
    }
  }
  return rows;
}

Cluster a100s() { return Cluster(cluster_of_nodes("DGX-A100")); }

AnalyticAssumptions plain() {
  return {.format = NumberFormat::fp16, .attention = AttentionKernel::plain};
}

Seconds predicted(const IterationModel& model, const Calibration& calibration) {
  Seconds seconds;
  for (std::size_t row = 0; row < model.size(); ++row)
    seconds.push_back(model.seconds(row, calibration));
  return seconds;
}

Rows where(const std::vector<MeasuredIteration>& measured, bool pipelines) {
  Rows rows;
  for (std::size_t i = 0; i < measured.size(); ++i) {
    if ((measured[i].depth > 1) == pipelines) rows.push_back(i);
  }
  return rows;
}

double error_of_fit(const IterationModel& model, const Seconds& seconds, const Rows& seen,
                    const Rows& unseen) {
  return mean_absolute(
      relative_errors(model, fit_calibration(model, seconds, seen), seconds, unseen));
}

TEST(IterationModel, StagesHaveTheSameBlocks) {
  const ModelSpec model{.blocks = 6};
  EXPECT_EQ(even_stages(model, 1), (std::vector<LayerRange>{{0, 14}}));
  EXPECT_EQ(even_stages(model, 3), (std::vector<LayerRange>{{0, 5}, {5, 9}, {9, 14}}));
}

TEST(IterationModel, IsTheSimulationOfThePlan) {
  const Cluster cluster = a100s();
  const MeasuredIteration row = iteration(1024, 8, 2, 2, 4, 6);
  const IterationModel model({row}, cluster, plain());
  Plan plan{.model = row.model,
            .schedule = "1f1b",
            .request = {.devices = 2, .microbatches = 6, .width = 2, .global_norm = true},
            .microbatch_size = 4,
            .stages = {{0, 9}, {9, 18}}};
  AnalyticAssumptions assumptions = plain();
  assumptions.calibration = kPlantedCalibration;
  assumptions.tensor = 2;
  const Schedule schedule = make_schedule(plan);
  const Program program = lower(schedule);
  const ClusterLayout layout(cluster, 2, 2, DeviceOrder::replicas_first, 2);
  const StageCosts costs = cluster_costs(plan, schedule.placement, layout, assumptions);
  const CostTable prices = price(program, cost_model(schedule.placement, costs));
  EXPECT_EQ(model.seconds(0, kPlantedCalibration), simulate(program, prices, {}).period_s());
}

TEST(IterationModel, SaysWhichRowCannotBe) {
  const Cluster cluster = a100s();
  MeasuredIteration wide = iteration(1024, 4, 1, 1, 1, 4);
  wide.width = 9;
  const MeasuredIteration good = iteration(1024, 4, 1, 1, 1, 4);
  try {
    const IterationModel model({good, wide}, cluster, plain());
    FAIL() << model.size();
  } catch (const InputError& error) {
    EXPECT_EQ(std::string(error.what()), "row 2: 9 devices: cluster DGX-A100 has 8");
  }
}

TEST(CalibrationFit, FindsTheConstantsThatWerePlanted) {
  const Cluster cluster = a100s();
  const auto rows = grid();
  const IterationModel model(rows, cluster, plain());
  const Seconds seconds = predicted(model, kPlantedCalibration);
  const Calibration found = fit_calibration(model, seconds, shuffled_rows(rows.size(), 1));
  for (const CalibrationConstant& one : kCalibrationConstants)
    EXPECT_NEAR(found.*one.member / (kPlantedCalibration.*one.member), 1.0, 0.15) << one.key;
  EXPECT_LT(mean_absolute(relative_errors(model, found, seconds, shuffled_rows(rows.size(), 1))),
            0.01);
}

TEST(CalibrationFit, WhatRowsDoNotSayStaysAGuess) {
  const Cluster cluster = a100s();
  const auto rows = grid();
  const IterationModel model(rows, cluster, plain());
  const Seconds seconds = predicted(model, kPlantedCalibration);
  const Calibration found = fit_calibration(model, seconds, where(rows, false));
  EXPECT_NEAR(found.transfer_s, 100e-6, 1e-9);
  EXPECT_NEAR(found.product_fraction, 0.5, 0.05);
}

TEST(CalibrationFit, ShuffledTimesDoNotFit) {
  const Cluster cluster = a100s();
  const auto rows = grid();
  const IterationModel model(rows, cluster, plain());
  const Seconds seconds = predicted(model, kPlantedCalibration);
  const Rows order = shuffled_rows(rows.size(), 1);
  Seconds mixed;
  for (const std::size_t row : order) mixed.push_back(seconds[row]);
  Rows some = shuffled_rows(rows.size(), 2);
  some.resize(24);
  EXPECT_GT(error_of_fit(model, mixed, some, some), 0.2);
}

TEST(CalibrationFit, ShufflesAreReproducibleAndWhole) {
  const Rows one = shuffled_rows(100, 7);
  EXPECT_EQ(shuffled_rows(100, 7), one);
  EXPECT_NE(shuffled_rows(100, 8), one);
  Rows sorted = one;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_NE(sorted, one);
  for (std::size_t i = 0; i < sorted.size(); ++i) EXPECT_EQ(sorted[i], i);
}

TEST(CalibrationFit, TheNaiveSumFitsWhatIsASumAndNoSchedule) {
  const auto rows = grid();
  const Rows all = shuffled_rows(rows.size(), 1);
  Seconds sums;
  for (const MeasuredIteration& one : rows) {
    const double turns = one.microbatches + one.depth - 1;
    sums.push_back(0.001 + 0.002 * turns * one.model.blocks / one.depth);
  }
  const auto naive = [&](const Seconds& seconds) {
    return mean_absolute(relative_errors(fit_naive(rows, seconds, all), rows, seconds, all));
  };
  EXPECT_LT(naive(sums), 1e-3);
  const Cluster cluster = a100s();
  EXPECT_GT(naive(predicted(IterationModel(rows, cluster, plain()), kPlantedCalibration)), 0.03);
}

/// Published iterations on up to eight A100s (VIA-Research/vTrain).
class VTrainFit : public DataTest {
 protected:
  void SetUp() override {
    DataTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (kSanitized) GTEST_SKIP() << "minutes with a sanitizer, of what fits above run too";
    measured_ = read_iterations(data_path("vtrain/ground_truth_single_half.csv"));
    seconds_ = seconds_of(measured_);
  }

  std::vector<MeasuredIteration> measured_;
  Seconds seconds_;
  const Cluster cluster_ = a100s();
};

TEST_F(VTrainFit, RowsThatTheFitDidNotSeeArePredictedWithinATwentieth) {
  const IterationModel model(measured_, cluster_, plain());
  const Rows all = shuffled_rows(measured_.size(), 1);
  const Rows seen(all.begin(), all.begin() + 120), unseen(all.begin() + 120, all.end());
  EXPECT_LE(error_of_fit(model, seconds_, seen, unseen), 0.05);
  const double naive = mean_absolute(
      relative_errors(fit_naive(measured_, seconds_, seen), measured_, seconds_, unseen));
  EXPECT_GT(naive, 0.08);
}

TEST_F(VTrainFit, DefaultsPredictWithinATwentiethAndDataSheetsAreHalfOff) {
  const IterationModel model(measured_, cluster_, plain());
  std::vector<double> typical;
  for (std::size_t row = 0; row < model.size(); ++row) typical.push_back(model.seconds(row));
  const Rows all = shuffled_rows(measured_.size(), 1);
  EXPECT_LE(mean_absolute(relative_errors(model, kTypicalConstants, seconds_, all)), 0.05);
  EXPECT_EQ(typical[0], model.seconds(0, kTypicalConstants));
  EXPECT_GE(rank_correlation(typical, seconds_), 0.99);
  EXPECT_GT(mean_absolute(relative_errors(model, Calibration{}, seconds_, all)), 0.4);
}

TEST_F(VTrainFit, RowsWithoutPipelinesPredictThoseWithThem) {
  const IterationModel model(measured_, cluster_, plain());
  Rows flat = where(measured_, false);
  flat.resize(120);
  EXPECT_LE(error_of_fit(model, seconds_, flat, where(measured_, true)), 0.08);
}

TEST_F(VTrainFit, TimesOfOtherRowsDoNotFit) {
  const IterationModel model(measured_, cluster_, plain());
  const Rows order = shuffled_rows(measured_.size(), 1);
  Seconds mixed;
  for (const std::size_t row : order) mixed.push_back(seconds_[row]);
  Rows seen = shuffled_rows(measured_.size(), 2);
  seen.resize(60);
  EXPECT_GT(error_of_fit(model, mixed, seen, seen), 0.3);
}

}  // namespace
}  // namespace tandem::testing
