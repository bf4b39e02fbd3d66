#pragma once
// Where the tests of GPU kernels run them: a Machine has memory of its own, which is put and got,
// and a grid for each run. Kernels are compared with the double kernels of executor/cpu, fed with
// the same numbers as the kernel's type of storage rounds them.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "executor/cuda/kernels/bf16.h"
#include "tests/executor/cuda/cpu_grid.h"
#include "tests/executor/numbers.h"

namespace tandem::cuda::testing {

using tandem::testing::random_numbers;

template <class A>
std::vector<A> rounded(const std::vector<float>& values) {
  std::vector<A> result;
  for (const float value : values) result.push_back(narrow<A>(value));
  return result;
}

/// Normal numbers as `A` stores them.
template <class A>
std::vector<A> numbers_of(std::int64_t size, std::uint64_t seed, double deviation = 1.0) {
  return rounded<A>(random_numbers<float>(size, seed, deviation));
}

inline double to_double(float x) { return static_cast<double>(x); }
inline double to_double(Bf16 x) { return static_cast<double>(to_float(x)); }
inline double to_double(double x) { return x; }

template <class A>
std::vector<double> widen(const std::vector<A>& values) {
  std::vector<double> result;
  for (const A& value : values) result.push_back(to_double(value));
  return result;
}

/// ‖values − expected‖ / ‖expected‖; NaN where anything is.
template <class A>
double relative_error(const std::vector<A>& values, const std::vector<double>& expected) {
  if (values.size() != expected.size()) return std::numeric_limits<double>::quiet_NaN();
  double difference = 0.0, length = 0.0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    difference += std::pow(to_double(values[i]) - expected[i], 2);
    length += expected[i] * expected[i];
  }
  return std::sqrt(difference) / std::max(std::sqrt(length), 1e-30);
}

template <class A>
inline constexpr double kTolerance = sizeof(A) == 4 ? 1e-5 : 1e-2;

/// Memory of a machine: here vectors.
template <class T>
struct CpuMemory {
  std::vector<T> values;
  std::span<T> out() { return values; }
  std::span<const T> in() const { return values; }
};

template <class Grid>
class MachineOfCpu {
 public:
  /// In what runs of one test differ, which must not show in their bits.
  static auto runs() { return Grid::runs(); }
  static std::optional<std::string> why_absent() { return std::nullopt; }

  template <class Run>
  explicit MachineOfCpu(Run run) : grid_(run) {}
  Grid& grid() { return grid_; }

  template <class T>
  CpuMemory<T> put(const std::vector<T>& values) const {
    return {values};
  }
  template <class T>
  CpuMemory<T> poisoned(std::int64_t size) const {
    CpuMemory<T> memory{std::vector<T>(static_cast<std::size_t>(size))};
    std::ranges::fill(std::as_writable_bytes(memory.out()), static_cast<std::byte>(kPoison));
    return memory;
  }
  template <class T>
  std::vector<T> get(const CpuMemory<T>& memory) const {
    return memory.values;
  }

 private:
  Grid grid_;
};
using CpuMachine = MachineOfCpu<CpuGrid>;

/// Outputs of one run, to be compared with those of another bit by bit.
class Outputs {
 public:
  template <class T>
  void keep(const std::vector<T>& values) {
    const auto* first = reinterpret_cast<const char*>(values.data());
    bytes_.insert(bytes_.end(), first, first + values.size() * sizeof(T));
  }
  friend bool operator==(const Outputs&, const Outputs&) = default;

 private:
  std::vector<char> bytes_;
};

/// Runs `work(machine, outputs)` once for each of the machine's runs; all must give the same bits.
template <class Machine, class Work>
bool same_bits_in_all_runs(const Work& work) {
  std::optional<Outputs> first;
  for (const auto run : Machine::runs()) {
    Machine machine(run);
    Outputs outputs;
    work(machine, outputs);
    if (!first) first = outputs;
    if (!(outputs == *first)) return false;
  }
  return true;
}

}  // namespace tandem::cuda::testing
