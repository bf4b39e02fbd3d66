#include "core/model/tensor_degrees.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/check.h"
#include "core/base/error.h"

namespace tandem {

TensorDegrees degrees_around(const std::vector<std::int32_t>& measured, std::int32_t tensor,
                             const std::string& what) {
  TANDEM_CHECK(!measured.empty() && std::ranges::is_sorted(measured));
  if (tensor < measured.front() || tensor > measured.back()) {
    throw InputError(
        fmt::format("{} has tensor degrees {}, not {}: only degrees between them are interpolated",
                    what, fmt::join(measured, ", "), tensor));
  }
  const auto above = std::ranges::lower_bound(measured, tensor);
  if (*above == tensor) return {tensor, tensor, 0.0};
  const std::int32_t below = *std::prev(above);
  const auto part = [](std::int32_t degree) { return 1.0 / degree; };
  return {below, *above, (part(below) - part(tensor)) / (part(below) - part(*above))};
}

std::int64_t on_line(std::int64_t below, std::int64_t above, double share) {
  return below + std::llround(share * static_cast<double>(above - below));
}

}  // namespace tandem
