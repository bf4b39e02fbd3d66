#include "tools/print/storage_words.h"

namespace tandem::tools {

std::vector<std::string> storage_warnings(Storage storage) {
  if (storage == Storage::f32) return {};
  return {
      "--storage bf16: memory is counted for it, but times are those of the profile, which "
      "measured f32; train the plan with --backend cuda --storage bf16"};
}

}  // namespace tandem::tools
