// Any text as the table of nvidia-smi topo -m.

#include "tests/fuzz/cluster_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tandem::check_cluster_input("nvidia-smi", {data, data + size}, "V100-SXM2-16GB");
  return 0;
}
