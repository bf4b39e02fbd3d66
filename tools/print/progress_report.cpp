#include "tools/print/progress_report.h"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "executor/stage/learning_rate.h"
#include "tools/cli/machine.h"

namespace tandem::tools {

namespace {

constexpr std::size_t kRateWindow = 10;  // steps

/// About 20 lines a run: the first and last steps, and some between.
bool shows(std::int64_t step, std::int64_t steps) {
  return steps <= 20 || (step - 1) % ((steps + 19) / 20) == 0 || step == steps;
}

}  // namespace

ProgressReport::ProgressReport(const Plan& plan, const ReportSetup& setup, const std::string& log)
    : setup_(setup),
      tokens_(static_cast<double>(plan.request.microbatches) * plan.request.width *
              plan.microbatch_size * plan.model.sequence),
      predicted_s_(plan.predicted.period_s),
      delayed_(weight_semantics(plan) == WeightSemantics::delayed_by_one),
      monitors_(setup.monitors),
      done_(setup.first_step),
      silence_(setup.longest_silence, [this] { say_where_it_is(); }) {
  if (log.empty()) return;
  log_.emplace(log);
  log_->keep(0);
}

void ProgressReport::step(const StepReport& step) {
  // Delayed updates of the last batches are made together when no other follows, so that they don't
  // tell how long a step takes.
  const Duration end = delayed_ ? step.losses_since_start : step.since_start;
  const double step_s = to_seconds(end - last_);
  last_ = end;
  elapsed_ = step.since_start;
  times_s_.push_back(step_s);
  computed_s_.push_back(to_seconds(step.computed - std::exchange(computed_, step.computed)));
  losses_.push_back(step.loss);
  if (step.rolled_back) ++rollbacks_;
  StepRecord record{.report = step,
                    .learning_rate = learning_rate_at(
                        setup_.optimizer.schedule, setup_.optimizer.learning_rate, step.batch + 1),
                    .step_s = step_s};
  const double recent_s = recent_step_s();
  record.tokens_per_s = recent_s > 0 ? tokens_ / recent_s : 0.0;
  record.computing = recent_s > 0 ? std::min(recent(computed_s_) / recent_s, 1.0) : 0.0;
  record.left_s = recent_s * static_cast<double>(setup_.steps - record.step());
  if (log_) record.others = watch_.since_last();
  done_ = record.step();
  done_at_ = Clock::now();
  const bool long_silence = Clock::now() - printed_ >= setup_.longest_silence;
  if (!setup_.quiet && (long_silence || shows(record.step(), setup_.steps))) print(record);
  monitors_.step(figures(record));
  if (!log_) return;
  const bool waits = setup_.evaluate_every > 0 && record.step() % setup_.evaluate_every == 0;
  if (waits)
    waiting_ = record;
  else
    write(record);
}

void ProgressReport::evaluated(std::int64_t steps, double loss) {
  held_out_losses_.emplace_back(steps, loss);
  monitors_.evaluated(steps, loss);
  if (!setup_.quiet) {
    fmt::print("step {:>5}  validation loss {:.4f}\n", steps, loss);
    std::fflush(stdout);
    silence_.broken();
  }
  if (waiting_) waiting_->held_out_loss = loss;
  close();
}

void ProgressReport::close() {
  if (waiting_) write(*waiting_);
  waiting_.reset();
}

double ProgressReport::recent(const std::vector<double>& of_steps) {
  const std::size_t count = std::min(of_steps.size(), kRateWindow);
  const double all =
      std::accumulate(of_steps.end() - static_cast<std::ptrdiff_t>(count), of_steps.end(), 0.0);
  return all / static_cast<double>(count);
}

RunFigures ProgressReport::figures(const StepRecord& record) const {
  return {.steps = record.step(),
          .steps_planned = setup_.steps,
          .tokens = tokens_ * static_cast<double>(losses_.size()),
          .loss = record.report.loss,
          .gradient_norm = record.report.gradient_norm,
          .learning_rate = record.learning_rate,
          .tokens_per_s = record.tokens_per_s,
          .step_s = record.step_s,
          .computing = record.computing,
          .left_s = record.left_s};
}

double ProgressReport::median_step_s() const {
  if (times_s_.size() < 2) return to_seconds(elapsed_);
  std::vector<double> later(times_s_.begin() + 1, times_s_.end());
  const auto middle = later.begin() + static_cast<std::ptrdiff_t>(later.size() / 2);
  std::nth_element(later.begin(), middle, later.end());
  return *middle;
}

double ProgressReport::tokens_per_s() const {
  const double all = tokens_ * static_cast<double>(losses_.size());
  return elapsed_ > Duration::zero() ? all / to_seconds(elapsed_) : 0.0;
}

void ProgressReport::print(const StepRecord& record) {
  printed_ = Clock::now();
  silence_.broken();
  std::string more = fmt::format("  {:.0f} tokens", tokens_ * static_cast<double>(losses_.size()));
  if (record.computing > 0) more += fmt::format(", {:.0f} % in kernels", record.computing * 100);
  if (record.step() < setup_.steps) {
    const std::chrono::duration<double> left(record.left_s);
    more += fmt::format(", {} left", print_duration(std::chrono::duration_cast<Duration>(left)));
  }
  fmt::print("step {:>5}  loss {:.4f}  {:>8.0f} tokens/s  {:>9.2f} ms{}{}\n", record.step(),
             record.report.loss, record.tokens_per_s, record.step_s * 1e3,
             predicted_s_ > 0 ? fmt::format("  (predicted {:.2f} ms)", predicted_s_ * 1e3) : "",
             more);
  std::fflush(stdout);
}

void ProgressReport::write(const StepRecord& record) {
  Json line{{"step", record.step()}, {"loss", record.report.loss}};
  if (record.held_out_loss) line["validation_loss"] = *record.held_out_loss;
  line["gradient_norm"] = record.report.gradient_norm;
  if (record.report.skipped) line["skipped"] = true;
  if (record.report.rolled_back) line["rolled_back"] = true;
  line["learning_rate"] = record.learning_rate;
  line["tokens_per_s"] = record.tokens_per_s;
  line["step_s"] = record.step_s;
  line["computing"] = record.computing;
  if (predicted_s_ > 0) line["predicted_step_s"] = predicted_s_;
  line["foreign_cpu"] = record.others.foreign;
  line["stolen_cpu"] = record.others.stolen;
  line["time"] = utc_now();
  log_->write(line.dump() + "\n");
}

void ProgressReport::say_where_it_is() const {
  if (done_ == setup_.steps) return;
  const std::chrono::duration<double> passed = Clock::now() - done_at_.load();
  std::FILE* const out = setup_.quiet ? stderr : stdout;
  const std::string line = fmt::format("step {:>5}  of {} under way for {:.0f} s\n", done_ + 1,
                                       setup_.steps, passed.count());
  // Not print(), which throws, on a thread where nobody catches.
  std::fwrite(line.data(), 1, line.size(), out);
  std::fflush(out);
}

std::vector<MemoryUse> memory_use(const Table<DeviceId, MemoryByClass>& slots,
                                  const Table<DeviceId, Bytes>& workspace,
                                  const TrainingReport<float>& report) {
  std::vector<MemoryUse> use;
  for (const DeviceId device : ids(report.high_water)) {
    const auto planned = id_at<DeviceId>(index(device) % slots.size());
    use.push_back({.planned = slots[planned].total() + workspace[planned],
                   .measured = report.high_water[device].total() + report.workspace[device],
                   .equal = slots[planned] == report.high_water[device] &&
                            workspace[planned] == report.workspace[device]});
  }
  return use;
}

Json memory_json(const std::vector<MemoryUse>& memory) {
  Json rows = Json::array();
  for (const MemoryUse& device : memory) {
    rows.push_back({{"device", rows.size()},
                    {"planned_bytes", device.planned},
                    {"high_water_bytes", device.measured},
                    {"equal", device.equal}});
  }
  return rows;
}

void print_memory(const std::vector<MemoryUse>& memory) {
  for (std::size_t device = 0; device < memory.size(); ++device) {
    const MemoryUse& use = memory[device];
    fmt::print(
        "device {}: high-water mark {} of memory, {}\n", device, print_bytes(use.measured),
        use.equal ? "as planned to the byte" : fmt::format("planned {}", print_bytes(use.planned)));
  }
}

}  // namespace tandem::tools
