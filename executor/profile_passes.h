#pragma once
// ModelPasses: one device's share of a profile's measurement.

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "core/model.h"
#include "executor/cpu/backend.h"
#include "executor/data.h"
#include "executor/optimizer.h"
#include "executor/stage.h"

namespace tandem {

enum class Measured : std::uint8_t {
  forward,
  backward,
  backward_input,
  backward_weight,
  selective_recompute,
  update
};
inline constexpr std::size_t kMeasured = 6;

struct Tally {
  Duration sum{};
  std::int64_t count = 0;
};
/// Times by layer kind and function, of all layers of that kind and all passes.
using Tallies = std::map<LayerKind, std::array<Tally, kMeasured>>;

/// Trains a model as a device does, in the memory that a stage of all layers has there, and times
/// its layers one by one.
class ModelPasses {
 public:
  ModelPasses(const ModelSpec& model, std::int32_t microbatch_size, OptimizerKind optimizer,
              const Data& data);

  /// Two microbatches are in flight, so that a backward reads what was written before another
  /// forward. One has a whole backward, the other all its input halves before its weight halves: a
  /// half right after the other, or after a whole backward, would find in the caches what it must
  /// fetch in training. `tallies` may be null: not timed.
  void pass(bool updates, Tallies* tallies);

 private:
  using Kernel = cpu::Kernels<float>;
  using Buffer = cpu::Buffer<float>;

  /// What a device holds of a microbatch.
  struct InFlight {
    explicit InFlight(const StageSizes& sizes);
    Buffer stash, kept_gradients;
  };

  std::vector<Tensor> tensors_of(std::size_t layer) const;
  BackwardSpans<float> spans_of(InFlight& microbatch, std::span<float> scratch);
  void forward(InFlight& microbatch);
  void backward();
  void backward_halves();
  void time_recompute(std::size_t layer);
  void update();
  template <class Work>
  void timed(Measured what, std::size_t layer, const Work& work);
  void add(Measured what, std::size_t layer, Duration time);

  OptimizerConfig optimizer_;
  Stage<Kernel> stage_, dropping_;            // dropping: the same with selective recomputation
  std::vector<LayerKind> kinds_;              // of the layers
  std::vector<std::vector<Tensor>> tensors_;  // of each layer, as of a stage of its own
  Buffer weights_, next_weights_, gradients_, state_, scratch_;
  InFlight whole_, split_;
  Sample<float> sample_;
  Kernel kernels_;
  Tallies* tallies_ = nullptr;
};

}  // namespace tandem
