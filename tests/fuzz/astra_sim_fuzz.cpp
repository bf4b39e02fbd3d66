// Any text as ASTRA-sim's network yml.

#include "tests/fuzz/cluster_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tandem::check_cluster_input("astra-sim", {data, data + size}, "A100-SXM4-80GB");
  return 0;
}
