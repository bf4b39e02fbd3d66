#pragma once
// Repetition: whether a run that is not max-plus linear has come back to where it was. What happens
// from the first start of a body on depends only on what is under way then, and that on when
// instances that overlap it, directly or through others, started and ended. So once as many bodies
// in a row as ever overlap took the same times as those c bodies before, all shifted by λ, they do
// so for ever.

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace tandem {

class Repetition {
 public:
  struct Cycle {
    std::int64_t time = 0, bodies = 0;  // λ and c
    std::int64_t from = 0;              // the body from which on all repeats
  };

  /// `times`: starts and ends of a body's instances. REQUIRES: called for each body in turn, none
  /// of whose instances is switched off.
  std::optional<Cycle> after(std::int64_t body, std::span<const std::int64_t> times);

  /// Time of a body over the second half of all bodies seen; 0 of fewer than two.
  double mean_period() const;

 private:
  struct Body {
    std::int64_t first_start = 0, last_end = 0;  // last_end: of this body and all before
    std::uint64_t shape[2] = {};                 // two hashes of times from its first start on
  };
  std::size_t overlapping() const;

  std::vector<Body> seen_;
  std::map<std::vector<std::uint64_t>, std::size_t> first_;
};

}  // namespace tandem
