#include "executor/profile/processor_speed.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include "core/base/units.h"
#include "executor/cpu/gemm.h"

namespace tandem {

namespace {

/// Of as many rounds as outlast another program's turn on the processor.
double median_seconds(const std::function<void()>& work) {
  constexpr std::size_t kFewest = 9;
  constexpr auto kLongEnough = std::chrono::milliseconds(300);
  std::vector<double> times;
  const auto since = std::chrono::steady_clock::now();
  while (times.size() < kFewest || std::chrono::steady_clock::now() - since < kLongEnough) {
    const auto start = std::chrono::steady_clock::now();
    work();
    times.push_back(to_seconds(std::chrono::steady_clock::now() - start));
  }
  const auto middle = times.begin() + std::ssize(times) / 2;
  std::ranges::nth_element(times, middle);
  return std::max(*middle, 1e-9);
}

double product_flops_per_s() {
  constexpr std::int64_t kSide = 384;
  const std::vector<float> a(kSide * kSide, 0.5f), b(kSide * kSide, 0.25f);
  std::vector<float> c(kSide * kSide);
  const double time = median_seconds([&] {
    cpu::gemm(cpu::Gemm<float>{.rows = kSide,
                               .inner = kSide,
                               .columns = kSide,
                               .a = a.data(),
                               .a_row = kSide,
                               .b = b.data(),
                               .b_inner = kSide,
                               .c = c.data(),
                               .c_row = kSide,
                               .adds = false});
  });
  return 2.0 * kSide * kSide * kSide / time;
}

double memory_bytes_per_s() {
  constexpr std::size_t kBytes = 32 << 20;
  const std::vector<char> from(kBytes, 1);
  std::vector<char> to(kBytes);
  const double time = median_seconds([&] { std::memcpy(to.data(), from.data(), kBytes); });
  return 2.0 * kBytes / time;  // read and written
}

}  // namespace

ProcessorSpeed measure_processor() { return {product_flops_per_s(), memory_bytes_per_s()}; }

}  // namespace tandem
