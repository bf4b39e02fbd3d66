#pragma once
// Which devices pass messages over what: the communicators that a run needs, known from its program
// before anything is made. Communicators are made and connected one after another, by all of their
// members: in one order for all devices, or two of them would wait for each other.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/program/program.h"

namespace tandem {

/// Messages of one communicator keep their order and wait for one another, so each lane of
/// transfers has one of its own, and each group of devices that sum together.
struct CommunicatorPlan {
  std::string name;               // "send activation 0→1", "sum 0 2", for errors
  std::vector<DeviceId> devices;  // by rank, numbered through all pipelines; of a transfer from, to
  bool sums = false;              // or sends, from the first to the second

  std::size_t rank_of(DeviceId device) const;  // REQUIRES: a member
};

class CommunicatorPlans {
 public:
  /// Of `width` pipelines of the program. Transfers within a device, and sums on one, need none.
  CommunicatorPlans(const Program& program, std::uint16_t width);

  /// In the order in which they are made: of each pipeline the transfers by lane, then the sums.
  const std::vector<CommunicatorPlan>& all() const { return plans_; }
  /// Which of them an instruction of a pipeline takes, if any.
  std::optional<std::size_t> of(std::uint16_t pipeline, InstructionId id) const;
  /// Those that a device makes, in order.
  std::vector<std::size_t> of_device(DeviceId device) const;

 private:
  void add_transfers(const Program& program, std::uint16_t pipeline);
  void add_sums(const Program& program, std::uint16_t width);
  std::size_t sum_among(std::vector<DeviceId> devices);

  std::vector<CommunicatorPlan> plans_;
  std::map<std::vector<DeviceId>, std::size_t> sums_;
  std::map<std::pair<std::uint16_t, InstructionId>, std::size_t> of_;
};

}  // namespace tandem
