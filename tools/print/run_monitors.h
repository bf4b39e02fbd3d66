#pragma once
// RunMonitors: a run's figures for those who watch it from elsewhere, in TensorBoard's event files
// and on a page for Prometheus.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tools/print/event_file.h"
#include "tools/print/metrics_server.h"

namespace tandem::tools {

struct MonitorSetup {
  std::string tensorboard = {};                 // a folder; empty: no event files
  std::shared_ptr<MetricsServer> metrics = {};  // null: no page
};

/// After a step.
struct RunFigures {
  std::int64_t steps = 0, steps_planned = 0;
  double tokens = 0.0;  // trained on in this run
  double loss = 0.0, gradient_norm = 0.0, learning_rate = 0.0;
  double tokens_per_s = 0.0, step_s = 0.0, computing = 0.0, left_s = 0.0;
};

class RunMonitors {
 public:
  /// Notes where the page is. Throws DeviceError where a file can't be written, as the others do.
  explicit RunMonitors(const MonitorSetup& setup);

  void step(const RunFigures& figures);
  void evaluated(std::int64_t steps, double loss);

 private:
  void publish();

  std::optional<EventFile> events_;
  std::shared_ptr<MetricsServer> server_;
  RunFigures figures_;
  std::optional<double> validation_loss_;
};

/// The page: text format 0.0.4. `validation_loss`: none yet, none on the page.
std::string metrics_page(const RunFigures& figures, std::optional<double> validation_loss);

}  // namespace tandem::tools
