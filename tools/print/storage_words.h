#pragma once
// What is said of the types that training stores its numbers in.

#include <string>
#include <vector>

#include "core/memory/storage.h"

namespace tandem::tools {

/// Of a plan whose times are of f32: which times they are, and how to train it. Empty for f32.
std::vector<std::string> storage_warnings(Storage storage);

}  // namespace tandem::tools
