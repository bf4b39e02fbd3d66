#pragma once
// Layer norm: kLanes threads a row. Means and deviations are taken in float, of the values themselves and
// of their distances from the mean, whatever the activations are stored in.

#include <cmath>
#include <cstdint>

#include "executor/backend/kernels.h"
#include "executor/cuda/kernels/block.h"
#include "executor/cuda/kernels/pack.h"

namespace tandem::cuda {

/// Rows of a matrix, kLanes threads each.
struct LaneRows {
  RowShape shape;
  bool whole;  // rows are packs that can be moved whole

  static constexpr std::int64_t kRowsOfBlock = kThreads / kLanes;

  GridShape grid() const { return {.blocks = divide_up(shape.rows, kRowsOfBlock)}; }
  template <class Block>
  TANDEM_DEVICE std::int64_t row_of(const Block& block, int thread) const {
    return block.index() * kRowsOfBlock + thread / kLanes;
  }
  /// Calls `work(place)` for the packs of a thread's row, if there is one.
  template <class Block, class Work>
  TANDEM_DEVICE void each_pack(const Block& block, int thread, const Work& work) const {
    const std::int64_t row = row_of(block, thread);
    if (row >= shape.rows) return;
    for (std::int64_t i = thread % kLanes * kPack; i < shape.width; i += kLanes * kPack)
      work(PackPlace{row * shape.width + i, shape.width - i, whole}, PackPlace{i, shape.width - i, whole});
  }
  /// Each thread's variable becomes the sum over its row of value(place in all, place in the row).
  template <class Block, class Sums, class Value>
  TANDEM_DEVICE void sum(Block& block, const Sums& sums, const Value& value) const {
    block.each_thread([&](int thread) {
      float sum = 0.0F;
      each_pack(block, thread, [&](const PackPlace& place, const PackPlace& in_row) {
        const Pack pack = value(thread, place, in_row);
        for (int i = 0; i < kPack; ++i) sum += i < place.count ? pack[i] : 0.0F;
      });
      sums[thread] = sum;
    });
    block.sum_lanes(sums);
  }
};

template <class A>
struct NormRows {
  LaneRows rows;
  NormForward<A, float> spans;

  template <class Block>
  TANDEM_DEVICE void operator()(Block& block) const {
    constexpr float kEpsilon = 1e-5F;
    const A* x = spans.x.data();
    const float count = static_cast<float>(rows.shape.width);
    const auto sum = block.template per_thread<float>();
    const auto squares = block.template per_thread<float>();
    rows.sum(block, sum, [&](int, const PackPlace& place, const PackPlace&) { return place.load(x); });
    rows.sum(block, squares, [&](int thread, const PackPlace& place, const PackPlace&) {
      Pack pack = place.load(x);
      for (float& each : pack.values) each = (each - sum[thread] / count) * (each - sum[thread] / count);
      return pack;
    });
    block.each_thread([&](int thread) {
      const float mean = sum[thread] / count;
      const float inverse = 1.0F / std::sqrt(squares[thread] / count + kEpsilon);
      rows.each_pack(block, thread, [&](const PackPlace& place, const PackPlace& in_row) {
        Pack pack = place.load(x);
        const Pack gain = in_row.load(spans.gain.data()), bias = in_row.load(spans.bias.data());
        for (int i = 0; i < kPack; ++i) pack[i] = std::fma((pack[i] - mean) * inverse, gain[i], bias[i]);
        place.store(spans.y.data(), pack);
      });
      const std::int64_t row = rows.row_of(block, thread);
      if (thread % kLanes != 0 || row >= rows.shape.rows) return;
      spans.mean.data()[row] = mean;
      spans.inverse_deviation.data()[row] = inverse;
    });
  }
};

template <class A>
struct NormRowsBackward {
  LaneRows rows;
  NormBackward<A, float> spans;

  template <class Block>
  TANDEM_DEVICE void operator()(Block& block) const {
    const float count = static_cast<float>(rows.shape.width);
    const auto along_ones = block.template per_thread<float>();
    const auto along_x = block.template per_thread<float>();
    rows.sum(block, along_ones, [&](int, const PackPlace& place, const PackPlace& in_row) {
      return scaled(place, in_row);
    });
    rows.sum(block, along_x, [&](int thread, const PackPlace& place, const PackPlace& in_row) {
      Pack pack = scaled(place, in_row);
      const Pack x = normed(rows.row_of(block, thread), place);
      for (int i = 0; i < kPack; ++i) pack[i] *= x[i];
      return pack;
    });
    block.each_thread([&](int thread) {
      const float mean_of_ones = along_ones[thread] / count, mean_of_x = along_x[thread] / count;
      const std::int64_t row = rows.row_of(block, thread);
      rows.each_pack(block, thread, [&](const PackPlace& place, const PackPlace& in_row) {
        const float inverse = spans.inverse_deviation.data()[row];
        const Pack from = scaled(place, in_row), x = normed(row, place);
        Pack dx{};
        if (!spans.residual.empty()) dx = place.load(spans.residual.data());
        for (int i = 0; i < kPack; ++i) {
          dx[i] = std::fma(inverse, std::fma(-x[i], mean_of_x, from[i] - mean_of_ones), dx[i]);
        }
        place.store(spans.dx.data(), dx);
      });
    });
  }

 private:
  TANDEM_DEVICE Pack scaled(const PackPlace& place, const PackPlace& in_row) const {
    Pack pack = place.load(spans.dy.data());
    const Pack gain = in_row.load(spans.gain.data());
    for (int i = 0; i < kPack; ++i) pack[i] *= gain[i];
    return pack;
  }
  TANDEM_DEVICE Pack normed(std::int64_t row, const PackPlace& place) const {
    Pack pack = place.load(spans.x.data());
    for (float& each : pack.values)
      each = (each - spans.mean.data()[row]) * spans.inverse_deviation.data()[row];
    return pack;
  }
};

/// dy · (x − mean) · inverse_deviation, whose sum over rows is the gradient of the gain, and dy,
/// whose sum is that of the bias.
template <class A>
struct NormWeightTerms {
  static constexpr int kSums = 2;
  std::int64_t width;
  const A *x, *dy;
  const float *mean, *inverse_deviation;

  TANDEM_DEVICE void add(std::int64_t row, const PackPlace& place, Pack (&sums)[kSums]) const {
    const Pack from = place.load(dy), at = place.load(x);
    for (int i = 0; i < kPack; ++i) {
      sums[0][i] += from[i] * (at[i] - mean[row]) * inverse_deviation[row];
      sums[1][i] += from[i];
    }
  }
};

}  // namespace tandem::cuda
