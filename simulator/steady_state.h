#pragma once
// Steady state: from some batch on every completion advances by the same λ each c batches. Found by
// comparing whole states, so that max-plus linearity, f(x + λ) = f(x) + λ, makes every later cycle
// repeat exactly.

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "simulator/simulated_machine.h"

namespace tandem {

struct SteadyState {
  Duration cycle{};                // λ
  std::int64_t cycle_batches = 1;  // c; the period, λ/c a batch, is a rational and exact
  std::int64_t from_batch = 0;     // first batch of the steady state
  Table<DeviceId, DeviceTally> per_cycle;
};

/// Watches a machine body by body. Of each body it keeps a hash; a state seen before by its hash is
/// held whole until the next cycle ends in it again, so that memory stays small and no cycle is
/// ever accepted for its hash alone.
class CycleFinder {
 public:
  /// Bodies it looks at before it gives up. Near-equal stages drift apart by nanoseconds a batch
  /// from milliseconds of slack: their transient may last a million batches.
  static constexpr std::size_t kMostBodies = 1u << 16;

  /// REQUIRES: called after each body from 0 on, as long as no instance of it was switched off.
  std::optional<SteadyState> after(std::int64_t body, const SimulatedMachine& machine);
  bool gave_up() const { return first_body_.size() >= kMostBodies; }

 private:
  struct Seen {
    std::int64_t first_body = 0, body = 0;
    std::vector<Duration> shape;  // times relative to the first one
    Duration base{};
    Table<DeviceId, DeviceTally> tallies;
  };
  std::unordered_map<std::uint64_t, std::int64_t> first_body_;  // by the hash of its shape
  std::optional<Seen> candidate_;
};

/// The steady state of an endless run; empty when none shows within `most_instances` and
/// CycleFinder::kMostBodies (lanes that advance at different rates forever, or a longer transient),
/// or before the clock ends.
std::optional<SteadyState> find_steady_state(const Program& program, const CostTable& costs,
                                             std::int64_t most_instances = 100'000'000);

}  // namespace tandem
