#include "traces/pytorch_pipeline.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "traces/recorded_pipeline.h"
#include "traces/trace_complaints.h"
#include "traces/trace_cursor.h"
#include "traces/trace_events.h"

namespace tandem {
namespace {

using nlohmann::json;

constexpr std::string_view kPrefix = "PP:";
constexpr std::int64_t kMostNumber = std::numeric_limits<std::uint16_t>::max() - 1;

struct ActionName {
  std::string_view name;
  std::optional<OpKind> kind{};  // empty: nothing of the pipeline's own
  bool receives = false;
};
constexpr std::array<ActionName, 9> kActions{{
    {"F", OpKind::forward},
    {"B", OpKind::backward},
    {"SEND_F", OpKind::send_activation},
    {"RECV_F", OpKind::send_activation, true},
    {"SEND_B", OpKind::send_gradient},
    {"RECV_B", OpKind::send_gradient, true},
    {"UNSHARD"},
    {"RESHARD"},
    {"REDUCE_GRAD"},
}};
constexpr std::array<std::string_view, 3> kSplitActions{"I", "W", "OVERLAP_F_B"};

/// What one stream did for an action.
struct Slice {
  OpKind kind = OpKind::forward;
  bool receives = false;
  std::int64_t stage = 0, microbatch = 0, stream = 0, step = 0;
  Duration start{}, end{};
  std::size_t position = 0;
};

std::optional<std::int64_t> take_number(std::string_view& text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0 || number > kMostNumber) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

/// Reads one trace: what its rank did on the GPU.
class RankReader {
 public:
  /// `origin`: of all times; the first of all ranks.
  RankReader(const std::string& name, std::optional<Duration>& origin)
      : name_(name), complaints_(name), origin_(origin) {}

  /// Goes on behind what is wrong, to report it all.
  void event(std::size_t position, const json& value) {
    if (complaints_.full()) return;
    const TraceCursor cursor(name_, "/traceEvents", position, value);
    try {
      if (!value.is_object()) cursor.fail("expected an event, an object");
      if (!cursor.has("cat")) return;
      const std::string category = cursor["cat"].text();
      const bool on_gpu = category == "gpu_user_annotation";
      if (!on_gpu && category != "user_annotation") return;
      const std::string what = cursor["name"].text();
      if (!what.starts_with(kPrefix)) return;
      if (on_gpu) {
        read_action(position, cursor, what);
      } else {
        on_host_ = true;
      }
    } catch (const InputError& error) {
      complaints_.add(error);
    }
  }

  /// By ascending starts, each with its step.
  std::vector<Slice> finish(const TraceFrame& frame) {
    if (frame.damage) throw InputError(std::vector<Complaint>{*frame.damage});
    complaints_.refuse(frame.bare);
    keep_streams();
    if (slices_.empty() || is_transfer(slices_.front().kind)) {
      complaints_.add(on_host_ ? "its actions are annotated on the host alone, which counts its "
                                 "waiting: profile with ProfilerActivity.CUDA"
                               : "holds no GPU annotations such as PP:0F3, as the multi-stage "
                                 "schedules of torch.distributed.pipelining make them");
    }
    complaints_.refuse();
    number_steps();
    complaints_.refuse(frame.bare);
    return std::move(slices_);
  }

 private:
  using Group = std::pair<OpKind, bool>;
  static constexpr Group kComputation{OpKind::forward, false};

  void read_action(std::size_t position, const TraceCursor& cursor, std::string_view what) {
    std::string_view rest = what.substr(kPrefix.size());
    const auto stage = take_number(rest);
    const std::string_view action = rest.substr(0, rest.find_first_of("0123456789"));
    rest.remove_prefix(action.size());
    const bool split =
        std::any_of(kSplitActions.begin(), kSplitActions.end(), [&](std::string_view name) {
          return action == name || (name.size() > 1 && what.ends_with(name));
        });
    if (split)
      cursor["name"].fail("backwards in two halves or with a forward are not in this version");
    const auto known = std::find_if(kActions.begin(), kActions.end(),
                                    [&](const ActionName& name) { return name.name == action; });
    const bool found = stage && known != kActions.end();
    if (found && !known->kind) return;
    const auto microbatch = take_number(rest);
    if (!found || !microbatch || !rest.empty()) {
      cursor["name"].fail(fmt::format("\"{}\" is no action such as PP:0F3 or PP:1SEND_F4", what));
    }
    if (!origin_) origin_ = cursor["ts"].moment();
    Slice slice{.kind = *known->kind,
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

  static Group group_of(const Slice& slice) {
    return is_transfer(slice.kind) ? Group{slice.kind, slice.receives} : kComputation;
  }

  /// An action has a slice on each stream that it launched on. Of computation the busiest stream
  /// counts, of one kind of transfers' ends the busiest of the others.
  void keep_streams() {
    std::map<Group, std::map<std::int64_t, double>> busy;  // seconds
    for (const Slice& slice : slices_) {
      busy[group_of(slice)][slice.stream] += to_seconds(slice.end - slice.start);
    }
    std::map<Group, std::int64_t> kept;
    const auto keep = [&](const Group& group) {
      const auto& streams = busy[group];
      if (streams.empty()) return;
      kept[group] =
          std::max_element(streams.begin(), streams.end(), [](const auto& a, const auto& b) {
            return a.second < b.second;
          })->first;
    };
    keep(kComputation);
    for (auto& [group, streams] : busy) {
      if (group == kComputation) continue;
      if (kept.contains(kComputation)) streams.erase(kept[kComputation]);
      keep(group);
    }
    std::erase_if(slices_, [&](const Slice& slice) {
      const auto found = kept.find(group_of(slice));
      return found == kept.end() || found->second != slice.stream;
    });
    // Computation first, of equal starts too.
    std::stable_sort(slices_.begin(), slices_.end(), [](const Slice& a, const Slice& b) {
      return std::pair(is_transfer(a.kind), a.start) < std::pair(is_transfer(b.kind), b.start);
    });
  }

  /// The k-th time that an action is done is that of the k-th step.
  void number_steps() {
    std::map<std::tuple<OpKind, bool, std::int64_t, std::int64_t>, std::int64_t> done;
    std::int64_t step = 0;
    for (Slice& slice : slices_) {
      slice.step = done[{slice.kind, slice.receives, slice.stage, slice.microbatch}]++;
      if (is_transfer(slice.kind)) continue;
      if (slice.step < step) {
        const json nothing;
        try {
          TraceCursor(name_, "/traceEvents", slice.position, nothing)
              .fail("done once less often than what precedes it: a trace begins with a step");
        } catch (const InputError& error) {
          complaints_.add(error);
          return;
        }
      }
      step = slice.step;
    }
  }

  const std::string& name_;
  TraceComplaints complaints_;
  std::optional<Duration>& origin_;
  bool on_host_ = false;
  std::vector<Slice> slices_;
};

/// Puts the ranks together.
class PipelineBuilder {
 public:
  void add(const std::string& name, std::vector<Slice> slices) {
    ranks_.push_back({name, std::move(slices)});
  }

  Recording build() {
    place_ranks();
    pair_transfers();
    align_clocks();
    make_passes();
    check_fits_clock(recording_, ranks_.front().name);
    return std::move(recording_);
  }

 private:
  struct Rank {
    std::string name;
    std::vector<Slice> slices;
  };
  /// Both ends of a transfer.
  struct Transfer {
    Slice* sent = nullptr;
    Slice* received = nullptr;
  };

  [[noreturn]] static void refuse(const std::string& name, std::string message) {
    Complaint complaint;
    complaint.message = std::move(message);
    complaint.place.file = name;
    throw InputError(std::vector<Complaint>{complaint});
  }

  /// The rank of the lowest stage first. Each has every so manieth stage, as in a loop.
  void place_ranks() {
    std::vector<std::vector<std::int64_t>> stages;
    for (const Rank& rank : ranks_) {
      std::set<std::int64_t> own;
      for (const Slice& slice : rank.slices) {
        if (!is_transfer(slice.kind)) own.insert(slice.stage);
      }
      stages.emplace_back(own.begin(), own.end());
    }
    const auto devices = static_cast<std::int64_t>(ranks_.size());
    std::vector<std::size_t> order(ranks_.size(), ranks_.size());
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      const std::int64_t first = stages[rank].front();
      if (first >= devices) {
        refuse(ranks_[rank].name, fmt::format("its first stage is {}: expected the traces of the "
                                              "{} ranks of one pipeline",
                                              first, devices));
      }
      std::size_t& place = order[static_cast<std::size_t>(first)];
      if (place < ranks_.size()) {
        refuse(ranks_[rank].name,
               fmt::format("has stage {}, as {} has", first, ranks_[place].name));
      }
      place = rank;
      bool looped = stages[rank].size() == stages.front().size();
      for (std::size_t i = 0; i < stages[rank].size(); ++i)
        looped = looped && stages[rank][i] == first + static_cast<std::int64_t>(i) * devices;
      if (!looped) {
        refuse(ranks_[rank].name,
               fmt::format("has the stages {}: only stages that go round all ranks, as often for "
                           "each, are in this version",
                           fmt::join(stages[rank], ", ")));
      }
    }
    std::vector<Rank> placed;
    for (const std::size_t rank : order) placed.push_back(std::move(ranks_[rank]));
    ranks_ = std::move(placed);
    recording_.devices = static_cast<std::uint16_t>(devices);
    recording_.chunks = static_cast<std::uint16_t>(stages.front().size());
    recording_.replicas = {0};
    recording_.own_streams = true;
  }

  /// Each end waits for the other: the later one, the shorter, is what the transfer takes.
  void pair_transfers() {
    // By step, kind, the sender's stage and microbatch.
    std::map<std::tuple<std::int64_t, OpKind, std::int64_t, std::int64_t>, Transfer> transfers;
    for (Rank& rank : ranks_) {
      for (Slice& slice : rank.slices) {
        if (!is_transfer(slice.kind)) continue;
        const bool down = slice.kind == OpKind::send_activation;
        const std::int64_t sender = !slice.receives ? slice.stage
                                    : down          ? slice.stage - 1
                                                    : slice.stage + 1;
        Transfer& transfer = transfers[{slice.step, slice.kind, sender, slice.microbatch}];
        (slice.receives ? transfer.received : transfer.sent) = &slice;
      }
    }
    for (const auto& [key, transfer] : transfers) {
      if (transfer.sent == nullptr || transfer.received == nullptr) continue;
      Slice &sent = *transfer.sent, &received = *transfer.received;
      const Duration length = std::min(sent.end - sent.start, received.end - received.start);
      sent.start = sent.end - length;
      received.start = received.end - length;
      pairs_.push_back(transfer);
    }
  }

  std::size_t device_of(const Slice& slice) const {
    return static_cast<std::size_t>(slice.stage) % ranks_.size();
  }

  /// Both ends of a transfer end at once: by how much the next rank's clock is ahead, their median
  /// says.
  void align_clocks() {
    std::vector<std::vector<Duration>> ahead(ranks_.size());
    for (const Transfer& pair : pairs_) {
      const std::size_t sender = device_of(*pair.sent), receiver = device_of(*pair.received);
      const Duration later = pair.received->end - pair.sent->end;
      if (receiver == sender + 1) ahead[receiver].push_back(later);
      if (sender == receiver + 1) ahead[sender].push_back(-later);
    }
    Duration offset{};
    for (std::size_t device = 1; device < ranks_.size(); ++device) {
      std::vector<Duration>& seen = ahead[device];
      if (seen.empty()) {
        recording_.warnings.push_back(
            fmt::format("{}: no transfers to compare its clock by with that of {}",
                        ranks_[device].name, ranks_[device - 1].name));
      } else {
        const auto middle = seen.begin() + static_cast<std::ptrdiff_t>(seen.size() / 2);
        std::nth_element(seen.begin(), middle, seen.end());
        offset += *middle;
      }
      for (Slice& slice : ranks_[device].slices) {
        slice.start -= offset;
        slice.end -= offset;
      }
    }
  }

  void make_passes() {
    std::map<std::int64_t, RecordedPass> passes;
    std::map<std::int64_t, Duration> starts;
    for (const DeviceId device : all_ids<DeviceId>(ranks_.size())) {
      for (const Slice& slice : ranks_[index(device)].slices) {
        RecordedPass& pass = passes[slice.step];
        pass.step = slice.step;
        pass.devices.resize(ranks_.size());
        const bool transfer = is_transfer(slice.kind);
        pass.devices[device].push_back(
            {.kind = slice.kind,
             .receives = slice.receives,
             .chunk = transfer ? std::uint16_t{0}
                               : static_cast<std::uint16_t>(static_cast<std::size_t>(slice.stage) /
                                                            ranks_.size()),
             .microbatch = transfer ? -1 : slice.microbatch,
             .start = slice.start,
             .end = slice.end});
        if (transfer) continue;
        const auto [found, first] = starts.try_emplace(slice.step, slice.start);
        if (!first) found->second = std::min(found->second, slice.start);
      }
    }
    std::size_t partial = 0;
    for (auto& [step, pass] : passes) {
      const bool whole = std::none_of(pass.devices.begin(), pass.devices.end(),
                                      [](const auto& ops) { return ops.empty(); });
      if (!whole) {
        ++partial;
        continue;
      }
      for (std::vector<RecordedOp>& ops : pass.devices) {
        std::stable_sort(ops.begin(), ops.end(), [](const RecordedOp& a, const RecordedOp& b) {
          return std::tie(a.end, a.start, a.kind, a.receives) <
                 std::tie(b.end, b.start, b.kind, b.receives);
        });
      }
      // With all that is done until the next one; of the last nobody knows.
      const auto next = starts.find(step + 1);
      if (next != starts.end()) recording_.whole_steps[step] = next->second - starts.at(step);
      recording_.passes.push_back(std::move(pass));
    }
    if (recording_.passes.empty()) {
      refuse(ranks_.front().name, "no step has actions of all ranks");
    }
    if (partial > 0) {
      recording_.warnings.push_back(
          fmt::format("{} steps are left out: not all ranks have them", partial));
    }
  }

  std::vector<Rank> ranks_;
  std::vector<Transfer> pairs_;  // of ranks_' slices
  Recording recording_;
};

/// `read(trace, visit)` gives the frame of a trace.
template <class Traces, class Name, class Read>
Recording read_ranks(const Traces& traces, const Name& name_of, const Read& read) {
  std::optional<Duration> origin;
  PipelineBuilder builder;
  for (const auto& trace : traces) {
    const std::string name = name_of(trace);
    RankReader reader(name, origin);
    const TraceFrame frame = read(trace, [&reader](std::size_t position, const json& event) {
      reader.event(position, event);
    });
    builder.add(name, reader.finish(frame));
  }
  return builder.build();
}

}  // namespace

Recording read_pytorch_pipeline(std::span<const std::filesystem::path> paths) {
  return read_ranks(
      paths, [](const std::filesystem::path& path) { return path.string(); },
      [](const std::filesystem::path& path, const EventVisitor& visit) {
        return read_trace_events(path, visit);
      });
}

Recording read_pytorch_pipeline(std::span<const NamedTrace> traces) {
  return read_ranks(
      traces, [](const NamedTrace& trace) { return trace.name; },
      [](const NamedTrace& trace, const EventVisitor& visit) {
        return read_trace_events(trace.text, trace.name, visit);
      });
}

}  // namespace tandem
