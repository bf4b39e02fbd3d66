#pragma once
// Layer norm, and RMS norm, whose mean is 0 and which has no bias: kLanes threads a row. Means and
// deviations are taken in float, of the values themselves and of their distances from the mean,
// whatever the activations are stored in.

#include <cmath>
#include <cstdint>

#include "executor/backend/kernels.h"
#include "executor/cuda/kernels/block.h"
#include "executor/cuda/kernels/pack.h"

namespace tandem::cuda {

/// Rows of a matrix, kLanes threads each, packs of N.
template <int N>
struct LaneRows {
  RowShape shape;
  bool whole;  // rows_are_whole()

  static constexpr std::int64_t kRowsOfBlock = kThreads / kLanes;
  using Place = PackPlace<N>;

  GridShape grid() const { return {.blocks = divide_up(shape.rows, kRowsOfBlock)}; }
  template <class Block>
  TANDEM_DEVICE std::int64_t row_of(const Block& block, int thread) const {
    return block.index() * kRowsOfBlock + thread / kLanes;
  }
  /// Calls `work(place in all, place in the row)` for the packs of a thread's row, if there is one.
  template <class Block, class Work>
  TANDEM_DEVICE void each_pack(const Block& block, int thread, const Work& work) const {
    const std::int64_t row = row_of(block, thread);
    if (row >= shape.rows) return;
    for (std::int64_t i = thread % kLanes * N; i < shape.width; i += kLanes * N) {
      work(Place{row * shape.width + i, shape.width - i, whole}, Place{i, shape.width - i, whole});
    }
  }
};

template <class A>
struct NormRows {
  static constexpr int kPack = kPackOf<A>;
  using Place = PackPlace<kPack>;
  LaneRows<kPack> rows;
  NormForward<A, float> spans;

  template <class Block>
  TANDEM_DEVICE void operator()(Block& block) const {
    const auto epsilon = static_cast<float>(spans.epsilon);
    const bool is_rms = spans.mean.empty();
    const A* x = spans.x.data();
    const float count = static_cast<float>(rows.shape.width);
    const auto sum = block.template per_thread<float>();
    const auto squares = block.template per_thread<float>();
    block.each_thread([&](int thread) {
      sum[thread] = 0.0F;
      rows.each_pack(block, thread, [&](const Place& place, const Place&) {
        for (const float each : place.load(x).values) sum[thread] += each;
      });
    });
    block.sum_lanes(sum);
    block.each_thread([&](int thread) {
      const float mean = is_rms ? 0.0F : sum[thread] / count;
      squares[thread] = 0.0F;
      rows.each_pack(block, thread, [&](const Place& place, const Place&) {
        const Pack<kPack> pack = place.load(x);
        for (int i = 0; i < kPack; ++i)
          squares[thread] += i < place.count ? (pack[i] - mean) * (pack[i] - mean) : 0.0F;
      });
    });
    block.sum_lanes(squares);
    block.each_thread([&](int thread) {
      const float mean = is_rms ? 0.0F : sum[thread] / count;
      const float inverse = 1.0F / std::sqrt(squares[thread] / count + epsilon);
      rows.each_pack(block, thread, [&](const Place& place, const Place& in_row) {
        Pack<kPack> pack = place.load(x);
        const Pack<kPack> gain = in_row.load(spans.gain.data());
        Pack<kPack> bias{};
        if (!is_rms) bias = in_row.load(spans.bias.data());
        for (int i = 0; i < kPack; ++i)
          pack[i] = std::fma((pack[i] - mean) * inverse, gain[i], bias[i]);
        place.store(spans.y.data(), pack);
      });
      const std::int64_t row = rows.row_of(block, thread);
      if (thread % kLanes != 0 || row >= rows.shape.rows) return;
      if (!is_rms) spans.mean.data()[row] = mean;
      spans.inverse_deviation.data()[row] = inverse;
    });
  }
};

template <class A>
struct NormRowsBackward {
  static constexpr int kPack = kPackOf<A>;
  using Place = PackPlace<kPack>;
  LaneRows<kPack> rows;
  NormBackward<A, float> spans;

  template <class Block>
  TANDEM_DEVICE void operator()(Block& block) const {
    const auto along_ones = block.template per_thread<float>();
    const auto along_x = block.template per_thread<float>();
    block.each_thread([&](int thread) {
      along_ones[thread] = along_x[thread] = 0.0F;
      const std::int64_t row = rows.row_of(block, thread);
      rows.each_pack(block, thread, [&](const Place& place, const Place& in_row) {
        const Terms terms(*this, row, place, in_row);
        for (int i = 0; i < kPack; ++i) {
          along_ones[thread] += terms.scaled[i];
          along_x[thread] += terms.scaled[i] * terms.normed[i];
        }
      });
    });
    block.sum_lanes(along_ones);
    block.sum_lanes(along_x);
    block.each_thread([&](int thread) {
      const float count = static_cast<float>(rows.shape.width);
      const float mean_of_ones = spans.mean.empty() ? 0.0F : along_ones[thread] / count,
                  mean_of_x = along_x[thread] / count;
      const std::int64_t row = rows.row_of(block, thread);
      rows.each_pack(block, thread, [&](const Place& place, const Place& in_row) {
        const Terms terms(*this, row, place, in_row);
        Pack<kPack> dx{};
        if (!spans.residual.empty()) dx = place.load(spans.residual.data());
        for (int i = 0; i < kPack; ++i) {
          const float rest = std::fma(-terms.normed[i], mean_of_x, terms.scaled[i] - mean_of_ones);
          dx[i] = std::fma(spans.inverse_deviation.data()[row], rest, dx[i]);
        }
        place.store(spans.dx.data(), dx);
      });
    });
  }

 private:
  struct Terms {
    Pack<kPack> scaled, normed;
    TANDEM_DEVICE Terms(const NormRowsBackward& of, std::int64_t row, const Place& place,
                        const Place& in_row)
        : scaled(place.load(of.spans.dy.data())), normed(place.load(of.spans.x.data())) {
      const Pack<kPack> gain = in_row.load(of.spans.gain.data());
      const float mean = of.spans.mean.empty() ? 0.0F : of.spans.mean.data()[row];
      const float inverse = of.spans.inverse_deviation.data()[row];
      for (int i = 0; i < kPack; ++i) {
        scaled[i] *= gain[i];
        normed[i] = (normed[i] - mean) * inverse;
      }
    }
  };
};

/// dy · (x − mean) · inverse_deviation, whose sum over rows is the gradient of the gain, and dy,
/// whose sum is that of the bias.
template <class A>
struct NormWeightTerms {
  static constexpr int kSums = 2, kPack = kPackOf<A>;
  const A *x, *dy;
  const float *mean, *inverse_deviation;

  TANDEM_DEVICE void add(std::int64_t row, const PackPlace<kPack>& place,
                         Pack<kPack> (&sums)[kSums]) const {
    const Pack<kPack> from = place.load(dy), at = place.load(x);
    for (int i = 0; i < kPack; ++i) {
      sums[0][i] += from[i] * (at[i] - mean[row]) * inverse_deviation[row];
      sums[1][i] += from[i];
    }
  }
};

/// The first of them, of an RMS norm.
template <class A>
struct RmsWeightTerms {
  static constexpr int kSums = 1, kPack = kPackOf<A>;
  const A *x, *dy;
  const float* inverse_deviation;

  TANDEM_DEVICE void add(std::int64_t row, const PackPlace<kPack>& place,
                         Pack<kPack> (&sums)[kSums]) const {
    const Pack<kPack> from = place.load(dy), at = place.load(x);
    for (int i = 0; i < kPack; ++i) sums[0][i] += from[i] * at[i] * inverse_deviation[row];
  }
};

}  // namespace tandem::cuda
