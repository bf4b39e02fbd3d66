#pragma once
// SteadyPart: where a body's order goes on as before, a few microbatches later. What is the same
// after a period as before it, but for that, is so after any number of them, and need not be looked
// at again.

#include <cstddef>
#include <cstdint>

#include "core/program/program.h"

namespace tandem {

/// Periods of `length` instructions each, from `first` on: each instruction is the one a period
/// before it, with `shift` microbatches more, at the same cost on the same lanes, and waits in the
/// same body alone, for what is as far before it. All work on the body's own batch.
struct SteadyPart {
  std::size_t first = 0, length = 0, periods = 0;  // periods 0: there is none
  std::int32_t shift = 0;
  std::size_t reach = 1;  // periods that its waits go back, rounded up; ≥ 1

  std::size_t end() const { return first + periods * length; }
};

/// The one in the middle of the body, of at least two periods. Numbers of groups (Op::group) are
/// not compared. Nearly linear in the program.
SteadyPart steady_part(const Program& program);

}  // namespace tandem
