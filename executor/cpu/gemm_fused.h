#pragma once
// The variants of gemm.h that use fused multiply-add, in a file of their own: there the compiler is
// told to contract, everywhere else not to.

#include <vector>

#include "executor/cpu/gemm.h"

namespace tandem::cpu {

/// Those that this processor can run, slowest first; none where it has no fused multiply-add.
template <class T>
std::vector<GemmVariant<T>> fused_variants();

}  // namespace tandem::cpu
