#pragma once
// What the body of a kernel sees of the machine that runs it. A body is a function object, written
// once: on a GPU a grid of blocks of threads runs it, in tests a loop over blocks and threads on
// the CPU, in any order of them. Nothing here needs CUDA.
//
// A body is called once a block, with the block:
//   block.index(), block.blocks(), block.threads()   which block of how many, of how many threads
//   block.each_thread([&](int thread) { … })         a phase: all threads run it, and none goes on
//                                                    before all have
//   block.shared<T>(count)                           memory of the block, uninitialised
//   block.per_thread<T>()                            a variable of each thread, x[thread], that
//                                                    lives across phases; uninitialised
//   block.sum_lanes(x)                               a variable of each thread becomes its sum over
//                                                    the kLanes threads that the thread is among,
//                                                    by halves: the same in all of them
//   block.read(x)                                    the value of a place in shared memory, between
//                                                    phases
// Within a phase no thread reads what another one writes, nor do two write one place. Between
// phases all threads run the same with the same result: they read what nobody writes, and shared
// memory by read() alone. Blocks run in any order, or at once: none reads what another one writes.
//
// A grid runs bodies, one after the other: grid.run(GridShape, body). grid.workspace<T>(count) is
// memory for partial sums: the same at every call.

#include <algorithm>
#include <cstdint>

// What a GPU runs. The compiler of plain C++ knows no such thing.
#if defined(__CUDACC__)
#define TANDEM_DEVICE __device__
#else
#define TANDEM_DEVICE
#endif

namespace tandem::cuda {

inline constexpr int kThreads = 256;  // of a block; sums halve them, so a power of two

inline constexpr int kLanes = 32;  // threads that know one another's variables

struct GridShape {
  std::int64_t blocks = 0;
  std::int64_t shared_bytes = 0;  // of all that the body takes by shared()
};

/// Shared memory is handed out in pieces of 16 bytes.
template <class T>
constexpr std::int64_t shared_bytes(std::int64_t count) {
  return (count * static_cast<std::int64_t>(sizeof(T)) + 15) / 16 * 16;
}

constexpr std::int64_t divide_up(std::int64_t count, std::int64_t by) {
  return (count + by - 1) / by;
}

/// A phase: calls `work(i)` for i from `first` on and before `last`, each by one thread.
template <class Block, class Work>
TANDEM_DEVICE void each_of(Block& block, std::int64_t first, std::int64_t last, const Work& work) {
  block.each_thread([&](int thread) {
    for (std::int64_t i = first + thread; i < last; i += block.threads()) work(i);
  });
}

/// Combines value(i) for i < count: each thread those of its stride in ascending order, beginning
/// with `neutral`, then threads by halves. `scratch`: shared, one T a thread, free again on return.
template <class T, class Block, class Value, class Combine>
TANDEM_DEVICE T combine_all(Block& block, T* scratch, std::int64_t count, T neutral,
                            const Value& value, const Combine& combine) {
  block.each_thread([&](int thread) {
    T result = neutral;
    for (std::int64_t i = thread; i < count; i += block.threads())
      result = combine(result, value(i));
    scratch[thread] = result;
  });
  for (int half = block.threads() / 2; half > 0; half /= 2) {
    block.each_thread([&](int thread) {
      if (thread < half) scratch[thread] = combine(scratch[thread], scratch[thread + half]);
    });
  }
  return block.read(scratch[0]);
}

template <class T, class Block, class Value>
TANDEM_DEVICE T sum_all(Block& block, T* scratch, std::int64_t count, const Value& value) {
  return combine_all(block, scratch, count, T{}, value, [](T a, T b) { return a + b; });
}

/// The largest of value(i), at least `least`. NaN does not win.
template <class T, class Block, class Value>
TANDEM_DEVICE T largest_of_all(Block& block, T* scratch, std::int64_t count, T least,
                               const Value& value) {
  return combine_all(block, scratch, count, least, value, [](T a, T b) { return b > a ? b : a; });
}

/// Calls `work(i)` for i < count, each by one thread of the grid.
template <class Work>
struct EachElement {
  std::int64_t count;
  Work work;

  template <class Block>
  TANDEM_DEVICE void operator()(Block& block) const {
    block.each_thread([&](int thread) {
      const std::int64_t stride = block.blocks() * block.threads();
      for (std::int64_t i = block.index() * block.threads() + thread; i < count; i += stride)
        work(i);
    });
  }
};

/// For a thread an element; where there are many, each thread takes several.
constexpr GridShape grid_of_elements(std::int64_t count) {
  return {.blocks = std::min(divide_up(count, kThreads), std::int64_t{1} << 16)};
}

template <class Grid, class Work>
void run_each_element(Grid& grid, std::int64_t count, const Work& work) {
  grid.run(grid_of_elements(count), EachElement<Work>{count, work});
}

}  // namespace tandem::cuda
