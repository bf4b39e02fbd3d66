#include "executor/stage/learning_rate.h"

#include <array>
#include <cmath>
#include <numbers>

#include "core/base/check.h"

namespace tandem {
namespace {

/// What is left of the way from the least rate to the peak after `passed` of the decay.
double left(LearningRateKind kind, double passed) {
  switch (kind) {
    case LearningRateKind::constant:
      return 1.0;
    case LearningRateKind::linear:
      return 1.0 - passed;
    case LearningRateKind::cosine:
      return 0.5 * (1.0 + std::cos(std::numbers::pi * passed));
    case LearningRateKind::wsd:
      return 1.0 - std::sqrt(passed);
  }
  TANDEM_CHECK(false, static_cast<int>(kind));
  return 0.0;
}

}  // namespace

std::string_view name(LearningRateKind kind) {
  constexpr std::array<std::string_view, kLearningRateKinds> kNames{"constant", "linear", "cosine",
                                                                    "wsd"};
  return kNames[static_cast<std::size_t>(kind)];
}

/// Of a stage without delay.
static double whole_rate_at(const LearningRateSchedule& schedule, double peak,
                            std::int64_t number) {
  const std::int64_t done = number - 1;
  if (done < schedule.warmup)
    return peak * static_cast<double>(number) / static_cast<double>(schedule.warmup);
  if (schedule.kind == LearningRateKind::constant) return peak;
  const bool waits = schedule.kind == LearningRateKind::wsd;
  const std::int64_t start = waits ? schedule.total - schedule.decay : schedule.warmup;
  if (done < start) return peak;
  const std::int64_t length = schedule.total - start;
  const double passed =
      done < schedule.total ? static_cast<double>(done - start) / static_cast<double>(length) : 1.0;
  return schedule.least + left(schedule.kind, passed) * (peak - schedule.least);
}

double learning_rate_at(const LearningRateSchedule& schedule, double peak, std::int64_t number,
                        double delay) {
  TANDEM_CHECK(number >= 1, number);
  const double rate = whole_rate_at(schedule, peak, number);
  const std::int64_t done = number - 1;
  if (delay <= 1.0 || done >= schedule.annealing) return rate;
  const double passed = static_cast<double>(done) / static_cast<double>(schedule.annealing);
  return rate / std::pow(delay, 1.0 - passed);
}

}  // namespace tandem
