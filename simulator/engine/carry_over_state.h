#pragma once
// CarryOverState: what is left of a run between two bodies. Whoever runs bodies — the machine that
// defines simulated time, or the CompiledProgram made of the same program — agrees on this list, so
// that a run can pass from one to the other and be compared with itself a body later.

#include <cstdint>
#include <vector>

#include "core/program/program.h"

namespace tandem {

/// The state after body b is, in nanoseconds: when each lane is free, in lane order; then for each
/// of `waits`, the ends of its producer in the bodies b, b − 1, … b − lag + 1.
class CarryOverState {
 public:
  explicit CarryOverState(const Program& program);

  std::size_t lanes() const { return lanes_; }
  /// Waits across bodies, ascending, each once.
  const std::vector<Wait>& waits() const { return waits_; }
  /// Where the row of waits()[i] begins in the state.
  std::size_t row(std::size_t i) const { return rows_[i]; }
  std::size_t size() const { return size_; }
  /// Where the state holds the end of `producer`, `lag` bodies before the next one. REQUIRES: lag
  /// ≥ 1, and waits() has it.
  std::size_t place(InstructionId producer, std::uint32_t lag) const;

 private:
  std::size_t lanes_, size_;
  std::vector<Wait> waits_;
  std::vector<std::size_t> rows_;
};

}  // namespace tandem
