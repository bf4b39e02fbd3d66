#pragma once
// Orders of a V pipeline on a grid of equal slots: what the schedulers of Pipeline Parallelism with
// Controllable Memory (arXiv 2405.15362) work on.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/schedule/schedule.h"

namespace tandem {

/// A microbatch walks a V pipeline in four legs, each of which passes all devices: forwards down
/// (device 0 → p−1) and up again, backwards down and up. What a slot of a device holds is its part
/// of a leg, a weight gradient, or nothing.
enum class VOp : std::uint8_t {
  forward_down,   // first chunk
  forward_up,     // second chunk
  backward_down,  // second chunk: the gradient of its input
  backward_up,    // first chunk
  weight_down,    // second chunk: what backward_down leaves for later
  weight_up,      // first chunk
  idle,
};
inline constexpr std::size_t kVLegs = 4, kVOps = 6;

constexpr bool is_leg(VOp op) { return index(op) < kVLegs; }
constexpr bool is_down(VOp op) { return index(op) % 2 == 0; }
constexpr bool is_forward(VOp op) { return index(op) < 2; }
constexpr bool is_backward(VOp op) { return is_leg(op) && !is_forward(op); }
constexpr bool is_weight(VOp op) { return op == VOp::weight_down || op == VOp::weight_up; }
/// The weight gradient that a backward leaves. REQUIRES: a backward.
constexpr VOp weight_of(VOp backward) { return static_cast<VOp>(index(backward) + 2); }

/// The slots of a device; the k-th op of a kind is microbatch k's.
using VRow = std::vector<VOp>;
using VGrid = std::vector<VRow>;

/// Where a leg comes from: the device before on the leg, or where the leg before it ended.
struct VSource {
  std::size_t device = 0;
  VOp op = VOp::idle;  // idle: the input of the model
};
VSource source_of(std::size_t device, VOp leg, std::size_t devices);

/// Puts the weight gradients that a row lacks, the oldest of the second chunk first, into the idle
/// slots behind those that it has, and what is left behind the last.
void fill_with_weights(VRow& row);
void remove_weights(VRow& row);

/// Every op as early as its device's order and its leg allow, in slots.
/// REQUIRES: an op stands in a later slot than its source.
VGrid squeezed(const VGrid& grid, std::int32_t microbatches);

/// The most activations that a device holds at a time, in chunks, each from its forward to its
/// weight gradient.
std::int32_t peak_of(const VRow& row);
/// That of the fullest device.
std::int32_t highest_peak(const VGrid& grid);

/// Calls `visit` with the device and the slot of each op, slot by slot.
template <class Visit>
void each_op(const VGrid& grid, Visit visit) {
  std::size_t longest = 0;
  for (const VRow& row : grid) longest = std::max(longest, row.size());
  for (std::size_t slot = 0; slot < longest; ++slot) {
    for (std::size_t device = 0; device < grid.size(); ++device) {
      if (slot < grid[device].size() && grid[device][slot] != VOp::idle) visit(device, slot);
    }
  }
}

/// The grid's order. With `split`: backwards and weight gradients by ops of their own; else the
/// weight gradient is part of the backward.
Schedule schedule_of_grid(const ScheduleRequest& request, const VGrid& grid, bool split = true);

}  // namespace tandem
