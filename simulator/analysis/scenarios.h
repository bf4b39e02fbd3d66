#pragma once
// Scenarios: how the time of a batch varies where ops jitter and devices straggle — many runs of
// one program, eight at a time, each with times of its own, all of them functions of a seed.

#include <array>
#include <cstdint>
#include <vector>

#include "simulator/compiled/noise.h"
#include "simulator/compiled/steady_state.h"

namespace tandem {

/// What varies.
struct Uncertainty {
  std::uint64_t seed = 0;
  double jitter = 0.0;  // standard deviation of the time of each op, transfer and sum, of this time
  double straggler_rate = 0.0;    // the chance of each device to straggle, in a scenario
  double straggler_factor = 1.0;  // how many times as long it then takes what it computes
};

/// A scenario is an endless run that has been steady, without noise, until its first batch. In it
/// and all after it each op takes a time of its own. The noise of one batch reaches into the next,
/// and so the first kWarmUp are not counted.
class Scenarios {
 public:
  static constexpr std::int64_t kWarmUp = 2;
  static constexpr std::size_t kAtOnce = CompiledProgram::kTables;

  /// Both references must outlive it. `batches`: how many batches of a scenario are counted,
  /// rounded up to whole cycles of the run without noise. REQUIRES: jitter from 0 to
  /// noise::Jitter::kMost, a rate from 0 to 1, a factor above 0. Throws InputError when the run
  /// without noise is never steady, or some op takes too long to be drawn
  /// (noise::Jitter::kLongest).
  Scenarios(const Program& program, const CostTable& costs, const Uncertainty& uncertainty,
            std::int64_t batches);
  Scenarios(const Scenarios&) = delete;
  Scenarios& operator=(const Scenarios&) = delete;

  /// Batches counted in each scenario.
  std::int64_t batches() const { return batches_; }
  /// What they take without noise.
  Duration plain() const { return plain_; }

  /// What they take in each of the scenarios from `first` on. May be called by several threads at
  /// once; answers are the same in any order.
  std::array<Duration, kAtOnce> times(std::int64_t first) const;

  /// The endless run without noise, up to where scenarios begin.
  const CompiledRun& start() const { return start_; }

 private:
  bool straggles(std::uint64_t stream, DeviceId device) const;
  std::vector<std::int64_t> costs_of(std::uint64_t stream) const;

  const Program& program_;
  Uncertainty uncertainty_;
  noise::Jitter jitter_;
  CompiledProgram compiled_;
  std::vector<std::int64_t> costs_;
  CompiledRun start_;
  std::int64_t batches_ = 1;
  Duration plain_{};
};

}  // namespace tandem
