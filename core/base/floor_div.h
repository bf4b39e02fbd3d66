#pragma once
// Division that rounds down, for what stands before a beginning: −1 of 4 belongs to group −1.

#include <concepts>

namespace tandem {

/// REQUIRES: b > 0.
template <std::signed_integral Integer>
constexpr Integer floor_div(Integer a, Integer b) {
  return a / b - (a % b < 0 ? 1 : 0);
}

}  // namespace tandem
