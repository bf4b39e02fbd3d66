#include "tools/options/kernel_options.h"

#include <string>

#include <fmt/format.h>

#include "core/base/error.h"
#include "executor/cpu/products.h"

namespace tandem::tools {

void add_kernel_options(Options& options) {
  options
      .value("kernels", "NAME",
             "auto|portable|onednn: what computes products of matrices on the CPU (default: the "
             "environment's TANDEM_KERNELS, or auto)")
      .value("products", "TYPE",
             "f32|bf16: how the factors of products are rounded; sums and weights are f32 (default "
             "f32)");
}

void choose_kernels(const Options& options, bool on_host) {
  const bool rounds = options.choice("products", {"f32", "bf16"}) == "bf16";
  const cpu::Precision precision = rounds ? cpu::Precision::bf16 : cpu::Precision::f32;
  const std::string engine = options.choice("kernels", {"auto", "portable", "onednn"});
  if (on_host) return cpu::set_products({.engine = engine, .precision = precision});
  if (options.has("kernels"))
    throw UsageError(
        fmt::format("tandem {}: --kernels is for --backend cpu: on GPUs cuBLASLt computes products",
                    options.command()));
  cpu::set_product_precision(precision);
}

}  // namespace tandem::tools
