#pragma once
// Draft: a program taken apart so that a test can write one by hand, or break a good one, and put
// it together again.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/program/program.h"

namespace tandem::testing {

struct Draft {
  struct Row {
    Op op;
    CostId cost{};
    std::vector<LaneId> lanes;
    std::vector<Wait> waits;
  };
  ProgramParts rest;  // without instructions and pools
  std::vector<Row> rows;

  Draft() = default;
  explicit Draft(const Program& program) : rest(program.parts()) {
    for (const Instruction& instruction : program.instructions()) {
      const auto lanes = program.lanes(instruction);
      const auto waits = program.waits(instruction);
      rows.push_back({instruction.op,
                      instruction.cost,
                      {lanes.begin(), lanes.end()},
                      {waits.begin(), waits.end()}});
    }
  }

  Program build() const {
    ProgramParts parts = rest;
    parts.instructions.clear();
    parts.lane_pool.clear();
    parts.wait_pool.clear();
    for (const Row& row : rows) {
      parts.instructions.push_back(
          {.op = row.op,
           .cost = row.cost,
           .first_lane = static_cast<std::uint32_t>(parts.lane_pool.size()),
           .first_wait = static_cast<std::uint32_t>(parts.wait_pool.size()),
           .lane_count = static_cast<std::uint16_t>(row.lanes.size()),
           .wait_count = static_cast<std::uint16_t>(row.waits.size())});
      parts.lane_pool.insert(parts.lane_pool.end(), row.lanes.begin(), row.lanes.end());
      parts.wait_pool.insert(parts.wait_pool.end(), row.waits.begin(), row.waits.end());
    }
    return Program(std::move(parts));
  }

  /// Without row `i` and the waits for it.
  void drop(std::size_t i) {
    rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(i));
    for (Row& row : rows) {
      std::erase_if(row.waits, [&](const Wait& wait) { return index(wait.producer) == i; });
    }
    rename([&](std::size_t old) { return old > i ? old - 1 : old; });
  }

  /// Row `i` once more, right behind itself.
  void repeat(std::size_t i) {
    rows.insert(rows.begin() + static_cast<std::ptrdiff_t>(i), rows[i]);
    rename([&](std::size_t old) { return old >= i ? old + 1 : old; });
    // The first of the two is what the second was; waits of both are the same.
  }

  /// Rows `i` and `j` change places.
  void swap(std::size_t i, std::size_t j) {
    std::swap(rows[i], rows[j]);
    rename([&](std::size_t old) { return old == i ? j : old == j ? i : old; });
  }

  /// Row `from` moves to the place `to` ≤ `from`.
  void move_up(std::size_t from, std::size_t to) {
    const auto at = [&](std::size_t i) { return rows.begin() + static_cast<std::ptrdiff_t>(i); };
    std::rotate(at(to), at(from), at(from + 1));
    rename([&](std::size_t old) {
      return old == from ? to : old >= to && old < from ? old + 1 : old;
    });
  }

  template <class NewIndex>
  void rename(NewIndex new_index) {
    for (Row& row : rows) {
      for (Wait& wait : row.waits) {
        wait.producer = id_at<InstructionId>(new_index(index(wait.producer)));
      }
    }
  }

  // ---- By hand ----

  LaneId lane(DeviceId device, LaneKind kind, DeviceId peer) {
    const Lane wanted{device, kind, peer};
    for (const LaneId id : ids(rest.lanes)) {
      if (rest.lanes[id] == wanted) return id;
    }
    return rest.lanes.push_back(wanted);
  }
  LaneId lane(DeviceId device, LaneKind kind) { return lane(device, kind, device); }

  CostId cost(const CostKey& wanted) {
    for (const CostId id : ids(rest.cost_keys)) {
      if (rest.cost_keys[id] == wanted) return id;
    }
    return rest.cost_keys.push_back(wanted);
  }

  /// An op on the compute lane of its stage's device.
  InstructionId add(const Op& op, std::vector<Wait> waits = {}) {
    const DeviceId device = rest.placement.device[op.replica];
    const CostKey key{.kind = op.kind, .replica = op.replica, .source = device, .target = device};
    rows.push_back({op, cost(key), {lane(device, LaneKind::compute)}, std::move(waits)});
    return id_at<InstructionId>(rows.size() - 1);
  }

  /// A transfer from its stage to a device, on the lanes of both.
  InstructionId add_transfer(const Op& op, DeviceId to, std::vector<Wait> waits) {
    const DeviceId from = rest.placement.device[op.replica];
    const bool forwards = op.kind == OpKind::send_activation;
    const CostKey key{.kind = op.kind, .replica = op.replica, .source = from, .target = to};
    const LaneId send =
        lane(from, forwards ? LaneKind::send_activation : LaneKind::send_gradient, to);
    const LaneId receive =
        lane(to, forwards ? LaneKind::receive_activation : LaneKind::receive_gradient, from);
    rows.push_back({op, cost(key), {send, receive}, std::move(waits)});
    return id_at<InstructionId>(rows.size() - 1);
  }
};

}  // namespace tandem::testing
