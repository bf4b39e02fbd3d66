#include "tools/sweep/sweep_row.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "core/base/hash.h"
#include "core/base/units.h"
#include "core/base/utf8.h"
#include "core/memory/reserve.h"
#include "tools/cli/wrapped_text.h"
#include "tools/print/scenario_json.h"
#include "tools/print/simulation_report.h"
#include "tools/print/words.h"

namespace tandem::tools {

namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

double number(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? kUnknown : found->get<double>();
}

/// The largest of all devices.
double most(const Json& result, const char* key) {
  double most = -1.0;
  for (const Json& device : result.at("devices")) {
    const double value = number(device, key);
    if (std::isnan(value)) return value;
    most = std::max(most, value);
  }
  return most < 0.0 ? kUnknown : most;
}

std::string plain(double value) { return fmt::format("{:.4g}", value); }
std::string seconds_text(double value) {
  // Not by a cast, which is undefined for what is too large.
  const auto time = parse_duration(fmt::format("{:.9f}s", value));
  return time ? print_duration(*time) : fmt::format("{:.4g} s", value);
}
std::string bytes(double value) {
  constexpr double kMost = 0x1p62;
  return value < kMost ? print_bytes(static_cast<Bytes>(value)) : plain(value);
}

constexpr double kGibibyte = 1 << 30;

constexpr SweepMetric kMetrics[] = {
    {"throughput", "samples/s", "throughput_samples_per_s", "samples/s", 1.0, true,
     [](const SweepFigures& row) { return row.samples_per_s; }, plain},
    {"per-device", "samples/s a device", "throughput_samples_per_s_per_device",
     "samples/s a device", 1.0, true,
     [](const SweepFigures& row) { return row.samples_per_s / row.devices; }, plain},
    {"tokens", "tokens/s", "tokens_per_s", "tokens/s", 1.0, true,
     [](const SweepFigures& row) { return row.tokens_per_s; }, plain},
    {"flops", "TFLOP/s a device", "flops_per_s_per_device", "TFLOP/s a device", 1e-12, true,
     [](const SweepFigures& row) { return row.flops_per_s_per_device; },
     [](double value) { return plain(value / 1e12); }},
    {"period", "a batch", "period_s", "seconds a batch", 1.0, false,
     [](const SweepFigures& row) { return row.period_s; }, seconds_text},
    {"makespan", "the run", "makespan_s", "seconds of the run", 1.0, false,
     [](const SweepFigures& row) { return row.makespan_s; }, seconds_text},
    // That of the first batches would set schedules back that never drain.
    {"bubble", "bubble", "bubble_of_period", "bubble of the endless run (%)", 100.0, false,
     [](const SweepFigures& row) {
       return row.period_s == 0.0 ? 0.0 : 1.0 - row.ideal_s_a_batch / row.period_s;
     },
     print_percent},
    {"memory", "memory", "peak_bytes", "memory of the fullest device (GiB)", 1.0 / kGibibyte, false,
     [](const SweepFigures& row) { return row.peak_bytes; }, bytes},
    {"activations", "activations", "peak_activations", "activations of the fullest device", 1.0,
     false, [](const SweepFigures& row) { return row.peak_activations; }, plain},
};

std::vector<double> metrics_of(const SweepFigures& figures) {
  std::vector<double> metrics;
  for (const SweepMetric& metric : kMetrics) metrics.push_back(metric.of(figures));
  return metrics;
}

SweepFigures figures_of(const Json& line) {
  const Json &result = line.at("result"), &config = line.at("config");
  const double used = number(config, "devices_used");
  return {.samples_per_s = number(result, "throughput_samples_per_s"),
          .tokens_per_s = number(result, "tokens_per_s"),
          .flops_per_s_per_device = number(result, "flops_per_s_per_device"),
          .devices = std::isnan(used) ? number(config, "devices") * number(config, "width") : used,
          .period_s = number(result, "period_s"),
          .makespan_s = number(result, "makespan_s"),
          .ideal_s_a_batch = number(result, "ideal_s") / number(config, "batches"),
          .peak_bytes = most(result, "peak_bytes"),
          .peak_activations = most(result, "peak_activations")};
}

Json answer_json(const SweepAnswer& answer) {
  const auto& [run, prepared, result, healthy] = answer;
  Json config = config_json(run.request, prepared);
  config["batches"] = run.batches;
  Json json{{"config", std::move(config)},
            {"assumptions", assumptions_json(run.request, prepared)},
            {"result", result_json(run.request, prepared, result, healthy)},
            {"warnings", warnings_of(run.request, prepared, result)}};
  // How long a search took is no property of the configuration.
  if (prepared.search) json["result"]["search"].erase("seconds");
  return json;
}

Json outcome_json(const SweepOutcome& outcome) {
  if (outcome.answer) return answer_json(*outcome.answer);
  const SweepFailure& failure = outcome.failure;
  Json json{{"error", failure_json(failure.code, failure.message, failure.diagnostics)}};
  if (failure.impossible_shape) json["impossible_shape"] = true;
  return json;
}

Json options_json(const Configuration& configuration) {
  Json json = Json::object();
  for (const SweptOption& one : configuration)
    json[one.name] = one.value ? Json(*one.value) : Json(one.on);
  return json;
}

Configuration configuration_of(const Json& options) {
  Configuration configuration;
  for (const auto& [name, value] : options.items()) {
    if (value.is_boolean()) {
      configuration.push_back({name, std::nullopt, value.get<bool>()});
    } else {
      configuration.push_back({name, value.get<std::string>()});
    }
  }
  return configuration;
}

const SweptOption* find(const Configuration& configuration, std::string_view name) {
  const auto found = std::ranges::find(configuration, name, &SweptOption::name);
  return found == configuration.end() ? nullptr : &*found;
}

std::string command_of(const Configuration& configuration) {
  std::string command = "tandem simulate";
  for (const auto& [name, value, on] : configuration) {
    if (!value) {
      if (on) command += " --" + name;
      continue;
    }
    const std::string text = shell_word(*value);
    command += name == "plan" ? " " + text : fmt::format(" --{} {}", name, text);
  }
  return command;
}

/// Model and cluster, where they are named.
std::string subject_of(const Configuration& configuration) {
  std::string text;
  for (const char* name : {"model", "cluster"}) {
    const SweptOption* one = find(configuration, name);
    if (one != nullptr && one->value) text += (text.empty() ? "" : " on ") + *one->value;
  }
  return text;
}

std::string axis_value(const SweptOption* one) {
  if (one == nullptr) return {};
  return one->value ? *one->value : one->on ? "yes" : "no";
}

/// The capacity of the device that fills most of its own.
std::optional<double> capacity_of(const Json& result) {
  std::optional<double> found;
  double fullest = 0.0;
  for (const Json& device : result.at("devices")) {
    const double bytes = number(device, "capacity_bytes"),
                 share = number(device, "peak_bytes") / bytes;
    if (!(share > fullest)) continue;
    fullest = share;
    found = bytes;
  }
  return found;
}

std::optional<bool> fits_of(const Json& result) {
  bool all = true;
  for (const Json& device : result.at("devices")) {
    if (device.at("fits").is_null()) return std::nullopt;
    all = all && device.at("fits").get<bool>();
  }
  return all;
}

Shape shape_of(const Json& config) {
  return {.tensor = config.value("tensor", std::int64_t{0}),
          .depth = config.value("devices", std::int64_t{0}),
          .width = config.value("width", std::int64_t{0})};
}

std::string reserve_of(const Json& assumptions) {
  const auto reserve = assumptions.find("reserve");
  if (reserve == assumptions.end()) return {};
  return describe(Reserve{.share = reserve->at("share").get<double>(),
                          .bytes = reserve->at("bytes").get<Bytes>()});
}

std::string refusal_of(const std::string& message) { return message.empty() ? "refused" : message; }

/// Rows of one schedule, shape and batch whose results agree in every figure of every device are
/// one plan, whatever options made it. A search may find other orders as good: each is its own.
std::uint64_t plan_of(const Json& line) {
  const Json& result = line.at("result");
  if (result.contains("search")) return hash_of_text(line_of(line.at("options")));
  Json plan = Json::array({result});
  for (const char* key : {"model", "cluster", "schedule", "tensor", "devices", "width", "chunks",
                          "microbatch_size", "microbatches"})
    plan.push_back(line.at("config").value(key, Json()));
  return hash_of_text(line_of(plan));
}

}  // namespace

std::span<const SweepMetric> sweep_metrics() { return kMetrics; }

std::size_t sweep_metric(std::string_view name) {
  const auto found = std::find_if(std::begin(kMetrics), std::end(kMetrics),
                                  [&](const SweepMetric& metric) { return metric.name == name; });
  return static_cast<std::size_t>(found - std::begin(kMetrics));
}

ComputedRow computed_row(const SweepIdentity& sweep, std::size_t index,
                         const Configuration& configuration, const SweepOutcome& outcome) {
  Json options = options_json(configuration), axes = Json::object();
  for (const std::string& name : sweep.axes)
    axes[name] = options.contains(name) ? options[name] : Json();
  Json line{{"schema_version", 1},
            {"command", "sweep"},
            {"sweep", sweep.id},
            {"configurations", sweep.configurations},
            {"index", index},
            {"axes", std::move(axes)},
            {"options", std::move(options)}};
  line.update(outcome_json(outcome));
  SweepRow row = row_of(line);
  if (!row.simulated()) row.refusal = refusal_of(outcome.failure.message);  // with its place
  return {std::move(row), line_of(line)};
}

SweepIdentity identity_of(const Json& line) {
  SweepIdentity identity{.id = line.at("sweep").get<std::string>(),
                         .configurations = line.at("configurations").get<std::size_t>(),
                         .axes = {}};
  for (const auto& [name, value] : line.at("axes").items()) identity.axes.push_back(name);
  return identity;
}

SweepRow row_of(const Json& line) {
  const Configuration configuration = configuration_of(line.at("options"));
  SweepRow row{.index = line.at("index").get<std::size_t>(),
               .command = command_of(configuration),
               .subject = subject_of(configuration),
               .metrics = std::vector<double>(std::size(kMetrics), kUnknown)};
  for (const std::string& axis : identity_of(line).axes)
    row.values.push_back(axis_value(find(configuration, axis)));
  if (const auto error = line.find("error"); error != line.end()) {
    row.refusal = refusal_of(error->at("message").get<std::string>());
    row.code = error->at("code").get<int>();
    row.impossible = line.value("impossible_shape", false);
    return row;
  }
  const Json& result = line.at("result");
  row.metrics = metrics_of(figures_of(line));
  row.fits = fits_of(result);
  row.capacity = capacity_of(result);
  row.shape = shape_of(line.at("config"));
  row.weights = semantics_named(line.at("config").value("semantics", ""));
  if (row.fits) row.reserve = reserve_of(line.at("assumptions"));
  row.plan = plan_of(line);
  return row;
}

std::string place_of(const SweepIdentity& sweep, const SweepRow& row) {
  std::string place;
  for (std::size_t i = 0; i < sweep.axes.size(); ++i) {
    if (row.values[i].empty()) continue;
    place += fmt::format("{}{} {}", place.empty() ? "" : ", ", sweep.axes[i], row.values[i]);
  }
  return printable_line(place);
}

}  // namespace tandem::tools
