#include "tools/options/reserve_option.h"

#include <optional>

#include <fmt/format.h>

#include "core/text/percent.h"

namespace tandem::tools {

void add_reserve_option(Options& options) {
  options.value(
      "reserve", "AMOUNT",
      "a share or a size of each device's memory to leave free, such as 8% or 2GiB (default: 6% on "
      "a cluster, for driver, libraries and the allocator's gaps; else 0)");
}

Reserve reserve_of(const Options& options, Reserve otherwise) {
  if (!options.has("reserve")) return otherwise;
  const std::string text = options.text("reserve");
  if (text == "0") return {};
  if (const std::optional<double> share = parse_percent(text); share && *share < 1.0)
    return {.share = *share, .bytes = 0};
  if (const std::optional<Bytes> bytes = parse_bytes(text)) return {.share = 0.0, .bytes = *bytes};
  throw UsageError(
      fmt::format("tandem {}: --reserve: expected a share below 100%, such as 6%, or a size, such "
                  "as 2GiB, found \"{}\"",
                  options.command(), text));
}

}  // namespace tandem::tools
