#pragma once
// What a training run says of its steps: a line on the terminal, a line in the log, and the figures
// at the end; and of the memory that it took beside what was planned.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/memory/memory.h"
#include "core/model/plan.h"
#include "core/text/output_place.h"
#include "executor/run/step_log.h"
#include "executor/stage/optimizer.h"
#include "executor/train.h"
#include "tools/cli/json_output.h"
#include "tools/cli/processor_use.h"
#include "tools/cli/under_way.h"
#include "tools/print/run_monitors.h"

namespace tandem::tools {

/// What is known of one step. What is absent is left out of its line in the log.
struct StepRecord {
  StepReport report;
  std::optional<double> held_out_loss = {};
  double learning_rate = 0.0;  // of the update that ends the step
  double tokens_per_s = 0.0;   // of the steps of the last rate window
  double step_s = 0.0;
  double left_s = 0.0;       // to the end of the run, at this rate
  double computing = 0.0;    // share of the same steps' time that devices were in kernels
  ProcessorUse others = {};  // by whom else the machine was used meanwhile

  std::int64_t step() const { return report.batch + 1; }  // counted from 1
};

struct ReportSetup {
  std::int64_t steps = 1;           // at the end, those of the runs before it, too
  std::int64_t first_step = 0;      // trained before
  std::int64_t evaluate_every = 0;  // 0: never
  OptimizerConfig optimizer = {};
  MonitorSetup monitors = {};
  bool quiet = false;  // nothing on stdout
  std::chrono::milliseconds longest_silence = std::chrono::seconds(10);
};

class ProgressReport {
 public:
  /// `log`: the path of JSON Lines, one object a step (tools/schemas/train-log.json); empty: none.
  /// It is replaced. Each line reaches it whole, as soon as it is written: what was logged stays
  /// readable however the run ends. Throws DeviceError when it can't be written or another process
  /// writes it, as step() and close() do.
  ProgressReport(const Plan& plan, const ReportSetup& setup, const std::string& log = {});

  /// Steps come in order. Between a step after which held-out text is evaluated and the next one
  /// comes evaluated().
  void step(const StepReport& step);
  /// The loss on held-out text after `steps` steps.
  void evaluated(std::int64_t steps, double loss);
  /// Writes what still waits for its evaluation: it will not come.
  void close();

  const std::vector<double>& losses() const { return losses_; }
  /// Steps whose updates were rolled back.
  std::int64_t rollbacks() const { return rollbacks_; }
  /// After how many steps, and the loss.
  const std::vector<std::pair<std::int64_t, double>>& held_out_losses() const {
    return held_out_losses_;
  }
  /// Median over the steps after the first: the first one fills the pipeline.
  double median_step_s() const;
  /// From the start to the end of the last step's updates; pauses apart.
  Duration elapsed() const { return elapsed_; }
  /// Of the whole run.
  double tokens_per_s() const;

 private:
  /// Seconds a step of the last ones: batches overlap, so that one step may seem to take no time,
  /// but not ten.
  double recent_step_s() const { return recent(times_s_); }
  static double recent(const std::vector<double>& of_steps);
  RunFigures figures(const StepRecord& record) const;
  void print(const StepRecord& record);
  void write(const StepRecord& record);
  /// Of a step that takes long, or, on stderr, of any where nothing goes to stdout.
  void say_where_it_is() const;

  ReportSetup setup_;
  double tokens_, predicted_s_;  // of a step
  bool delayed_;                 // updates wait for later batches
  std::optional<GrowingFile> log_;
  RunMonitors monitors_;
  ProcessorWatch watch_;
  std::optional<StepRecord> waiting_;
  Duration last_{}, elapsed_{}, computed_{};
  std::int64_t rollbacks_ = 0;
  std::vector<double> losses_, times_s_, computed_s_;
  std::vector<std::pair<std::int64_t, double>> held_out_losses_;
  using Clock = std::chrono::steady_clock;
  Clock::time_point printed_ = Clock::now();
  std::atomic<std::int64_t> done_ = 0;
  std::atomic<Clock::time_point> done_at_ = Clock::now();
  Silence silence_;
};

/// Of one device, slots and what kernels work with.
struct MemoryUse {
  Bytes planned = 0, measured = 0;
  bool equal = false;  // in every class
};

/// Of the devices of all pipelines. `slots` and `workspace`: planned for those of each.
std::vector<MemoryUse> memory_use(const Table<DeviceId, MemoryByClass>& slots,
                                  const Table<DeviceId, Bytes>& workspace,
                                  const TrainingReport<float>& report);

Json memory_json(const std::vector<MemoryUse>& memory);
void print_memory(const std::vector<MemoryUse>& memory);

}  // namespace tandem::tools
