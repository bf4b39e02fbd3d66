#include "traces/chrome/timeline_file.h"

#include <limits>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/ascii.h"
#include "core/base/error.h"
#include "core/program/title.h"
#include "traces/chrome/trace_cursor.h"
#include "traces/chrome/trace_events.h"

namespace tandem {
namespace {

using nlohmann::json;

constexpr std::size_t kMostRuns = 64;
constexpr std::int64_t kMostOfAny = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMostDevices = std::numeric_limits<std::uint16_t>::max();

/// A lane as its thread's name tells it.
struct LaneTitle {
  LaneKind kind = LaneKind::compute;
  std::optional<DeviceId> peer{};
};

std::optional<LaneTitle> parse_lane(std::string_view title) {
  LaneTitle lane;
  const std::size_t digits = title.find_last_not_of("0123456789") + 1;
  if (digits < title.size()) {
    const auto peer = number_in<std::uint16_t>(title.substr(digits));
    if (!peer) return std::nullopt;
    lane.peer = id_at<DeviceId>(*peer);
    title = title.substr(0, digits);
    for (const std::string_view link : {" to ", " from "}) {
      if (title.ends_with(link)) title.remove_suffix(link.size());
    }
  }
  for (std::size_t i = 0; i < kLaneKinds; ++i) {
    if (words(name(static_cast<LaneKind>(i))) != title) continue;
    lane.kind = static_cast<LaneKind>(i);
    return lane;
  }
  return std::nullopt;
}

class TimelineReader {
 public:
  explicit TimelineReader(std::string name) : name_(std::move(name)) {}

  void event(std::size_t position, const json& value) {
    const TraceCursor cursor(name_, "/traceEvents", position, value);
    if (!cursor.has("ph")) return;
    const std::string phase = cursor["ph"].text();
    if (phase == "M") {
      if (cursor["name"].text() == "thread_name") name_thread(cursor);
    } else if (phase == "X") {
      const Duration start = cursor["ts"].time(), length = cursor["dur"].time();
      add(position, cursor, start, start + length);
    } else if (phase == "b") {
      open_[cursor["id"].integer(0, kMostOfAny)] = slices_.size();
      const Duration start = cursor["ts"].time();
      add(position, cursor, start, start);
      slices_.back().laneless = true;
      const bool fetched = fetches(slices_.back().record.kind);
      const auto peer = cursor["args"][fetched ? "from" : "to"].integer(0, kMostDevices);
      slices_.back().record.peer = id_at<DeviceId>(static_cast<std::size_t>(peer));
    } else if (phase == "e") {
      const auto found = open_.find(cursor["id"].integer(0, kMostOfAny));
      if (found == open_.end()) cursor.fail("ends what did not begin");
      Slice& slice = slices_[found->second];
      if (!slice.exact) slice.record.end = cursor["ts"].time();
      open_.erase(found);
    }
  }

  TimelineFile finish(const TraceFrame& frame) {
    if (frame.damage) throw InputError(*frame.damage);
    const TraceCursor metadata(name_, "/metadata", frame.metadata);
    if (!frame.metadata.is_object() || !metadata.has("runs") || !frame.has_events)
      metadata.fail("not a timeline of tandem: its metadata with the runs are missing");
    TimelineFile file;
    file.tool = metadata["tool"].text();
    file.schedule = metadata["schedule"].text();
    file.microbatches = static_cast<std::int32_t>(
        metadata["microbatches"].integer(1, std::numeric_limits<std::int32_t>::max()));
    file.devices = static_cast<std::uint16_t>(metadata["devices"].integer(0, kMostDevices));
    const TraceCursor runs = metadata["runs"];
    if (runs.size() > kMostRuns) runs.fail(fmt::format("expected at most {} runs", kMostRuns));
    for (std::size_t i = 0; i < runs.size(); ++i) read_run(runs[i], file);
    if (!open_.empty()) {
      TraceCursor(name_, "/traceEvents", slices_[open_.begin()->second].position, json_null_)
          .fail("begins and never ends");
    }
    for (const Slice& slice : slices_) place(slice, file);
    return file;
  }

 private:
  using Thread = std::pair<std::int64_t, std::int64_t>;  // pid, tid
  struct Slice {
    TimelineRecord record;
    Thread thread;
    std::size_t position;
    bool laneless = false;
    bool exact = false;  // drawn longer or later than it was, with the true times beside
  };

  static Thread thread_of(const TraceCursor& cursor) {
    return {cursor["pid"].integer(0, kMostOfAny), cursor["tid"].integer(0, kMostOfAny)};
  }

  void name_thread(const TraceCursor& cursor) {
    const TraceCursor title = cursor["args"]["name"];
    const auto lane = parse_lane(title.text());
    if (!lane) title.fail(fmt::format("no lane has the name \"{}\"", title.text()));
    lanes_[thread_of(cursor)] = *lane;
  }

  void add(std::size_t position, const TraceCursor& cursor, Duration start, Duration end) {
    constexpr std::int64_t kLatest = TraceCursor::kLatest;
    if (end < start) cursor["dur"].fail("expected a duration of at least 0");
    const TraceCursor args = cursor["args"];
    TimelineRecord record;
    record.kind = args["kind"].kind<OpKind>(kOpKinds);
    record.replica =
        id_at<ReplicaId>(static_cast<std::size_t>(args["stage"].integer(0, kMostDevices)));
    record.microbatch = args["microbatch"].integer(-kMostOfAny, kMostOfAny);
    record.batch = args["batch"].integer(-kMostOfAny, kMostOfAny);
    record.body = args["body"].integer(-kMostOfAny, kMostOfAny);
    record.instruction = id_at<InstructionId>(static_cast<std::size_t>(
        args["instruction"].integer(0, std::numeric_limits<std::uint32_t>::max())));
    if (args.has("weight_version"))
      record.weight_version = args["weight_version"].integer(0, kMostOfAny);
    record.start = start;
    record.end = end;
    const bool exact = args.has("start_ns") || args.has("end_ns");
    if (exact) {
      record.start = Duration(args["start_ns"].integer(-kLatest, kLatest));
      record.end = Duration(args["end_ns"].integer(-kLatest, kLatest));
      if (record.end < record.start) args["end_ns"].fail("expected an end not before the start");
    }
    slices_.push_back({record, thread_of(cursor), position, false, exact});
  }

  void read_run(const TraceCursor& cursor, TimelineFile& file) {
    TimelineRun run;
    run.label = cursor["label"].text();
    const std::string kind = cursor["kind"].text();
    if (kind != "simulated" && kind != "measured")
      cursor["kind"].fail("expected \"simulated\" or \"measured\"");
    run.clock = kind == "measured" ? Clock::measured : Clock::simulated;
    const std::int64_t first = cursor["first_pid"].integer(1, std::int64_t{1} << 40);
    for (std::uint16_t device = 0; device < file.devices; ++device) {
      if (!processes_.emplace(first + device, Process{file.runs.size(), device}).second)
        cursor["first_pid"].fail("its processes are those of another run");
    }
    file.runs.push_back(std::move(run));
  }

  void place(const Slice& slice, TimelineFile& file) const {
    const TraceCursor cursor(name_, "/traceEvents", slice.position, json_null_);
    const auto process = processes_.find(slice.thread.first);
    if (process == processes_.end()) cursor.fail("its pid belongs to no run");
    TimelineRun& run = file.runs[process->second.run];
    TimelineRecord record = slice.record;
    record.clock = run.clock;
    record.device = id_at<DeviceId>(process->second.device);
    if (slice.laneless) {
      if (record.end < record.start) cursor.fail("ends before it begins");
      record.lane = own_lane(record.kind);
    } else {
      const auto lane = lanes_.find(slice.thread);
      if (lane == lanes_.end()) cursor.fail("its lane has no name");
      record.lane = lane->second.kind;
      record.peer = lane->second.peer.value_or(record.device);
    }
    run.records.push_back(record);
  }

  struct Process {
    std::size_t run;
    std::uint16_t device;
  };

  std::string name_;
  json json_null_;
  std::map<std::int64_t, Process> processes_;
  std::map<Thread, LaneTitle> lanes_;
  std::map<std::int64_t, std::size_t> open_;  // asynchronous slices by id
  std::vector<Slice> slices_;
};

}  // namespace

TimelineFile read_timeline(const TraceSource& source) {
  return read_trace(TimelineReader(source.name), source);
}

}  // namespace tandem
