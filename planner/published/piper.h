#pragma once
// Piper's planner (Tarnawski, Narayanan, Phanishayee, NeurIPS 2021): stages of a chain of layers,
// each with its own data-parallel width, tensor degree and recomputation.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace tandem {

/// One of a chain at one tensor degree, on one of the devices that share it.
struct PiperLayer {
  /// Of a microbatch, as it is or made again.
  struct Mode {
    double seconds = 0.0;     // forward and backward, sums within the group included
    double held_bytes = 0.0;  // for each microbatch in flight
    double once_bytes = 0.0;  // of a running one; layers of a stage share the largest
  };
  std::array<Mode, 2> modes = {};  // as it is; made again
  double parameter_bytes = 0.0;    // that replicas sum
  double state_bytes = 0.0;        // whatever is in flight
};

struct PiperDegree {
  std::int32_t tensor = 1;
  std::vector<PiperLayer> layers;
};

struct PiperQuestion {
  std::vector<PiperDegree> degrees;    // each of all layers
  std::vector<double> boundary_bytes;  // that come to each layer; to the first none
  std::int32_t devices = 1;            // at most
  std::int64_t microbatches = 1;       // of a batch, in all pipelines
  double bytes_per_s = 1e9;            // of a device: Piper knows one rate
  double memory_bytes = 0.0;           // of a device
};

struct PiperStage {
  std::size_t first = 0, last = 0;  // layers: from first to before last
  std::int32_t width = 1, tensor = 1;
  bool recomputed = false;
  friend bool operator==(const PiperStage&, const PiperStage&) = default;
};

struct PiperPlan {
  double load_s = 0.0;  // of the busiest device for each microbatch of the batch
  std::vector<PiperStage> stages;
};

/// The load of a stage with `behind` devices' widths summed over all stages after it; empty: it
/// does not fit. Of d replicas it takes compute / d + (2 · (bytes in + bytes out) + 4 (d − 1) ·
/// parameters / microbatches) / (d · rate), and holds what ceil((d + behind) / d) microbatches in
/// flight need, as the authors' released code counts both.
std::optional<double> piper_load(const PiperQuestion& question, const PiperStage& stage,
                                 std::int64_t behind);

/// The plan whose busiest stage is least busy: dynamic programming over the layers that are left,
/// the devices for them, and the sum of their stages' widths, which says what is in flight. A stage
/// is made again whole or not at all; Piper chooses that layer by layer, by a heuristic. Widths are
/// at most the microbatches. Exact for a chain. Empty: no plan fits. Throws InputError where that
/// are more than 2^20 states. REQUIRES: layers, of all degrees as many.
std::optional<PiperPlan> plan_piper(const PiperQuestion& question);

}  // namespace tandem
