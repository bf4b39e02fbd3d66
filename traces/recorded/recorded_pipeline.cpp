#include "traces/recorded/recorded_pipeline.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "traces/chrome/trace_cursor.h"
#include "traces/chrome/trace_events.h"
#include "traces/recorded/recorded_ranks.h"

namespace tandem {
namespace {

using nlohmann::json;

constexpr std::int64_t kMostStages = 10'000;
constexpr std::int64_t kMostChunks = 100;
constexpr std::int64_t kMostNumber = std::int64_t{1} << 40;  // of steps, replicas, microbatches
/// The recorder takes from a transfer the time before the later of its ends was ready, by two
/// clocks; so far below 0 it may come out.
constexpr Duration kMostSkew = std::chrono::milliseconds(100);

/// An op's name in a timeline, and what it stands for: itself, and a second end of a transfer
/// where both are done as one.
struct OpName {
  std::string_view name;
  OpKind kind;
  bool receives = false;
  std::optional<OpKind> also_receives{};
};
constexpr std::array<OpName, 11> kOpNames{{
    {"forward-compute", OpKind::forward},
    {"backward-compute", OpKind::backward},
    {"backward-wgrad-compute", OpKind::backward_weight},
    {"forward-send", OpKind::send_activation},
    {"forward-recv", OpKind::send_activation, true},
    {"backward-send", OpKind::send_gradient},
    {"backward-recv", OpKind::send_gradient, true},
    {"forward-send-backward-recv", OpKind::send_activation, false, OpKind::send_gradient},
    {"backward-send-forward-recv", OpKind::send_gradient, false, OpKind::send_activation},
    {"forward-send-forward-recv", OpKind::send_activation, false, OpKind::send_activation},
    {"backward-send-backward-recv", OpKind::send_gradient, false, OpKind::send_gradient},
}};

/// What ranks do outside the pipeline.
constexpr auto kOtherNames = std::to_array<std::string_view>(
    {"data-load", "data-sync", "optimizer", "gc", "forward-backward", "tp-reducescatter",
     "tp-allgather", "tp-allreduce", "grads-reduce-scatter", "separate-grads-all-reduce",
     "grads-reduce-scatter-nonoverlapping", "params-all-gather", "params-all-gather-nonoverlapping",
     "embedding-grads-all-reduce", "layernorm-grads-all-reduce", "optimizer-clip-main-grad",
     "optimizer-inner-step"});

/// The number behind `label`, such as 3 of "PP rank 3, compute".
std::optional<std::int64_t> number_after(std::string_view text, std::string_view label) {
  const std::size_t at = text.find(label);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view behind = text.substr(at + label.size());
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(behind.data(), behind.data() + behind.size(), number);
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

class RecordingReader {
 public:
  explicit RecordingReader(const std::string& name) : name_(name), diagnostics_(name) {}

  /// Goes on behind what is wrong, to report it all.
  void event(std::size_t position, const json& value) {
    if (diagnostics_.full()) return;
    try {
      read_event(position, TraceCursor(name_, "/traceEvents", position, value));
    } catch (const InputError& error) {
      diagnostics_.add(error);
    }
  }

  Recording finish(const TraceFrame& frame) {
    if (frame.damage) throw InputError(*frame.damage);
    bare_ = frame.bare;
    diagnostics_.refuse(bare_);
    if (rows_.empty()) {
      diagnostics_.add(frame.has_events ? "holds no forward-compute: not a timeline of a pipeline"
                                        : "holds no events: not a trace");
    }
    diagnostics_.refuse(bare_);
    place_rows();
    diagnostics_.refuse(bare_);
    build();
    return std::move(recording_);
  }

 private:
  using Thread = std::pair<std::int64_t, std::int64_t>;  // pid, tid
  struct Row {
    RecordedOp op;
    std::int64_t step = 0;
    Thread thread;
    std::size_t position = 0;
    std::int64_t replica = 0, device = 0;         // from its thread
    std::pair<std::int64_t, std::size_t> rank{};  // tensor rank, and which of those that have it
  };
  struct ThreadTitle {
    std::int64_t stage = 0, tensor_rank = 0;
  };

  void read_event(std::size_t position, const TraceCursor& cursor) {
    if (!cursor.has("ph")) cursor.fail("expected an event, an object with \"ph\"");
    const std::string phase = cursor["ph"].text();
    if (phase == "M") read_title(cursor);
    if (phase == "X") read_slice(position, cursor);
  }

  void read_title(const TraceCursor& cursor) {
    const std::string what = cursor["name"].text();
    if (what != "thread_name" && what != "process_name") return;
    const std::string title = cursor["args"]["name"].text();
    if (what == "process_name") {
      if (const auto replica = number_after(title, "DP rank ["))
        replicas_[cursor["pid"].integer(0, kMostNumber)] = *replica;
      return;
    }
    const auto stage = number_after(title, "PP rank ");
    if (!stage) return;
    if (*stage < 0 || *stage >= kMostStages)
      cursor["args"]["name"].fail(fmt::format("expected a stage from 0 to {}", kMostStages - 1));
    threads_[thread_of(cursor)] = {*stage, number_after(title, "TP rank ").value_or(0)};
  }

  static Thread thread_of(const TraceCursor& cursor) {
    return {cursor["pid"].integer(0, kMostNumber), cursor["tid"].integer(0, kMostNumber)};
  }

  void read_slice(std::size_t position, const TraceCursor& cursor) {
    const std::string what = cursor["name"].text();
    const auto op = std::ranges::find(kOpNames, what, &OpName::name);
    if (op == kOpNames.end()) return read_other(what, cursor);
    const TraceCursor args = cursor["args"];
    Row row{.op = {.kind = op->kind, .receives = op->receives},
            .step = args["step"].integer(0, kMostNumber),
            .thread = thread_of(cursor),
            .position = position};
    read_times(cursor, row);
    if (!is_transfer(op->kind)) {
      row.op.chunk = static_cast<std::uint16_t>(
          std::max<std::int64_t>(0, optional_number(args, "model_chunk", kMostChunks - 1)));
      row.op.microbatch = optional_number(args, "mb_id", kMostNumber);
    }
    rows_.push_back(row);
    if (!op->also_receives) return;
    row.op.kind = *op->also_receives;
    row.op.receives = true;
    rows_.push_back(row);
  }

  /// −1 where there is none.
  static std::int64_t optional_number(const TraceCursor& args, const char* key, std::int64_t most) {
    if (!args.has(key) || args[key].is_null()) return -1;
    return args[key].integer(-1, most);
  }

  void read_times(const TraceCursor& cursor, Row& row) {
    const Duration start = cursor["ts"].time(), length = cursor["dur"].time();
    const bool transfer = is_transfer(row.op.kind);
    if (length < (transfer ? -kMostSkew : Duration{})) {
      cursor["dur"].fail(transfer ? "expected a duration of at least -100 ms"
                                  : "expected a duration of at least 0");
    }
    if (length < Duration{}) ++backwards_;
    row.op.start = start;
    row.op.end = start + length;
    widen(row.step, std::min(start, row.op.end), row.op.end);
  }

  /// Something outside the pipeline: it only makes the step longer.
  void read_other(const std::string& what, const TraceCursor& cursor) {
    if (std::ranges::find(kOtherNames, what) == kOtherNames.end()) {
      std::vector<std::string> names;
      for (const OpName& op : kOpNames) names.emplace_back(op.name);
      const std::string hint = did_you_mean(what, names);
      if (!hint.empty())
        cursor["name"].fail(fmt::format("no op has the name \"{}\"{}", what, hint));
      unknown_.insert(what);
    }
    if (!cursor.has("args") || !cursor["args"].has("step")) return;
    const Duration start = cursor["ts"].time();
    const Duration length = std::max(cursor["dur"].time(), -kMostSkew);
    widen(cursor["args"]["step"].integer(0, kMostNumber), start, start + length);
  }

  void widen(std::int64_t step, Duration start, Duration end) {
    const auto [found, added] = bounds_.try_emplace(step, start, end);
    found->second.first = std::min(found->second.first, start);
    found->second.second = std::max(found->second.second, end);
  }

  /// Threads and processes may be named behind what they did.
  void place_rows() {
    std::set<Thread> nameless;
    for (Row& row : rows_) {
      const auto title = threads_.find(row.thread);
      if (title == threads_.end()) {
        if (nameless.insert(row.thread).second && !diagnostics_.full()) {
          diagnostics_.add(row.position,
                           "its thread has no name such as \"PP rank 0, TP rank 0, compute\"");
        }
        continue;
      }
      const auto replica = replicas_.find(row.thread.first);
      row.replica = replica == replicas_.end() ? row.thread.first : replica->second;
      row.device = title->second.stage;
      row.rank.first = title->second.tensor_rank;
    }
    if (diagnostics_.empty()) tell_ranks_apart();
  }

  /// Ranks of one stage and tensor rank (context-parallel ones) have threads of their own for each
  /// kind of op. What else lies on several threads is of one rank.
  void tell_ranks_apart() {
    using Home = std::tuple<std::int64_t, std::int64_t, std::int64_t, OpKind, bool>;
    const auto home_of = [](const Row& row, OpKind kind, bool receives) {
      return Home{row.replica, row.device, row.rank.first, kind, receives};
    };
    std::map<Home, std::set<Thread>> threads;
    for (const Row& row : rows_)
      threads[home_of(row, row.op.kind, row.op.receives)].insert(row.thread);
    for (Row& row : rows_) {
      const std::set<Thread>& own = threads.at(home_of(row, row.op.kind, row.op.receives));
      const auto forwards = threads.find(home_of(row, OpKind::forward, false));
      if (forwards == threads.end() || forwards->second.size() != own.size()) continue;
      row.rank.second = static_cast<std::size_t>(std::distance(own.begin(), own.find(row.thread)));
    }
  }

  void build() {
    std::ranges::stable_sort(rows_, {}, [](const Row& row) {
      return std::tie(row.step, row.replica, row.device, row.rank, row.op.end, row.op.start);
    });
    std::int64_t last_device = 0;
    for (const Row& row : rows_) {
      last_device = std::max(last_device, row.device);
      recording_.chunks = std::max(recording_.chunks, static_cast<std::uint16_t>(row.op.chunk + 1));
    }
    if ((last_device + 1) * recording_.chunks > std::numeric_limits<std::uint16_t>::max()) {
      diagnostics_.add(fmt::format("{} stages of {} model chunks are too many", last_device + 1,
                                   recording_.chunks));
      diagnostics_.refuse(bare_);
    }
    recording_.devices = static_cast<std::uint16_t>(last_device + 1);
    for (auto first = rows_.begin(); first != rows_.end();) {
      const auto last = std::find_if(first, rows_.end(), [&](const Row& row) {
        return row.step != first->step || row.replica != first->replica;
      });
      add_pass(first, last);
      first = last;
    }
    check_fits_clock(recording_, name_);
    if (recording_.passes.empty())
      diagnostics_.add(fmt::format("no step has ops of all {} stages", recording_.devices));
    diagnostics_.refuse(bare_);
    for (const auto& [step, bounds] : bounds_)
      recording_.whole_steps[step] = bounds.second - bounds.first;
    warn();
  }

  using Rows = std::vector<Row>::const_iterator;

  /// The rows of one step and replica, by device.
  void add_pass(Rows first, Rows last) {
    std::int64_t devices = 0, before = -1;
    for (Rows row = first; row != last; before = (row++)->device) devices += row->device != before;
    if (devices < recording_.devices) {
      ++partial_;
      return;
    }
    if (!std::ranges::binary_search(recording_.replicas, first->replica)) {
      recording_.replicas.push_back(first->replica);
      std::ranges::sort(recording_.replicas);
    }
    RecordedPass pass{.step = first->step, .replica = first->replica, .devices = {}};
    pass.devices.resize(recording_.devices);
    for (Rows row = first; row != last;) row = join(row, last, pass);
    begin_with_first_rank(first, last, pass);
    recording_.passes.push_back(std::move(pass));
  }

  /// The ranks of the first row's device. Returns the first row of the next.
  Rows join(Rows first, Rows last, RecordedPass& pass) {
    std::vector<std::vector<RecordedOp>> ranks;
    Rows row = first;
    for (; row != last && row->device == first->device; ++row) {
      if (row == first || row->rank != std::prev(row)->rank) ranks.emplace_back();
      ranks.back().push_back(row->op);
    }
    JoinedRanks joined = join_ranks(ranks);
    left_out_ += joined.left_out;
    recording_.ranks = std::max(recording_.ranks, ranks.size());
    split_backwards(joined.ops);
    pass.devices[id_at<DeviceId>(static_cast<std::size_t>(first->device))] = std::move(joined.ops);
    return row;
  }

  /// A backward whose weight gradient is an op of its own is the half for the input.
  static void split_backwards(std::vector<RecordedOp>& ops) {
    std::set<std::pair<std::uint16_t, std::int64_t>> halves;
    for (const RecordedOp& op : ops) {
      if (op.kind == OpKind::backward_weight) halves.insert({op.chunk, op.microbatch});
    }
    for (RecordedOp& op : ops) {
      if (op.kind == OpKind::backward && halves.contains({op.chunk, op.microbatch}))
        op.kind = OpKind::backward_input;
    }
  }

  /// The first computation, for which nothing was waited, counts from its first rank on.
  static void begin_with_first_rank(Rows first, Rows last, RecordedPass& pass) {
    RecordedOp* earliest = nullptr;
    std::size_t on = 0;
    for (const DeviceId device : ids(pass.devices)) {
      for (RecordedOp& op : pass.devices[device]) {
        if (is_transfer(op.kind) || (earliest != nullptr && earliest->start <= op.start)) continue;
        earliest = &op;
        on = index(device);
      }
    }
    for (Rows row = first; row != last && earliest != nullptr; ++row) {
      if (is_transfer(row->op.kind) || row->device != static_cast<std::int64_t>(on)) continue;
      earliest->start = std::min(earliest->start, row->op.start);
    }
  }

  void warn() {
    if (partial_ > 0) {
      recording_.warnings.push_back(fmt::format(
          "steps of replicas left out, because stages are missing in them: {}", partial_));
    }
    const auto warn_of = [this](std::size_t count, std::string_view what) {
      if (count > 0) recording_.warnings.push_back(fmt::format("{} {}", count, what));
    };
    warn_of(left_out_,
            "times a rank is left out of a stage's step: it did not do what the stage's other "
            "ranks did");
    warn_of(backwards_, "transfers end before they begin, by clocks that differ");
    if (unknown_.empty()) return;
    recording_.warnings.push_back(fmt::format("unknown ops, assumed to be outside the pipeline: {}",
                                              fmt::join(unknown_.begin(), unknown_.end(), ", ")));
  }

  std::string name_;
  bool bare_ = false;
  TraceDiagnostics diagnostics_;
  std::vector<Row> rows_;
  std::map<Thread, ThreadTitle> threads_;
  std::map<std::int64_t, std::int64_t> replicas_;                 // by pid
  std::map<std::int64_t, std::pair<Duration, Duration>> bounds_;  // of steps
  std::set<std::string> unknown_;
  std::size_t backwards_ = 0, partial_ = 0, left_out_ = 0;
  Recording recording_;
};

}  // namespace

void check_fits_clock(const Recording& recording, const std::string& name) {
  Duration longest{};  // of an op with the pause before it
  std::size_t most = 0;
  for (const RecordedPass& pass : recording.passes) {
    std::size_t ops = 0;
    for (const std::vector<RecordedOp>& of_device : pass.devices) {
      Duration before = of_device.front().start;
      for (const RecordedOp& op : of_device) {
        longest = std::max({longest, op.end - op.start, op.end - before});
        before = op.end;
      }
      ops += of_device.size();
    }
    most = std::max(most, ops);
  }
  if (to_seconds(longest) * static_cast<double>(most) < 4e9) return;
  TraceDiagnostics diagnostics(name);
  diagnostics.add(fmt::format("a step of {} ops of up to {} is too long to count in nanoseconds",
                              most, print_duration(longest)));
  diagnostics.refuse();
}

Recording read_recording(const TraceSource& source) {
  return read_trace(RecordingReader(source.name), source);
}

}  // namespace tandem
