#include "tools/print/report.h"

#include <filesystem>
#include <iterator>
#include <optional>
#include <ranges>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/text/output_place.h"
#include "planner/study/variations.h"
#include "simulator/analysis/critical_graph.h"
#include "tools/cli/interrupt.h"
#include "tools/cli/machine.h"
#include "tools/print/scenario_summary.h"
#include "tools/print/simulation_report.h"
#include "tools/print/words.h"
#include "traces/report/report.h"

namespace tandem::tools {

namespace {

std::optional<ChartMemory> chart_memory(const Scenario& scenario, const Timeline& timeline) {
  if (!scenario.memory) return std::nullopt;
  ChartMemory memory{.peak = *scenario.memory, .activations = {}, .capacity = scenario.capacity};
  memory.activations =
      scenario.held ? held_over_time(scenario.program, timeline, *scenario.held)
                    : curves_of(scenario.program, timeline, *scenario.stash).activation_bytes;
  return memory;
}

/// Of the run.
double mean_idle(const SimulationResult& result) {
  double idle = 0.0;
  for (const DeviceUse& use : result.devices) idle += to_seconds(use.bubble);
  const double all = to_seconds(result.makespan) * static_cast<double>(result.devices.size());
  return all > 0.0 ? idle / all : 0.0;
}

std::vector<ReportFact> facts_of(const Scenario& scenario, const SimulationResult& result) {
  const double makespan = to_seconds(result.makespan);
  const BubbleRate bubble = bubble_rate(result);
  const double rate = samples_per_s(scenario, result);
  std::vector<ReportFact> facts{
      {"this run", print_duration(result.makespan), makespan},
      {"bubble rate", print_percent(bubble.of_run), bubble.of_run, true},
      {"of it idle", print_percent(bubble.idle), bubble.idle, true},
      {"idle, mean of devices", print_percent(mean_idle(result)), mean_idle(result), true},
      {"a batch, endless run", print_duration(result.cycle / result.cycle_batches),
       result.period_s()},
      {"samples/s, endless run", fmt::format("{:.4g}", rate), rate}};
  if (scenario.use) {
    const ModelUse& use = *scenario.use;
    const double flops = rate * use.flops, mfu = flops / use.peak_flops_per_s;
    const double each = flops / static_cast<double>(use.devices), tokens = rate * use.tokens;
    facts.push_back({"tokens/s", fmt::format("{:.4g}", tokens), tokens});
    facts.push_back({"TFLOP/s a device", fmt::format("{:.4g}", each / 1e12), each});
    facts.push_back({"MFU, of peak", print_percent(mfu), mfu, true});
  }
  if (!scenario.memory) return facts;
  DeviceId fullest{};
  const auto share = [&](DeviceId device) {
    const auto bytes = static_cast<double>((*scenario.memory)[device].total());
    return scenario.capacity ? bytes / static_cast<double>((*scenario.capacity)[device]) : bytes;
  };
  for (const DeviceId device : ids(*scenario.memory)) {
    if (share(device) > share(fullest)) fullest = device;
  }
  const Bytes peak = (*scenario.memory)[fullest].total();
  facts.push_back({"peak memory",
                   scenario.capacity ? fmt::format("{} of {}", print_bytes(peak),
                                                   print_bytes((*scenario.capacity)[fullest]))
                                     : print_bytes(peak),
                   static_cast<double>(peak)});
  if (const auto& both = scenario.figures) {
    const bool framework = both->by == FitsBy::framework;
    const Bytes other = (framework ? both->tandem : both->framework)[fullest];
    facts.push_back({framework ? "by tandem's own figure" : "by a framework's figure",
                     print_bytes(other), static_cast<double>(other)});
  }
  return facts;
}

/// What people look for first: who is busy, who is full.
ReportTable table_of(const Scenario& scenario, const SimulationResult& result) {
  ReportTable table{.rows = std::vector<std::vector<std::string>>(result.devices.size()),
                    .note =
                        "Idle is the run less what is busy. The bubble rate is the busiest "
                        "device's: its idle time, recomputation and updates."};
  const auto add = [&](const char* column, const auto& cell) {
    table.columns.emplace_back(column);
    for (const DeviceId device : ids(result.devices))
      table.rows[index(device)].push_back(cell(device, result.devices[device]));
  };
  const auto add_bytes = [&](const char* column, const auto& bytes) {
    add(column, [&](DeviceId device, const DeviceUse&) { return print_bytes(bytes(device)); });
  };
  using Use = const DeviceUse&;
  const double run = to_seconds(result.makespan);
  add("device", [](DeviceId device, Use) { return fmt::format("{}", index(device)); });
  add("busy", [](DeviceId, Use use) { return print_duration(use.busy); });
  add("idle", [](DeviceId, Use use) { return print_duration(use.bubble); });
  add("of the run", [&](DeviceId, Use use) {
    return print_percent(run > 0.0 ? to_seconds(use.bubble) / run : 0.0);
  });
  if (scenario.memory)
    add_bytes("peak memory", [&](DeviceId device) { return (*scenario.memory)[device].total(); });
  if (scenario.memory && scenario.capacity) {
    add_bytes("capacity", [&](DeviceId device) { return (*scenario.capacity)[device]; });
    add("fits", [&](DeviceId device, Use) { return scenario.fits(device) ? "yes" : "NO"; });
  }
  add("stages", [&](DeviceId device, Use) {
    const std::vector<ReplicaId> stages = scenario.program.placement().replicas_on(device);
    return fmt::format("{}", fmt::join(stages | std::views::transform(index<ReplicaId>), ", "));
  });
  add("exposed transfer",
      [](DeviceId, Use use) { return print_duration(use.exposed_communication); });
  add("activations", [](DeviceId, Use use) { return fmt::format("{:.4g}", use.peak_activations); });
  add("versions", [](DeviceId, Use use) { return fmt::format("{}", use.weight_versions); });
  if (!scenario.memory) return table;
  constexpr std::pair<const char*, Bytes MemoryByClass::*> kClasses[] = {
      {"weights", &MemoryByClass::weights},
      {"further versions", &MemoryByClass::versions},
      {"gradients", &MemoryByClass::gradients},
      {"optimizer", &MemoryByClass::optimizer},
      {"activations held", &MemoryByClass::activations},
      {"buffers", &MemoryByClass::buffers}};
  for (const auto& row : kClasses)
    add_bytes(row.first, [&](DeviceId device) { return (*scenario.memory)[device].*row.second; });
  return table;
}

ReportFrame frame_of(std::string label, const Scenario& scenario, const SimulationResult& result) {
  const Timeline& timeline = *result.timeline;
  std::vector<bool> critical;  // of a run that is too long to follow nothing is known
  if (std::ssize(timeline.spans) <= kMostTraced)
    critical = critical_spans(scenario.program, timeline, result.makespan);
  return {.label = std::move(label),
          .chart = chart_of(scenario.program, timeline, chart_memory(scenario, timeline), critical),
          .facts = facts_of(scenario, result),
          .table = table_of(scenario, result)};
}

constexpr auto kReplace = Json::error_handler_t::replace;

/// What the results say, and what they rest on.
std::vector<std::string> assumptions_of(const ScenarioRequest& request,
                                        const PreparedScenario& prepared,
                                        const SimulationResult& result) {
  std::vector<std::string> lines;
  if (prepared.cluster) lines = assumption_lines(request, *prepared.cluster);
  const auto add = [&](std::string_view key, const Json& json) {
    lines.push_back(fmt::format("{}: {}", key, json.dump(-1, ' ', false, kReplace)));
  };
  if (prepared.profile) add("profile", origin_json(*prepared.profile));
  if (!prepared.cluster && prepared.scenario.capacity)
    add("reserve", reserve_json(prepared.scenario.reserve));
  for (const auto& [key, text] : run_assumptions(request, prepared)) {
    // The lines above say it of a cluster.
    if (!prepared.cluster || key != "transfers") lines.push_back(fmt::format("{}: {}", key, text));
  }
  for (const std::string& warning : warnings_of(request, prepared, result))
    lines.push_back("warning: " + warning);
  return lines;
}

void add_variations(Variations& variations, const std::stop_token& stop, Report& report) {
  for (const Variations::Question& question : variations.questions()) {
    ReportSlider asked{.name = question.name, .asked = question.asked, .list = question.list};
    for (const Variations::Position& position : question.positions) {
      if (stop.stop_requested()) throw Interrupted("interrupted: no report was written");
      if (position.as_asked) {
        asked.frames.push_back(0);
        continue;
      }
      const auto other = variations.at(position);
      if (!other) continue;
      asked.frames.push_back(report.frames.size());
      report.frames.push_back(frame_of(position.label + weights_mark(position.weights),
                                       other->scenario, other->result));
    }
    if (asked.frames.size() > 1) report.variations.push_back(std::move(asked));
  }
  report.variations_note = variations.left_out();
}

}  // namespace

void check_can_report(const std::string& path, std::string_view command) {
  const std::string ending = std::filesystem::path(path).extension();
  if (ending != ".html" && ending != ".svg") {
    throw UsageError(
        fmt::format("tandem {}: --report: expected a name that ends in .html or .svg, found \"{}\"",
                    command, path));
  }
  check_can_write(path);
}

void write_report(const std::string& path, const std::string& command,
                  const ScenarioRequest& request, const PreparedScenario& prepared,
                  const SimulationResult& result, const SimulationRequest& simulated) {
  const InterruptGuard interrupt(OnInterrupt::ends_by_itself);
  const Program& program = prepared.scenario.program;
  Report report{
      .title = fmt::format("{}: {} devices, {} a batch", schedule_heading(program.schedule()),
                           program.placement().devices, batch_text(program)),
      .summary = prepared.cluster ? cluster_summary(*prepared.cluster) : std::string(),
      .command = command,
      .tool = tool_name(),
      .assumptions = assumptions_of(request, prepared, result)};
  report.frames.push_back(frame_of("as asked for", prepared.scenario, result));
  if (std::filesystem::path(path).extension() == ".html") {
    Variations variations(request, prepared, simulated, report.frames.front().chart.boxes.size());
    add_variations(variations, interrupt.token(), report);
  }
  tandem::write_report(path, report);
}

}  // namespace tandem::tools
