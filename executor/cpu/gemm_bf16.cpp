#include "executor/cpu/gemm_bf16.h"

#include <algorithm>

#include "core/base/check.h"
#include "executor/cpu/gemm_edge.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>

#define TANDEM_BF16 [[gnu::target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]]
#define TANDEM_BF16_INLINE TANDEM_BF16 [[gnu::always_inline]] inline

namespace tandem::cpu {
namespace {

/// Two bfloat16: neighbours along the inner index, which one instruction multiplies and adds up.
using Pair = std::uint32_t;

constexpr std::int64_t kLanes = 16;  // pairs, or floats, of a vector
constexpr std::int64_t kTileRows = 8, kTileVectors = 2;
constexpr std::int64_t kTileColumns = kTileVectors * kLanes;
// A packed block of B stays in the second-level cache while all rows pass over it; of it, what one
// tile needs stays in the first-level cache for a block of rows.
constexpr std::int64_t kInner = 512, kPairs = kInner / 2, kColumns = 768, kRows = 64;
constexpr std::int64_t kPanel = kPairs * kLanes;  // pairs of a packed panel of 16 lines

constexpr std::int64_t ceiling(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// A factor, or a part of one, as it lies in memory: rows of A or columns of B are its lines.
struct Factor {
  const float* data = nullptr;
  std::int64_t line_stride = 0, inner_stride = 0;
  const float* at(std::int64_t line, std::int64_t inner) const {
    return data + line * line_stride + inner * inner_stride;
  }
  Factor from(std::int64_t line, std::int64_t inner) const {
    return {at(line, inner), line_stride, inner_stride};
  }
};

TANDEM_BF16_INLINE __m512 load(const float* from, std::int64_t count) {
  if (count >= kLanes) return _mm512_loadu_ps(from);
  const auto mask = count <= 0 ? __mmask16{0} : static_cast<__mmask16>((1U << count) - 1U);
  return _mm512_maskz_loadu_ps(mask, from);
}

/// Of 32 numbers, or fewer and zeros, the pairs.
TANDEM_BF16_INLINE __m512i round_pairs(const float* from, std::int64_t count) {
  const __m512 low = load(from, count), high = load(from + kLanes, count - kLanes);
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
}

/// out[i][j] = in[j][i].
TANDEM_BF16_INLINE void transpose(const __m512i (&in)[kLanes], __m512i (&out)[kLanes]) {
  __m512i twos[kLanes], fours[kLanes];
#pragma GCC unroll 8
  for (int i = 0; i < kLanes; i += 2) {
    twos[i] = _mm512_unpacklo_epi32(in[i], in[i + 1]);
    twos[i + 1] = _mm512_unpackhi_epi32(in[i], in[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < kLanes; i += 4) {
    fours[i] = _mm512_unpacklo_epi64(twos[i], twos[i + 2]);
    fours[i + 1] = _mm512_unpackhi_epi64(twos[i], twos[i + 2]);
    fours[i + 2] = _mm512_unpacklo_epi64(twos[i + 1], twos[i + 3]);
    fours[i + 3] = _mm512_unpackhi_epi64(twos[i + 1], twos[i + 3]);
  }
  constexpr int kEven = 0x88, kOdd = 0xDD;  // of quarters of vectors
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const __m512i a = _mm512_shuffle_i32x4(fours[i], fours[i + 4], kEven);
    const __m512i b = _mm512_shuffle_i32x4(fours[i], fours[i + 4], kOdd);
    const __m512i c = _mm512_shuffle_i32x4(fours[i + 8], fours[i + 12], kEven);
    const __m512i d = _mm512_shuffle_i32x4(fours[i + 8], fours[i + 12], kOdd);
    out[i] = _mm512_shuffle_i32x4(a, c, kEven);
    out[i + 4] = _mm512_shuffle_i32x4(b, d, kEven);
    out[i + 8] = _mm512_shuffle_i32x4(a, c, kOdd);
    out[i + 12] = _mm512_shuffle_i32x4(b, d, kOdd);
  }
}

/// Packs lines that lie side by side: out[panel of 16][pair][line], zeros where there is none.
TANDEM_BF16 void pack_adjacent(const Factor& from, std::int64_t lines, std::int64_t inner,
                               Pair* out) {
  alignas(64) static constexpr std::int16_t kTurns[] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                        21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                        11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const __m512i turns = _mm512_load_si512(kTurns);
  constexpr std::int64_t kAhead = 8;
  for (std::int64_t k = 0; k < inner; k += 2) {
    Pair* to = out + k / 2 * kLanes;
    for (std::int64_t line = 0; line < lines; line += kLanes, to += kPanel) {
      const std::int64_t count = lines - line;
      __builtin_prefetch(from.at(line, k + kAhead));
      __builtin_prefetch(from.at(line, k + kAhead + 1));
      const __m512 first = load(from.at(line, k), count);
      const __m512 second = k + 1 < inner ? load(from.at(line, k + 1), count) : _mm512_setzero_ps();
      const auto both = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(second, first));
      _mm512_store_si512(to, _mm512_permutexvar_epi16(turns, both));
    }
  }
}

/// The same of lines that lie one after the other.
TANDEM_BF16 void pack_consecutive(const Factor& from, std::int64_t lines, std::int64_t inner,
                                  Pair* out) {
  for (std::int64_t line = 0; line < lines; line += kLanes, out += kPanel) {
    for (std::int64_t k = 0; k < inner; k += 2 * kLanes) {
      __m512i rounded[kLanes], turned[kLanes];
      for (std::int64_t i = 0; i < kLanes; ++i) {
        rounded[i] = line + i < lines ? round_pairs(from.at(line + i, k), inner - k)
                                      : _mm512_setzero_si512();
      }
      transpose(rounded, turned);
      for (std::int64_t i = 0; i < kLanes; ++i)
        _mm512_store_si512(out + (k / 2 + i) * kLanes, turned[i]);
    }
  }
}

void pack(const Factor& from, std::int64_t lines, std::int64_t inner, Pair* out) {
  if (from.line_stride == 1) return pack_adjacent(from, lines, inner, out);
  pack_consecutive(from, lines, inner, out);
}

/// Rounds rows, which stay rows, kPairs apart; zeros up to a whole tile.
TANDEM_BF16 void round_rows(const Factor& from, std::int64_t rows, std::int64_t inner, Pair* out) {
  for (std::int64_t row = 0; row < rows; ++row, out += kPairs) {
    for (std::int64_t k = 0; k < inner; k += 2 * kLanes)
      _mm512_store_si512(out + k / 2, round_pairs(from.at(row, k), inner - k));
  }
  const std::int64_t missing = (kTileRows - rows % kTileRows) % kTileRows;
  std::fill_n(out, missing * kPairs, Pair{0});
}

/// Where a tile of C finds its numbers.
struct Tile {
  std::int64_t pairs = 0;
  const Pair* a = nullptr;
  std::int64_t a_row = 0, a_pair = 0;
  const Pair* b = nullptr;  // a panel for each vector
  float* c = nullptr;
  std::int64_t c_row = 0;
  bool adds = true;  // to what C holds; otherwise C starts from `bias`, or from zeros
  const float* bias = nullptr;
};

TANDEM_BF16_INLINE void run_tile(const Tile& tile) {
  __m512 sums[kTileRows][kTileVectors];
#pragma GCC unroll 8
  for (int row = 0; row < kTileRows; ++row) {
#pragma GCC unroll 2
    for (int v = 0; v < kTileVectors; ++v) {
      if (tile.adds) {
        sums[row][v] = _mm512_loadu_ps(tile.c + row * tile.c_row + v * kLanes);
      } else if (tile.bias != nullptr) {
        sums[row][v] = _mm512_loadu_ps(tile.bias + v * kLanes);
      } else {
        sums[row][v] = _mm512_setzero_ps();
      }
    }
  }
  const Pair *a = tile.a, *b = tile.b;
  for (std::int64_t k = 0; k < tile.pairs; ++k, a += tile.a_pair, b += kLanes) {
    __m512bh right[kTileVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kTileVectors; ++v)
      right[v] = reinterpret_cast<__m512bh>(_mm512_load_si512(b + v * kPanel));
#pragma GCC unroll 8
    for (int row = 0; row < kTileRows; ++row) {
      const auto left =
          reinterpret_cast<__m512bh>(_mm512_set1_epi32(static_cast<int>(a[row * tile.a_row])));
#pragma GCC unroll 2
      for (int v = 0; v < kTileVectors; ++v)
        sums[row][v] = _mm512_dpbf16_ps(sums[row][v], left, right[v]);
    }
  }
#pragma GCC unroll 8
  for (int row = 0; row < kTileRows; ++row) {
#pragma GCC unroll 2
    for (int v = 0; v < kTileVectors; ++v)
      _mm512_storeu_ps(tile.c + row * tile.c_row + v * kLanes, sums[row][v]);
  }
}

/// The same at an edge, through a full tile whose surplus is thrown away.
TANDEM_BF16 void run_edge(Tile tile, std::int64_t rows, std::int64_t columns) {
  EdgeTile<float, kTileRows, kTileColumns> edge(tile, rows, columns);
  run_tile(tile);
  edge.copy_back();
}

/// What is packed next: while `tiles` tiles compute it arrives in the second-level cache.
class Ahead {
 public:
  Ahead(const Factor& from, std::int64_t lines, std::int64_t inner, std::int64_t tiles)
      : data_(from.data),
        stride_(std::max(from.line_stride, from.inner_stride)),
        strips_(from.inner_stride == 1 ? lines : inner),
        length_(from.inner_stride == 1 ? inner : lines),
        at_once_(ceiling(strips_ * ceiling(length_, kLanes), tiles)) {}

  /// A tile's part of it.
  void fetch() {
    for (std::int64_t i = 0; i < at_once_ && strip_ < strips_; ++i) {
      __builtin_prefetch(data_ + strip_ * stride_ + at_, 0, 2);
      at_ += kLanes;
      if (at_ < length_) continue;
      at_ = 0;
      ++strip_;
    }
  }

 private:
  const float* data_;
  std::int64_t stride_, strips_, length_, at_once_, strip_ = 0, at_ = 0;
};

/// All tiles of a block of rows and a block of columns. `tile` is the first of them.
TANDEM_BF16 void run_block(const Tile& first, std::int64_t rows, std::int64_t columns,
                           Ahead ahead) {
  for (std::int64_t column = 0; column < columns; column += kTileColumns) {
    for (std::int64_t row = 0; row < rows; row += kTileRows) {
      Tile tile = first;
      // Panels of 16 rows hold two tiles.
      tile.a += first.a_row == 1 ? row / kLanes * kPanel + row % kLanes : row * first.a_row;
      tile.b += column / kLanes * kPanel;
      tile.c += row * first.c_row + column;
      if (first.bias != nullptr) tile.bias += column;
      ahead.fetch();
      if (rows - row >= kTileRows && columns - column >= kTileColumns) {
        for (std::int64_t next = kTileRows; next < 2 * kTileRows; ++next) {
          // The next tile's part of C arrives while this one computes.
          for (int v = 0; v < kTileVectors; ++v)
            __builtin_prefetch(tile.c + next * tile.c_row + v * kLanes, 1);
        }
        run_tile(tile);
      } else {
        run_edge(tile, std::min(kTileRows, rows - row), std::min(kTileColumns, columns - column));
      }
    }
  }
}

}  // namespace

void gemm_bf16(const Gemm<float>& g) {
  TANDEM_CHECK((g.a_row == 1 || g.a_inner == 1) && (g.b_column == 1 || g.b_inner == 1), g.a_row,
               g.a_inner, g.b_column, g.b_inner);
  alignas(64) Pair right[kPairs * kColumns];
  alignas(64) Pair left[kPairs * kRows];
  const Factor a{g.a, g.a_row, g.a_inner}, b{g.b, g.b_column, g.b_inner};
  const bool rows_stay = g.a_inner == 1;
  for (std::int64_t column = 0; column < g.columns; column += kColumns) {
    const std::int64_t columns = std::min(kColumns, g.columns - column);
    for (std::int64_t k = 0; k < g.inner; k += kInner) {
      const std::int64_t inner = std::min(kInner, g.inner - k);
      pack(b.from(column, k), columns, inner, right);
      for (std::int64_t row = 0; row < g.rows; row += kRows) {
        const std::int64_t rows = std::min(kRows, g.rows - row);
        const Factor block = a.from(row, k);
        rows_stay ? round_rows(block, rows, inner, left) : pack_adjacent(block, rows, inner, left);
        run_block(Tile{.pairs = (inner + 1) / 2,
                       .a = left,
                       .a_row = rows_stay ? kPairs : 1,
                       .a_pair = rows_stay ? 1 : kLanes,
                       .b = right,
                       .c = g.c + row * g.c_row + column,
                       .c_row = g.c_row,
                       .adds = g.adds || k > 0,
                       .bias = g.bias == nullptr ? nullptr : g.bias + column},
                  rows, columns,
                  Ahead(a.from(row + rows, k), std::min(kRows, g.rows - row - rows), inner,
                        ceiling(rows, kTileRows) * ceiling(columns, kTileColumns)));
      }
    }
  }
}

bool has_bf16_instructions() {
  return __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

bool has_bf16_tiles() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned kAmxBf16 = 1U << 22, kTiles = 0x1D;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0 || (edx & kAmxBf16) == 0) return false;
  return __get_cpuid_count(kTiles, 0, &eax, &ebx, &ecx, &edx) != 0 && eax > 0;
}

}  // namespace tandem::cpu

#else

namespace tandem::cpu {

bool has_bf16_instructions() { return false; }
bool has_bf16_tiles() { return false; }
void gemm_bf16(const Gemm<float>&) { TANDEM_CHECK(has_bf16_instructions()); }

}  // namespace tandem::cpu

#endif
