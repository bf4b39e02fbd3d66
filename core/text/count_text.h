#pragma once
// How many there are, for people.

#include <cstdint>
#include <string>
#include <string_view>

namespace tandem {

/// In four significant digits: "174.6 B", "124.4 M", "850".
std::string print_count(std::int64_t count);

/// With its noun, which is given in the singular: "1 batch", "2 batches", "0 entries".
std::string counted(std::int64_t count, std::string_view noun);

}  // namespace tandem
