#pragma once
// C = A·B or C += A·B on strided matrices, blocked and packed.
//
// Every element of C is what it starts from plus the products in ascending order of the inner
// index, one rounding for each fused multiply-add, nothing reassociated. So the bits depend neither
// on blocking, nor on how rows are cut, nor on the vector width, and all fused variants below
// agree.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace tandem::cpu {

template <class T>
struct Gemm {
  std::int64_t rows = 0, inner = 0, columns = 0;
  const T* a = nullptr;
  std::int64_t a_row = 0, a_inner = 1;  // strides of A, in elements
  const T* b = nullptr;
  std::int64_t b_inner = 0, b_column = 1;
  T* c = nullptr;
  std::int64_t c_row = 0;  // neighbouring columns of C are adjacent
  bool adds = true;        // to what C holds; otherwise each row starts from `bias`, or from zeros
  const T* bias = nullptr;
};

/// One way to compute it, for one instruction set.
template <class T>
struct GemmVariant {
  std::string_view name;
  bool fused = true;  // otherwise each product and each sum rounds on its own: other bits
  void (*run)(const Gemm<T>&);
};

/// Those that this processor can run, slowest first.
template <class T>
std::span<const GemmVariant<T>> gemm_variants();

/// Of these the ones that use fused multiply-add, from a file of their own: there the compiler is
/// told to contract, everywhere else not to. None where the processor has none.
template <class T>
std::vector<GemmVariant<T>> fused_variants();

/// The last of them.
template <class T>
void gemm(const Gemm<T>& arguments);

}  // namespace tandem::cpu
