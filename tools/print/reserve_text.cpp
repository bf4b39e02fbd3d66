#include "tools/print/reserve_text.h"

#include <fmt/format.h>

namespace tandem::tools {

std::string reserve_line(const Reserve& reserve) {
  return fmt::format("fits: {} stays in reserve for the driver, libraries and gaps (--reserve)\n",
                     describe(reserve));
}

Json reserve_json(const Reserve& reserve) {
  return {{"share", reserve.share}, {"bytes", reserve.bytes}};
}

}  // namespace tandem::tools
