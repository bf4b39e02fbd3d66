#pragma once
// What stands behind a command's name.

#include <string>
#include <vector>

namespace tandem::tools {

using Arguments = std::vector<std::string>;

}  // namespace tandem::tools
