#pragma once
// Links of a group that have a shape: a link between every two of a member, a torus.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/model/cluster.h"

namespace tandem {

/// A link between every two of `count` of a member.
std::vector<JointSpec> links_of_every_two(std::size_t member, std::int32_t count,
                                          const LinkSpec& link);

/// All of a member in a grid, as many along each dimension as `shape` says, numbered along the last
/// dimension first. Each is linked to the next along each dimension, the last to the first; where a
/// dimension has two, these once. REQUIRES: the product of `shape` is a count of std::int32_t.
std::vector<JointSpec> links_of_torus(std::size_t member, std::span<const std::int32_t> shape,
                                      const LinkSpec& link);

}  // namespace tandem
