#pragma once
// Packs: eight neighbours at once. Memory is far, so a thread asks for 16 bytes or more a time; it
// computes in float, whatever is stored.

#include <cstdint>

#include "executor/cuda/kernels/bf16.h"
#include "executor/cuda/kernels/block.h"

namespace tandem::cuda {

inline constexpr int kPack = 8;
inline constexpr std::uintptr_t kPackAlignment = 16;  // bytes, of whatever is stored

struct Pack {
  float values[kPack];
  TANDEM_DEVICE float& operator[](int i) { return values[i]; }
  TANDEM_DEVICE float operator[](int i) const { return values[i]; }
};

/// Whether packs of these begin where whole ones can be moved. Null: is not asked for.
template <class... A>
bool packs_are_whole(const A*... first) {
  return ((reinterpret_cast<std::uintptr_t>(first) % kPackAlignment == 0) && ...);
}

/// As it is stored.
template <class A>
struct alignas(kPackAlignment) StoredPack {
  A values[kPack];
};

/// Those from `first` on; beyond `count` of them zeros. `whole`: packs_are_whole() of the memory that
/// the pack is a multiple of packs into.
template <class A>
TANDEM_DEVICE Pack load_pack(const A* first, std::int64_t count, bool whole) {
  Pack pack;
  if (whole && count >= kPack) {
    const auto stored = *reinterpret_cast<const StoredPack<A>*>(first);
    for (int i = 0; i < kPack; ++i) pack[i] = to_float(stored.values[i]);
  } else {
    for (int i = 0; i < kPack; ++i) pack[i] = i < count ? to_float(first[i]) : 0.0F;
  }
  return pack;
}

template <class A>
TANDEM_DEVICE void store_pack(A* first, std::int64_t count, bool whole, const Pack& pack) {
  if (whole && count >= kPack) {
    StoredPack<A> stored;
    for (int i = 0; i < kPack; ++i) stored.values[i] = narrow<A>(pack[i]);
    *reinterpret_cast<StoredPack<A>*>(first) = stored;
  } else {
    for (int i = 0; i < kPack; ++i) {
      if (i < count) first[i] = narrow<A>(pack[i]);
    }
  }
}

/// Memory of which a thread moves a pack, from an element on that is a multiple of kPack.
struct PackPlace {
  std::int64_t first, count;  // count: of the elements there are from it on
  bool whole;

  template <class A>
  TANDEM_DEVICE Pack load(const A* memory) const {
    return load_pack(memory + first, count, whole);
  }
  template <class A>
  TANDEM_DEVICE void store(A* memory, const Pack& pack) const {
    store_pack(memory + first, count, whole, pack);
  }
};

/// Calls `work(place)` for each pack of `count` elements, each by one thread of the grid.
template <class Work>
struct EachPack {
  std::int64_t count;
  bool whole;
  Work work;

  template <class Block>
  TANDEM_DEVICE void operator()(Block& block) const {
    block.each_thread([&](int thread) {
      const std::int64_t stride = block.blocks() * block.threads() * kPack;
      for (std::int64_t i = (block.index() * block.threads() + thread) * kPack; i < count;
           i += stride)
        work(PackPlace{i, count - i, whole});
    });
  }
};

/// `memory`: the first elements of all that the work moves.
template <class Grid, class Work, class... A>
void run_each_pack(Grid& grid, std::int64_t count, const Work& work, const A*... memory) {
  grid.run(grid_of_elements(divide_up(count, kPack)),
           EachPack<Work>{count, packs_are_whole(memory...), work});
}

}  // namespace tandem::cuda
