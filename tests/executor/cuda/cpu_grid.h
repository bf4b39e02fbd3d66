#pragma once
// Runs the bodies of GPU kernels on the CPU: a loop over blocks, phases and threads. Whoever sees a
// barrier missing, or blocks that race, sees other bits in another order of threads or blocks;
// memory that nobody wrote is NaN.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "core/base/check.h"
#include "core/base/random.h"
#include "executor/cuda/kernels/block.h"

namespace tandem::cuda::testing {

/// In which the threads of a phase run, and the blocks of a grid.
enum class Order : std::uint8_t { ascending, descending, shuffled };

/// Every byte says: not a number, of any type of floating point.
inline constexpr int kPoison = 0xFF;

/// 0 … count − 1. A shuffled order differs by `key`.
inline std::vector<std::int64_t> order_of(Order order, std::int64_t count, std::uint64_t key) {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(count));
  std::iota(indices.begin(), indices.end(), std::int64_t{0});
  if (order == Order::descending) std::reverse(indices.begin(), indices.end());
  if (order == Order::shuffled) {
    for (std::size_t i = indices.size(); i > 1; --i) {
      std::swap(indices[i - 1], indices[random_bits(1, key, i) % i]);
    }
  }
  return indices;
}

/// What every block on the CPU has.
class AnyCpuBlock {
 public:
  AnyCpuBlock(const GridShape& grid, std::int64_t index) : grid_(grid), index_(index) {}

  std::int64_t index() const { return index_; }
  std::int64_t blocks() const { return grid_.blocks; }
  static constexpr int threads() { return kThreads; }

  template <class T>
  struct PerThread {
    T* values;
    T& operator[](int thread) const { return values[thread]; }
  };

 protected:
  /// Aborts where a body takes more shared memory than its grid has said.
  template <class T>
  void take_shared(std::int64_t count) {
    used_ += shared_bytes<T>(count);
    TANDEM_CHECK(used_ <= grid_.shared_bytes, used_, grid_.shared_bytes);
  }

 private:
  GridShape grid_;
  std::int64_t index_ = 0, used_ = 0;
};

class CpuBlock : public AnyCpuBlock {
 public:
  CpuBlock(const GridShape& grid, std::int64_t index, Order order) : AnyCpuBlock(grid, index) {
    // What a shuffle costs would be most of a test, so phases take turns with a few of them.
    for (std::uint64_t key = 0; key < (order == Order::shuffled ? kShuffles : 1); ++key) {
      orders_.push_back(order_of(order, kThreads, key + static_cast<std::uint64_t>(index) * 7));
    }
  }

  template <class Phase>
  void each_thread(const Phase& phase) {
    for (const std::int64_t thread : orders_[phases_++ % orders_.size()]) {
      phase(static_cast<int>(thread));
    }
  }

  template <class T>
  T* shared(std::int64_t count) {
    take_shared<T>(count);
    return poisoned<T>(count);
  }

  template <class T>
  PerThread<T> per_thread() {
    return {poisoned<T>(kThreads)};
  }

  template <class T>
  void sum_lanes(const PerThread<T>& x) const {
    for (int half = kLanes / 2; half > 0; half /= 2) {
      const std::vector<T> before(x.values, x.values + kThreads);
      for (int thread = 0; thread < kThreads; ++thread)
        x.values[thread] += before[static_cast<std::size_t>(thread ^ half)];
    }
  }

  template <class T>
  T read(const T& place) const {
    return place;
  }

 private:
  static constexpr std::uint64_t kShuffles = 3;

  template <class T>
  T* poisoned(std::int64_t count) {
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
    memory_.push_back(std::make_unique<std::byte[]>(bytes));
    std::memset(memory_.back().get(), kPoison, bytes);
    return reinterpret_cast<T*>(memory_.back().get());
  }

  std::vector<std::vector<std::int64_t>> orders_;
  std::size_t phases_ = 0;
  std::vector<std::unique_ptr<std::byte[]>> memory_;
};

class CpuGrid {
 public:
  static std::vector<Order> runs() {
    return {Order::ascending, Order::descending, Order::shuffled};
  }

  explicit CpuGrid(Order order) : order_(order) {}

  template <class Body>
  void run(const GridShape& shape, const Body& body) {
    for (const std::int64_t index : order_of(order_, shape.blocks, 99)) {
      CpuBlock block(shape, index, order_);
      body(block);
    }
  }

  /// Poisoned whenever it is asked for, which is at the start of a kernel.
  template <class T>
  T* workspace(std::int64_t count) {
    workspace_.resize(static_cast<std::size_t>(count) * sizeof(T));
    most_workspace_ = std::max(most_workspace_, std::ssize(workspace_));
    std::fill(workspace_.begin(), workspace_.end(), static_cast<std::byte>(kPoison));
    return reinterpret_cast<T*>(workspace_.data());
  }
  /// Bytes that were asked for at once, at most.
  std::int64_t most_workspace() const { return most_workspace_; }

 private:
  Order order_;
  std::int64_t most_workspace_ = 0;
  std::vector<std::byte> workspace_;
};

}  // namespace tandem::cuda::testing
