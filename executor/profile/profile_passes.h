#pragma once
// ModelPasses: one device's share of a profile's measurement, whatever the device is.

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/model/model.h"
#include "core/schedule/schedule.h"
#include "executor/backend/backend.h"
#include "executor/data/data.h"
#include "executor/stage/gradient_guard.h"
#include "executor/stage/norm_collective.h"
#include "executor/stage/optimizer.h"
#include "executor/stage/stage.h"

namespace tandem {

enum class Measured : std::uint8_t {
  forward,
  backward,
  backward_input,
  backward_weight,
  selective_recompute,
  recompute,
  update
};
inline constexpr std::size_t kMeasured = 7;

struct Tally {
  Duration sum{};
  std::int64_t count = 0;
};
/// Layers of a kind, as they work on one of the slices, or on whole sequences.
struct MeasuredLayers {
  std::size_t slice = 0;
  LayerKind kind{};
  friend auto operator<=>(const MeasuredLayers&, const MeasuredLayers&) = default;
};
/// Times by layers and function, of all those layers and all passes.
using Tallies = std::map<MeasuredLayers, std::array<Tally, kMeasured>>;

/// Trains a model as a device does, in the memory that a stage of all layers has there, and times
/// its layers one by one, slice by slice where sequences are cut. REQUIRES: the backend is used for
/// nothing else.
template <Backend B>
class ModelPasses {
 public:
  using T = typename B::Scalar;
  using W = typename B::Kernels::Wide;

  /// `lengths`: tokens of each slice; of none sequences are whole.
  ModelPasses(B& backend, const ModelSpec& model, std::int32_t microbatch_size, Optimizer optimizer,
              const Data& data, std::span<const std::int32_t> lengths = {})
      : backend_(backend),
        stream_(backend.add_stream(StreamUse::computation)),
        optimizer_{.kind = optimizer.kind, .correction = optimizer.correction},
        shapes_(shapes_of(model, microbatch_size, lengths)),
        stage_(shapes_.front().plain),
        kinds_(layers_of(model)),
        weights_(backend.template allocate<T>(stage_.sizes().parameters)),
        next_weights_(backend.template allocate<T>(stage_.sizes().parameters)),
        gradients_(backend.template allocate<W>(stage_.sizes().parameters)),
        state_(backend.template allocate<W>(
            StateLayout(optimizer_.optimizer(), stage_.parameters()).size())),
        master_(backend.template allocate<W>(kHasMaster ? stage_.sizes().parameters : 0)),
        scratch_(backend.template allocate<T>(largest_scratch())),
        context_gradient_(backend.template allocate<W>(stage_.sizes().context_gradient)),
        whole_(backend, shapes_),
        split_(backend, shapes_),
        loss_(backend.template results<double>(1)),
        norm_(backend, stage_.parameters().size()) {
    backend.commit();
    for (InFlight* microbatch : {&whole_, &split_}) microbatch->lay_out(shapes_);
    for (std::size_t layer = 0; layer < stage_.layers(); ++layer)
      tensors_.push_back(tensors_of(layer));
    std::vector<W> initial(static_cast<std::size_t>(stage_.sizes().parameters));
    stage_.initialise(initial, 1);
    backend.write(weights_.elements(), [&initial](std::span<T> values) {
      std::ranges::transform(initial, values.begin(), Kernel::rounded);
    });
    if constexpr (kHasMaster) {
      backend.write(master_.elements(), [&initial](std::span<W> values) {
        std::ranges::copy(initial, values.begin());
      });
    }
    samples_.resize(shapes_.size());
    for (std::size_t slice = 0; slice < shapes_.size(); ++slice)
      data.fill(0, shapes_[slice].plain.slice(), samples_[slice]);
  }

  /// Two microbatches are in flight, so that a backward reads what was written before another
  /// forward. One has a whole backward, the other all its input halves before its weight halves: a
  /// half right after the other, or after a whole backward, would find in the caches what it must
  /// fetch in training. `tallies` may be null: not timed. Returns when all has run.
  void pass(bool updates, Tallies* tallies) {
    laps_.clear();
    backend_.enqueue(stream_, [this, updates] {
      kernels_.emplace(backend_.kernels(stream_));
      start_ = backend_.mark(stream_);
      forward(whole_);
      forward(split_);
      for (slice_ = shapes_.size(); slice_-- > 0;) {
        const Stage<Kernel>& stage = shapes_[slice_].plain;
        stage.backward(*kernels_, spans_of(whole_, scratch_of(stage.sizes().scratch)),
                       laps_of(Measured::backward));
      }
      backward_halves();
      slice_ = 0;
      if (updates) update();
    });
    backend_.progress(0);
    if (tallies != nullptr) add_laps(*tallies);
  }

 private:
  using Kernel = typename B::Kernels;
  using Buffer = typename B::template Buffer<T>;
  using WideBuffer = typename B::template Buffer<W>;
  static constexpr bool kHasMaster = !std::same_as<T, W>;  // stage_state.h

  /// How all layers work on a slice: without recomputation, with selective, and by block.
  struct Shapes {
    Stage<Kernel> plain, dropping, blockwise;
  };
  static std::vector<Shapes> shapes_of(const ModelSpec& model, std::int32_t microbatch_size,
                                       std::span<const std::int32_t> lengths) {
    std::vector<Shapes> shapes;
    for (const Slice& slice : slices_of(model.sequence, lengths)) {
      const auto stage = [&](double loss_scale, Recompute recompute) {
        return Stage<Kernel>(model, all_layers(model), microbatch_size, loss_scale, recompute,
                             slice);
      };
      shapes.push_back({stage(mean_loss_scale(model, microbatch_size, 1), Recompute::none),
                        stage(1.0, Recompute::selective), stage(1.0, Recompute::full)});
    }
    return shapes;
  }
  std::int64_t largest_scratch() const {
    std::int64_t largest = update_scratch<T, W>(optimizer_.kind, stage_.parameters());
    for (const Shapes& of : shapes_) {
      largest = std::max({largest, of.plain.sizes().scratch, of.dropping.sizes().scratch,
                          of.blockwise.sizes().scratch});
    }
    return largest;
  }

  /// What a device holds of a microbatch.
  struct InFlight {
    using Pieces = std::vector<std::span<T>>;
    struct OfSlice {
      Buffer stash, kept_gradients;
      Pieces pieces = {}, blockwise_pieces = {};  // of the stash, as those stages lay it out
    };

    InFlight(B& backend, const std::vector<Shapes>& shapes) {
      for (const Shapes& of : shapes) {
        slices.push_back(
            {.stash = backend.template allocate<T>(of.plain.sizes().stash),
             .kept_gradients = backend.template allocate<T>(of.plain.sizes().kept_gradients)});
      }
    }
    /// Once the memory is there.
    void lay_out(const std::vector<Shapes>& shapes) {
      const auto cut = [](std::span<T> stash, const StageSizes& sizes) {
        Pieces pieces;
        Carver<T> carver(stash);
        for (const std::int64_t size : sizes.stash_pieces) pieces.push_back(carver.take(size));
        return pieces;
      };
      for (std::size_t i = 0; i < slices.size(); ++i) {
        const std::span<T> stash = slices[i].stash.elements();
        slices[i].pieces = cut(stash, shapes[i].plain.sizes());
        slices[i].blockwise_pieces = cut(stash, shapes[i].blockwise.sizes());
        earlier.emplace_back(slices[i].pieces);
        earlier_blockwise.emplace_back(slices[i].blockwise_pieces);
      }
    }

    std::vector<OfSlice> slices;
    std::vector<std::span<const std::span<T>>> earlier, earlier_blockwise;  // those before a slice
  };

  /// Work ends here on the stream; it began where the one before ended. On a GPU times are known
  /// only later.
  struct Lap {
    Measured what;
    std::size_t slice, layer;
    bool whole;  // else a further one is part of the same
    typename B::Mark end;
  };

  std::vector<Tensor> tensors_of(std::size_t layer) const {
    const ElementRange range = stage_.weights_of(layer);
    std::vector<Tensor> tensors;
    for (const Tensor& tensor : stage_.parameters()) {
      if (tensor.offset < range.first || tensor.offset >= range.last) continue;
      tensors.push_back(tensor);
      tensors.back().offset -= range.first;
    }
    return tensors;
  }

  std::span<T> scratch_of(std::int64_t size) { return part(scratch_.elements(), 0, size); }

  BackwardSpans<T, W> spans_of(InFlight& microbatch, std::span<T> scratch) {
    return {.weights = weights_.elements(),
            .stash = microbatch.slices[slice_].stash.elements(),
            .scratch = scratch,
            .gradients = gradients_.elements(),
            .earlier_pieces = std::span(microbatch.earlier).first(slice_),
            .context_gradient = context_gradient_.elements()};
  }

  void forward(InFlight& microbatch) {
    for (slice_ = 0; slice_ < shapes_.size(); ++slice_) {
      shapes_[slice_].plain.forward(*kernels_,
                                    {.weights = weights_.elements(),
                                     .sample = readable_sample(backend_, stream_, samples_[slice_]),
                                     .stash = microbatch.slices[slice_].stash.elements(),
                                     .loss = loss_.get(),
                                     .earlier_pieces = std::span(microbatch.earlier).first(slice_)},
                                    laps_of(Measured::forward));
    }
  }

  void backward_halves() {
    for (slice_ = shapes_.size(); slice_-- > 0;) {
      const Stage<Kernel>& stage = shapes_[slice_].plain;
      BackwardSpans<T, W> spans = split_spans();
      spans.inner_gradient = scratch_of(stage.sizes().inner_gradient);
      stage.backward_input(*kernels_, spans, laps_of(Measured::backward_input));
    }
    for (slice_ = shapes_.size(); slice_-- > 0;) {
      const Stage<Kernel>& dropping = shapes_[slice_].dropping;
      const auto after = [&](std::size_t layer) {
        lap(Measured::backward_weight, layer);
        // Just after the stash of the layer was read: in training the backward that follows finds
        // in the caches what this fetched, so only one of them is to be charged for it.
        dropping.recompute_dropped(*kernels_, spans_for(dropping), layer);
        lap(Measured::selective_recompute, layer);
      };
      shapes_[slice_].plain.backward_weight(*kernels_, split_spans(), after);
    }
    for (slice_ = shapes_.size(); slice_-- > 0;) {
      const Stage<Kernel>& blockwise = shapes_[slice_].blockwise;
      BackwardSpans<T, W> spans = spans_for(blockwise);
      spans.earlier_pieces = std::span(split_.earlier_blockwise).first(slice_);
      for (std::size_t block = blockwise.blocks(); block-- > 0;)
        blockwise.recompute_block(*kernels_, spans, block, laps_of(Measured::recompute));
    }
  }
  BackwardSpans<T, W> split_spans() {
    return spans_of(split_, split_.slices[slice_].kept_gradients.elements());
  }

  /// What is read of the stash lies elsewhere than forward put it, but is as many numbers of a like
  /// size.
  BackwardSpans<T, W> spans_for(const Stage<Kernel>& stage) {
    BackwardSpans<T, W> spans = spans_of(split_, scratch_of(stage.sizes().scratch));
    spans.stash = part(spans.stash, 0, stage.sizes().stash);
    return spans;
  }

  /// All that a stage does for one: norm, optimizer, and the zeros that the next sum begins with.
  /// Each goes through the whole stage before the next one begins.
  void update() {
    std::size_t first_tensor = 0;
    for (std::size_t layer = 0; layer < stage_.layers(); ++layer) {
      const std::vector<Tensor>& tensors = tensors_[layer];
      sum_squares(*kernels_, std::span<const Tensor>(tensors), false, 1.0,
                  std::span<const W>(part(gradients_, stage_.weights_of(layer))),
                  norm_.squares_of(first_tensor, tensors.size()));
      first_tensor += tensors.size();
      lap(Measured::update, layer, false);
    }
    norm_.decide(*kernels_, decide_numbers({}, optimizer_), nullptr);
    const OptimizerStep step{.decision = norm_.decision.get()};
    std::int64_t state = 0;
    // Into another version, as those schedules do that update often: in place is a little quicker.
    for (std::size_t layer = 0; layer < stage_.layers(); ++layer) {
      const std::span<const Tensor> tensors = tensors_[layer];
      const std::int64_t states = StateLayout(optimizer_.optimizer(), tensors).size();
      tandem::update(*kernels_, optimizer_, step, tensors,
                     update_spans(stage_.weights_of(layer), part(state_, {state, state + states})));
      state += states;
      lap(Measured::update, layer, false);
    }
    for (std::size_t layer = 0; layer < stage_.layers(); ++layer) {
      kernels_->fill(part(gradients_, stage_.weights_of(layer)), 0.0);
      lap(Measured::update, layer);
    }
    std::swap(weights_, next_weights_);
  }

  UpdateSpans<T, W> update_spans(const ElementRange& range, std::span<W> state) {
    UpdateSpans<T, W> spans{
        .gradients = part(gradients_, range), .state = state, .scratch = scratch_.elements()};
    if constexpr (kHasMaster) {
      spans.weights = spans.weights_out = part(master_, range);
      spans.rounded = part(next_weights_, range);
    } else {
      spans.weights = part(weights_, range);
      spans.weights_out = part(next_weights_, range);
    }
    return spans;
  }

  void lap(Measured what, std::size_t layer, bool whole = true) {
    laps_.push_back({what, slice_, layer, whole, backend_.mark(stream_)});
  }
  auto laps_of(Measured what) {
    return [this, what](std::size_t layer) { lap(what, layer); };
  }

  void add_laps(Tallies& tallies) {
    auto start = start_->time();
    for (const Lap& each : laps_) {
      const auto end = each.end.time();
      Tally& tally = tallies[{each.slice, kinds_[each.layer]}][index(each.what)];
      tally.sum += end - start;
      tally.count += each.whole;
      start = end;
    }
  }

  template <class U>
  static std::span<U> part(std::span<U> whole, std::int64_t first, std::int64_t size) {
    return whole.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(size));
  }
  template <class AnyBuffer>
  static auto part(AnyBuffer& buffer, const ElementRange& range) {
    return part(buffer.elements(), range.first, range.size());
  }
  static LayerRange all_layers(const ModelSpec& model) {
    return {0, static_cast<std::int32_t>(layers_of(model).size())};
  }

  B& backend_;
  typename B::Stream& stream_;
  OptimizerConfig optimizer_;
  const std::vector<Shapes> shapes_;          // of each slice
  const Stage<Kernel>& stage_;                // of any: all have the same parameters
  std::size_t slice_ = 0;                     // at hand
  std::vector<LayerKind> kinds_;              // of the layers
  std::vector<std::vector<Tensor>> tensors_;  // of each layer, as of a stage of its own
  Buffer weights_, next_weights_;
  WideBuffer gradients_, state_, master_;
  Buffer scratch_;
  WideBuffer context_gradient_;
  InFlight whole_, split_;
  std::shared_ptr<double[]> loss_;
  UpdateNorm norm_;
  std::vector<Sample<W>> samples_;  // of each slice
  std::optional<Kernel> kernels_;   // of the task at hand
  std::optional<typename B::Mark> start_;
  std::vector<Lap> laps_;
};

}  // namespace tandem
