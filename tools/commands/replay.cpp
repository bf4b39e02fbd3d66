// tandem replay TIMELINE...: a recorded pipeline simulated again, and without its stragglers.

#include "simulator/replay/replay.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/ascii.h"
#include "core/text/files.h"
#include "core/text/output_place.h"
#include "tools/cli/json_output.h"
#include "tools/cli/machine.h"
#include "tools/cli/options.h"
#include "tools/cli/split.h"
#include "tools/commands/command.h"
#include "tools/print/replay_report.h"
#include "tools/print/report.h"
#include "traces/chrome/chrome_trace.h"
#include "traces/recorded/pytorch_pipeline.h"
#include "traces/recorded/recorded_job.h"
#include "traces/recorded/recorded_pipeline.h"

namespace tandem::tools {

namespace {

constexpr std::size_t kMostJobBytes = 1 << 20;
constexpr int kMostRanks = 256;

/// The whole number that `text` is; `word` stands for it in the message.
std::int64_t number_of(const Options& options, std::string_view text, std::string_view word) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  const auto number = number_in<std::int64_t>(text);
  if (number && *number >= 0 && *number <= kMost) return *number;
  refuse(options, "--without: expected stage:S, replica:R or rank:S/R, found \"{}\"", word);
}

Straggler parse_straggler(const Options& options, std::string_view word,
                          const Recording& recording) {
  const auto [what, who] = halved(word, ':');
  std::string_view stage = what == "stage" ? who : "", replica = what == "replica" ? who : "";
  if (what == "rank") std::tie(stage, replica) = halved(who, '/');
  Straggler straggler;
  if (what != "replica") {
    const std::int64_t device = number_of(options, stage, word);
    if (device >= recording.devices) {
      throw InputError(fmt::format("--without {}: the timeline has the stages 0 to {}", word,
                                   recording.devices - 1));
    }
    straggler.device = id_at<DeviceId>(static_cast<std::size_t>(device));
  }
  if (what != "stage") {
    straggler.replica = number_of(options, replica, word);
    const std::vector<std::int64_t>& known = recording.replicas;
    if (!std::ranges::binary_search(known, *straggler.replica)) {
      throw InputError(fmt::format("--without {}: the timeline has the replicas {}", word,
                                   fmt::join(known, ", ")));
    }
  }
  return straggler;
}

std::vector<Straggler> parse_stragglers(const Options& options, const Recording& recording) {
  std::vector<Straggler> stragglers;
  const std::string asked = options.text("without");
  std::string_view list = asked;
  if (list.ends_with(',')) list.remove_suffix(1);
  for (const std::string_view word : split(list, ",")) {
    if (!list.empty()) stragglers.push_back(parse_straggler(options, word, recording));
  }
  return stragglers;
}

/// One step of one replica: measured, replayed, and each variation.
void write_trace(const std::string& path, const Replay& replay, const ReplayReport& report,
                 std::size_t pass) {
  const RecordedProgram& recorded = replay.pass(pass);
  std::vector<Timeline> timelines(report.ideal.size());
  std::vector<TraceRun> runs{{.timeline = &recorded.measured, .label = "measured", .memory = {}}};
  for (std::size_t i = 0; i < report.ideal.size(); ++i) {
    replayed_length(recorded.program, replay.costs(pass, report.ideal[i].variation), &timelines[i]);
    runs.push_back({.timeline = &timelines[i], .label = report.ideal[i].name, .memory = {}});
  }
  write_chrome_trace(path, recorded.program, runs,
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
  if (!options.has("transfers")) return std::nullopt;
  return one_of(
      options["transfers"],
      {RecordedTransfers::blocking, RecordedTransfers::overlapped, RecordedTransfers::none},
      "as-seen");
}

}  // namespace

Options options_of_replay() {
  Options options("replay", "TIMELINE... [options]",
                  "Simulates a recorded pipeline again, from the durations that its ranks "
                  "recorded, and without its stragglers: a production timeline, or the traces of "
                  "PyTorch's profiler, one for each rank of a pipeline.");
  options.words("TIMELINE", 1, kMostRanks);
  options
      .input("meta", "FILE", "the job's settings (key: value lines), checked against the timeline")
      .value("transfers", "HOW",
             "as-seen|blocking|overlapped|none: how transfers wait (default as-seen)")
      .value(
          "without", "LIST",
          "also simulate as if these were as fast as the others: stage:S, replica:R, rank:S/R, ...")
      .output("trace", "FILE",
              "write a step as a Chrome trace: measured, replayed, and without stragglers")
      .output("report", "FILE",
              "write a step as a page (.html): measured, replayed, and without stragglers; or as a "
              "picture (.svg): measured")
      .value("step", "N", "the step that --trace and --report write (default: the first)");
  return options;
}

int run_replay(const Options& options) {
  if (options.has("step") && !options.has("trace") && !options.has("report"))
    refuse(options, "--step is for --trace or --report: give one");
  if (options.has("report")) check_can_report(options.text("report"), "replay");
  if (options.has("trace")) check_can_write(options.text("trace"));
  const std::optional<RecordedTransfers> transfers = transfers_of(options);
  const std::vector<std::string>& files = options.words();
  // Ranks of PyTorch write a file each.
  Recording recording =
      files.size() == 1
          ? read_recording({files[0]})
          : read_pytorch_pipeline(std::vector<TraceSource>(files.begin(), files.end()));
  if (options.has("meta")) {
    const std::string meta = options.text("meta");
    check_job(parse_recorded_job(read_file(meta, kMostJobBytes), meta), meta, recording);
  }
  const std::string asked = options.text("without");
  const std::vector<Straggler> without = parse_stragglers(options, recording);
  const Replay replay(recording, transfers);
  const std::size_t traced = find_pass(replay, options);
  const Replay plain(recording, transfers, false);
  const ReplayReport report = make_replay_report(replay, plain, recording, without, asked);
  if (options.has("trace")) write_trace(options.text("trace"), replay, report, traced);
  if (options.has("report"))
    write_replay_page(options.text("report"), options.command_line(), replay, report, traced);
  if (options.has("json")) {
    print_result("replay",
                 {{"timeline", files.size() > 1 ? Json(files) : Json(files[0])},
                  {"transfers", name(replay.transfers())},
                  {"without", asked}},
                 Json::object(), replay_json(replay, recording, report), replay.warnings());
  } else {
    const std::string title =
        files.size() == 1 ? files[0] : fmt::format("{} and {} more", files[0], files.size() - 1);
    print_replay_report(title, replay, recording, report);
  }
  return 0;
}

}  // namespace tandem::tools
