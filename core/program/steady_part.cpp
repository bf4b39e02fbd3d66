#include "core/program/steady_part.h"

#include <algorithm>

namespace tandem {

namespace {

/// A guess of the period, by two instructions.
struct Period {
  std::size_t length = 0;
  std::int32_t shift = 0;
};

bool same_but_later(const Op& op, Op later, std::int32_t shift) {
  later.microbatch -= shift;
  later.group = op.group;
  return op == later;
}

/// Whether the instruction a period after `at` goes on as SteadyPart says.
bool goes_on(const Program& program, std::size_t at, const Period& period) {
  const Instruction& here = program.instructions()[at];
  const Instruction& later = program.instructions()[at + period.length];
  if (here.cost != later.cost || !same_but_later(here.op, later.op, period.shift)) return false;
  if (later.op.microbatch >= program.microbatches()) return false;
  if (!std::ranges::equal(program.lanes(here), program.lanes(later))) return false;
  return std::ranges::equal(program.waits(here), program.waits(later),
                            [&](const Wait& wait, const Wait& then) {
                              return wait.lag == 0 && then.lag == 0 &&
                                     index(wait.producer) + period.length == index(then.producer);
                            });
}

SteadyPart part_around(const Program& program, std::size_t middle, const Period& period) {
  std::size_t first = middle, end = middle;
  while (end + period.length < program.size() && goes_on(program, end, period)) ++end;
  if (end < middle + period.length) return {};
  while (first > 0 && goes_on(program, first - 1, period)) --first;
  SteadyPart part{.first = first,
                  .length = period.length,
                  .periods = 1 + (end - first) / period.length,
                  .shift = period.shift};
  std::size_t furthest = 0;
  for (std::size_t at = first + period.length; at < first + 2 * period.length; ++at) {
    for (const Wait& wait : program.waits(program.instructions()[at]))
      furthest = std::max(furthest, at - index(wait.producer));
  }
  part.reach = std::max<std::size_t>(1, (furthest + part.length - 1) / part.length);
  return part;
}

}  // namespace

SteadyPart steady_part(const Program& program) {
  const std::size_t middle = program.size() / 2;
  for (std::size_t next = middle + 1; next < program.size(); ++next) {
    const Instruction& here = program.instructions()[middle];
    const Instruction& later = program.instructions()[next];
    const std::int32_t shift = later.op.microbatch - here.op.microbatch;
    if (here.cost != later.cost || shift <= 0 || !same_but_later(here.op, later.op, shift))
      continue;
    const SteadyPart part = part_around(program, middle, {next - middle, shift});
    if (part.periods > 0) return part;
  }
  return {};
}

}  // namespace tandem
