// Any text as arguments of Megatron-LM.

#include "tests/fuzz/model_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tandem::check_model_input({data, data + size});
  return 0;
}
