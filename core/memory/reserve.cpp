#include "core/memory/reserve.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace tandem {

Bytes Reserve::usable(Bytes capacity) const {
  const Bytes part = std::llround(share * static_cast<double>(capacity));
  return std::max<Bytes>(0, capacity - part - bytes);
}

std::string describe(const Reserve& reserve) {
  if (reserve.none()) return "nothing";
  return (reserve.bytes > 0 ? print_bytes(reserve.bytes)
                            : fmt::format("{:.4g} %", 100.0 * reserve.share)) +
         " of a device's memory";
}

}  // namespace tandem
