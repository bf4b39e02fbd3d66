#include "simulator/replay/replay.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.h"

namespace tandem {

namespace {

/// The lower one of an even number. REQUIRES: there is one.
Duration median(std::vector<Duration> durations) {
  const auto middle = durations.begin() + static_cast<std::ptrdiff_t>((durations.size() - 1) / 2);
  std::nth_element(durations.begin(), middle, durations.end());
  return *middle;
}

}  // namespace

double ReplayedStep::error() const {
  return measured == Duration{} ? 0.0 : to_seconds(replayed - measured) / to_seconds(measured);
}

Replay::Replay(const Recording& recording, std::optional<RecordedTransfers> transfers, bool pauses)
    : transfers_(transfers ? *transfers : seen_transfers(recording)),
      whole_steps_(recording.whole_steps),
      warnings_(recording.warnings) {
  const Placement placement = recording.wave
                                  ? wave_placement(recording.devices, recording.chunks)
                                  : looped_placement(recording.devices, recording.chunks);
  const ReplayModel model{.transfers = transfers_, .pauses = pauses};
  std::vector<std::string> reasons;
  std::size_t changed = 0;
  for (const RecordedPass& recorded : recording.passes) {
    try {
      RecordedProgram observed = observe(recorded, placement, model);
      const Duration replayed = replayed_length(observed.program, observed.costs);
      changed += observed.transfers != transfers_ ? 1u : 0u;
      passes_.push_back({recorded.step, recorded.replica, std::move(observed), replayed});
    } catch (const Error& error) {
      reasons.emplace_back(error.what());
    }
  }
  if (passes_.empty()) {
    throw InputError(fmt::format("no step of any replica is a whole pipeline: {}",
                                 reasons.empty() ? "there is none" : reasons.front()));
  }
  if (!reasons.empty()) {
    warnings_.push_back(
        fmt::format("{} of {} steps of replicas are left out, the first for this: {}",
                    reasons.size(), recording.passes.size(), reasons.front()));
  }
  if (changed > 0) {
    warnings_.push_back(
        fmt::format("{} of {} steps of replicas are replayed with other transfers than {}: theirs "
                    "were not all recorded, or not in an order in which ranks can meet",
                    changed, passes_.size(), name(transfers_)));
  }
  measure_usual();
}

void Replay::measure_usual() {
  const std::size_t stages = passes_.front().observed.program.placement().stages();
  using Samples = std::map<std::int64_t, std::vector<Duration>>;
  std::array<Table<StageId, Samples>, kOpKinds> samples;
  for (std::size_t kind = 0; kind < kOpKinds; ++kind) {
    samples[kind].resize(stages);
    usual_[kind].resize(stages);
  }
  for (const Pass& pass : passes_) {
    for (const Instruction& instruction : pass.observed.program.instructions()) {
      samples[index(instruction.op.kind)][instruction.op.stage][pass.replica].push_back(
          pass.observed.costs[instruction.cost]);
    }
  }
  const Placement& placement = passes_.front().observed.program.placement();
  for (std::size_t kind = 0; kind < kOpKinds; ++kind) {
    on_device_[kind].resize(placement.devices);
    for (const StageId stage : ids(samples[kind])) {
      Usual& known = usual_[kind][stage];
      for (auto& [replica, durations] : samples[kind][stage]) {
        known.sorted.push_back(median(std::move(durations)));
        known.of_replica[replica] = known.sorted.back();
      }
      if (known.sorted.empty()) continue;
      std::sort(known.sorted.begin(), known.sorted.end());
      for (Sum* sum : {&on_all_[kind], &on_device_[kind][placement.device[stage]]}) {
        sum->usual += usual(static_cast<OpKind>(kind), stage);
        ++sum->stages;
      }
    }
  }
}

Duration Replay::usual(OpKind kind, StageId stage, std::optional<std::int64_t> except) const {
  const Usual& known = usual_[index(kind)][stage];
  const std::vector<Duration>& sorted = known.sorted;
  if (sorted.empty()) return {};
  const auto own = except ? known.of_replica.find(*except) : known.of_replica.end();
  if (own == known.of_replica.end() || sorted.size() == 1) return sorted[(sorted.size() - 1) / 2];
  const std::size_t middle = (sorted.size() - 2) / 2;
  return sorted[own->second <= sorted[middle] ? middle + 1 : middle];
}

Duration Replay::usual_elsewhere(OpKind kind, std::optional<DeviceId> except) const {
  Sum sum = on_all_[index(kind)];
  const Sum own = except ? on_device_[index(kind)][*except] : Sum{};
  if (own.stages < sum.stages) {
    sum.usual -= own.usual;
    sum.stages -= own.stages;
  }
  return sum.usual / sum.stages;
}

Duration Replay::cost(const Pass& pass, InstructionId id, const ReplayVariation& variation) const {
  const Instruction& instruction = pass.observed.program[id];
  const Op& op = instruction.op;
  const Duration measured = pass.observed.costs[instruction.cost];
  if (!is_compute(op.kind)) {
    const bool usually =
        is_transfer(op.kind) && variation.durations != ReplayVariation::Durations::measured;
    return usually ? usual(op.kind, op.stage) : measured;
  }
  if (variation.durations == ReplayVariation::Durations::usual) return usual(op.kind, op.stage);
  if (variation.durations == ReplayVariation::Durations::balanced) return usual_elsewhere(op.kind);
  const DeviceId device = pass.observed.program.placement().device[op.stage];
  for (const Straggler& straggler : variation.without) {
    if (straggler.device && *straggler.device != device) continue;
    if (straggler.replica && *straggler.replica != pass.replica) continue;
    const bool alone = usual_[index(op.kind)][op.stage].sorted.size() == 1;
    if (!straggler.replica || (straggler.device && alone)) return usual_elsewhere(op.kind, device);
    return usual(op.kind, op.stage, pass.replica);
  }
  return measured;
}

CostTable Replay::costs(std::size_t pass, const ReplayVariation& variation) const {
  const Program& program = passes_[pass].observed.program;
  CostTable costs(program.size());
  for (const InstructionId id : program.order()) {
    costs[program[id].cost] = cost(passes_[pass], id, variation);
  }
  return costs;
}

/// Replicas begin when they began.
template <class Length>
std::vector<Duration> Replay::phases_by(const Length& length) const {
  std::vector<Duration> phases;
  for (std::size_t first = 0; first < passes_.size();) {
    Duration start = Duration::max(), end = Duration::min();
    std::size_t pass = first;
    for (; pass < passes_.size() && passes_[pass].step == passes_[first].step; ++pass) {
      const Duration began = passes_[pass].observed.start;
      start = std::min(start, began);
      end = std::max(end, began + length(pass));
    }
    phases.push_back(end - start);
    first = pass;
  }
  return phases;
}

std::vector<Duration> Replay::phases(const ReplayVariation& variation) const {
  const auto touches = [&](const Pass& pass) {
    return variation.durations != ReplayVariation::Durations::measured ||
           std::any_of(variation.without.begin(), variation.without.end(),
                       [&](const Straggler& straggler) {
                         return !straggler.replica || *straggler.replica == pass.replica;
                       });
  };
  return phases_by([&](std::size_t pass) {
    if (!touches(passes_[pass])) return passes_[pass].replayed;
    return replayed_length(passes_[pass].observed.program, costs(pass, variation));
  });
}

std::vector<ReplayedStep> Replay::steps() const {
  const std::vector<Duration> measured =
      phases_by([&](std::size_t pass) { return passes_[pass].observed.length; });
  const std::vector<Duration> replayed = phases({});
  std::vector<ReplayedStep> steps;
  for (const Pass& pass : passes_) {
    if (!steps.empty() && steps.back().step == pass.step) continue;
    const auto whole = whole_steps_.find(pass.step);
    steps.push_back({.step = pass.step,
                     .whole = whole == whole_steps_.end() ? Duration{} : whole->second,
                     .measured = measured[steps.size()],
                     .replayed = replayed[steps.size()]});
  }
  return steps;
}

}  // namespace tandem
