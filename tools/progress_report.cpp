#include "tools/progress_report.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include <fmt/format.h>

#include "executor/learning_rate.h"

namespace tandem::tools {

namespace {

/// About 20 lines a run: the first and last steps, and some between.
bool shows(std::int64_t step, std::int64_t steps) {
  return steps <= 20 || (step - 1) % ((steps + 19) / 20) == 0 || step == steps;
}

}  // namespace

ProgressReport::ProgressReport(const Plan& plan, const ReportSetup& setup, const std::string& log)
    : setup_(setup),
      tokens_(static_cast<double>(plan.microbatches) * plan.width * plan.microbatch_size *
              plan.model.sequence),
      predicted_s_(plan.predicted.period_s) {
  if (!log.empty()) log_.emplace(log);
}

void ProgressReport::step(const StepReport& step) {
  const double step_s = to_seconds(step.since_start - last_);
  last_ = step.since_start;
  times_s_.push_back(step_s);
  losses_.push_back(step.loss);
  if (step.rolled_back) ++rollbacks_;
  StepRecord record{.step = step.batch + 1,
                    .loss = step.loss,
                    .gradient_norm = step.gradient_norm,
                    .skipped = step.skipped,
                    .rolled_back = step.rolled_back,
                    .learning_rate = learning_rate_at(
                        setup_.optimizer.schedule, setup_.optimizer.learning_rate, step.batch + 1),
                    .tokens_per_s = step_s > 0 ? tokens_ / step_s : 0.0,
                    .step_s = step_s};
  if (log_) record.others = watch_.since_last();
  if (predicted_s_ > 0) record.predicted_step_s = predicted_s_;
  if (!setup_.quiet && shows(record.step, setup_.steps)) print(record);
  if (!log_) return;
  const bool waits = setup_.validate_every > 0 && record.step % setup_.validate_every == 0;
  if (waits) {
    waiting_ = record;
  } else {
    log_->write(record);
  }
}

void ProgressReport::validated(std::int64_t steps, double loss) {
  validations_.emplace_back(steps, loss);
  if (!setup_.quiet) {
    fmt::print("step {:>5}  validation loss {:.4f}\n", steps, loss);
    std::fflush(stdout);
  }
  if (waiting_) waiting_->validation_loss = loss;
  close();
}

void ProgressReport::close() {
  if (waiting_) log_->write(*waiting_);
  waiting_.reset();
}

double ProgressReport::median_step_s() const {
  if (times_s_.size() < 2) return times_s_.empty() ? 0.0 : times_s_.front();
  std::vector<double> later(times_s_.begin() + 1, times_s_.end());
  const auto middle = later.begin() + static_cast<std::ptrdiff_t>(later.size() / 2);
  std::nth_element(later.begin(), middle, later.end());
  return *middle;
}

void ProgressReport::print(const StepRecord& record) const {
  fmt::print("step {:>5}  loss {:.4f}  {:>8.0f} tokens/s  {:>9.2f} ms{}\n", record.step,
             record.loss, record.tokens_per_s, record.step_s * 1e3,
             record.predicted_step_s
                 ? fmt::format("  (predicted {:.2f} ms)", *record.predicted_step_s * 1e3)
                 : std::string());
  std::fflush(stdout);
}

}  // namespace tandem::tools
