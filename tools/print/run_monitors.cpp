#include "tools/print/run_monitors.h"

#include <array>
#include <chrono>
#include <cmath>
#include <string_view>

#include <fmt/format.h>

#include "tools/cli/notices.h"

namespace tandem::tools {

namespace {

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string prometheus_number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

void append_metric(std::string& page, std::string_view name, std::string_view type,
                   std::string_view help, double value) {
  page += fmt::format("# HELP tandem_{0} {1}\n# TYPE tandem_{0} {2}\ntandem_{0} {3}\n", name, help,
                      type, prometheus_number(value));
}

}  // namespace

std::string metrics_page(const RunFigures& figures, std::optional<double> validation_loss) {
  std::string page;
  append_metric(page, "steps_total", "counter", "Steps trained.",
                static_cast<double>(figures.steps));
  append_metric(page, "steps_planned", "gauge", "Steps that the run has.",
                static_cast<double>(figures.steps_planned));
  append_metric(page, "tokens_total", "counter", "Tokens trained on.", figures.tokens);
  append_metric(page, "tokens_per_second", "gauge", "Tokens a second over the last steps.",
                figures.tokens_per_s);
  append_metric(page, "step_seconds", "gauge", "How long the last step took.", figures.step_s);
  append_metric(page, "computing_ratio", "gauge", "Share of that time spent in kernels.",
                figures.computing);
  append_metric(page, "left_seconds", "gauge", "Time to the end of the run at this rate.",
                figures.left_s);
  if (figures.steps > 0) {
    append_metric(page, "loss", "gauge", "Mean loss of the last step.", figures.loss);
    append_metric(page, "gradient_norm", "gauge", "Norm of its gradients, before clipping.",
                  figures.gradient_norm);
    append_metric(page, "learning_rate", "gauge", "Of its update.", figures.learning_rate);
  }
  if (validation_loss)
    append_metric(page, "validation_loss", "gauge", "Loss on held-out text.", *validation_loss);
  return page;
}

RunMonitors::RunMonitors(const MonitorSetup& setup) : server_(setup.metrics) {
  if (server_) {
    print_note(fmt::format("metrics are at http://127.0.0.1:{}/metrics", server_->port()));
    publish();
  }
  if (!setup.tensorboard.empty()) events_.emplace(setup.tensorboard);
}

void RunMonitors::step(const RunFigures& figures) {
  figures_ = figures;
  publish();
  if (!events_) return;
  events_->write(wall_time(), figures.steps,
                 std::array<Scalar, 5>{{{"loss", figures.loss},
                                        {"gradient_norm", figures.gradient_norm},
                                        {"learning_rate", figures.learning_rate},
                                        {"tokens_per_s", figures.tokens_per_s},
                                        {"computing", figures.computing}}});
}

void RunMonitors::evaluated(std::int64_t steps, double loss) {
  validation_loss_ = loss;
  publish();
  if (events_)
    events_->write(wall_time(), steps, std::array<Scalar, 1>{{{"validation_loss", loss}}});
}

void RunMonitors::publish() {
  if (server_) server_->set(metrics_page(figures_, validation_loss_));
}

}  // namespace tandem::tools
