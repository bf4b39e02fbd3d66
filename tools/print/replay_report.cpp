#include "tools/print/replay_report.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "core/schedule/schedule.h"
#include "core/text/count_text.h"
#include "simulator/analysis/critical_graph.h"
#include "tools/cli/machine.h"
#include "traces/report/report.h"

namespace tandem::tools {

namespace {

constexpr std::size_t kMostSteps = 40;    // steps in the table
constexpr std::size_t kMostCulprits = 8;  // in the table

using Answer = VariationAnswer;
using Errors = ReplayErrors;

double mean_of(const std::vector<Duration>& durations) {
  double sum = 0.0;
  for (const Duration duration : durations) sum += to_seconds(duration);
  return sum / static_cast<double>(durations.size());
}

Answer answer(const Replay& replay, std::string name, ReplayVariation variation) {
  std::vector<Duration> phases = replay.phases(variation);
  const double mean = mean_of(phases);
  return {std::move(name), std::move(variation), std::move(phases), mean};
}

Errors errors_of(const std::vector<ReplayedStep>& steps) {
  Errors errors;
  for (const ReplayedStep& step : steps) {
    errors.mean += std::abs(step.error()) / static_cast<double>(steps.size());
    errors.worst = std::max(errors.worst, std::abs(step.error()));
  }
  return errors;
}

/// All but the updates, which recordings don't have.
std::vector<std::vector<Op>> work_of(const Schedule& schedule) {
  std::vector<std::vector<Op>> work = schedule.order.rows();
  for (std::vector<Op>& order : work)
    std::erase_if(order, [](const Op& op) { return makes_version(op.kind); });
  return work;
}

/// The schedule with the same order: the plain one, or the first of those that no costs order.
std::string order_name(const Schedule& seen) {
  ScheduleRequest request;
  request.devices = seen.placement.devices;
  request.microbatches = seen.microbatches;
  request.chunks = static_cast<std::uint16_t>(seen.placement.replicas() / request.devices);
  const std::vector<std::vector<Op>> work = work_of(seen);
  const auto is_of = [&](const ScheduleTraits& row) {
    const bool cut_alike = row.replicas_per_device == 0 ? request.chunks > 1
                                                        : row.replicas_per_device == request.chunks;
    return cut_alike && !row.orders_by_costs && row.weights == WeightSemantics::vanilla &&
           !reason_against(row, request) && work_of(make_schedule(row, request)) == work;
  };
  if (is_of(plain_schedule())) return std::string(plain_schedule().name);
  const auto found = std::ranges::find_if(schedules(), is_of);
  return found == schedules().end() ? std::string() : std::string(found->name);
}

std::vector<Answer> culprits_of(const Replay& replay, const Recording& recording) {
  std::vector<Answer> answers;
  const auto add = [&](std::string name, Straggler straggler) {
    answers.push_back(answer(replay, std::move(name), {.without = {straggler}}));
  };
  const bool several = recording.replicas.size() > 1;
  for (const DeviceId device : all_ids<DeviceId>(recording.devices)) {
    if (recording.devices > 1)
      add(fmt::format("without stage {}", index(device)), {.device = device, .replica = {}});
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
  std::ranges::stable_sort(answers, {}, &Answer::mean_s);
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

std::string signed_percent(double share) { return fmt::format("{:+.3f} %", 100 * share); }

Duration of_seconds(double seconds) { return Duration(std::llround(seconds * 1e9)); }

double step_s(const ReplayReport& report, const Answer& one) {
  return one.mean_s + report.outside_s;
}

/// Phases may take no time at all.
double ratio(double whole, double part) { return part > 0.0 ? whole / part : 1.0; }

void print_steps(const ReplayReport& report) {
  const auto width = [](const Answer& one) { return std::max<std::size_t>(8, one.name.size()); };
  const std::span<const Answer> variations = std::span(report.ideal).subspan(1);
  fmt::print("{:>8}  {:>8}  {:>8}  {:>9}", "step", "measured", "replayed", "error");
  for (const Answer& one : variations) fmt::print("  {:>{}}", one.name, width(one));
  fmt::print("\n");
  for (std::size_t row = 0; row < std::min(report.steps.size(), kMostSteps); ++row) {
    const ReplayedStep& step = report.steps[row];
    fmt::print("{:>8}  {:>8}  {:>8}  {:>9}", step.step, print_duration(step.measured),
               print_duration(step.replayed), signed_percent(step.error()));
    for (const Answer& one : variations)
      fmt::print("  {:>{}}", print_duration(one.phases[row]), width(one));
    fmt::print("\n");
  }
  if (report.steps.size() > kMostSteps)
    fmt::print("     ...  {} more (--json has them all)\n", report.steps.size() - kMostSteps);
}

void print_answers(const ReplayReport& report) {
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
  for (std::size_t i = 0; i < std::min(report.culprits.size(), kMostCulprits); ++i)
    print(report.culprits[i]);
}

/// The question in a sentence. A rank that explains nearly all is named in place of its stage.
void print_culprit(const ReplayReport& report) {
  if (report.culprits.empty()) return;
  constexpr double kNearly = 0.95, kNoticeable = 1.001;
  const Answer& now = report.ideal.front();
  const auto rank = std::ranges::find_if(report.culprits, [&](const Answer& one) {
    const Straggler& who = one.variation.without.front();
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

/// One of the two gradients that a whole backward makes.
bool is_half(OpKind kind) { return makes_input_gradient(kind) != makes_weight_gradient(kind); }

/// Whether some backward was in two halves.
bool has_halves(const Replay& replay) {
  for (std::size_t pass = 0; pass < replay.passes(); ++pass) {
    for (const auto& order : replay.pass(pass).schedule.order.rows()) {
      if (std::ranges::any_of(order, [](const Op& op) { return is_half(op.kind); })) return true;
    }
  }
  return false;
}

void print_stages(const Replay& replay) {
  const Placement& placement = replay.pass(0).program.placement();
  std::vector<OpTraits> columns;
  std::ranges::copy_if(kOpTraits, std::back_inserter(columns),
                       [halves = has_halves(replay)](const OpTraits& row) {
                         return is_useful(row.kind) && (halves || !is_half(row.kind));
                       });
  const auto print_cell = [](const OpTraits& column, std::string_view text) {
    fmt::print("  {:>{}}", text, std::max<std::size_t>(10, column.title.size()));
  };
  fmt::print("{:>5}", "stage");
  for (const OpTraits& column : columns) print_cell(column, column.title);
  fmt::print("\n");
  for (const ReplicaId replica : ids(placement.device)) {
    fmt::print("{:>5}", index(replica));
    for (const OpTraits& column : columns)
      print_cell(column, print_duration(replay.usual(column.kind, replica)));
    fmt::print("\n");
  }
}

std::string share(double part, double whole) {
  return fmt::format("{:.1f} %", whole > 0.0 ? 100.0 * part / whole : 0.0);
}

/// `critical`: as chart_of() takes it.
ReportFrame frame_of(std::string label, const Program& program, const Timeline& timeline,
                     const std::vector<bool>& critical) {
  ReportFrame frame{.label = std::move(label),
                    .chart = chart_of(program, timeline, {}, critical),
                    .table = {.columns = {"stage's rank", "computes", "idle", "of the phase"}}};
  const double phase = to_seconds(frame.chart.end - frame.chart.start);
  double all_idle = 0.0;
  for (const DeviceId device : all_ids<DeviceId>(program.placement().devices)) {
    Duration idle{};
    for (const ChartIdle& bubble : frame.chart.idle) {
      if (bubble.device == device) idle += bubble.end - bubble.start;
    }
    all_idle += to_seconds(idle);
    frame.table.rows.push_back({fmt::format("{}", index(device)),
                                print_duration(frame.chart.end - frame.chart.start - idle),
                                print_duration(idle), share(to_seconds(idle), phase)});
  }
  const double devices = program.placement().devices;
  frame.facts = {
      {"pipeline phase of this step", print_duration(frame.chart.end - frame.chart.start), phase},
      {"idle, mean of the ranks", share(all_idle, devices * phase),
       phase > 0.0 ? all_idle / (devices * phase) : 0.0, true}};
  return frame;
}

}  // namespace

ReplayReport make_replay_report(const Replay& replay, const Replay& plain,
                                const Recording& recording, const std::vector<Straggler>& without,
                                const std::string& asked) {
  ReplayReport report;
  report.order = order_name(replay.pass(0).schedule);
  report.microbatches = replay.pass(0).schedule.microbatches;
  report.steps = replay.steps();
  report.errors = errors_of(report.steps);
  report.plain_errors = errors_of(plain.steps());
  report.outside_s = outside_s(report.steps);
  using Durations = ReplayVariation::Durations;
  report.ideal.push_back(answer(replay, "as replayed", {}));
  report.ideal.push_back(answer(replay, "no stragglers", {.durations = Durations::usual}));
  report.ideal.push_back(answer(replay, "balanced", {.durations = Durations::balanced}));
  if (!without.empty())
    report.ideal.push_back(answer(replay, "without " + asked, {.without = without}));
  report.culprits = culprits_of(replay, recording);
  return report;
}

void print_replay_report(const std::string& title, const Replay& replay, const Recording& recording,
                         const ReplayReport& report) {
  fmt::print("{}: {} x {}{}, {} of {}, {}; {} transfers\n\n", title,
             counted(replay.pass(0).program.placement().replicas(), "stage"),
             counted(recording.replicas.size(), "replica"),
             recording.ranks > 1 ? fmt::format(" of {} ranks a stage", recording.ranks) : "",
             counted(report.steps.size(), "step"), counted(report.microbatches, "microbatch"),
             report.order.empty() ? "in an order of their own" : "in the order of " + report.order,
             name(replay.transfers()));
  print_steps(report);
  fmt::print("\npipeline phase replayed with an error of {:.4f} % in the mean, {:.4f} % at most\n",
             100 * report.errors.mean, 100 * report.errors.worst);
  fmt::print("({:.4f} % in the mean if ranks did not pause between ops)\n\n",
             100 * report.plain_errors.mean);
  print_stages(replay);
  constexpr double kNoticeableContent = 0.005;
  if (const double variation = replay.content_variation(); variation > kNoticeableContent) {
    fmt::print(
        "microbatches differ by {:.1f} % (standard deviation) on all stages alike, because of "
        "their content; no variation removes that\n",
        100 * variation);
  }
  fmt::print("\n");
  print_answers(report);
  print_culprit(report);
  for (const std::string& warning : replay.warnings()) fmt::print(stderr, "warning: {}\n", warning);
}

/// Variations have the keys `what_if` and `what_if_s`, as the format was published.
Json replay_json(const Replay& replay, const Recording& recording, const ReplayReport& report) {
  Json steps = Json::array(), stages = Json::array();
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
  for (const ReplicaId replica : ids(placement.device)) {
    Json row{{"stage", index(replica)}, {"device", index(placement.device[replica])}};
    for (const OpTraits& kind : kOpTraits) {
      if (is_useful(kind.kind))
        row[fmt::format("{}_s", kind.name)] = to_seconds(replay.usual(kind.kind, replica));
    }
    stages.push_back(std::move(row));
  }
  Json variations = Json::array();
  for (const auto* answers : {&report.ideal, &report.culprits}) {
    for (const Answer& one : *answers)
      variations.push_back({{"name", one.name},
                            {"phase_s", one.mean_s},
                            {"slowdown", ratio(report.ideal.front().mean_s, one.mean_s)},
                            {"step_s", step_s(report, one)}});
  }
  return {{"replicas", recording.replicas},
          {"ranks_of_a_stage", recording.ranks},
          {"microbatches", report.microbatches},
          {"order", report.order.empty() ? Json(nullptr) : Json(report.order)},
          {"transfers", name(replay.transfers())},
          {"mean_error_percent", 100 * report.errors.mean},
          {"worst_error_percent", 100 * report.errors.worst},
          {"mean_error_without_pauses_percent", 100 * report.plain_errors.mean},
          {"content_variation_percent", 100 * replay.content_variation()},
          {"stages", std::move(stages)},
          {"what_if", std::move(variations)},
          {"steps", std::move(steps)}};
}

void write_replay_page(const std::string& path, const std::string& command, const Replay& replay,
                       const ReplayReport& report, std::size_t pass) {
  const RecordedProgram& recorded = replay.pass(pass);
  Report page{
      .title = fmt::format("step {}, replica {}", replay.step_of(pass), replay.replica_of(pass)),
      .summary = fmt::format("a recorded pipeline; {} transfers", name(recorded.transfers)),
      .command = command,
      .tool = tool_name()};
  page.frames.push_back(frame_of("measured", recorded.program, recorded.measured, {}));
  ReportSlider slider{.name = "Time of the step", .asked = "measured", .frames = {0}};
  for (const VariationAnswer& answer : report.ideal) {
    Timeline timeline;
    const Duration length =
        replayed_length(recorded.program, replay.costs(pass, answer.variation), &timeline);
    slider.frames.push_back(page.frames.size());
    page.frames.push_back(frame_of(answer.name, recorded.program, timeline,
                                   critical_spans(recorded.program, timeline, length)));
  }
  page.variations.push_back(std::move(slider));
  write_report(path, page);
}

}  // namespace tandem::tools
