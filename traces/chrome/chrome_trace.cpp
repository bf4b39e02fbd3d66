#include "traces/chrome/chrome_trace.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/units.h"
#include "core/program/title.h"
#include "core/program/versions.h"
#include "traces/chrome/atomic_file.h"
#include "traces/chrome/drawn_spans.h"
#include "traces/curves.h"

namespace tandem {
namespace {

constexpr std::size_t kFlushBytes = 1 << 20;
constexpr std::int64_t kSmallestThread = 1000;

/// Exact microseconds: "1234.005". Doubles would lose nanoseconds, and viewers then drop slices.
std::string microseconds(Duration time) {
  const std::int64_t ns = time.count();
  const std::uint64_t size = ns < 0 ? 0 - static_cast<std::uint64_t>(ns) : std::uint64_t(ns);
  return fmt::format("{}{}.{:03}", ns < 0 ? "-" : "", size / 1000, size % 1000);
}

std::string json_string(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

std::string_view clock_name(Clock clock) {
  return clock == Clock::simulated ? "simulated" : "measured";
}

std::string label_of(const TraceRun& run) {
  return run.label.empty() ? std::string(clock_name(run.timeline->clock)) : run.label;
}

std::string_view category(OpKind kind) {
  if (is_optimizer(kind)) return "optimizer";
  return is_compute(kind) ? "compute" : "comm";
}

class TraceWriter {
 public:
  TraceWriter(const std::filesystem::path& path, const Program& program,
              std::span<const TraceRun> runs, const TraceOptions& options)
      : file_(path), program_(program), runs_(runs), options_(options), version_of_(program) {
    const auto processes = static_cast<std::int64_t>(runs.size() * devices());
    first_thread_ = kSmallestThread;
    while (first_thread_ <= processes) first_thread_ *= 10;
  }

  void write() {
    write_header();
    for (run_ = 0; run_ < runs_.size(); ++run_) write_names();
    for (run_ = 0; run_ < runs_.size(); ++run_) {
      write_spans();
      if (options_.counters) write_counters();
    }
    append_text("\n]}\n");
    flush();
    file_.finish();
  }

 private:
  std::size_t devices() const { return program_.placement().devices; }
  std::size_t process(DeviceId device) const { return 1 + run_ * devices() + index(device); }
  /// One for each lane of each run, and one a device for what has no lane.
  std::int64_t thread(std::size_t lane) const {
    return first_thread_ + static_cast<std::int64_t>(run_ * program_.lanes().size() + lane);
  }

  template <class... Values>
  void append(fmt::format_string<Values...> format, Values&&... values) {
    fmt::format_to(std::back_inserter(buffer_), format, std::forward<Values>(values)...);
    if (buffer_.size() >= kFlushBytes) flush();
  }
  void append_text(std::string_view text) { buffer_.append(text); }

  void flush() {
    file_.write({buffer_.data(), buffer_.size()});
    buffer_.clear();
  }

  void begin_event() { append_text(std::exchange(first_event_, false) ? "\n" : ",\n"); }

  void write_header() {
    std::set<std::string_view> kinds;
    for (const TraceRun& run : runs_) kinds.insert(clock_name(run.timeline->clock));
    const std::string kind = kinds.size() == 2 ? "simulated and measured"
                             : kinds.empty()   ? "empty"
                                               : std::string(*kinds.begin());
    // In "ms" chrome://tracing rounds to microseconds and nests slices that only touch.
    append("{{\"schemaVersion\": 1,\n\"displayTimeUnit\": \"ns\",\n");
    if (options_.base_time_ns) append("\"baseTimeNanoseconds\": {},\n", *options_.base_time_ns);
    append("\"metadata\": {{\"tool\": {}, \"kind\": {}, \"schedule\": {}, \"microbatches\": {}, ",
           json_string(options_.tool), json_string(kind), json_string(program_.schedule()),
           program_.microbatches());
    append("\"devices\": {},\n \"runs\": [", devices());
    for (std::size_t run = 0; run < runs_.size(); ++run) {
      append("{}{{\"label\": {}, \"kind\": {}, \"first_pid\": {}}}", run == 0 ? "" : ", ",
             json_string(label_of(runs_[run])), json_string(clock_name(runs_[run].timeline->clock)),
             1 + run * devices());
    }
    append("],\n \"about\": {{");
    bool first = true;
    for (const auto& [key, value] : options_.about) {
      append("{}{}: {}", std::exchange(first, false) ? "" : ", ", json_string(key),
             json_string(value));
    }
    append("}}}},\n\"traceEvents\": [");
  }

  void write_names() {
    const std::string label = label_of(runs_[run_]);
    for (const DeviceId device : all_ids<DeviceId>(devices())) {
      const std::string title = fmt::format("{}: device {}", label, index(device));
      write_metadata("process_name", process(device), 0,
                     fmt::format(R"("name":{})", json_string(title)));
      // The runs of one device below one another: that is what one wants to compare.
      write_metadata("process_sort_index", process(device), 0,
                     fmt::format(R"("sort_index":{})", index(device) * runs_.size() + run_));
    }
    for (const LaneId id : ids(program_.lanes())) {
      const Lane& lane = program_.lanes()[id];
      const std::size_t pid = process(lane.device);
      write_metadata("thread_name", pid, thread(index(id)),
                     fmt::format(R"("name":{})", json_string(title_of(lane))));
      const std::size_t rank = index(lane.kind) * devices() + index(lane.peer);
      write_metadata("thread_sort_index", pid, thread(index(id)),
                     fmt::format(R"("sort_index":{})", rank));
    }
  }

  void write_metadata(std::string_view what, std::size_t pid, std::int64_t tid,
                      const std::string& args) {
    begin_event();
    append(R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{{}}}}})", what, pid, tid, args);
  }

  void write_spans() {
    const Timeline& timeline = *runs_[run_].timeline;
    const std::vector<Span> drawn = drawn_spans(program_, timeline);
    for (std::size_t i = 0; i < drawn.size(); ++i) {
      if (options_.stop.stop_requested()) throw Interrupted("interrupted: no trace was written");
      TANDEM_CHECK(index(drawn[i].instruction) < program_.size(), index(drawn[i].instruction));
      write_span(drawn[i], args_of(timeline.spans[i], drawn[i]));
    }
  }

  void write_span(const Span& drawn, const std::string& args) {
    const Instruction& instruction = program_[drawn.instruction];
    const auto lanes = program_.lanes(instruction);
    if (lanes.empty()) return write_laneless(drawn, args);
    for (const LaneId lane : lanes) write_slice(drawn, lane, args);
    if (is_transfer(instruction.op.kind) && lanes.size() == 2 && options_.flows) {
      const bool fetched = fetches(instruction.op.kind);
      write_flow(drawn, lanes[fetched ? 1 : 0], lanes[fetched ? 0 : 1]);
    }
    if (makes_version(instruction.op.kind)) {
      const LaneId lane = lanes[0];
      begin_event();
      append(R"({{"ph":"i","s":"t","name":"update","cat":"optimizer","pid":{},"tid":{},"ts":{},)",
             process(program_.lanes()[lane].device), thread(index(lane)), microseconds(drawn.end));
      append(R"("args":{{{}}}}})", args);
    }
  }

  void write_slice(const Span& drawn, LaneId lane, const std::string& args) {
    const Op& op = program_[drawn.instruction].op;
    const Lane& row = program_.lanes()[lane];
    begin_event();
    append(R"({{"ph":"X","name":"{}","cat":"{},{}","cname":"{}","pid":{},"tid":{},)",
           title_on(drawn, row.kind), category(op.kind), name(op.kind), traits(op.kind).viewer,
           process(row.device), thread(index(lane)));
    append(R"("ts":{},"dur":{},"args":{{{}}}}})", microseconds(drawn.start),
           microseconds(drawn.end - drawn.start), args);
  }

  void write_flow(const Span& drawn, LaneId from, LaneId to) {
    const std::int64_t id = next_id_++;
    // The arrow's ends are strictly inside their slices: a border may be taken for the neighbour's.
    constexpr Duration kInside{1};
    const std::string_view title = name(program_[drawn.instruction].op.kind);
    const auto end = [&](std::string_view phase, LaneId lane, Duration time) {
      begin_event();
      append(R"({{{},"name":"{}","cat":"comm","id":{},"pid":{},"tid":{},"ts":{}}})", phase, title,
             id, process(program_.lanes()[lane].device), thread(index(lane)), microseconds(time));
    };
    end(R"("ph":"s")", from, drawn.start + kInside);
    end(R"("ph":"f","bp":"e")", to, drawn.end - kInside);
  }

  /// A transfer that occupies no lane may overlap others: only asynchronous events may.
  void write_laneless(const Span& drawn, const std::string& args) {
    const Op& op = program_[drawn.instruction].op;
    const DeviceId device = program_.placement().device[op.replica];
    const auto& lanes = program_.lanes();
    const auto lane =
        static_cast<std::size_t>(std::ranges::find(lanes, device, &Lane::device) - lanes.begin());
    const std::string label = title_on(drawn, LaneKind::compute);
    const std::int64_t id = next_id_++;
    const auto end = [&](char phase, Duration time, const std::string& arguments) {
      begin_event();
      append(R"({{"ph":"{}","name":"{}","cat":"comm,{}","cname":"{}","id":{},"pid":{},"tid":{},)",
             phase, label, name(op.kind), traits(op.kind).viewer, id, process(device),
             thread(lane));
      append(R"("ts":{}{}}})", microseconds(time), arguments);
    };
    end('b', drawn.start, fmt::format(R"(,"args":{{{}}})", args));
    end('e', drawn.end, "");
  }

  void write_counters() {
    const TraceRun& run = runs_[run_];
    Curves curves =
        curves_of(program_, *run.timeline, run.memory ? run.memory->stash : OfSlices<StashBytes>());
    if (run.memory && run.memory->held)
      curves.activation_bytes = held_over_time(program_, *run.timeline, *run.memory->held);
    Duration end{};
    for (const Span& span : run.timeline->spans) end = std::max(end, span.end);
    for (const DeviceId device : all_ids<DeviceId>(devices())) {
      if (run.memory) write_memory(device, curves.activation_bytes[device], end);
      write_curve("microbatches in flight", R"("microbatches")", device, curves.in_flight[device],
                  end);
      for (const ReplicaId replica : program_.placement().replicas_on(device)) {
        write_curve(fmt::format("weight versions of stage {}", index(replica)), R"("versions")",
                    device, curves.versions[replica], end);
      }
    }
  }

  void write_memory(DeviceId device, const Curve& activations, Duration end) {
    const MemoryByClass& memory = runs_[run_].memory->devices[device];
    const std::string others = fmt::format(
        R"("weights":{},"versions":{},"gradients":{},"optimizer":{},"buffers":{},"activations")",
        memory.weights, memory.versions, memory.gradients, memory.optimizer, memory.buffers);
    write_curve("memory", others, device, activations, end);
  }

  /// `key`: of the curve's value, behind whatever else stands in each sample.
  void write_curve(std::string_view name, std::string_view key, DeviceId device, const Curve& curve,
                   Duration end) {
    const auto sample = [&](Duration time, std::int64_t value) {
      begin_event();
      append(R"({{"ph":"C","name":"{}","pid":{},"tid":0,"ts":{},"args":{{{}:{}}}}})", name,
             process(device), microseconds(time), key, value);
    };
    for (const Step& step : curve) sample(step.time, step.value);
    if (curve.back().time < end) sample(end, curve.back().value);
  }

  std::string title_on(const Span& span, LaneKind lane) const {
    return title_of(program_, version_of_, {span.instruction, span.body, microbatch_of(span)},
                    lane);
  }

  std::string args_of(const Span& span, const Span& drawn) const {
    const Op& op = program_[span.instruction].op;
    const std::int64_t microbatch = microbatch_of(span);
    const std::int64_t batch = floor_div(microbatch, std::int64_t{program_.microbatches()});
    std::string args = fmt::format(
        R"("stage":{},"microbatch":{},"batch":{},"body":{},"instruction":{},"kind":"{}")",
        index(op.replica), microbatch, batch, span.body, index(span.instruction), name(op.kind));
    if (const auto version = version_of_({span.instruction, span.body, microbatch}))
      args += fmt::format(R"(,"weight_version":{})", *version);
    if (is_transfer(op.kind)) {
      const TransferEnds ends = ends_of(program_.cost_keys()[program_[span.instruction].cost]);
      args += fmt::format(R"(,"from":{},"to":{})", index(ends.from), index(ends.to));
    }
    if (span != drawn)
      args += fmt::format(R"(,"start_ns":{},"end_ns":{})", span.start.count(), span.end.count());
    return args;
  }

  std::int64_t microbatch_of(const Span& span) const {
    return span.body * program_.microbatches() + program_[span.instruction].op.microbatch;
  }

  AtomicFile file_;
  const Program& program_;
  std::span<const TraceRun> runs_;
  const TraceOptions& options_;
  WeightVersions version_of_;
  fmt::memory_buffer buffer_;
  bool first_event_ = true;
  std::size_t run_ = 0;
  std::int64_t first_thread_ = 0;
  std::int64_t next_id_ = 1;  // of flows and of laneless transfers
};

}  // namespace

void write_chrome_trace(const std::filesystem::path& path, const Program& program,
                        std::span<const TraceRun> runs, const TraceOptions& options) {
  std::set<std::string> labels;
  for (const TraceRun& run : runs) {
    TANDEM_CHECK(run.timeline != nullptr);
    TANDEM_CHECK(labels.insert(label_of(run)).second, label_of(run));
    TANDEM_CHECK(!run.memory || run.memory->devices.size() == program.placement().devices);
  }
  TraceWriter(path, program, runs, options).write();
}

}  // namespace tandem
