#pragma once
// oneDNN's products, where the build found the library (CMake: TANDEM_ONEDNN).

#include <string>

#include "executor/cpu/products.h"

namespace tandem::cpu {

/// Computes by oneDNN, in float. Null when this build has none.
ProductRun onednn_f32();

/// The same with both factors rounded to bfloat16. Null when this build or processor has none.
ProductRun onednn_bf16();

/// "2.6.3"; empty when this build has none.
std::string onednn_version();

}  // namespace tandem::cpu
