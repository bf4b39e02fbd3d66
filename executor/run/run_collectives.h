#pragma once
// Where the devices of a run meet: its collectives and those of its norms, made before it starts.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/program/program.h"
#include "executor/run/run_state.h"
#include "executor/stage/lasting_state.h"

namespace tandem {

template <class B>
class RunCollectives {
 public:
  /// Into `run`, whose stages are there.
  static void add(RunState<B>& run) { RunCollectives(run).add_all(); }

 private:
  explicit RunCollectives(RunState<B>& run) : run_(run) {}

  const Placement& placement() const { return run_.program.placement(); }

  void add_all() {
    for (const InstructionId id : run_.program.order()) {
      const Op& op = run_.program[id].op;
      if (!is_collective(op.kind)) continue;
      if (sums_replicas(op.kind)) {
        add_sum(0, id, members(placement().replicas_of(placement().stage[op.replica]), run_.width));
        continue;
      }
      for (std::uint16_t pipeline = 0; pipeline < run_.width; ++pipeline) {
        if (makes_norm(op.kind))
          add_norm(pipeline, id);
        else
          add_sum(pipeline, id, members_in(pipeline, placement().replicas_tied_with(op.replica)));
      }
    }
  }

  /// Devices, in the order of addition: of each pipeline the stages as they are numbered.
  std::vector<DeviceId> members_in(std::uint16_t pipeline, std::vector<ReplicaId> stages) const {
    std::ranges::sort(stages);
    std::vector<DeviceId> devices;
    for (const ReplicaId stage : stages)
      devices.push_back(run_.device_of(pipeline, placement().device[stage]));
    return devices;
  }
  std::vector<DeviceId> members(const std::vector<ReplicaId>& stages, std::uint16_t width) const {
    std::vector<DeviceId> all;
    for (std::uint16_t pipeline = 0; pipeline < width; ++pipeline) {
      const std::vector<DeviceId> devices = members_in(pipeline, stages);
      all.insert(all.end(), devices.begin(), devices.end());
    }
    return all;
  }

  std::size_t count_here(const std::vector<DeviceId>& members) const {
    return static_cast<std::size_t>(
        std::ranges::count_if(members, [this](DeviceId device) { return run_.runs_here(device); }));
  }
  /// Empty: no other rank has part in it.
  std::optional<AcrossRanks> across(std::uint16_t pipeline, InstructionId id,
                                    const std::vector<DeviceId>& members) const {
    if (run_.others == nullptr) return std::nullopt;
    const auto communicator = run_.others->plans().of(pipeline, id);
    if (!communicator) return std::nullopt;
    AcrossRanks ranks{.others = run_.others, .communicator = *communicator, .members = {}};
    for (const DeviceId device : members) ranks.members.push_back(run_.others->rank_of(device));
    return ranks;
  }

  void add_sum(std::uint16_t pipeline, InstructionId id, const std::vector<DeviceId>& members) {
    const std::size_t here = count_here(members);
    if (here == 0) return;
    run_.collectives.emplace(std::pair{pipeline, id},
                             std::make_unique<Collective<B>>(here, across(pipeline, id, members)));
  }

  void add_norm(std::uint16_t pipeline, InstructionId id) {
    std::vector<ReplicaId> all;
    for (const ReplicaId stage : ids(placement().stage)) all.push_back(stage);
    std::vector<DeviceId> members = members_in(pipeline, all);
    const std::size_t here = count_here(members);
    if (here == 0) return;
    DecideNumbers numbers = run_.decide_numbers;
    numbers.steps_before = static_cast<double>(common_steps(run_.replicas[pipeline]));
    run_.norm_collectives.emplace(
        std::pair{pipeline, id},
        std::make_unique<NormCollective<B>>(numbers, here, run_.tensors.size(),
                                            exchange(pipeline, id, std::move(members))));
    for (StageState<B>* state : run_.replicas[pipeline]) {
      if (state == nullptr) continue;
      state->decides_alone = false;
      state->brings_squares =
          placement().replicas_of(placement().stage[state->id]).front() == state->id;
    }
  }

  /// Each rank brings one share: the squares of its stages, and zeros for the others'. So the sum
  /// is exact.
  typename NormCollective<B>::Exchange exchange(std::uint16_t pipeline, InstructionId id,
                                                std::vector<DeviceId> members) const {
    std::optional<AcrossRanks> ranks = across(pipeline, id, members);
    if (!ranks) return {};
    std::ranges::sort(ranks->members);
    const auto repeated = std::ranges::unique(ranks->members);
    ranks->members.erase(repeated.begin(), repeated.end());
    return [ranks = std::move(*ranks)](std::span<double> squares, std::function<void()> ended) {
      ranks.others->sum(ranks.communicator, ranks.members, std::vector{squares}, std::move(ended));
    };
  }

  RunState<B>& run_;
};

}  // namespace tandem
