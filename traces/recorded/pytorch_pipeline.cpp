#include "traces/recorded/pytorch_pipeline.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "traces/recorded/pytorch_rank.h"
#include "traces/recorded/recorded_pipeline.h"

namespace tandem {
namespace {

/// Puts the ranks together.
class PipelineBuilder {
 public:
  Recording build(std::span<const TraceSource> traces) {
    std::optional<Duration> origin;
    for (const TraceSource& trace : traces)
      ranks_.push_back({trace.name, read_pytorch_rank(trace, origin)});
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
    std::vector<PytorchSlice> slices;
  };
  /// Both ends of a transfer.
  struct Transfer {
    PytorchSlice* sent = nullptr;
    PytorchSlice* received = nullptr;
  };

  [[noreturn]] static void refuse(const std::string& name, std::string message) {
    throw InputError(Diagnostic{.message = std::move(message), .place = {.file = name}});
  }

  /// The rank of the lowest stage first. Each has every so manieth stage, as in a loop, or as many
  /// going down the ranks and back up.
  void place_ranks() {
    std::vector<std::vector<std::int64_t>> stages;
    for (const Rank& rank : ranks_) {
      std::set<std::int64_t> own;
      for (const PytorchSlice& slice : rank.slices) {
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
    }
    recording_.devices = static_cast<std::uint16_t>(devices);
    recording_.chunks = static_cast<std::uint16_t>(stages.front().size());
    const auto refused = [&] {
      for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        if (!has_its_stages(stages[rank])) return rank;
      }
      return ranks_.size();
    };
    const std::size_t unlooped = refused();
    recording_.wave = unlooped < ranks_.size();
    if (recording_.wave && refused() < ranks_.size()) {
      refuse(ranks_[unlooped].name,
             fmt::format("has the stages {}: only stages that go round all ranks, or down the "
                         "ranks and back up, as often for each, are in this version",
                         fmt::join(stages[unlooped], ", ")));
    }
    std::vector<Rank> placed;
    for (const std::size_t rank : order) placed.push_back(std::move(ranks_[rank]));
    ranks_ = std::move(placed);
    recording_.replicas = {0};
    recording_.own_streams = true;
    check_transfers();
  }

  void check_transfers() const {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      for (const PytorchSlice& slice : ranks_[rank].slices) {
        const bool own = device_of(slice) == rank &&
                         slice.stage < std::int64_t{recording_.devices} * recording_.chunks;
        if (own) continue;
        refuse(
            ranks_[rank].name,
            fmt::format("sends or receives for stage {}, which it does not compute", slice.stage));
      }
    }
  }

  /// Whether a rank, by its first stage, has those that its place in the pipeline gives it.
  bool has_its_stages(const std::vector<std::int64_t>& stages) const {
    bool same = stages.size() == recording_.chunks;
    for (std::size_t chunk = 0; same && chunk < stages.size(); ++chunk) {
      const auto lowest = static_cast<std::int64_t>(chunk) * recording_.devices;
      const std::int64_t place = stages.front();
      const bool back = recording_.wave && chunk % 2 == 1;
      same = stages[chunk] == lowest + (back ? recording_.devices - 1 - place : place);
    }
    return same;
  }

  /// Each end waits for the other: the later one, the shorter, is what the transfer takes.
  void pair_transfers() {
    // By step, kind, the sender's stage and microbatch.
    std::map<std::tuple<std::int64_t, OpKind, std::int64_t, std::int64_t>, Transfer> transfers;
    for (Rank& rank : ranks_) {
      for (PytorchSlice& slice : rank.slices) {
        if (!is_transfer(slice.kind)) continue;
        const bool down = traits(slice.kind).flow == Flow::along_edges;
        const std::int64_t sender = !slice.receives ? slice.stage
                                    : down          ? slice.stage - 1
                                                    : slice.stage + 1;
        Transfer& transfer = transfers[{slice.step, slice.kind, sender, slice.microbatch}];
        (slice.receives ? transfer.received : transfer.sent) = &slice;
      }
    }
    for (const auto& [key, transfer] : transfers) {
      if (transfer.sent == nullptr || transfer.received == nullptr) continue;
      PytorchSlice &sent = *transfer.sent, &received = *transfer.received;
      const Duration length = std::min(sent.end - sent.start, received.end - received.start);
      sent.start = sent.end - length;
      received.start = received.end - length;
      pairs_.push_back(transfer);
    }
  }

  std::size_t device_of(const PytorchSlice& slice) const {
    const auto stage = static_cast<std::size_t>(slice.stage);
    const bool back = recording_.wave && stage / ranks_.size() % 2 == 1;
    return back ? ranks_.size() - 1 - stage % ranks_.size() : stage % ranks_.size();
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
      for (PytorchSlice& slice : ranks_[device].slices) {
        slice.start -= offset;
        slice.end -= offset;
      }
    }
  }

  void make_passes() {
    std::map<std::int64_t, RecordedPass> passes;
    std::map<std::int64_t, Duration> starts;
    for (const DeviceId device : all_ids<DeviceId>(ranks_.size())) {
      for (const PytorchSlice& slice : ranks_[index(device)].slices) {
        RecordedPass& pass = passes[slice.step];
        pass.step = slice.step;
        pass.devices.resize(ranks_.size());
        pass.devices[device].push_back({.kind = slice.kind,
                                        .receives = slice.receives,
                                        .chunk = static_cast<std::uint16_t>(
                                            static_cast<std::size_t>(slice.stage) / ranks_.size()),
                                        .microbatch = slice.microbatch,
                                        .start = slice.start,
                                        .end = slice.end});
        if (is_transfer(slice.kind)) continue;
        const auto [found, first] = starts.try_emplace(slice.step, slice.start);
        if (!first) found->second = std::min(found->second, slice.start);
      }
    }
    std::size_t partial = 0;
    for (auto& [step, pass] : passes) {
      if (std::ranges::any_of(pass.devices, [](const auto& ops) { return ops.empty(); })) {
        ++partial;
        continue;
      }
      for (std::vector<RecordedOp>& ops : pass.devices) {
        std::ranges::stable_sort(ops, {}, [](const RecordedOp& op) {
          return std::tie(op.end, op.start, op.kind, op.receives);
        });
      }
      // With all that is done until the next one; of the last nobody knows.
      const auto next = starts.find(step + 1);
      if (next != starts.end()) recording_.whole_steps[step] = next->second - starts.at(step);
      recording_.passes.push_back(std::move(pass));
    }
    if (recording_.passes.empty()) refuse(ranks_.front().name, "no step has actions of all ranks");
    if (partial > 0) {
      recording_.warnings.push_back(
          fmt::format("{} steps are left out: not all ranks have them", partial));
    }
  }

  std::vector<Rank> ranks_;
  std::vector<Transfer> pairs_;  // of ranks_' slices
  Recording recording_;
};

}  // namespace

Recording read_pytorch_pipeline(std::span<const TraceSource> traces) {
  return PipelineBuilder().build(traces);
}

}  // namespace tandem
