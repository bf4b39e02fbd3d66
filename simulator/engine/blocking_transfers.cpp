#include "simulator/engine/blocking_transfers.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

namespace tandem {

namespace {

/// The program's order, but what may stand later does: a transfer until its sender computes on or
/// its receiver needs it, a recomputation until its backward. So a device receives what it is about
/// to use, also where a body begins and the program's own order knows nothing of the one before.
class LateOrder {
 public:
  explicit LateOrder(const Program& program)
      : program_(program),
        held_(program.size()),
        sent_(program.placement().devices),
        again_(program.placement().devices) {}

  std::vector<InstructionId> order() {
    for (const InstructionId id : program_.order()) take(id);
    for (const DeviceId device : ids(sent_)) compute_on(device);
    return std::move(order_);
  }

 private:
  void take(InstructionId id) {
    const Op& op = program_[id].op;
    const DeviceId device = program_.placement().device[op.replica];
    if (is_transfer(op.kind) && !moves_stash(op.kind)) {
      held_[index(id)] = true;
      sent_[device].push_back(id);
      return;
    }
    for (const Wait& wait : program_.waits(program_[id])) {
      if (wait.lag == 0) release_up_to(wait.producer);
    }
    if (traits(op.kind).repeats && op.group == 0) {
      again_[device].push_back(id);
      return;
    }
    if (is_compute(op.kind)) compute_on(device);
    order_.push_back(id);
  }

  void compute_on(DeviceId device) {
    for (const InstructionId id : std::exchange(sent_[device], {})) release(id);
    for (const InstructionId id : std::exchange(again_[device], {})) order_.push_back(id);
  }

  /// Those before it on its lane too, which a wait for it stands for.
  void release_up_to(InstructionId transfer) {
    if (!held_[index(transfer)]) return;
    const auto lanes = program_.lanes(program_[transfer]);
    const DeviceId device = program_.placement().device[program_[transfer].op.replica];
    for (const InstructionId before : sent_[device]) {
      if (before == transfer) break;
      if (std::ranges::equal(program_.lanes(program_[before]), lanes)) release(before);
    }
    release(transfer);
  }

  void release(InstructionId transfer) {
    if (held_[index(transfer)]) order_.push_back(transfer);
    held_[index(transfer)] = false;
  }

  const Program& program_;
  std::vector<bool> held_;
  Table<DeviceId, std::vector<InstructionId>> sent_, again_;  // held, by the device that computes
  std::vector<InstructionId> order_;
};

class Blocking {
 public:
  explicit Blocking(const Program& program)
      : program_(program),
        order_(LateOrder(program).order()),
        place_(program.size()),
        devices_(program.placement().devices),
        parts_(program.parts()) {
    for (std::size_t i = 0; i < order_.size(); ++i) place_[order_[i]] = id_at<InstructionId>(i);
    parts_.instructions.clear();
    parts_.wait_pool.clear();
  }

  Program blocked() {
    // A first turn finds what the body before leaves to this one.
    for (const InstructionId id : order_) find_waits(id);
    for (Doing& device : devices_) {
      for (std::vector<Wait>& computed : device.computed) later(computed);
      for (std::vector<Wait>& moved : device.moved) later(moved);
    }
    for (const InstructionId id : order_) add(id, find_waits(id));
    return Program(std::move(parts_));
  }

 private:
  /// What a device did last, by kind of op: where a run begins and ends the instances of some kinds
  /// are switched off, and nothing waits through them.
  struct Doing {
    std::array<std::vector<Wait>, kOpKinds> computed;  // the last op, if there was one
    std::array<std::vector<Wait>, kOpKinds> moved;     // transfers since it
    std::uint8_t unit = 0;
  };

  static void later(std::vector<Wait>& waits) {
    for (Wait& wait : waits) ++wait.lag;
  }

  /// What it waits for besides. In the program's order.
  std::vector<Wait> find_waits(InstructionId id) {
    const Op& op = program_[id].op;
    const CostKey& key = program_.cost_keys()[program_[id].cost];
    const Wait self{place_[id], 0};
    std::vector<Wait> waits;
    if (is_transfer(op.kind)) {
      for (const DeviceId end : {key.source, key.target}) {
        Doing& device = devices_[end];
        for (const std::vector<Wait>& computed : device.computed)
          waits.insert(waits.end(), computed.begin(), computed.end());
        for (std::vector<Wait>& moved : device.moved) moved.push_back(self);
      }
    } else if (is_compute(op.kind)) {
      Doing& device = devices_[key.source];
      device.computed[index(op.kind)] = {self};
      const std::uint8_t unit = std::exchange(device.unit, op.group);
      if (op.group != 0 && op.group == unit) return {};
      waits = std::exchange(device.moved[index(op.kind)], {});
      if (key.overlapped) device.moved = {};  // its other kinds wait with this one
    }
    return waits;
  }

  void add(InstructionId id, std::vector<Wait> waits) {
    Instruction instruction = program_[id];
    for (const Wait& wait : program_.waits(instruction))
      waits.push_back({place_[wait.producer], wait.lag});
    std::ranges::sort(waits);
    const auto twice = std::ranges::unique(waits);
    waits.erase(twice.begin(), twice.end());
    instruction.first_wait = static_cast<std::uint32_t>(parts_.wait_pool.size());
    instruction.wait_count = static_cast<std::uint16_t>(waits.size());
    parts_.wait_pool.insert(parts_.wait_pool.end(), waits.begin(), waits.end());
    parts_.instructions.push_back(instruction);
  }

  const Program& program_;
  const std::vector<InstructionId> order_;
  Table<InstructionId, InstructionId> place_;
  Table<DeviceId, Doing> devices_;
  ProgramParts parts_;
};

}  // namespace

Program with_blocking_transfers(const Program& program) { return Blocking(program).blocked(); }

}  // namespace tandem
