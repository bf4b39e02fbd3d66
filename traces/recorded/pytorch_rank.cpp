#include "traces/recorded/pytorch_rank.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "traces/chrome/trace_cursor.h"
#include "traces/chrome/trace_events.h"

namespace tandem {

namespace {

using nlohmann::json;

constexpr std::string_view kPrefix = "PP:";
constexpr std::int64_t kMostActionNumber = std::numeric_limits<std::uint16_t>::max() - 1;

/// An action by its name: an op, one end of a transfer, or nothing of the pipeline's own.
struct Action {
  OpKind kind{};
  bool receives = false;
  bool is_other = false;
};
constexpr std::array<std::string_view, 3> kOtherActions{"UNSHARD", "RESHARD", "REDUCE_GRAD"};

std::optional<Action> action_of(std::string_view name) {
  if (std::ranges::find(kOtherActions, name) != kOtherActions.end())
    return Action{.is_other = true};
  constexpr std::string_view kSend = "SEND", kReceive = "RECV";
  for (const OpTraits& row : kOpTraits) {
    if (row.pytorch.empty()) continue;
    if (name == row.pytorch) return Action{.kind = row.kind};
    if (is_transfer(row.kind) && name.starts_with(kReceive) &&
        name.substr(kReceive.size()) == row.pytorch.substr(kSend.size()))
      return Action{.kind = row.kind, .receives = true};
  }
  return std::nullopt;
}

constexpr std::string_view kPair = "OVERLAP_F_B";

std::optional<std::int64_t> take_number(std::string_view& text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0 || number > kMostActionNumber) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

/// Of what the rank did on the GPU.
class RankReader {
 public:
  RankReader(const std::string& name, std::optional<Duration>& origin)
      : name_(name), diagnostics_(name), origin_(origin) {}

  /// Goes on behind what is wrong, to report it all.
  void event(std::size_t position, const json& value) {
    if (diagnostics_.full()) return;
    const TraceCursor cursor(name_, "/traceEvents", position, value);
    try {
      if (!value.is_object()) cursor.fail("expected an event, an object");
      if (!cursor.has("cat")) return;
      const std::string category = cursor["cat"].text();
      const bool on_gpu = category == "gpu_user_annotation";
      if (!on_gpu && category != "user_annotation") return;
      const std::string what = cursor["name"].text();
      if (!what.starts_with(kPrefix)) return;
      if (on_gpu) read_action(position, cursor, what);
      on_host_ = on_host_ || !on_gpu;
    } catch (const InputError& error) {
      diagnostics_.add(error);
    }
  }

  std::vector<PytorchSlice> finish(const TraceFrame& frame) {
    if (frame.damage) throw InputError(*frame.damage);
    diagnostics_.refuse(frame.bare);
    keep_streams();
    if (slices_.empty() || is_transfer(slices_.front().kind)) {
      diagnostics_.add(on_host_ ? "its actions are annotated on the host only, whose times include "
                                  "waiting: profile with ProfilerActivity.CUDA"
                                : "holds no GPU annotations such as PP:0F3, as the multi-stage "
                                  "schedules of torch.distributed.pipelining make them");
    }
    diagnostics_.refuse();
    number_steps();
    diagnostics_.refuse(frame.bare);
    return std::move(slices_);
  }

 private:
  using Group = std::pair<OpKind, bool>;
  static constexpr Group kComputation{OpKind{}, false};

  void read_action(std::size_t position, const TraceCursor& cursor, std::string_view what) {
    std::string_view rest = what.substr(kPrefix.size());
    const auto stage = take_number(rest);
    const std::string_view action = rest.substr(0, rest.find_first_of("0123456789"));
    rest.remove_prefix(action.size());
    if (what.ends_with(kPair)) {
      cursor["name"].fail(
          "a forward and a backward as one action: its annotation does not say how long each took");
    }
    const std::optional<Action> known = action_of(action);
    const bool found = stage && known;
    if (found && known->is_other) return;
    const auto microbatch = take_number(rest);
    if (!found || !microbatch || !rest.empty())
      cursor["name"].fail(fmt::format("\"{}\" is no action such as PP:0F3 or PP:1SEND_F4", what));
    if (!origin_) origin_ = cursor["ts"].moment();
    PytorchSlice slice{.kind = known->kind,
                       .receives = known->receives,
                       .stage = *stage,
                       .microbatch = *microbatch,
                       .stream = cursor["tid"].integer(0, std::numeric_limits<std::int64_t>::max()),
                       .start = cursor["ts"].time(*origin_),
                       .position = position};
    const Duration length = cursor["dur"].time();
    if (length < Duration{}) cursor["dur"].fail("expected a duration of at least 0");
    slice.end = slice.start + length;
    slices_.push_back(slice);
  }

  static Group group_of(const PytorchSlice& slice) {
    return is_transfer(slice.kind) ? Group{slice.kind, slice.receives} : kComputation;
  }

  /// An action has a slice on each stream that it launched on. Of computation the busiest stream
  /// counts, of one kind of transfers' ends the busiest of the others.
  void keep_streams() {
    std::map<Group, std::map<std::int64_t, double>> busy;  // seconds
    for (const PytorchSlice& slice : slices_)
      busy[group_of(slice)][slice.stream] += to_seconds(slice.end - slice.start);
    std::map<Group, std::int64_t> kept;
    const auto keep = [&](const Group& group) {
      const auto& streams = busy[group];
      if (streams.empty()) return;
      kept[group] =
          std::ranges::max_element(streams, {}, [](const auto& of) { return of.second; })->first;
    };
    keep(kComputation);
    for (auto& [group, streams] : busy) {
      if (group == kComputation) continue;
      if (kept.contains(kComputation)) streams.erase(kept[kComputation]);
      keep(group);
    }
    std::erase_if(slices_, [&](const PytorchSlice& slice) {
      const auto found = kept.find(group_of(slice));
      return found == kept.end() || found->second != slice.stream;
    });
    // Computation first, of equal starts too.
    std::ranges::stable_sort(slices_, {}, [](const PytorchSlice& slice) {
      return std::pair(is_transfer(slice.kind), slice.start);
    });
  }

  /// The k-th time that an action is done is that of the k-th step.
  void number_steps() {
    std::map<std::tuple<OpKind, bool, std::int64_t, std::int64_t>, std::int64_t> done;
    std::int64_t step = 0;
    for (PytorchSlice& slice : slices_) {
      slice.step = done[{slice.kind, slice.receives, slice.stage, slice.microbatch}]++;
      if (is_transfer(slice.kind)) continue;
      if (slice.step < step) {
        return diagnostics_.add(
            slice.position,
            "done once less often than what precedes it: a trace begins with a step");
      }
      step = slice.step;
    }
  }

  const std::string& name_;
  TraceDiagnostics diagnostics_;
  std::optional<Duration>& origin_;
  bool on_host_ = false;
  std::vector<PytorchSlice> slices_;
};

}  // namespace

std::vector<PytorchSlice> read_pytorch_rank(const TraceSource& source,
                                            std::optional<Duration>& origin) {
  return read_trace(RankReader(source.name, origin), source);
}

}  // namespace tandem
