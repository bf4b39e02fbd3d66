#pragma once
// What all processes of a run know and nobody else: by it they know one another.

#include <optional>
#include <string>

#include "executor/ranks/rank_place.h"

namespace tandem {

/// From the file at `path` where one is named, which only its owner may read; else TANDEM_SECRET.
/// Ends of lines behind it do not count. Empty: there is none. Throws InputError for one of fewer
/// than 16 characters, and for a file that others may read.
std::optional<std::string> shared_secret(const LookUp& look,
                                         const std::optional<std::string>& path = std::nullopt);

/// A new one of 64 hexadecimal digits, from the system's generator.
std::string random_secret();

}  // namespace tandem
