#include "tools/sweep/sweep_row.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/units.h"
#include "core/base/utf8.h"
#include "core/memory/reserve.h"
#include "tools/cli/terminal.h"
#include "tools/print/scenario_summary.h"
#include "tools/print/simulation_report.h"
#include "tools/print/words.h"

namespace tandem::tools {

namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

double number(const Json& object, std::string_view key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? kUnknown : found->get<double>();
}

double of_result(const Json& line, std::string_view key) { return number(line.at("result"), key); }

/// The largest of all devices.
double of_fullest(const Json& line, std::string_view key) {
  double most = -1.0;
  for (const Json& device : line.at("result").at("devices")) {
    const double value = number(device, key);
    if (std::isnan(value)) return value;
    most = std::max(most, value);
  }
  return most < 0.0 ? kUnknown : most;
}

double samples_a_device(const Json& line, std::string_view) {
  const Json& config = line.at("config");
  const double used = number(config, "devices_used");
  const double devices =
      std::isnan(used) ? number(config, "devices") * number(config, "width") : used;
  return of_result(line, "throughput_samples_per_s") / devices;
}

/// That of the first batches would set schedules back that never drain.
double bubble_of_period(const Json& line, std::string_view) {
  const double period = of_result(line, "period_s");
  const double ideal = of_result(line, "ideal_s") / number(line.at("config"), "batches");
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
    {"throughput", true, "samples/s", "throughput_samples_per_s", "samples/s", 1.0, plain,
     of_result},
    {"per-device", true, "samples/s a device", "throughput_samples_per_s_per_device",
     "samples/s a device", 1.0, plain, samples_a_device},
    {"tokens", true, "tokens/s", "tokens_per_s", "tokens/s", 1.0, plain, of_result},
    {"flops", true, "TFLOP/s a device", "flops_per_s_per_device", "TFLOP/s a device", 1e-12,
     [](double value) { return plain(value / 1e12); }, of_result},
    {"period", false, "a batch", "period_s", "seconds a batch", 1.0, seconds_text, of_result},
    {"makespan", false, "the run", "makespan_s", "seconds of the run", 1.0, seconds_text,
     of_result},
    {"bubble", false, "bubble", "bubble_of_period", "bubble of the endless run (%)", 100.0,
     print_percent, bubble_of_period},
    {"memory", false, "memory", "peak_bytes", "memory of the fullest device (GiB)", 1.0 / kGibibyte,
     bytes, of_fullest},
    {"activations", false, "activations", "peak_activations", "activations of the fullest device",
     1.0, plain, of_fullest},
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

std::string command_of(const Json& options) {
  std::string command = "tandem simulate";
  for (const auto& [name, value] : options.items()) {
    if (value == false) continue;
    if (name != "plan") command += " --" + name;
    if (!value.is_boolean()) command += " " + shell_word(value.get<std::string>());
  }
  return command;
}

/// Model and cluster, where they are named.
std::string subject_of(const Json& options) {
  std::string text;
  for (const char* name : {"model", "cluster"}) {
    if (options.contains(name))
      text += (text.empty() ? "" : " on ") + options[name].get<std::string>();
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

/// Whether all devices fit, and what the fullest one has.
void read_fit(const Json& result, SweepRow& row) {
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

void read_answer(const Json& line, SweepRow& row) {
  const Json& config = line.at("config");
  for (std::size_t i = 0; i < row.metrics.size(); ++i)
    row.metrics[i] = kMetrics[i].of(line, kMetrics[i].key);
  read_fit(line.at("result"), row);
  row.shape = {.tensor = config.value("tensor", std::int64_t{0}),
               .depth = config.value("devices", std::int64_t{0}),
               .width = config.value("width", std::int64_t{0})};
  row.weights = semantics_named(config.value("semantics", ""));
  if (const Json& assumptions = line.at("assumptions");
      row.fits && assumptions.contains("reserve")) {
    const Json& reserve = assumptions["reserve"];
    row.reserve = describe(Reserve{.share = reserve.at("share").get<double>(),
                                   .bytes = reserve.at("bytes").get<Bytes>()});
    row.fits_by = assumptions.value("fits_by", "");
  }
  row.plan = plan_of(line, row.shape);
}

/// What its options say.
void name_row(const SweepIdentity& sweep, const Json& options, SweepRow& row) {
  row.command = command_of(options);
  row.subject = subject_of(options);
  for (const std::string& axis : sweep.axes) {
    const Json value = options.value(axis, Json(""));
    row.values.push_back(!value.is_boolean() ? value.get<std::string>()
                         : value.get<bool>() ? "yes"
                                             : "no");
  }
}

/// Of a line that was read. Throw Json::exception where it is none of a sweep.
SweepIdentity identity_of(const Json& line) {
  SweepIdentity identity{.id = line.at("sweep").get<std::string>(),
                         .configurations = line.at("configurations").get<std::size_t>(),
                         .axes = {}};
  for (const auto& [name, value] : line.at("axes").items()) identity.axes.push_back(name);
  return identity;
}

SweepRow row_of(const Json& line) {
  SweepRow row{.index = line.at("index").get<std::size_t>(),
               .metrics = std::vector<double>(std::size(kMetrics), kUnknown)};
  name_row(identity_of(line), line.at("options"), row);
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

/// How each line begins.
constexpr std::string_view kBeginning = R"({"schema_version":1,"command":"sweep")";

/// What the library says, without the number that it gives it.
std::string reason_of(const Json::exception& error) {
  const std::string_view what = error.what();
  const std::size_t end = what.find("] ");
  return std::string(end == std::string_view::npos ? what : what.substr(end + 2));
}

/// Throws an exception of the library where one is missing.
void check_numbers(const std::string& path, std::int64_t number, const Json& line) {
  const Json& version = line.at("schema_version");
  if (version != 1)
    reject_line(path, number, "schema version {}: this version reads 1", version.dump());
  for (const char* key : {"configurations", "index"}) {
    if (!line.at(key).is_number_unsigned())
      reject_line(path, number, "{}: expected a whole number", key);
  }
}

}  // namespace

std::span<const SweepMetric> sweep_metrics() { return kMetrics; }

std::size_t sweep_metric(std::string_view name) {
  const auto* const found = std::ranges::find(kMetrics, name, &SweepMetric::name);
  return static_cast<std::size_t>(found - std::begin(kMetrics));
}

std::vector<std::size_t> ranking(const std::vector<SweepRow>& rows, std::size_t metric) {
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto group = [](const SweepRow& row) { return row.works() ? 0 : row.simulated() ? 1 : 2; };
  std::ranges::sort(order, [&](std::size_t left, std::size_t right) {
    const SweepRow &a = rows[left], &b = rows[right];
    if (group(a) != group(b)) return group(a) < group(b);
    const double x = a.metrics[metric], y = b.metrics[metric];
    if (std::isnan(x) != std::isnan(y)) return std::isnan(y);
    if (!std::isnan(x) && x != y) return (x > y) == kMetrics[metric].more_is_better;
    return a.index < b.index;
  });
  return order;
}

ComputedRow computed_row(const SweepIdentity& sweep, std::size_t index, Json options,
                         const SweepOutcome& outcome) {
  Json axes = Json::object();
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
  // With its place, which the line says apart.
  if (!row.simulated() && !outcome.failure.message.empty()) row.refusal = outcome.failure.message;
  return {std::move(row), line_of(line)};
}

std::string place_of(const SweepIdentity& sweep, const SweepRow& row) {
  std::string place;
  for (std::size_t i = 0; i < sweep.axes.size(); ++i) {
    if (row.values[i].empty()) continue;
    place += fmt::format("{}{} {}", place.empty() ? "" : ", ", sweep.axes[i], row.values[i]);
  }
  return printable_line(place);
}

std::int64_t read_sweep_file(const std::string& path,
                             const std::function<void(const StoredLine&)>& take) {
  const auto fail = [&path](int error) {
    throw InputError(fmt::format("{}: cannot read: {}", path, std::strerror(error)));
  };
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) fail(EISDIR);
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(errno);
  const std::int64_t whole = read_sweep_lines(path, file, take);
  if (file.bad()) fail(EIO);
  return whole;
}

std::int64_t read_sweep_lines(const std::string& path, std::istream& file,
                              const std::function<void(const StoredLine&)>& take) {
  StoredLine line;
  std::string text;
  for (; std::getline(file, text) && !file.eof(); ++line.number) {
    text += '\n';
    // To the parser it would be the end.
    if (const std::size_t nul = text.find('\0'); nul != std::string::npos)
      reject_at(path, line.number, nul + 1, "not a line of a sweep: a NUL byte (U+0000)");
    try {
      const Json json = Json::parse(text);
      check_numbers(path, line.number, json);
      line.identity = identity_of(json);
      line.row = row_of(json);
    } catch (const Json::exception& error) {
      reject_line(path, line.number, "not a line of a sweep: {}", reason_of(error));
    }
    if (line.identity.configurations > kMostConfigurations)
      reject_line(path, line.number, "a sweep of {} configurations: {} at most",
                  line.identity.configurations, kMostConfigurations);
    if (line.row.index >= line.identity.configurations)
      reject_line(path, line.number, "configuration {} of {}: they count from 0", line.row.index,
                  line.identity.configurations);
    line.text = text;
    take(line);
    line.offset += static_cast<std::int64_t>(text.size());
  }
  // What was cut off goes, which nobody wants of a file of something else.
  if (!text.starts_with(kBeginning.substr(0, text.size())))
    reject_line(path, line.number, "not a line of a sweep, nor the beginning of one");
  return line.offset;
}

void reject_at(const std::string& path, std::int64_t number, std::size_t column,
               const std::string& why) {
  SourcePlace place;
  place.file = path;
  place.line = static_cast<std::uint32_t>(number);
  place.column = static_cast<std::uint32_t>(column);
  throw InputError(std::vector<Diagnostic>{{why, std::move(place), {}}});
}

}  // namespace tandem::tools
