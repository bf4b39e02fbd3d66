#include "tools/sweep/sweep_row.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/units.h"
#include "core/base/utf8.h"
#include "core/memory/reserve.h"
#include "core/schedule/shape_error.h"
#include "simulator/simulate.h"
#include "tools/cli/shell_word.h"
#include "tools/options/scenario.h"
#include "tools/options/weight_options.h"
#include "tools/print/healthy_run.h"
#include "tools/print/simulation_report.h"
#include "tools/sweep/text_hash.h"

namespace tandem::tools {

namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

double number(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? kUnknown : found->get<double>();
}

double result(const Json& row, const char* key) { return number(row.at("result"), key); }

/// The largest of all devices.
double most(const Json& row, const char* key) {
  double most = -1.0;
  for (const Json& device : row.at("result").at("devices")) {
    const double value = number(device, key);
    if (std::isnan(value)) return value;
    most = std::max(most, value);
  }
  return most < 0.0 ? kUnknown : most;
}

double throughput(const Json& row) { return result(row, "throughput_samples_per_s"); }

double devices(const Json& row) {
  const Json& config = row.at("config");
  const double used = number(config, "devices_used");
  return std::isnan(used) ? number(config, "devices") * number(config, "width") : used;
}

/// Of the endless run: that of the first batches would set schedules back that never drain.
double bubble(const Json& row) {
  const double ideal = result(row, "ideal_s") / number(row.at("config"), "batches");
  const double period = result(row, "period_s");
  return period == 0.0 ? 0.0 : 1.0 - ideal / period;
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
    {"throughput", "samples/s", "throughput_samples_per_s", "samples/s", 1.0, true, throughput,
     plain},
    {"per-device", "samples/s a device", "throughput_samples_per_s_per_device",
     "samples/s a device", 1.0, true,
     [](const Json& row) { return throughput(row) / devices(row); }, plain},
    {"tokens", "tokens/s", "tokens_per_s", "tokens/s", 1.0, true,
     [](const Json& row) { return result(row, "tokens_per_s"); }, plain},
    {"flops", "TFLOP/s a device", "flops_per_s_per_device", "TFLOP/s a device", 1e-12, true,
     [](const Json& row) { return result(row, "flops_per_s_per_device"); },
     [](double value) { return plain(value / 1e12); }},
    {"period", "a batch", "period_s", "seconds a batch", 1.0, false,
     [](const Json& row) { return result(row, "period_s"); }, seconds_text},
    {"makespan", "the run", "makespan_s", "seconds of the run", 1.0, false,
     [](const Json& row) { return result(row, "makespan_s"); }, seconds_text},
    {"bubble", "bubble", "bubble_of_period", "bubble of the endless run (%)", 100.0, false, bubble,
     print_percent},
    {"memory", "memory", "peak_bytes", "memory of the fullest device (GiB)", 1.0 / kGibibyte, false,
     [](const Json& row) { return most(row, "peak_bytes"); }, bytes},
    {"activations", "activations", "peak_activations", "activations of the fullest device", 1.0,
     false, [](const Json& row) { return most(row, "peak_activations"); }, plain},
};

Json simulated(const Options& options) {
  const std::int64_t batches = batches_of(options);
  Scenario scenario = make_scenario(options);
  if (scenario.search && scenario.search->interrupted) throw Interrupted("interrupted");
  const SimulationResult result = simulate(
      scenario, {.batches = batches, .activation_after_input = scenario.activation_after_input});
  scenario.config["batches"] = batches;
  Json answer{{"config", std::move(scenario.config)},
              {"assumptions", std::move(scenario.assumptions)},
              {"result", result_json(scenario, result)},
              {"warnings", warnings_of(scenario, result)}};
  if (const auto healthy = healthy_run(scenario, batches))
    answer["result"]["healthy"] = healthy_json(scenario, result, *healthy);
  // How long a search took is no property of the configuration.
  if (scenario.search) answer["result"]["search"].erase("seconds");
  return answer;
}

Json outcome(const Options& options) {
  try {
    return simulated(options);
  } catch (const ShapeError& error) {
    return {{"error", failure_json(error.code(), error.what(), error.diagnostics())},
            {"impossible_shape", true}};
  } catch (const InputError& error) {
    return {{"error", failure_json(error.code(), error.what(), error.diagnostics())}};
  } catch (const Interrupted&) {
    throw;
  } catch (const Error& error) {
    return {{"error", failure_json(error.code(), error.what(), {})}};
  } catch (const std::bad_alloc&) {
    return {{"error", failure_json(ExitCode::failed, "out of memory", {})}};
  }
}

std::string command_of(const Json& options) {
  std::string command = "tandem simulate";
  for (const auto& [name, value] : options.items()) {
    if (value.is_boolean()) {
      if (value.get<bool>()) command += " --" + name;
      continue;
    }
    const std::string text = shell_word(value.get<std::string>());
    command += name == "plan" ? " " + text : fmt::format(" --{} {}", name, text);
  }
  return command;
}

std::string axis_value(const Json& value) {
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  return value.is_null() ? "" : value.get<std::string>();
}

std::optional<bool> fits(const Json& row) {
  bool all = true;
  for (const Json& device : row.at("result").at("devices")) {
    if (device.at("fits").is_null()) return std::nullopt;
    all = all && device.at("fits").get<bool>();
  }
  return all;
}

/// Of the device that holds most of it.
std::optional<double> capacity(const Json& row) {
  std::optional<double> found;
  double fullest = 0.0;
  for (const Json& device : row.at("result").at("devices")) {
    const double bytes = number(device, "capacity_bytes"),
                 share = number(device, "peak_bytes") / bytes;
    if (!(share > fullest)) continue;
    fullest = share;
    found = bytes;
  }
  return found;
}

std::string subject(const Json& options) {
  std::string text;
  for (const char* name : {"model", "cluster"}) {
    const auto found = options.find(name);
    if (found == options.end() || !found->is_string()) continue;
    text += (text.empty() ? "" : " on ") + found->get<std::string>();
  }
  return text;
}

Shape shape_of(const Json& config) {
  return {.tensor = config.value("tensor", std::int64_t{0}),
          .depth = config.value("devices", std::int64_t{0}),
          .width = config.value("width", std::int64_t{0})};
}

std::string reserve_of(const Json& line) {
  const auto reserve = line.at("assumptions").find("reserve");
  if (reserve == line.at("assumptions").end()) return {};
  return describe(Reserve{.share = reserve->at("share").get<double>(),
                          .bytes = reserve->at("bytes").get<Bytes>()});
}

/// Rows of one schedule, shape and batch whose results agree in every figure of every device are
/// one plan, whatever options made it. A search may find other orders as good: each is its own.
std::uint64_t plan_of(const Json& line) {
  const Json& result = line.at("result");
  if (result.contains("search")) return hash_of(line_of(line.at("options")));
  Json plan = Json::array({result});
  for (const char* key : {"model", "cluster", "schedule", "tensor", "devices", "width", "chunks",
                          "microbatch_size", "microbatches"})
    plan.push_back(line.at("config").value(key, Json()));
  return hash_of(line_of(plan));
}

}  // namespace

std::span<const SweepMetric> sweep_metrics() { return kMetrics; }

std::size_t sweep_metric(std::string_view name) {
  const auto found = std::find_if(std::begin(kMetrics), std::end(kMetrics),
                                  [&](const SweepMetric& metric) { return metric.name == name; });
  return static_cast<std::size_t>(found - std::begin(kMetrics));
}

Json sweep_line(const SweepSpace& space, std::size_t index) {
  const SweepIdentity& sweep = space.identity();
  Json options = space.given(index), axes = Json::object();
  for (const std::string& name : sweep.axes)
    axes[name] = options.contains(name) ? options[name] : Json();
  Json line{{"schema_version", 1},
            {"command", "sweep"},
            {"sweep", sweep.id},
            {"configurations", sweep.configurations},
            {"index", index},
            {"axes", std::move(axes)},
            {"options", std::move(options)}};
  line.update(outcome(space.options(index)));
  return line;
}

SweepIdentity identity_of(const Json& line) {
  SweepIdentity identity{.id = line.at("sweep").get<std::string>(),
                         .configurations = line.at("configurations").get<std::size_t>(),
                         .axes = {}};
  for (const auto& [name, value] : line.at("axes").items()) identity.axes.push_back(name);
  return identity;
}

SweepRow row_of(const Json& line) {
  SweepRow row;
  row.index = line.at("index").get<std::size_t>();
  for (const auto& [name, value] : line.at("axes").items()) row.values.push_back(axis_value(value));
  row.command = command_of(line.at("options"));
  row.subject = subject(line.at("options"));
  if (const auto error = line.find("error"); error != line.end()) {
    row.refusal = error->at("message").get<std::string>();
    row.code = error->at("code").get<int>();
    if (row.refusal.empty()) row.refusal = "refused";
    row.impossible = line.value("impossible_shape", false);
    row.metrics.assign(std::size(kMetrics), kUnknown);
    return row;
  }
  for (const SweepMetric& metric : kMetrics) row.metrics.push_back(metric.of(line));
  row.fits = fits(line);
  row.capacity = capacity(line);
  row.shape = shape_of(line.at("config"));
  row.weights = semantics_named(line.at("config").value("semantics", ""));
  if (row.fits) row.reserve = reserve_of(line);
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
