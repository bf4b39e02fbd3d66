// Any text as NCCL's topology XML.

#include "tests/fuzz/cluster_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(data, data + size);
  tandem::check_cluster_input("nccl-xml", text, "H200-SXM-141GB");
  tandem::check_cluster_input("nccl-xml", text, "V100-SXM2-16GB");
  return 0;
}
