#pragma once
// What a training run says of its steps: a line on the terminal, a line in the log, and the figures
// at the end.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "core/model/plan.h"
#include "executor/run/step_log.h"
#include "executor/stage/optimizer.h"
#include "tools/cli/options.h"
#include "tools/cli/processor_use.h"
#include "tools/cli/silence.h"
#include "tools/print/training_log.h"

namespace tandem::tools {

struct ReportSetup {
  std::int64_t steps = 1;
  std::int64_t validate_every = 0;  // 0: never
  OptimizerConfig optimizer = {};
  bool quiet = false;  // nothing on stdout
  std::chrono::milliseconds longest_silence = std::chrono::seconds(10);
};

class ProgressReport {
 public:
  /// `log`: its path; empty: none. Throws DeviceError when it can't be written.
  ProgressReport(const Plan& plan, const ReportSetup& setup, const std::string& log = {});

  /// Steps come in order; after one that is validated, and before the next, comes validated().
  void step(const StepReport& step);
  /// The loss on held-out text after `steps` steps.
  void validated(std::int64_t steps, double loss);
  /// Writes what still waits for its validation: it will not come.
  void close();

  const std::vector<double>& losses() const { return losses_; }
  /// Steps whose updates were rolled back.
  std::int64_t rollbacks() const { return rollbacks_; }
  /// After how many steps, and the loss.
  const std::vector<std::pair<std::int64_t, double>>& validations() const { return validations_; }
  /// Median over the steps after the first: the first one fills the pipeline.
  double median_step_s() const;
  /// From the start to the end of the last step's updates; pauses apart.
  Duration elapsed() const { return elapsed_; }
  /// Of the whole run.
  double tokens_per_s() const;

 private:
  void print(const StepRecord& record);
  /// Of a step that takes long, or, on stderr, of any where nothing goes to stdout.
  void say_where_it_is() const;

  ReportSetup setup_;
  double tokens_, predicted_s_;  // of a step
  bool delayed_;                  // updates wait for later batches
  std::optional<TrainingLog> log_;
  ProcessorWatch watch_;
  std::optional<StepRecord> waiting_;
  Duration last_{}, elapsed_{};
  std::int64_t rollbacks_ = 0;
  std::vector<double> losses_, times_s_;
  std::vector<std::pair<std::int64_t, double>> validations_;
  using Clock = std::chrono::steady_clock;
  Clock::time_point printed_ = Clock::now();
  std::atomic<std::int64_t> done_ = 0;
  std::atomic<Clock::time_point> done_at_ = Clock::now();
  Silence silence_;
};

}  // namespace tandem::tools
