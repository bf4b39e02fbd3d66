#pragma once
// How many there are, for people.

#include <cstdint>
#include <string>

namespace tandem {

/// In four significant digits: "174.6 B", "124.4 M", "850".
std::string print_count(std::int64_t count);

}  // namespace tandem
