#pragma once
// Learning-rate schedules: the rate of an update as a pure function of the number of its batch, so
// that every stage, the serial reference and a resumed run agree without a word, also where
// replicated stages update more often than others.

#include <cstdint>
#include <string_view>

namespace tandem {

enum class LearningRateKind : std::uint8_t {
  constant,
  linear,  // falls from the peak to the least rate along a line
  cosine,  // along half a cosine (arXiv 1608.03983)
  wsd,     // warm-up, stable, decay: the peak, then down as 1 − √ (arXiv 2405.18392)
};
inline constexpr std::size_t kLearningRateKinds = 4;
std::string_view name(LearningRateKind kind);

/// All counts are of batches. Steps and fractions are those of llm.c.
/// INVARIANT: warmup ≥ 0, and but for constant warmup ≤ total; wsd: 0 ≤ decay ≤ total − warmup.
struct LearningRateSchedule {
  LearningRateKind kind = LearningRateKind::constant;
  std::int64_t warmup = 0;     // rises in equal steps, batch `warmup` is the first at the peak
  std::int64_t total = 0;      // of the run; not read by constant
  std::int64_t decay = 0;      // of wsd: the last ones of the run
  double least = 0.0;          // the rate that is approached; after `total`, the rate
  std::int64_t annealing = 0;  // over which rates of delayed stages rise to the whole rate
  friend bool operator==(const LearningRateSchedule&, const LearningRateSchedule&) = default;
};

/// The rate of batch `number`, counted from 1 (checked). Of a stage whose gradients are `delay` > 1
/// updates late it is divided by delay^q, q = 1 − min((number − 1) / annealing, 1): PipeMare's
/// rescheduling (arXiv 1910.05124, T1), of what warm-up and decay leave.
double learning_rate_at(const LearningRateSchedule& schedule, double peak, std::int64_t number,
                        double delay = 0.0);

}  // namespace tandem
