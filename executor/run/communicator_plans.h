#pragma once
// Which devices pass messages over what: the communicators that a run needs, known from its program
// before anything is made. Communicators are made and connected one after another, by all of their
// members: in one order for all devices, or two of them would wait for each other.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/base/check.h"
#include "core/program/program.h"
#include "core/program/title.h"

namespace tandem {

/// Which process runs each device, numbered through all pipelines.
using DeviceRanks = Table<DeviceId, std::int32_t>;

/// Messages of one communicator keep their order and wait for one another, so each lane of
/// transfers has one of its own, and each group of devices that sum together.
struct CommunicatorPlan {
  std::string name;               // "send activation 0→1", "sum 0 2", for errors
  std::vector<DeviceId> devices;  // by rank, numbered through all pipelines; of a transfer from, to
  bool sums = false;              // or sends, from the first to the second
  bool norms = false;             // sums squares for a norm, not gradients

  /// REQUIRES: a member.
  std::size_t rank_of(DeviceId device) const {
    const auto found = std::ranges::find(devices, device);
    TANDEM_CHECK(found != devices.end(), index(device));
    return static_cast<std::size_t>(found - devices.begin());
  }
};

class CommunicatorPlans {
 public:
  /// Of `width` pipelines of the program. Transfers within a device, and sums on one, need none.
  CommunicatorPlans(const Program& program, std::uint16_t width)
      : CommunicatorPlans(program, width, [](DeviceId device) { return index(device); }, false) {}
  /// Of what passes between processes, where devices of a process share its memory: between those
  /// whose `process_of` differs. Norms are among them.
  CommunicatorPlans(const Program& program, std::uint16_t width, const DeviceRanks& process_of)
      : CommunicatorPlans(
            program, width,
            [&](DeviceId device) { return static_cast<std::size_t>(process_of[device]); }, true) {}

  /// Those given, of no program.
  explicit CommunicatorPlans(std::vector<CommunicatorPlan> plans) : plans_(std::move(plans)) {}

  /// Of norms alone: of a run whose transfers and sums go another way.
  CommunicatorPlans norms() const {
    CommunicatorPlans kept{std::vector<CommunicatorPlan>{}};
    std::map<std::size_t, std::size_t> places;  // there, by those here
    for (std::size_t i = 0; i < plans_.size(); ++i) {
      if (!plans_[i].norms) continue;
      places.emplace(i, kept.plans_.size());
      kept.plans_.push_back(plans_[i]);
    }
    for (const auto& [instruction, place] : of_) {
      if (const auto found = places.find(place); found != places.end())
        kept.of_.emplace(instruction, found->second);
    }
    return kept;
  }

  /// In the order in which they are made: of each pipeline the transfers by lane, then the sums.
  const std::vector<CommunicatorPlan>& all() const { return plans_; }
  /// Which of them an instruction of a pipeline takes, if any.
  std::optional<std::size_t> of(std::uint16_t pipeline, InstructionId id) const {
    const auto found = of_.find({pipeline, id});
    return found == of_.end() ? std::nullopt : std::optional(found->second);
  }
  /// Those that a device makes, in order.
  std::vector<std::size_t> of_device(DeviceId device) const {
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < plans_.size(); ++i) {
      if (std::ranges::find(plans_[i].devices, device) != plans_[i].devices.end())
        places.push_back(i);
    }
    return places;
  }

 private:
  using Processes = std::function<std::size_t(DeviceId)>;
  CommunicatorPlans(const Program& program, std::uint16_t width, const Processes& process_of,
                    bool with_norms) {
    for (std::uint16_t pipeline = 0; pipeline < width; ++pipeline)
      add_transfers(program, pipeline, process_of);
    for (const InstructionId id : program.order()) {
      const OpKind kind = program[id].op.kind;
      if (sums_replicas(kind) || sums_tied(kind) || (with_norms && makes_norm(kind)))
        add_sum(program, id, width, process_of);
    }
  }

  /// Numbered through all pipelines.
  static DeviceId device_of(const Program& program, std::uint16_t pipeline, DeviceId device) {
    return id_at<DeviceId>(std::size_t{pipeline} * program.placement().devices + index(device));
  }

  void add_transfers(const Program& program, std::uint16_t pipeline, const Processes& process_of) {
    std::map<LaneId, std::vector<InstructionId>> of_lane;  // of the sender
    for (const InstructionId id : program.order()) {
      const Instruction& instruction = program[id];
      if (!is_transfer(instruction.op.kind) || moves_stash(instruction.op.kind)) continue;
      const auto lanes = program.lanes(instruction);
      if (lanes.size() == 2) of_lane[lanes.front()].push_back(id);
    }
    for (const auto& [lane, transfers] : of_lane) {
      const Lane& row = program.lanes()[lane];
      const DeviceId from = device_of(program, pipeline, row.device);
      const DeviceId to = device_of(program, pipeline, row.peer);
      if (process_of(from) == process_of(to)) continue;
      for (const InstructionId id : transfers) of_.emplace(std::pair{pipeline, id}, plans_.size());
      plans_.push_back({fmt::format("{} {}→{}", words(name(row.kind)), index(from), index(to)),
                        {from, to},
                        false});
    }
  }
  void add_sum(const Program& program, InstructionId id, std::uint16_t width,
               const Processes& process_of) {
    const auto meet = [&](const std::vector<DeviceId>& members) {
      return std::ranges::any_of(members, [&](DeviceId device) {
        return process_of(device) != process_of(members.front());
      });
    };
    const OpKind kind = program[id].op.kind;
    const bool shared = sums_replicas(kind);  // by all pipelines
    std::vector<DeviceId> members;
    for (std::uint16_t pipeline = 0; pipeline < width; ++pipeline) {
      if (!shared) members.clear();
      for (const LaneId lane : program.lanes(program[id]))
        members.push_back(device_of(program, pipeline, program.lanes()[lane].device));
      if (!shared && meet(members))
        of_.emplace(std::pair{pipeline, id}, sum_among(members, makes_norm(kind)));
    }
    if (!shared || !meet(members)) return;
    const std::size_t plan = sum_among(std::move(members), false);
    for (std::uint16_t pipeline = 0; pipeline < width; ++pipeline)
      of_.emplace(std::pair{pipeline, id}, plan);
  }
  /// Sums among the same devices keep one order already: each device has one lane for all of them.
  std::size_t sum_among(std::vector<DeviceId> devices, bool norms) {
    std::ranges::sort(devices);
    const auto [found, added] = sums_.emplace(std::pair{norms, devices}, plans_.size());
    if (!added) return found->second;
    std::string name = norms ? "norm" : "sum";
    for (const DeviceId device : devices) name += fmt::format(" {}", index(device));
    plans_.push_back({std::move(name), std::move(devices), true, norms});
    return found->second;
  }

  std::vector<CommunicatorPlan> plans_;
  std::map<std::pair<bool, std::vector<DeviceId>>, std::size_t> sums_;
  std::map<std::pair<std::uint16_t, InstructionId>, std::size_t> of_;
};

}  // namespace tandem
