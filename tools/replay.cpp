// tandem replay TIMELINE...: a recorded pipeline simulated again, and without its stragglers.

#include "simulator/replay.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/io/files.h"
#include "tools/json_output.h"
#include "tools/machine.h"
#include "tools/options.h"
#include "tools/output_file.h"
#include "tools/replay.h"
#include "traces/chrome_trace.h"
#include "traces/pytorch_pipeline.h"
#include "traces/recorded_job.h"
#include "traces/recorded_pipeline.h"

namespace tandem::tools {

namespace {

constexpr std::size_t kMostJobBytes = 1 << 20;
constexpr int kMostRanks = 256;
constexpr std::size_t kMostRows = 40;     // steps in the table
constexpr std::size_t kMostCulprits = 8;  // in the table

/// A what-if and its pipeline phases, a row a step.
struct Answer {
  std::string name;
  WhatIf what_if;
  std::vector<Duration> phases{};
  double mean_s = 0.0;
};

double mean_of(const std::vector<Duration>& durations) {
  double sum = 0.0;
  for (const Duration duration : durations) sum += to_seconds(duration);
  return sum / static_cast<double>(durations.size());
}

Answer answer(const Replay& replay, std::string name, WhatIf what_if) {
  std::vector<Duration> phases = replay.phases(what_if);
  const double mean = mean_of(phases);
  return {std::move(name), std::move(what_if), std::move(phases), mean};
}

struct Errors {
  double mean = 0.0, worst = 0.0;  // of absolute values
};

Errors errors_of(const std::vector<ReplayedStep>& steps) {
  Errors errors;
  for (const ReplayedStep& step : steps) {
    errors.mean += std::abs(step.error()) / static_cast<double>(steps.size());
    errors.worst = std::max(errors.worst, std::abs(step.error()));
  }
  return errors;
}

struct Report {
  std::string order;  // the schedule whose order it is; empty: none of ours
  std::int32_t microbatches = 1;
  std::vector<ReplayedStep> steps;
  Errors errors, plain_errors;   // plain: without pauses
  std::vector<Answer> ideal;     // as replayed, no stragglers, balanced, and what was asked for
  std::vector<Answer> culprits;  // without one stage, replica or rank; the best first
  double outside_s = 0.0;        // mean of what a step takes beside its pipeline phase
};

/// All but the updates, which recordings don't have.
std::vector<std::vector<Op>> work_of(const Schedule& schedule) {
  std::vector<std::vector<Op>> work = schedule.order.rows();
  for (std::vector<Op>& order : work) {
    std::erase_if(order, [](const Op& op) { return op.kind == OpKind::update; });
  }
  return work;
}

/// The schedule with the same order, among those that such systems run.
std::string order_name(const Schedule& seen) {
  ScheduleRequest request;
  request.devices = seen.placement.devices;
  request.microbatches = seen.microbatches;
  request.chunks = static_cast<std::uint16_t>(seen.placement.stages() / request.devices);
  for (const char* name : {"1f1b", "gpipe", "1f1b-eager", "interleaved", "looped-bfs"}) {
    const ScheduleTraits& traits = find_schedule(name);
    if (traits.stages_per_device == 1 && request.chunks > 1) continue;
    if (reason_against(traits, request)) continue;
    if (work_of(make_schedule(traits, request)) == work_of(seen)) return name;
  }
  return {};
}

/// The whole number that `text` is; `word` stands for it in the message.
std::int64_t number_of(std::string_view text, std::string_view word) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  std::int64_t number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size() && number >= 0 && number <= kMost) {
    return number;
  }
  throw UsageError(fmt::format(
      "tandem replay: --without: expected stage:S, replica:R or rank:S/R, found \"{}\"", word));
}

/// What stands before and after a mark; without one the second is empty.
std::pair<std::string_view, std::string_view> parted(std::string_view text, char mark) {
  const std::size_t at = std::min(text.find(mark), text.size());
  return {text.substr(0, at), text.substr(std::min(at + 1, text.size()))};
}

Straggler parse_straggler(std::string_view word, const Recording& recording) {
  const auto [what, who] = parted(word, ':');
  std::string_view stage = what == "stage" ? who : "", replica = what == "replica" ? who : "";
  if (what == "rank") std::tie(stage, replica) = parted(who, '/');
  Straggler straggler;
  if (what != "replica") {
    const std::int64_t device = number_of(stage, word);
    if (device >= recording.devices) {
      throw InputError(fmt::format("--without {}: the timeline has the stages 0 to {}", word,
                                   recording.devices - 1));
    }
    straggler.device = id_at<DeviceId>(static_cast<std::size_t>(device));
  }
  if (what != "stage") {
    straggler.replica = number_of(replica, word);
    const std::vector<std::int64_t>& known = recording.replicas;
    if (!std::binary_search(known.begin(), known.end(), *straggler.replica)) {
      throw InputError(fmt::format("--without {}: the timeline has the replicas {}", word,
                                   fmt::join(known, ", ")));
    }
  }
  return straggler;
}

std::vector<Straggler> parse_stragglers(std::string_view list, const Recording& recording) {
  std::vector<Straggler> stragglers;
  while (!list.empty()) {
    const auto [word, rest] = parted(list, ',');
    stragglers.push_back(parse_straggler(word, recording));
    list = rest;
  }
  return stragglers;
}

std::vector<Answer> culprits_of(const Replay& replay, const Recording& recording) {
  std::vector<Answer> answers;
  const auto add = [&](std::string name, Straggler straggler) {
    answers.push_back(answer(replay, std::move(name), {.without = {straggler}}));
  };
  const bool several = recording.replicas.size() > 1;
  for (const DeviceId device : all_ids<DeviceId>(recording.devices)) {
    if (recording.devices > 1) {
      add(fmt::format("without stage {}", index(device)), {.device = device, .replica = {}});
    }
    for (const std::int64_t replica : recording.replicas) {
      if (!several) break;
      add(fmt::format("without rank {}/{}", index(device), replica),
          {.device = device, .replica = replica});
    }
  }
  for (const std::int64_t replica : recording.replicas) {
    if (several)
      add(fmt::format("without replica {}", replica), {.device = {}, .replica = replica});
  }
  std::stable_sort(answers.begin(), answers.end(),
                   [](const Answer& a, const Answer& b) { return a.mean_s < b.mean_s; });
  return answers;
}

/// Mean over the steps of which the recording says it.
double outside_s(const std::vector<ReplayedStep>& steps) {
  double sum = 0.0, count = 0.0;
  for (const ReplayedStep& step : steps) {
    if (step.whole == Duration{}) continue;
    sum += to_seconds(step.whole - step.measured);
    ++count;
  }
  return count > 0.0 ? sum / count : 0.0;
}

Report make_report(const Replay& replay, const Replay& plain, const Recording& recording,
                   const std::vector<Straggler>& without, const std::string& asked) {
  Report report;
  report.order = order_name(replay.pass(0).schedule);
  report.microbatches = replay.pass(0).schedule.microbatches;
  report.steps = replay.steps();
  report.errors = errors_of(report.steps);
  report.plain_errors = errors_of(plain.steps());
  report.outside_s = outside_s(report.steps);
  using Durations = WhatIf::Durations;
  report.ideal.push_back(answer(replay, "as replayed", {}));
  report.ideal.push_back(answer(replay, "no stragglers", {.durations = Durations::usual}));
  report.ideal.push_back(answer(replay, "balanced", {.durations = Durations::balanced}));
  if (!without.empty()) {
    report.ideal.push_back(answer(replay, "without " + asked, {.without = without}));
  }
  report.culprits = culprits_of(replay, recording);
  return report;
}

std::string signed_percent(double share) { return fmt::format("{:+.3f} %", 100 * share); }

Duration of_seconds(double seconds) { return Duration(std::llround(seconds * 1e9)); }

double step_s(const Report& report, const Answer& one) { return one.mean_s + report.outside_s; }

/// Phases may take no time at all.
double ratio(double whole, double part) { return part > 0.0 ? whole / part : 1.0; }

void print_steps(const Report& report) {
  const auto width = [](const Answer& one) { return std::max<std::size_t>(8, one.name.size()); };
  const std::span<const Answer> what_ifs = std::span(report.ideal).subspan(1);
  fmt::print("{:>8}  {:>8}  {:>8}  {:>9}", "step", "measured", "replayed", "error");
  for (const Answer& one : what_ifs) fmt::print("  {:>{}}", one.name, width(one));
  fmt::print("\n");
  for (std::size_t row = 0; row < std::min(report.steps.size(), kMostRows); ++row) {
    const ReplayedStep& step = report.steps[row];
    fmt::print("{:>8}  {:>8}  {:>8}  {:>9}", step.step, print_duration(step.measured),
               print_duration(step.replayed), signed_percent(step.error()));
    for (const Answer& one : what_ifs) {
      fmt::print("  {:>{}}", print_duration(one.phases[row]), width(one));
    }
    fmt::print("\n");
  }
  if (report.steps.size() > kMostRows) {
    fmt::print("     ...  {} more (--json has them all)\n", report.steps.size() - kMostRows);
  }
}

void print_answers(const Report& report) {
  std::size_t width = 8;
  for (const Answer& one : report.ideal) width = std::max(width, one.name.size());
  for (const Answer& one : report.culprits) width = std::max(width, one.name.size());
  fmt::print("{:<{}}  {:>14}  {:>8}  {:>10}\n", "what if", width, "pipeline phase", "slowdown",
             "whole step");
  const double replayed = report.ideal.front().mean_s;
  const auto print = [&](const Answer& one) {
    fmt::print("{:<{}}  {:>14}  {:>8.3f}  {:>10}\n", one.name, width,
               print_duration(of_seconds(one.mean_s)), ratio(replayed, one.mean_s),
               print_duration(of_seconds(step_s(report, one))));
  };
  for (const Answer& one : report.ideal) print(one);
  for (std::size_t i = 0; i < std::min(report.culprits.size(), kMostCulprits); ++i) {
    print(report.culprits[i]);
  }
}

/// The question in a sentence. A rank that explains nearly all is named in place of its stage.
void print_culprit(const Report& report) {
  if (report.culprits.empty()) return;
  constexpr double kNearly = 0.95, kNoticeable = 1.001;
  const Answer& now = report.ideal.front();
  const auto rank =
      std::find_if(report.culprits.begin(), report.culprits.end(), [&](const Answer& one) {
        const Straggler& who = one.what_if.without.front();
        return who.device && who.replica &&
               now.mean_s - one.mean_s >= kNearly * (now.mean_s - report.culprits.front().mean_s);
      });
  const Answer& culprit = rank == report.culprits.end() ? report.culprits.front() : *rank;
  const double faster = ratio(step_s(report, now), step_s(report, culprit));
  if (faster < kNoticeable) {
    fmt::print("\nno stage, replica or rank alone makes the steps longer\n");
    return;
  }
  fmt::print("\n{}, a step would take {} instead of {} in the mean: {:.2f} times as fast\n",
             culprit.name, print_duration(of_seconds(step_s(report, culprit))),
             print_duration(of_seconds(step_s(report, now))), faster);
}

void print_stages(const Replay& replay) {
  const Placement& placement = replay.pass(0).program.placement();
  fmt::print("{:>5}  {:>10}  {:>10}\n", "stage", "forward", "backward");
  for (const StageId stage : ids(placement.device)) {
    fmt::print("{:>5}  {:>10}  {:>10}\n", index(stage),
               print_duration(replay.usual(OpKind::forward, stage)),
               print_duration(replay.usual(OpKind::backward, stage)));
  }
}

void print_report(const std::string& title, const Replay& replay, const Recording& recording,
                  const Report& report) {
  fmt::print("{}: {} stages x {} replicas, {} steps of {} microbatches, {}; {} transfers\n\n",
             title, replay.pass(0).program.placement().stages(), recording.replicas.size(),
             report.steps.size(), report.microbatches,
             report.order.empty() ? "in an order of their own" : "in the order of " + report.order,
             name(replay.transfers()));
  print_steps(report);
  fmt::print("\npipeline phase replayed with an error of {:.4f} % in the mean, {:.4f} % at most\n",
             100 * report.errors.mean, 100 * report.errors.worst);
  fmt::print("({:.4f} % in the mean if ranks did not pause between ops)\n\n",
             100 * report.plain_errors.mean);
  print_stages(replay);
  fmt::print("\n");
  print_answers(report);
  print_culprit(report);
  for (const std::string& warning : replay.warnings()) fmt::print(stderr, "warning: {}\n", warning);
}

Json as_json(const Answer& one, const Report& report) {
  return {{"name", one.name},
          {"phase_s", one.mean_s},
          {"slowdown", ratio(report.ideal.front().mean_s, one.mean_s)},
          {"step_s", step_s(report, one)}};
}

Json as_json(const Replay& replay, const Recording& recording, const Report& report) {
  Json steps = Json::array(), stages = Json::array(), what_if = Json::array();
  for (std::size_t row = 0; row < report.steps.size(); ++row) {
    const ReplayedStep& step = report.steps[row];
    Json phases;
    for (const Answer& one : report.ideal) phases[one.name] = to_seconds(one.phases[row]);
    steps.push_back(
        {{"step", step.step},
         {"whole_s", step.whole == Duration{} ? Json(nullptr) : Json(to_seconds(step.whole))},
         {"measured_s", to_seconds(step.measured)},
         {"replayed_s", to_seconds(step.replayed)},
         {"error_percent", 100 * step.error()},
         {"what_if_s", std::move(phases)}});
  }
  const Placement& placement = replay.pass(0).program.placement();
  for (const StageId stage : ids(placement.device)) {
    stages.push_back({{"stage", index(stage)},
                      {"device", index(placement.device[stage])},
                      {"forward_s", to_seconds(replay.usual(OpKind::forward, stage))},
                      {"backward_s", to_seconds(replay.usual(OpKind::backward, stage))}});
  }
  for (const Answer& one : report.ideal) what_if.push_back(as_json(one, report));
  for (const Answer& one : report.culprits) what_if.push_back(as_json(one, report));
  return {{"replicas", recording.replicas},
          {"microbatches", report.microbatches},
          {"order", report.order.empty() ? Json(nullptr) : Json(report.order)},
          {"transfers", name(replay.transfers())},
          {"mean_error_percent", 100 * report.errors.mean},
          {"worst_error_percent", 100 * report.errors.worst},
          {"mean_error_without_pauses_percent", 100 * report.plain_errors.mean},
          {"stages", std::move(stages)},
          {"what_if", std::move(what_if)},
          {"steps", std::move(steps)}};
}

/// One step of one replica: measured, replayed, and each what-if.
void write_trace(const std::string& path, const Replay& replay, const Report& report,
                 std::size_t pass) {
  const ObservedPass& observed = replay.pass(pass);
  std::vector<Timeline> timelines(report.ideal.size());
  std::vector<TraceRun> runs{{.timeline = &observed.measured, .label = "measured", .memory = {}}};
  for (std::size_t i = 0; i < report.ideal.size(); ++i) {
    replayed_length(observed.program, replay.costs(pass, report.ideal[i].what_if), &timelines[i]);
    runs.push_back({.timeline = &timelines[i], .label = report.ideal[i].name, .memory = {}});
  }
  write_chrome_trace(path, observed.program, runs,
                     {.tool = tool_name(),
                      .about = {{"pass", fmt::format("step {}, replica {}", replay.step_of(pass),
                                                     replay.replica_of(pass))}}});
}

/// The first replica's pass of a step, the first step where none is given.
std::size_t find_pass(const Replay& replay, const Options& options) {
  if (!options.has("step")) return 0;
  const std::int64_t step = options.integer("step", 0, std::numeric_limits<std::int64_t>::max(), 0);
  for (std::size_t pass = 0; pass < replay.passes(); ++pass) {
    if (replay.step_of(pass) == step) return pass;
  }
  throw InputError(fmt::format("--step {}: the timeline has no such step", step));
}

std::optional<RecordedTransfers> transfers_of(const Options& options) {
  const std::string choice =
      options.choice("transfers", {"as-seen", "blocking", "overlapped", "none"});
  for (const RecordedTransfers transfers :
       {RecordedTransfers::blocking, RecordedTransfers::overlapped, RecordedTransfers::none}) {
    if (name(transfers) == choice) return transfers;
  }
  return std::nullopt;
}

/// Ranks of PyTorch write a file each.
Recording read(const std::vector<std::string>& files) {
  if (files.size() == 1) return read_recording(std::filesystem::path(files[0]));
  return read_pytorch_pipeline(std::vector<std::filesystem::path>(files.begin(), files.end()));
}

std::string title(const std::vector<std::string>& files) {
  if (files.size() == 1) return files[0];
  return fmt::format("{} and {} more", files[0], files.size() - 1);
}

void add_options(Options& options) {
  options.words("TIMELINE", 1, kMostRanks);
  options.value("meta", "FILE", "what job it is of (key: value lines), checked against it")
      .value("transfers", "HOW", "as-seen (default), blocking, overlapped or none")
      .value("without", "LIST",
             "what if these were as fast as the others: stage:S, replica:R, "
             "rank:S/R, ...")
      .value("trace", "FILE",
             "write a step, measured, replayed and as it could have been, as a "
             "Chrome trace")
      .value("step", "N", "the step that --trace writes (default: the first)");
}

}  // namespace

int run_replay(const Arguments& arguments) {
  Options options("replay", "TIMELINE... [options]",
                  "Simulates a recorded pipeline again, from the durations that its ranks "
                  "recorded, and without its stragglers: a production timeline, or the traces of "
                  "PyTorch's profiler, one for each rank of a pipeline.");
  add_options(options);
  options.parse(arguments);
  if (options.has("step") && !options.has("trace")) {
    throw UsageError("tandem replay: --step is that of --trace, which is missing");
  }
  if (options.has("trace")) check_can_write(options.text("trace"));
  const std::optional<RecordedTransfers> transfers = transfers_of(options);
  const std::vector<std::string>& files = options.words();
  Recording recording = read(files);
  if (options.has("meta")) {
    const std::string meta = options.text("meta");
    check_job(parse_recorded_job(read_file(meta, kMostJobBytes), meta), meta, recording);
  }
  const std::string asked = options.text("without");
  const std::vector<Straggler> without = parse_stragglers(asked, recording);
  const Replay replay(recording, transfers);
  const std::size_t traced = find_pass(replay, options);
  const Replay plain(recording, transfers, false);
  const Report report = make_report(replay, plain, recording, without, asked);
  if (options.has("trace")) write_trace(options.text("trace"), replay, report, traced);
  if (options.has("json")) {
    print_result("replay",
                 {{"timeline", files.size() > 1 ? Json(files) : Json(files[0])},
                  {"transfers", name(replay.transfers())},
                  {"without", asked}},
                 Json::object(), as_json(replay, recording, report), replay.warnings());
  } else {
    print_report(title(files), replay, recording, report);
  }
  return 0;
}

}  // namespace tandem::tools
