#pragma once
// Recordings made by hand: pipelines whose times have a closed form.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include "core/model/recording.h"
#include "core/program/program.h"
#include "core/program/timeline.h"

namespace tandem::testing {

constexpr Duration ms(std::int64_t count) { return std::chrono::milliseconds(count); }

inline void sort_by_end(RecordedPass& pass) {
  for (std::vector<RecordedOp>& ops : pass.devices) {
    std::stable_sort(ops.begin(), ops.end(),
                     [](const RecordedOp& a, const RecordedOp& b) { return a.end < b.end; });
  }
}

struct TwoStages {
  Duration forward[2] = {ms(10), ms(10)}, backward[2] = {ms(20), ms(20)};
  Duration transfer = ms(1);
};

/// The second stage twice as slow; and as it is in the mean where it is so in one of three.
constexpr TwoStages kSlowSecond{.forward = {ms(10), ms(20)}, .backward = {ms(20), ms(40)}};
constexpr TwoStages kAThirdSlow{.forward = {ms(10), ms(40) / 3}, .backward = {ms(20), ms(80) / 3}};

/// 1F1B of two microbatches on two devices with blocking transfers, as Megatron runs it: a send
/// holds its sender until the receiver is ready, and what both exchange goes as one.
inline RecordedPass two_stages(const TwoStages& costs, std::int64_t step = 0,
                               std::int64_t replica = 0, Duration begin = {}) {
  RecordedPass pass{.step = step, .replica = replica, .devices = {}};
  pass.devices.resize(2);
  const auto compute = [&](int device, OpKind kind, std::int64_t microbatch, Duration start) {
    const Duration cost = kind == OpKind::forward ? costs.forward[device] : costs.backward[device];
    pass.devices[id_at<DeviceId>(static_cast<std::size_t>(device))].push_back(
        {.kind = kind, .microbatch = microbatch, .start = start, .end = start + cost});
    return start + cost;
  };
  const auto send = [&](OpKind kind, Duration start) {
    const bool down = kind == OpKind::send_activation;
    for (const bool receives : {false, true}) {
      pass.devices[down == receives ? DeviceId{1} : DeviceId{0}].push_back(
          {.kind = kind, .receives = receives, .start = start, .end = start + costs.transfer});
    }
    return start + costs.transfer;
  };
  const Duration first = send(OpKind::send_activation, compute(0, OpKind::forward, 0, begin));
  const Duration second = compute(0, OpKind::forward, 1, first);
  const Duration back = compute(1, OpKind::backward, 0, compute(1, OpKind::forward, 0, first));
  const Duration ready = std::max(second, back);
  send(OpKind::send_activation, ready);
  const Duration sent = send(OpKind::send_gradient, ready);
  const Duration above = compute(0, OpKind::backward, 0, sent);
  const Duration below = compute(1, OpKind::backward, 1, compute(1, OpKind::forward, 1, sent));
  compute(0, OpKind::backward, 1, send(OpKind::send_gradient, std::max(above, below)));
  sort_by_end(pass);
  return pass;
}

/// The pipeline phase of the same.
inline Duration two_stages_phase(const TwoStages& costs) {
  const RecordedPass pass = two_stages(costs);
  Duration end{};
  for (const std::vector<RecordedOp>& ops : pass.devices) end = std::max(end, ops.back().end);
  return end;
}

inline Recording recording_of(std::vector<RecordedPass> passes, std::uint16_t chunks = 1) {
  Recording recording;
  recording.devices = static_cast<std::uint16_t>(passes.front().devices.size());
  recording.chunks = chunks;
  for (const RecordedPass& pass : passes) {
    recording.replicas.push_back(pass.replica);
    recording.whole_steps[pass.step] = ms(200);
  }
  std::sort(recording.replicas.begin(), recording.replicas.end());
  recording.replicas.erase(std::unique(recording.replicas.begin(), recording.replicas.end()),
                           recording.replicas.end());
  recording.passes = std::move(passes);
  return recording;
}

/// One batch of a program as its ranks would have recorded it; with the numbers of transfers, or
/// without. REQUIRES: its stages go round the devices, or down and back up.
inline RecordedPass pass_of(const Program& program, const Timeline& timeline,
                            bool numbered = false) {
  const Placement& placement = program.placement();
  RecordedPass pass;
  pass.devices.resize(placement.devices);
  const auto number = [&](RecordedOp& op, std::size_t stage, std::int64_t microbatch) {
    op.microbatch = microbatch;
    op.chunk = static_cast<std::uint16_t>(stage / placement.devices);
  };
  for (const Span& span : timeline.spans) {
    const Instruction& instruction = program[span.instruction];
    const OpKind kind = instruction.op.kind;
    if (kind == OpKind::update) continue;
    const CostKey& key = program.cost_keys()[instruction.cost];
    const std::size_t stage = index(instruction.op.replica);
    RecordedOp op{.kind = kind, .start = span.start, .end = span.end};
    if (numbered || !is_transfer(kind)) number(op, stage, instruction.op.microbatch);
    pass.devices[key.source].push_back(op);
    if (!is_transfer(kind)) continue;
    op.receives = true;
    const std::size_t receiver = kind == OpKind::send_activation ? stage + 1 : stage - 1;
    if (numbered) number(op, receiver, instruction.op.microbatch);
    pass.devices[key.target].push_back(op);
  }
  sort_by_end(pass);
  return pass;
}

}  // namespace tandem::testing
