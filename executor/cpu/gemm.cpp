#include "executor/cpu/gemm.h"

#include "executor/cpu/gemm_blocked.h"

namespace tandem::cpu {
namespace {

// For processors without fused multiply-add, which x86 has had since 2013.
template <class T>
void run_unfused(const Gemm<T>& g) {
  blocked::run<T, blocked::Blocking{.bytes = 16, .rows = 6, .vectors = 2}>(g);
}

}  // namespace

template <class T>
std::span<const GemmVariant<T>> gemm_variants() {
  static const std::vector<GemmVariant<T>> variants = [] {
    std::vector<GemmVariant<T>> all = fused_variants<T>();
    all.insert(all.begin(), {"unfused", false, run_unfused<T>});
    return all;
  }();
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
