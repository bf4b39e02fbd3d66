#pragma once
// A page of predictions beside what was published, a picture a set.

#include <span>
#include <string>

#include "tools/validation/validate_set.h"

namespace tandem::tools {

/// HTML of one file, without scripts.
std::string scatter_page(std::span<const ComparedSet> sets);

}  // namespace tandem::tools
