#include "traces/chrome/trace_check.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/text/count_text.h"
#include "traces/chrome/flow_binding.h"
#include "traces/chrome/trace_events.h"

namespace tandem {
namespace {

using nlohmann::json;

/// Ids may be numbers or text; "7" and 7 are two.
std::string id_text(const json& value) {
  return value.dump(-1, ' ', true, json::error_handler_t::replace);
}

/// A member that is text; null: there is none.
const std::string* text_in(const json& value, const char* key) {
  return value.contains(key) ? value[key].get_ptr<const std::string*>() : nullptr;
}

struct TraceLane {
  std::string pid, tid;
  friend auto operator<=>(const TraceLane&, const TraceLane&) = default;
};

/// One end of an arrow.
struct FlowEnd {
  std::int64_t event = 0;
  TraceLane lane;
  std::int64_t time = 0;
};
using FlowKey = std::tuple<std::string, std::string, std::string>;  // name, cat, id
struct TraceFlow {
  std::vector<FlowEnd> starts, ends;
};

/// Without the file, which opens every line of the report.
std::string damage_text(Diagnostic damage) {
  const SourcePlace place = std::exchange(damage.place, {});
  damage.place.pointer = place.pointer;
  const std::string text = damage.to_string();
  return place.line == 0 ? text
                         : fmt::format("line {}, column {}: {}", place.line, place.column, text);
}

/// Keeps the first problems of both kinds and counts the others, so that a bad trace costs no more
/// than a good one. `event` is the position in the array of events, or −1.
class TraceProblems {
 public:
  void error(std::int64_t event, std::string message) {
    if (++errors_ <= kMost) all_.push_back({TraceSeverity::error, event, std::move(message)});
  }
  /// A rule of our dialect is broken: an error in our own traces only, and whose it is shows at the
  /// end.
  void dialect(std::int64_t event, std::string message) {
    if (++warnings_ <= kMost) all_.push_back({TraceSeverity::warning, event, std::move(message)});
  }
  /// Moves everything into `check`. REQUIRES: check.ours is known; called once.
  void settle(TraceCheck& check) {
    check.errors = check.ours ? errors_ + warnings_ : errors_;
    check.warnings = check.ours ? 0 : warnings_;
    for (TraceProblem& problem : all_) {
      if (check.ours) problem.severity = TraceSeverity::error;
    }
    // When not all can be kept, errors stay.
    std::ranges::sort(all_, {}, [](const TraceProblem& problem) {
      return std::tie(problem.severity, problem.event, problem.message);
    });
    if (all_.size() > kMostTraceProblems) all_.resize(kMostTraceProblems);
    std::ranges::sort(all_, {}, [](const TraceProblem& problem) {
      return std::tie(problem.event, problem.message);
    });
    check.problems = std::move(all_);
  }

 private:
  static constexpr auto kMost = static_cast<std::int64_t>(kMostTraceProblems);
  std::vector<TraceProblem> all_;
  std::int64_t errors_ = 0, warnings_ = 0;
};

/// Gathers what the rules need while events pass by, then applies them.
class Checker {
 public:
  void event(std::size_t position, const json& value) {
    at_ = static_cast<std::int64_t>(position);
    ++check_.summary.events;
    if (!value.is_object()) return error("is not an object");
    const std::string* phase = text_in(value, "ph");
    if (phase == nullptr || phase->size() != 1) return error("has no phase (\"ph\", one letter)");
    using Check = void (Checker::*)(const json&);
    static constexpr std::pair<std::string_view, Check> kPhases[] = {
        {"X", &Checker::complete}, {"B", &Checker::begin},         {"E", &Checker::end},
        {"sf", &Checker::flow},    {"C", &Checker::counter},       {"M", &Checker::metadata},
        {"iI", &Checker::instant}, {"ben", &Checker::asynchronous}};
    for (const auto& [phases, check] : kPhases) {
      if (phases.find(phase->front()) != std::string_view::npos) return (this->*check)(value);
    }
    ++check_.summary.others;
  }

  TraceCheck finish(const TraceFrame& frame) {
    at_ = -1;
    if (frame.damage || !frame.has_events) {
      error(frame.damage ? damage_text(*frame.damage) : "holds no array of events");
      problems_.settle(check_);
      return std::move(check_);
    }
    const std::string* tool = text_in(frame.metadata, "tool");
    check_.ours = tool != nullptr && tool->starts_with("tandem");
    for (auto& [lane, slices] : slices_) {
      check_.summary.slices += std::ssize(slices);
      const Duration last(check_nesting(lane, slices)), first(slices.front().start);
      const bool fresh = check_.summary.lanes++ == 0;
      check_.summary.first = fresh ? first : std::min(check_.summary.first, first);
      check_.summary.last = fresh ? last : std::max(check_.summary.last, last);
    }
    check_names();
    check_threads();
    check_unit(frame);
    for (const auto& [key, flow] : flows_) check_flow(key, flow);
    for (const auto& [lane, stack] : open_) {
      for (const TraceSlice& slice : stack) problems_.error(slice.event, "begins and never ends");
    }
    for (const auto& [key, count] : pending_async_) {
      if (count > 0)
        problems_.dialect(-1, fmt::format("asynchronous event {} never ends", key.second));
    }
    check_.summary.tracks = std::ssize(tracks_);
    problems_.settle(check_);
    return std::move(check_);
  }

 private:
  void error(std::string message) { problems_.error(at_, std::move(message)); }
  std::nullopt_t none(std::string message) {
    error(std::move(message));
    return std::nullopt;
  }

  std::optional<std::int64_t> time(const json& value, const char* key) {
    if (!value.contains(key)) return none(fmt::format("has no \"{}\"", key));
    const auto nanoseconds = trace_nanoseconds(value[key]);
    if (!nanoseconds)
      return none(fmt::format("\"{}\" is not a finite number of microseconds", key));
    if (*nanoseconds < 0) return none(fmt::format("\"{}\" is negative", key));
    return nanoseconds;
  }

  std::optional<TraceLane> lane(const json& value) {
    for (const char* key : {"pid", "tid"}) {
      if (!value.contains(key)) return none(fmt::format("has no \"{}\"", key));
      if (!value[key].is_number_integer() && !value[key].is_string())
        return none(fmt::format("\"{}\" is neither an integer nor text", key));
    }
    return TraceLane{id_text(value["pid"]), id_text(value["tid"])};
  }

  void complete(const json& value) {
    const auto where = lane(value);
    const auto start = time(value, "ts"), length = time(value, "dur");
    if (!value.contains("name")) problems_.dialect(at_, "has no \"name\"");
    if (!where || !start || !length) return;
    if (*length > std::numeric_limits<std::int64_t>::max() - *start)
      return error("ends beyond time");
    slices_[*where].push_back({at_, *start, *start + *length});
  }

  void begin(const json& value) {
    const auto where = lane(value);
    const auto start = time(value, "ts");
    if (where && start) open_[*where].push_back({at_, *start, *start});
  }

  void end(const json& value) {
    const auto where = lane(value);
    const auto finish = time(value, "ts");
    if (!where || !finish) return;
    auto& stack = open_[*where];
    if (stack.empty()) return error("ends a slice that did not begin");
    TraceSlice slice = stack.back();
    stack.pop_back();
    if (*finish < slice.start) return error("ends a slice before its beginning");
    slice.end = *finish;
    slices_[*where].push_back(slice);
  }

  void flow(const json& value) {
    const auto where = lane(value);
    const auto moment = time(value, "ts");
    for (const char* key : {"name", "cat", "id"}) {
      if (!value.contains(key)) return error(fmt::format("is a flow without \"{}\"", key));
    }
    if (!where || !moment) return;
    TraceFlow& arrow =
        flows_[{id_text(value["name"]), id_text(value["cat"]), id_text(value["id"])}];
    (value["ph"] == "s" ? arrow.starts : arrow.ends).push_back({at_, *where, *moment});
  }

  void counter(const json& value) {
    ++check_.summary.counters;
    if (!value.contains("pid") || !value.contains("name"))
      return error("is a counter without \"pid\" or \"name\"");
    const auto moment = time(value, "ts");
    if (!value.contains("args") || !value["args"].is_object())
      return error("is a counter without \"args\"");
    for (const auto& [key, sample] : value["args"].items()) {
      if (!sample.is_number() && !sample.is_string())
        error(fmt::format("counts \"{}\" with something that is no number", key));
    }
    if (!moment) return;
    const std::string id = value.contains("id") ? id_text(value["id"]) : "";
    const auto [track, fresh] =
        tracks_.try_emplace({id_text(value["pid"]), id_text(value["name"]), id}, *moment);
    if (!fresh && *moment < track->second)
      problems_.dialect(at_, "is a counter sample before the previous one");
    track->second = std::max(track->second, *moment);
  }

  void metadata(const json& value) {
    ++check_.summary.metadata;
    const std::string* what = text_in(value, "name");
    if (what == nullptr || !value.contains("pid"))
      return error("is metadata without \"name\" or \"pid\"");
    const bool of_process = *what == "process_name";
    if (!of_process && *what != "thread_name") return;
    if (!value.contains("args") || !value["args"].contains("name")) return error("names nothing");
    if (of_process)
      named_processes_.insert(id_text(value["pid"]));
    else if (const auto where = lane(value))
      named_threads_.insert(*where);
  }

  void instant(const json& value) {
    ++check_.summary.instants;
    time(value, "ts");
  }

  void asynchronous(const json& value) {
    ++check_.summary.asynchronous;
    const auto moment = time(value, "ts");
    if (!value.contains("id") && !value.contains("id2"))
      return error("is asynchronous without \"id\"");
    if (!moment) return;
    const json& id = value.contains("id") ? value["id"] : value["id2"];
    const std::pair<std::string, std::string> key{
        value.contains("cat") ? id_text(value["cat"]) : "", id_text(id)};
    if (value["ph"] == "b") ++pending_async_[key];
    if (value["ph"] == "e" && --pending_async_[key] < 0) {
      error("ends an asynchronous event that did not begin");
      pending_async_[key] = 0;
    }
  }

  /// When the last one ends.
  std::int64_t check_nesting(const TraceLane& lane, std::vector<TraceSlice>& slices) {
    // Foreign times are rounded to nanoseconds here: neighbours may appear to overlap by one.
    const std::int64_t tolerance = check_.ours ? 0 : 1;
    std::ranges::sort(slices, [](const TraceSlice& a, const TraceSlice& b) {
      return std::tie(a.start, b.end, a.event) < std::tie(b.start, a.end, b.event);
    });
    std::vector<const TraceSlice*> open;
    std::int64_t last = slices.front().end;
    for (const TraceSlice& slice : slices) {
      while (!open.empty() && open.back()->end - tolerance <= slice.start) open.pop_back();
      if (!open.empty() && slice.end - tolerance > open.back()->end) {
        problems_.error(
            slice.event,
            fmt::format(
                "overlaps event {} on the lane pid {} tid {}, and neither contains the other",
                open.back()->event, lane.pid, lane.tid));
      } else {
        open.push_back(&slice);
      }
      last = std::max(last, slice.end);
    }
    return last;
  }

  void check_names() {
    std::set<std::string> seen;
    for (const auto& [lane, slices] : slices_) {
      if (!named_threads_.contains(lane)) {
        problems_.dialect(
            slices.front().event,
            fmt::format("its lane, pid {} tid {}, has no thread_name", lane.pid, lane.tid));
      }
      if (!seen.insert(lane.pid).second) continue;
      if (!named_processes_.contains(lane.pid)) {
        problems_.dialect(slices.front().event,
                          fmt::format("its process, pid {}, has no process_name", lane.pid));
      }
    }
    check_.summary.processes = std::ssize(seen);
  }

  void check_threads() {
    std::set<std::string> processes;
    std::map<std::string, std::string> process_of;  // thread → the first process that has it
    for (const auto& [lane, slices] : slices_) processes.insert(lane.pid);
    for (const auto& [lane, slices] : slices_) {
      const std::int64_t event = slices.front().event;
      const auto [first, fresh] = process_of.emplace(lane.tid, lane.pid);
      if (!fresh) {
        problems_.dialect(event, fmt::format("tid {} is in pid {} and in pid {}", lane.tid,
                                             first->second, lane.pid));
      }
      if (lane.tid == "0") {
        // A viewer takes tid 0 for the thread that has its process's number.
        if (lane.pid != lane.tid && slices_.contains({lane.pid, lane.pid})) {
          problems_.error(event,
                          fmt::format("tid 0 merges with tid {} of the same process", lane.pid));
        } else {
          problems_.dialect(event, "its tid is 0");
        }
      } else if (processes.contains(lane.tid)) {
        problems_.dialect(event, fmt::format("its tid, {}, is also a pid", lane.tid));
      }
    }
  }

  void check_unit(const TraceFrame& frame) {
    if (frame.time_unit == "ns")
      unit_ = 1;
    else if (!frame.time_unit.empty() && frame.time_unit != "ms")
      problems_.error(-1, "\"displayTimeUnit\" is neither \"ms\" nor \"ns\"");
  }

  void check_flow(const FlowKey& key, const TraceFlow& flow) {
    const auto& [name, cat, id] = key;
    const auto wrong = [&](const FlowEnd& end, const std::string& message) {
      problems_.error(end.event, fmt::format("flow {} {} {}", name, id, message));
    };
    if (flow.ends.empty()) return wrong(flow.starts.front(), "starts and never ends");
    if (flow.starts.empty()) return wrong(flow.ends.front(), "ends and never started");
    for (const auto* side : {&flow.starts, &flow.ends}) {
      for (const FlowEnd& end : *side) check_binding(key, end);
      if (side->size() > 1)
        problems_.dialect((*side)[1].event, fmt::format("flow {} {} branches", name, id));
    }
    const FlowEnd start = std::ranges::min(flow.starts, {}, &FlowEnd::time);
    const FlowEnd end = std::ranges::min(flow.ends, {}, &FlowEnd::time);
    if (end.time < start.time)
      wrong(end, fmt::format("ends before its start, event {}", start.event));
    check_.summary.flows += std::ssize(flow.ends);
  }

  void check_binding(const FlowKey& key, const FlowEnd& end) {
    const auto wrong = [&](const char* message) {
      return fmt::format("flow {} {} {}", std::get<0>(key), std::get<2>(key), message);
    };
    auto nested = nested_.find(end.lane);
    if (nested == nested_.end()) {
      const auto lane = slices_.find(end.lane);
      std::vector<TraceSlice> slices;
      if (lane != slices_.end()) slices = lane->second;
      std::ranges::sort(slices, {},
                        [](const TraceSlice& slice) { return std::tie(slice.start, slice.event); });
      nested = nested_.emplace(end.lane, NestedSlices(slices, unit_)).first;
    }
    switch (nested->second.bind(end.time)) {
      case FlowBinding::bound:
        return;
      case FlowBinding::either:
        return problems_.dialect(
            end.event, wrong("has an end at the border of two slices, and viewers take either"));
      case FlowBinding::outside:
        return problems_.error(end.event, wrong("has an end outside any slice of its lane"));
      case FlowBinding::hidden:
        return problems_.error(end.event, wrong("has an end that chrome://tracing may not find: it "
                                                "nests the slice there in one that ends before"));
    }
  }

  TraceCheck check_;
  TraceProblems problems_;
  std::int64_t at_ = -1;
  std::map<TraceLane, std::vector<TraceSlice>> slices_;
  std::map<TraceLane, std::vector<TraceSlice>> open_;  // B without E
  std::map<TraceLane, NestedSlices> nested_;           // of lanes on which flows end
  std::int64_t unit_ = 1000;  // nanoseconds that chrome://tracing tells apart
  std::map<FlowKey, TraceFlow> flows_;
  std::map<std::tuple<std::string, std::string, std::string>, std::int64_t> tracks_;  // last time
  std::map<std::pair<std::string, std::string>, std::int64_t> pending_async_;
  std::set<std::string> named_processes_;
  std::set<TraceLane> named_threads_;
};

}  // namespace

TraceCheck check_trace(const TraceSource& source) { return read_trace(Checker(), source); }

std::string print_trace_check(const TraceCheck& check, const std::string& name) {
  std::string text;
  for (const TraceProblem& problem : check.problems) {
    const bool is_error = problem.severity == TraceSeverity::error;
    const std::string place = problem.event < 0 ? "" : fmt::format("event {}: ", problem.event);
    text +=
        fmt::format("{}: {}: {}{}\n", name, is_error ? "error" : "warning", place, problem.message);
  }
  const std::int64_t hidden =
      check.errors + check.warnings - static_cast<std::int64_t>(check.problems.size());
  if (hidden > 0) text += fmt::format("{}: and {} more\n", name, hidden);
  const TraceSummary& all = check.summary;
  text += fmt::format("{}: {}: {} on {} of {}, {}, ", name, counted(all.events, "event"),
                      counted(all.slices, "slice"), counted(all.lanes, "lane"),
                      counted(all.processes, "process"), counted(all.flows, "flow"));
  text += fmt::format("{} on {}; spans {}\n", counted(all.counters, "counter sample"),
                      counted(all.tracks, "track"), print_duration(all.last - all.first));
  text += check.good() ? "good" : counted(check.errors, "error");
  if (check.warnings > 0) text += ", " + counted(check.warnings, "warning");
  return text + "\n";
}

}  // namespace tandem
