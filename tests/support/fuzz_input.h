#pragma once
// The inputs that the fuzzers start from, for tests of the same formats.

#include <string>

#include "core/text/files.h"
#include "tests/support/source_folder.h"

namespace tandem::testing {

/// Such as "nccl_xml/v100".
inline std::string fuzz_input(const std::string& name) {
  return read_file(source_folder() / "tests/fuzz/corpus" / name, 1'000'000);
}

}  // namespace tandem::testing
