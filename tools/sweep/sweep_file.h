#pragma once
// The JSON Lines file of a sweep, read to go on with it or to merge it.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "tools/sweep/sweep_row.h"

namespace tandem::tools {

/// A whole line of the file.
struct StoredLine {
  std::string_view text;    // with its newline
  std::int64_t offset = 0;  // of it in the file
  std::int64_t number = 1;  // counted from 1
  SweepIdentity identity;
  SweepRow row;
};

/// Reads line by line. Returns the bytes of whole lines: what follows was cut off when it was
/// written. Throws InputError with the line where one is none of a sweep, and where the file can't
/// be read.
std::int64_t read_sweep_file(const std::string& path,
                             const std::function<void(const StoredLine&)>& take);

/// Throws the InputError of a line that is not as it should be.
[[noreturn]] void reject_line(const std::string& path, std::int64_t number, const std::string& why,
                              std::size_t column = 1);

}  // namespace tandem::tools
