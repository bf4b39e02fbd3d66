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

double median_seconds(const std::function<void()>& work) {
  constexpr int kRounds = 9;
  std::vector<double> times;
  for (int i = 0; i < kRounds; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    times.push_back(to_seconds(std::chrono::steady_clock::now() - start));
  }
  std::ranges::sort(times);
  return std::max(times[kRounds / 2], 1e-9);
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
