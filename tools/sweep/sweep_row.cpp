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

/// Of the metrics of planner/study/sweep.h, in their order.
constexpr SweepColumn kColumns[] = {
    {"samples/s", "throughput_samples_per_s", "samples/s", 1.0, plain},
    {"samples/s a device", "throughput_samples_per_s_per_device", "samples/s a device", 1.0, plain},
    {"tokens/s", "tokens_per_s", "tokens/s", 1.0, plain},
    {"TFLOP/s a device", "flops_per_s_per_device", "TFLOP/s a device", 1e-12,
     [](double value) { return plain(value / 1e12); }},
    {"a batch", "period_s", "seconds a batch", 1.0, seconds_text},
    {"the run", "makespan_s", "seconds of the run", 1.0, seconds_text},
    {"bubble", "bubble_of_period", "bubble of the endless run (%)", 100.0, print_percent},
    {"memory", "peak_bytes", "memory of the fullest device (GiB)", 1.0 / kGibibyte, bytes},
    {"activations", "peak_activations", "activations of the fullest device", 1.0, plain},
};

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
    json[one.name] = one.flag ? Json(one.value == "yes") : Json(one.value);
  return json;
}

Configuration configuration_of(const Json& options) {
  Configuration configuration;
  for (const auto& [name, value] : options.items()) {
    const bool flag = value.is_boolean(), on = flag && value.get<bool>();
    configuration.push_back({name, on ? "yes" : flag ? "no" : value.get<std::string>(), flag});
  }
  return configuration;
}

const SweptOption* find(const Configuration& configuration, std::string_view name) {
  const auto found = std::ranges::find(configuration, name, &SweptOption::name);
  return found == configuration.end() ? nullptr : &*found;
}

std::string command_of(const Configuration& configuration) {
  std::string command = "tandem simulate";
  for (const auto& [name, value, flag] : configuration) {
    if (flag && value == "no") continue;
    if (name != "plan") command += " --" + name;
    if (!flag) command += " " + shell_word(value);
  }
  return command;
}

/// Model and cluster, where they are named.
std::string subject_of(const Configuration& configuration) {
  std::string text;
  for (const char* name : {"model", "cluster"}) {
    const SweptOption* one = find(configuration, name);
    if (one != nullptr) text += (text.empty() ? "" : " on ") + one->value;
  }
  return text;
}

/// Rows of one schedule, shape and batch whose results agree in every figure of every device are
/// one plan, whatever options made it. A search may find other orders as good: each is its own.
std::uint64_t plan_of(const Json& line, const SweepShape& shape) {
  const Json &result = line.at("result"), &config = line.at("config");
  if (result.contains("search")) return hash_of_text(line_of(line.at("options")));
  const auto count = [&](const char* key) { return config.value(key, std::int64_t{0}); };
  return hash_of_text(fmt::format("{} {} {} {} {} {} {} {} {} {}", config.value("model", ""),
                                  config.value("cluster", ""), config.value("schedule", ""),
                                  count("chunks"), count("microbatch_size"), count("microbatches"),
                                  shape.tensor, shape.depth, shape.width, line_of(result)));
}

SweepFigures stored_figures(const Json& line) {
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

/// Whether all devices fit, and what the fullest one has.
void read_fit(const Json& result, SweptRow& row) {
  double fullest = 0.0;
  bool all = true, known = true;
  for (const Json& device : result.at("devices")) {
    const Json& fits = device.at("fits");
    known = known && !fits.is_null();
    all = all && known && fits.get<bool>();
    const double bytes = number(device, "capacity_bytes"),
                 share = number(device, "peak_bytes") / bytes;
    if (!(share > fullest)) continue;
    fullest = share;
    row.capacity = bytes;
  }
  if (known) row.fits = all;
}

std::string stored_reserve(const Json& assumptions) {
  const auto reserve = assumptions.find("reserve");
  if (reserve == assumptions.end()) return {};
  return describe(Reserve{.share = reserve->at("share").get<double>(),
                          .bytes = reserve->at("bytes").get<Bytes>()});
}

void read_answer(const Json& line, SweepRow& row) {
  const Json& config = line.at("config");
  row.set_metrics(stored_figures(line));
  read_fit(line.at("result"), row);
  row.shape = {.tensor = config.value("tensor", std::int64_t{0}),
               .depth = config.value("devices", std::int64_t{0}),
               .width = config.value("width", std::int64_t{0})};
  row.weights = semantics_named(config.value("semantics", ""));
  if (row.fits) row.reserve = stored_reserve(line.at("assumptions"));
  row.plan = plan_of(line, row.shape);
}

/// What its options say.
void name_row(const SweepIdentity& sweep, const Configuration& configuration, SweepRow& row) {
  row.command = command_of(configuration);
  row.subject = subject_of(configuration);
  for (const std::string& axis : sweep.axes) {
    const SweptOption* one = find(configuration, axis);
    row.values.push_back(one == nullptr ? "" : one->value);
  }
}

}  // namespace

const SweepColumn& sweep_column(std::size_t metric) { return kColumns[metric]; }

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
  SweepRow row{swept_row(index, outcome)};
  name_row(sweep, configuration, row);
  if (const auto& answer = outcome.answer) {
    if (row.fits) row.reserve = describe(answer->prepared.scenario.reserve);
    row.plan = plan_of(line, row.shape);
  } else {
    row.code = static_cast<int>(outcome.failure.code);
    row.impossible = outcome.failure.impossible_shape;
  }
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
  SweepRow row{{.index = line.at("index").get<std::size_t>(),
                .metrics = std::vector<double>(sweep_metrics().size(), kUnknown)}};
  name_row(identity_of(line), configuration_of(line.at("options")), row);
  const auto error = line.find("error");
  if (error == line.end()) {
    read_answer(line, row);
    return row;
  }
  const auto message = error->at("message").get<std::string>();
  row.refusal = message.empty() ? "refused" : message;
  row.code = error->at("code").get<int>();
  row.impossible = line.value("impossible_shape", false);
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
