#pragma once
// Words for what a plan on a cluster is the best of.

#include <string>
#include <string_view>

#include "planner/cluster/objective.h"

namespace tandem::tools {

/// "Fastest", "Least memory", "Cheapest".
std::string_view best_word(Objective objective);
/// Such plans are "faster", "smaller", "cheaper".
std::string_view better_word(Objective objective);
/// "slower", "larger", "dearer".
std::string_view worse_word(Objective objective);

/// "0.5403 s a step", "28.9 GiB on the fullest device", "$0.0123 a step".
std::string value_text(Objective objective, double value);

}  // namespace tandem::tools
