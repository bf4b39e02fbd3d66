#include "tools/print/replay_page.h"

#include <utility>
#include <vector>

#include <fmt/format.h>

#include "simulator/analysis/critical_graph.h"
#include "tools/cli/machine.h"
#include "traces/report/report.h"

namespace tandem::tools {

namespace {

std::string share(double part, double whole) {
  return fmt::format("{:.1f} %", whole > 0.0 ? 100.0 * part / whole : 0.0);
}

/// `critical`: as chart_of() takes it.
ReportFrame frame_of(std::string label, const Program& program, const Timeline& timeline,
                     const std::vector<bool>& critical) {
  ReportFrame frame{
      .label = std::move(label),
      .chart = chart_of(program, timeline, {}, critical),
      .facts = {},
      .table = {.columns = {"stage's rank", "computes", "idle", "of the phase"}, .rows = {}}};
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

void write_replay_page(const std::string& path, const std::string& command, const Replay& replay,
                       const ReplayReport& report, std::size_t pass) {
  const RecordedProgram& recorded = replay.pass(pass);
  Report page{
      .title = fmt::format("step {}, replica {}", replay.step_of(pass), replay.replica_of(pass)),
      .summary = fmt::format("a recorded pipeline; {} transfers", name(recorded.transfers)),
      .command = command,
      .tool = tool_name(),
      .assumptions = {},
      .frames = {},
      .variations = {}};
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
