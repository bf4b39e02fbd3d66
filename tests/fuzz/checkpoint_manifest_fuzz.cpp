// Any text as the manifest of a checkpoint, behind a sum that is right: a clear error, or a
// manifest that is written as it was read.

#include <cstdint>
#include <cstdlib>
#include <string>

#include <fmt/format.h>

#include "core/base/error.h"
#include "executor/checkpoint/checkpoint_info.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const tandem::CheckpointManifest manifest =
        tandem::parse_manifest("manifest", tandem::with_checksum(text));
    const std::string written = tandem::manifest_text(manifest);
    if (tandem::manifest_text(tandem::parse_manifest("again", written)) != written) std::abort();
  } catch (const tandem::InputError&) {
  }
  return 0;
}
