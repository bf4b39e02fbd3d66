#pragma once
// What kernels.h declares, over a GpuGrid::run() that is defined before: CUDA's (kernels.cu), or a
// test's. For one translation unit.

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "executor/cuda/kernels/kernels.h"
#include "executor/cuda/runtime/check.h"

namespace tandem::cuda {
namespace {

// Comes first in memory, so that all begins at a multiple of 256 bytes.
constexpr Bytes kProductWorkspace = Bytes{32} << 20;

bool is_portable(const KernelSettings& settings) {
  const std::string& engine = settings.products.engine;
  if (engine != "auto" && engine != "cublaslt" && engine != "portable")
    throw UsageError("products on a GPU: \"" + engine + "\": expected auto, cublaslt or portable");
  return engine == "portable";
}

/// What kernels besides products ask of the grid.
Bytes grid_workspace(const KernelSettings& settings) {
  Bytes most = settings.workspace;
  for (const AttentionShape& shape : settings.fused_attention) {
    const auto plans = find_fused_attention(shape).plans;
    if (plans) most = std::max(most, plans->workspace());
  }
  return most;
}

bool same(const AttentionShape& a, const AttentionShape& b) {
  return a.batch == b.batch && a.sequence == b.sequence && a.heads == b.heads &&
         a.width == b.width && a.key_heads() == b.key_heads();
}

/// As cuDNN asks of all memory.
template <class... T>
bool are_aligned(std::span<T>... spans) {
  constexpr std::uintptr_t kAlignment = 16;
  return ((reinterpret_cast<std::uintptr_t>(spans.data()) % kAlignment == 0) && ...);
}

}  // namespace

Bytes KernelContext::bytes_of(const KernelSettings& settings) {
  return grid_workspace(settings) + (is_portable(settings) ? 0 : kProductWorkspace);
}

KernelContext::Memory KernelContext::allocate(const KernelSettings& settings) {
  const Bytes size = bytes_of(settings);
  if (size == 0) return {};
  void* first = nullptr;
  const std::string call = "cudaMalloc of a workspace of " + print_bytes(size);
  check(cudaMalloc(&first, static_cast<std::size_t>(size)), call.c_str());
  return {DeviceMemory(static_cast<std::byte*>(first)), size};
}

KernelContext::KernelContext(cudaStream_t stream, const KernelSettings& settings, Memory memory)
    : GpuGrid(stream, {memory.first.get() + (memory.size - grid_workspace(settings)),
                       static_cast<std::size_t>(grid_workspace(settings))}),
      memory_(std::move(memory)),
      rounds_(settings.products.precision == cpu::Precision::bf16) {
  for (const AttentionShape& shape : settings.fused_attention) {
    const auto plans = find_fused_attention(shape).plans;
    if (plans) attention_.push_back({plans, plans->on(stream)});
  }
  if (is_portable(settings)) return;
  products_.emplace(std::span(memory_.first.get(), static_cast<std::size_t>(kProductWorkspace)),
                    cublaslt(), settings.algorithms, time_by_events, settings.multiprocessors);
}

KernelContext::KernelContext(cudaStream_t stream, const KernelSettings& settings)
    : KernelContext(stream, settings, allocate(settings)) {}

template <class A, class C>
void KernelContext::multiply_factors(const ProductSpans<A, C>& spans) {
  GpuGrid& grid = *this;
  if (!products_) return product(grid, spans);
  const ProductRest rest = products_->multiply(stream(), spans);
  if (rest.all) return product(grid, spans);
  if (rest.epilogue) finish(grid, spans);
  if (rest.column_sums.empty()) return;
  const std::span<float> sums(spans.column_sums, rest.column_sums.size());
  add(grid, rest.column_sums, std::span<const float>(sums), sums);
}

void KernelContext::multiply(const ProductSpans<float, float>& spans) {
  if (rounds_) {
    multiply_factors(round_factors(static_cast<GpuGrid&>(*this), spans));
  } else {
    multiply_factors(spans);
  }
}

void KernelContext::multiply(const ProductSpans<Bf16, Bf16>& spans) { multiply_factors(spans); }
void KernelContext::multiply(const ProductSpans<Bf16, float>& spans) { multiply_factors(spans); }

const KernelContext::Attention* KernelContext::attention_for(const AttentionShape& shape) const {
  for (const Attention& attention : attention_) {
    if (same(shape, attention.plans->shape())) return &attention;
  }
  return nullptr;
}

bool KernelContext::attend(const AttentionShape& shape,
                           const AttentionForward<Bf16, float>& spans) {
  const Attention* const fused = attention_for(shape);
  if (fused == nullptr || !are_aligned(spans.qkv, spans.log_sum, spans.y)) return false;
  fused->calls->forward(spans, workspace<std::byte>(fused->plans->workspace()));
  return true;
}

bool KernelContext::attend_backward(const AttentionShape& shape,
                                    const AttentionBackward<Bf16, float>& spans) {
  const Attention* const fused = attention_for(shape);
  if (fused == nullptr || !are_aligned(spans.qkv, spans.log_sum, spans.y, spans.dy, spans.dqkv)) {
    return false;
  }
  fused->calls->backward(spans, workspace<std::byte>(fused->plans->workspace()));
  return true;
}

template class KernelSet<KernelContext, float>;
template class KernelSet<KernelContext, Bf16>;

}  // namespace tandem::cuda
