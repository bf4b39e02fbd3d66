#pragma once
// Steady state: from some batch on every completion advances by the same λ each c batches. Found by
// comparing whole states, so that max-plus linearity, f(x + λ) = f(x) + λ, makes every later cycle
// repeat exactly.

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "simulator/compiled/compiled_run.h"

namespace tandem {

struct SteadyState {
  Duration cycle{};                // λ
  std::int64_t cycle_batches = 1;  // c; the period, λ/c a batch, is a rational and exact
  std::int64_t from_batch = 0;     // first batch of the steady state
  DeviceTallies per_cycle;
};

/// Watches a run body by body. Of each body it keeps a hash, and of the first ones the state. A
/// hash seen before is a suspicion: of a state that was kept it is settled at once, else the state
/// is held until the next cycle ends in it again. So memory stays small, and no cycle is ever
/// accepted for its hash alone.
class CycleFinder {
 public:
  /// Bodies it looks at before it gives up. Near-equal stages drift apart by nanoseconds a batch
  /// from milliseconds of slack: their transient may last millions of batches. Known, and not done:
  /// skipping along the drift, which is linear in the batches until the next maximum switches.
  static constexpr std::size_t kMostBodies = 1u << 20;

  /// `state`: what the future depends on, once `body` is done. REQUIRES: called after each body
  /// from 0 on, as long as no instance of it was switched off.
  std::optional<SteadyState> after(std::int64_t body, std::span<const std::int64_t> state,
                                   const DeviceTallies& tallies);
  bool gave_up() const { return first_.size() >= kMostBodies; }

 private:
  static constexpr std::size_t kMostKept = 1u << 22;  // numbers, in all states kept: 32 MiB
  struct Seen {
    std::int64_t body = 0;
    std::vector<std::int64_t> state;  // empty: not kept
    DeviceTallies tallies;
  };
  static SteadyState cycle(std::int64_t from_batch, const Seen& earlier, const Seen& later);

  std::unordered_map<std::uint64_t, Seen> first_;  // by the hash of its shape
  std::size_t kept_ = 0;
  std::int64_t suspected_from_ = 0;  // the body in which suspect_ was seen first
  std::optional<Seen> suspect_;
};

/// Instances that a search for the steady state runs before it gives up: seconds.
inline constexpr std::int64_t kMostInstances = 1'000'000'000;

/// The steady state of an endless run; empty when none shows within `most_instances` and
/// CycleFinder::kMostBodies (lanes that advance at different rates forever, or a longer transient),
/// or before the clock ends. Without tallies. `compiled` is made of `program`.
std::optional<SteadyState> find_steady_state(const Program& program,
                                             const CompiledProgram& compiled,
                                             const CostTable& costs,
                                             std::int64_t most_instances = kMostInstances);

}  // namespace tandem
