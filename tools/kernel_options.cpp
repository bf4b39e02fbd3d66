#include "tools/kernel_options.h"

#include "executor/cpu/products.h"

namespace tandem::tools {

void add_kernel_options(Options& options) {
  options
      .value("kernels", "NAME",
             "auto|portable|onednn: what computes products of matrices (default: the environment's "
             "TANDEM_KERNELS, or auto)")
      .value("products", "TYPE",
             "f32|bf16: what their factors are rounded to; sums and weights are f32 (default f32)");
}

void choose_kernels(const Options& options) {
  const bool rounds = options.choice("products", {"f32", "bf16"}) == "bf16";
  cpu::set_products({.engine = options.choice("kernels", {"auto", "portable", "onednn"}),
                     .precision = rounds ? cpu::Precision::bf16 : cpu::Precision::f32});
}

}  // namespace tandem::tools
