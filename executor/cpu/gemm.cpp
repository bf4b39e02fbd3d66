#include "executor/cpu/gemm.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

namespace tandem::cpu {
namespace {

// Inlined into each variant, so as to be compiled for its instruction set.
#define TANDEM_INLINE [[gnu::always_inline]] inline

// A block of B (inner × columns), packed, stays in the second-level cache while all rows pass over
// it.
constexpr std::int64_t kInnerBlock = 128;
constexpr std::int64_t kColumnBlock = 256;

/// C += A·B for one tile of kRows × kVectors vectors held in registers. a: [inner][kRows], b:
/// [inner][tile columns].
template <class T, int kBytes, int kRows, int kVectors>
TANDEM_INLINE void run_tile(std::int64_t inner, const T* a, const T* b, T* c, std::int64_t c_row) {
  using Vector [[gnu::vector_size(kBytes)]] = T;
  constexpr std::int64_t kLanes = kBytes / static_cast<int>(sizeof(T));
  Vector sums[kRows][kVectors];
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      std::memcpy(&sums[row][v], c + row * c_row + v * kLanes, kBytes);
    }
  }
  for (std::int64_t k = 0; k < inner; ++k) {
    Vector right[kVectors];
    std::memcpy(right, b + k * kVectors * kLanes, sizeof(right));
#pragma GCC unroll 16
    for (int row = 0; row < kRows; ++row) {
      const T left = a[k * kRows + row];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sums[row][v] += left * right[v];
    }
  }
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      std::memcpy(c + row * c_row + v * kLanes, &sums[row][v], kBytes);
    }
  }
}

/// The same at an edge, through a full tile whose surplus is thrown away.
template <class T, int kBytes, int kRows, int kVectors>
TANDEM_INLINE void run_edge(std::int64_t inner, const T* a, const T* b, T* c, std::int64_t c_row,
                            std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t kColumns = kVectors * kBytes / static_cast<int>(sizeof(T));
  T tile[kRows * kColumns] = {};
  const std::size_t bytes = static_cast<std::size_t>(columns) * sizeof(T);
  for (std::int64_t row = 0; row < rows; ++row) {
    std::memcpy(tile + row * kColumns, c + row * c_row, bytes);
  }
  run_tile<T, kBytes, kRows, kVectors>(inner, a, b, tile, kColumns);
  for (std::int64_t row = 0; row < rows; ++row) {
    std::memcpy(c + row * c_row, tile + row * kColumns, bytes);
  }
}

/// Packs `count` lines of `length` so that kWidth lines interleave: out[panel][position][line].
/// Missing lines are zeros.
template <class T, std::int64_t kWidth>
TANDEM_INLINE void pack(const T* from, std::int64_t line_stride, std::int64_t position_stride,
                        std::int64_t count, std::int64_t length, T* out) {
  for (std::int64_t first = 0; first < count; first += kWidth) {
    const std::int64_t width = std::min(kWidth, count - first);
    const T* panel = from + first * line_stride;
    for (std::int64_t position = 0; position < length; ++position, out += kWidth) {
      const T* source = panel + position * position_stride;
      if (width == kWidth && line_stride == 1) {
        std::memcpy(out, source, static_cast<std::size_t>(kWidth) * sizeof(T));
        continue;
      }
      for (std::int64_t line = 0; line < kWidth; ++line) {
        out[line] = line < width ? source[line * line_stride] : T{};
      }
    }
  }
}

template <class T, int kBytes, int kRows, int kVectors>
TANDEM_INLINE void run_blocked(const Gemm<T>& g) {
  constexpr std::int64_t kColumns = kVectors * kBytes / static_cast<int>(sizeof(T));
  static_assert(kColumnBlock % kColumns == 0);
  alignas(64) T right[kInnerBlock * kColumnBlock];
  alignas(64) T left[kInnerBlock * kRows];
  for (std::int64_t column = 0; column < g.columns; column += kColumnBlock) {
    const std::int64_t columns = std::min(kColumnBlock, g.columns - column);
    for (std::int64_t k = 0; k < g.inner; k += kInnerBlock) {
      const std::int64_t inner = std::min(kInnerBlock, g.inner - k);
      pack<T, kColumns>(g.b + k * g.b_inner + column * g.b_column, g.b_column, g.b_inner, columns,
                        inner, right);
      for (std::int64_t row = 0; row < g.rows; row += kRows) {
        const std::int64_t rows = std::min<std::int64_t>(kRows, g.rows - row);
        pack<T, kRows>(g.a + row * g.a_row + k * g.a_inner, g.a_row, g.a_inner, rows, inner, left);
        for (std::int64_t tile = 0; tile < columns; tile += kColumns) {
          const std::int64_t width = std::min(kColumns, columns - tile);
          T* c = g.c + row * g.c_row + column + tile;
          if (rows == kRows && width == kColumns) {
            run_tile<T, kBytes, kRows, kVectors>(inner, left, right + tile * inner, c, g.c_row);
          } else {
            run_edge<T, kBytes, kRows, kVectors>(inner, left, right + tile * inner, c, g.c_row,
                                                 rows, width);
          }
        }
      }
    }
  }
}

template <class T>
void run_portable(const Gemm<T>& g) {
  run_blocked<T, 16, 6, 2>(g);
}

#if defined(__x86_64__)
// AVX-512 gives less: with separate multiplications and additions, 72–88 GFLOP/s a core where AVX2
// gives 95.
template <class T>
[[gnu::target("avx2")]] void run_avx2(const Gemm<T>& g) {
  run_blocked<T, 32, 6, 2>(g);
}
#endif

template <class T>
std::vector<GemmVariant<T>> supported() {
  std::vector<GemmVariant<T>> variants{{"portable", run_portable<T>}};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) variants.push_back({"avx2", run_avx2<T>});
#endif
  return variants;
}

}  // namespace

template <class T>
std::span<const GemmVariant<T>> gemm_variants() {
  static const std::vector<GemmVariant<T>> variants = supported<T>();
  return variants;
}

template <class T>
void gemm(const Gemm<T>& arguments) {
  gemm_variants<T>().back().run(arguments);
}

template std::span<const GemmVariant<float>> gemm_variants<float>();
template std::span<const GemmVariant<double>> gemm_variants<double>();
template void gemm<float>(const Gemm<float>&);
template void gemm<double>(const Gemm<double>&);

}  // namespace tandem::cpu
