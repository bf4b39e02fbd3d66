#pragma once
// Packs: neighbours that a thread moves at once, for memory is far: 16 bytes of what is stored, so
// that the threads of a warp ask for whole lines. They are computed on in float.

#include <algorithm>
#include <cstdint>

#include "executor/cuda/kernels/bf16.h"
#include "executor/cuda/kernels/block.h"

namespace tandem::cuda {

inline constexpr std::int64_t kPackBytes = 16;

/// Numbers of a pack where what is stored is of these types: 16 bytes of the widest.
template <class... A>
inline constexpr int kPackOf =
    static_cast<int>(kPackBytes / std::max({static_cast<std::int64_t>(sizeof(A))...}));

template <int N>
struct Pack {
  float values[N];
  TANDEM_DEVICE float& operator[](int i) { return values[i]; }
  TANDEM_DEVICE float operator[](int i) const { return values[i]; }
};

/// Whether packs of these begin where they can be moved whole. Null: is not asked for.
template <class... A>
bool packs_are_whole(const A*... first) {
  return ((reinterpret_cast<std::uintptr_t>(first) % kPackBytes == 0) && ...);
}
/// The same of matrices with rows of that width.
template <class... A>
bool rows_are_whole(std::int64_t width, const A*... first) {
  return width % kPackOf<A...> == 0 && packs_are_whole(first...);
}

/// As it is stored.
template <class A, int N>
struct alignas(N * sizeof(A)) StoredPack {
  A values[N];
};

/// Memory of which a thread moves a pack.
template <int N>
struct PackPlace {
  std::int64_t first, count;  // the pack's first element, and how many there are from it on
  bool whole;                 // packs_are_whole(), and `first` is a multiple of N

  /// Zeros beyond `count`.
  template <class A>
  TANDEM_DEVICE Pack<N> load(const A* memory) const {
    Pack<N> pack;
    if (whole && count >= N) {
      const auto stored = *reinterpret_cast<const StoredPack<A, N>*>(memory + first);
      for (int i = 0; i < N; ++i) pack[i] = to_float(stored.values[i]);
    } else {
      for (int i = 0; i < N; ++i) pack[i] = i < count ? to_float(memory[first + i]) : 0.0F;
    }
    return pack;
  }
  template <class A>
  TANDEM_DEVICE void store(A* memory, const Pack<N>& pack) const {
    if (whole && count >= N) {
      StoredPack<A, N> stored;
      for (int i = 0; i < N; ++i) stored.values[i] = narrow<A>(pack[i]);
      *reinterpret_cast<StoredPack<A, N>*>(memory + first) = stored;
    } else {
      for (int i = 0; i < N; ++i) {
        if (i < count) memory[first + i] = narrow<A>(pack[i]);
      }
    }
  }
};

/// Calls `work(place)` for each pack of `count` elements, each by one thread of the grid.
template <int N, class Work>
struct EachPack {
  std::int64_t count;
  bool whole;
  Work work;

  template <class Block>
  TANDEM_DEVICE void operator()(Block& block) const {
    block.each_thread([&](int thread) {
      const std::int64_t stride = block.blocks() * block.threads() * N;
      for (std::int64_t i = (block.index() * block.threads() + thread) * N; i < count; i += stride)
        work(PackPlace<N>{i, count - i, whole});
    });
  }
};

/// `memory`: the first elements of all that the work moves.
template <class Grid, class Work, class... A>
void run_each_pack(Grid& grid, std::int64_t count, const Work& work, const A*... memory) {
  constexpr int kPack = kPackOf<A...>;
  grid.run(grid_of_elements(divide_up(count, kPack)),
           EachPack<kPack, Work>{count, packs_are_whole(memory...), work});
}

}  // namespace tandem::cuda
