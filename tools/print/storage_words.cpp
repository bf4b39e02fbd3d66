#include "tools/print/storage_words.h"

#include <fmt/format.h>

#include "executor/backends.h"

namespace tandem::tools {

std::vector<std::string> storage_warnings(Storage storage) {
  if (storage == Storage::f32) return {};
  return {
      fmt::format("--storage {0}: memory is counted for it, but times are those of the "
                  "profile, which measured f32; train the plan with --backend {1} "
                  "--storage {0}",
                  name(storage), backend_offering(storage).name)};
}

}  // namespace tandem::tools
