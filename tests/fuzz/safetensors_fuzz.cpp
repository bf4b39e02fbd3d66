// Any bytes as a safetensors file: a clear error, or tensors that lie inside the file.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/text/descriptor.h"
#include "executor/checkpoint/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const tandem::Descriptor memory(::memfd_create("safetensors", MFD_CLOEXEC));
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (!memory.valid() || tandem::write_all(memory.value(), bytes) != 0) std::abort();
  try {
    const tandem::SafetensorsFile file(fmt::format("/proc/self/fd/{}", memory.value()));
    std::size_t held = file.head().size();
    for (const tandem::StoredTensor& tensor : file.tensors()) {
      held += file.bytes(tensor).size();
      if (file.find(tensor.name) == nullptr) std::abort();
      if (!tandem::is_float_type(tensor.type)) continue;
      std::vector<float> values(static_cast<std::size_t>(tensor.size()));
      file.read(tensor, 0, values);
    }
    if (held != size) std::abort();
  } catch (const tandem::InputError&) {
  }
  return 0;
}
