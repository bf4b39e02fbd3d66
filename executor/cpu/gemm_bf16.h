#pragma once
// C = A·B or C += A·B of factors rounded to bfloat16, with sums in float.

#include "executor/cpu/gemm.h"

namespace tandem::cpu {

/// Whether this processor has the instructions (AVX512_BF16).
bool has_bf16_instructions();

/// Whether it has a unit for whole tiles of bfloat16 (AMX), several times as fast but not used
/// here, and says how large they are: some virtual machines show the one and hide the other
/// (CPUID leaf 0x1D), and there oneDNN 2.6 dies of an illegal instruction.
bool has_bf16_tiles();

/// Factors are rounded to nearest even as they are packed. Every element of C is what it starts
/// from plus pairs of products in ascending order of the inner index: its bits depend neither on
/// blocking nor on how rows are cut. REQUIRES: has_bf16_instructions(); of the two strides of each
/// factor one is 1 (checked).
void gemm_bf16(const Gemm<float>& arguments);

}  // namespace tandem::cpu
