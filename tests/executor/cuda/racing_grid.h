#pragma once
// Runs the bodies of GPU kernels by threads that work at once, so that the thread sanitizer sees
// every place that two threads of a block, or of two blocks, touch between barriers where one of
// them writes.

#include <algorithm>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/base/check.h"
#include "executor/cuda/kernels/block.h"
#include "tests/executor/cuda/cpu_grid.h"

namespace tandem::cuda::testing {

/// What the workers of a block share.
class RacingMemory {
 public:
  explicit RacingMemory(int workers) : barrier_(workers) {}

  void wait() { barrier_.arrive_and_wait(); }

  /// The piece that every worker asks for as its `nth`.
  std::byte* poisoned(std::size_t nth, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (nth == pieces_.size()) {
      pieces_.push_back(std::make_unique<std::byte[]>(bytes));
      std::memset(pieces_.back().get(), kPoison, bytes);
    }
    return pieces_[nth].get();
  }

 private:
  std::barrier<> barrier_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<std::byte[]>> pieces_;
};

/// A block as one of its workers sees it: it runs each threads `worker`, `worker` + `workers`, …
class RacingBlock : public AnyCpuBlock {
 public:
  RacingBlock(const GridShape& grid, std::int64_t index, int worker, int workers,
              RacingMemory& memory)
      : AnyCpuBlock(grid, index), worker_(worker), workers_(workers), memory_(memory) {}

  template <class Phase>
  void each_thread(const Phase& phase) {
    for (int thread = worker_; thread < kThreads; thread += workers_) phase(thread);
    memory_.wait();
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
  void sum_lanes(const PerThread<T>& x) {
    for (int half = kLanes / 2; half > 0; half /= 2) {
      const std::vector<T> before(x.values, x.values + kThreads);
      memory_.wait();
      each_thread(
          [&](int thread) { x[thread] += before[static_cast<std::size_t>(thread ^ half)]; });
    }
  }

  template <class T>
  T read(const T& place) {
    const T value = place;
    memory_.wait();
    return value;
  }

 private:
  template <class T>
  T* poisoned(std::int64_t count) {
    return reinterpret_cast<T*>(
        memory_.poisoned(pieces_++, static_cast<std::size_t>(count) * sizeof(T)));
  }

  int worker_ = 0, workers_ = 0;
  std::size_t pieces_ = 0;
  RacingMemory& memory_;
};

class RacingGrid {
 public:
  /// Workers of a block: threads of the GPU are seen to race unless their distance is a multiple.
  static std::vector<int> runs() { return {11}; }

  explicit RacingGrid(int workers) : workers_(workers) {}

  template <class Body>
  void run(const GridShape& shape, const Body& body) {
    const std::int64_t teams = std::min<std::int64_t>(shape.blocks, kBlocksAtOnce);
    std::vector<std::vector<std::unique_ptr<RacingMemory>>> memory(static_cast<std::size_t>(teams));
    std::vector<std::jthread> threads;  // end before the memory does
    for (std::int64_t team = 0; team < teams; ++team) {
      auto& of_team = memory[static_cast<std::size_t>(team)];
      for (std::int64_t block = team; block < shape.blocks; block += teams)
        of_team.push_back(std::make_unique<RacingMemory>(workers_));
      for (int worker = 0; worker < workers_; ++worker) {
        threads.emplace_back([this, &shape, &body, &of_team, team, teams, worker] {
          for (std::size_t nth = 0; nth < of_team.size(); ++nth) {
            RacingBlock block(shape, team + static_cast<std::int64_t>(nth) * teams, worker,
                              workers_, *of_team[nth]);
            body(block);
          }
        });
      }
    }
  }

  /// Poisoned whenever it is asked for, which is at the start of a kernel.
  template <class T>
  T* workspace(std::int64_t count) {
    workspace_.assign(static_cast<std::size_t>(count) * sizeof(T), static_cast<std::byte>(kPoison));
    return reinterpret_cast<T*>(workspace_.data());
  }

 private:
  static constexpr std::int64_t kBlocksAtOnce = 2;

  int workers_;
  std::vector<std::byte> workspace_;
};

}  // namespace tandem::cuda::testing
