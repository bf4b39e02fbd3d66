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
/// Times by layer kind and function, of all layers of that kind and all passes.
using Tallies = std::map<LayerKind, std::array<Tally, kMeasured>>;

/// Trains a model as a device does, in the memory that a stage of all layers has there, and times
/// its layers one by one. REQUIRES: the backend is used for nothing else.
template <Backend B>
class ModelPasses {
 public:
  using T = typename B::Scalar;
  using W = typename B::Kernels::Wide;

  ModelPasses(B& backend, const ModelSpec& model, std::int32_t microbatch_size, Optimizer optimizer,
              const Data& data)
      : backend_(backend),
        stream_(backend.add_stream(StreamUse::computation)),
        optimizer_{.kind = optimizer.kind, .correction = optimizer.correction},
        stage_(model, all_layers(model), microbatch_size,
               mean_loss_scale(model, microbatch_size, 1)),
        dropping_(model, all_layers(model), microbatch_size, 1.0, Recompute::selective),
        blockwise_(model, all_layers(model), microbatch_size, 1.0, Recompute::full),
        kinds_(layers_of(model)),
        weights_(backend.template allocate<T>(stage_.sizes().parameters)),
        next_weights_(backend.template allocate<T>(stage_.sizes().parameters)),
        gradients_(backend.template allocate<W>(stage_.sizes().parameters)),
        state_(backend.template allocate<W>(
            StateLayout(optimizer_.optimizer(), stage_.parameters()).size())),
        master_(backend.template allocate<W>(kHasMaster ? stage_.sizes().parameters : 0)),
        scratch_(backend.template allocate<T>(
            std::max({stage_.sizes().scratch, dropping_.sizes().scratch, blockwise_.sizes().scratch,
                      update_scratch<T, W>(optimizer.kind, stage_.parameters())}))),
        whole_(backend, stage_.sizes()),
        split_(backend, stage_.sizes()),
        loss_(backend.template results<double>(1)),
        norm_(backend, stage_.parameters().size()) {
    backend.commit();
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
    data.fill(0, sample_);
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
      stage_.backward(*kernels_,
                      spans_of(whole_, part(scratch_.elements(), 0, stage_.sizes().scratch)),
                      laps_of(Measured::backward));
      backward_halves();
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

  /// What a device holds of a microbatch.
  struct InFlight {
    InFlight(B& backend, const StageSizes& sizes)
        : stash(backend.template allocate<T>(sizes.stash)),
          kept_gradients(backend.template allocate<T>(sizes.kept_gradients)) {}
    Buffer stash, kept_gradients;
  };

  /// Work ends here on the stream; it began where the one before ended. On a GPU times are known
  /// only later.
  struct Lap {
    Measured what;
    std::size_t layer;
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

  BackwardSpans<T, W> spans_of(InFlight& microbatch, std::span<T> scratch) {
    return {.weights = weights_.elements(),
            .stash = microbatch.stash.elements(),
            .scratch = scratch,
            .gradients = gradients_.elements()};
  }

  void forward(InFlight& microbatch) {
    stage_.forward(*kernels_,
                   {.weights = weights_.elements(),
                    .sample = readable_sample(backend_, stream_, sample_),
                    .stash = microbatch.stash.elements(),
                    .loss = loss_.get()},
                   laps_of(Measured::forward));
  }

  void backward_halves() {
    BackwardSpans<T, W> spans = spans_of(split_, split_.kept_gradients.elements());
    spans.inner_gradient = part(scratch_.elements(), 0, stage_.sizes().inner_gradient);
    stage_.backward_input(*kernels_, spans, laps_of(Measured::backward_input));
    stage_.backward_weight(*kernels_, spans, [this](std::size_t layer) {
      lap(Measured::backward_weight, layer);
      // Just after the stash of the layer was read: in training the backward that follows finds in
      // the caches what this fetched, so only one of them is to be charged for it.
      dropping_.recompute_dropped(*kernels_, spans_for(dropping_), layer);
      lap(Measured::selective_recompute, layer);
    });
    for (std::size_t block = blockwise_.blocks(); block-- > 0;) {
      blockwise_.recompute_block(*kernels_, spans_for(blockwise_), block,
                                 laps_of(Measured::recompute));
    }
  }

  /// What is read of the stash lies elsewhere than forward put it, but is as many numbers of a like
  /// size.
  BackwardSpans<T, W> spans_for(const Stage<Kernel>& stage) {
    BackwardSpans<T, W> spans =
        spans_of(split_, part(scratch_.elements(), 0, stage.sizes().scratch));
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
    laps_.push_back({what, layer, whole, backend_.mark(stream_)});
  }
  auto laps_of(Measured what) {
    return [this, what](std::size_t layer) { lap(what, layer); };
  }

  void add_laps(Tallies& tallies) {
    auto start = start_->time();
    for (const Lap& each : laps_) {
      const auto end = each.end.time();
      Tally& tally = tallies[kinds_[each.layer]][index(each.what)];
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
  // The same without recomputation, with selective, and by block.
  Stage<Kernel> stage_, dropping_, blockwise_;
  std::vector<LayerKind> kinds_;              // of the layers
  std::vector<std::vector<Tensor>> tensors_;  // of each layer, as of a stage of its own
  Buffer weights_, next_weights_;
  WideBuffer gradients_, state_, master_;
  Buffer scratch_;
  InFlight whole_, split_;
  std::shared_ptr<double[]> loss_;
  UpdateNorm norm_;
  Sample<W> sample_;
  std::optional<Kernel> kernels_;  // of the task at hand
  std::optional<typename B::Mark> start_;
  std::vector<Lap> laps_;
};

}  // namespace tandem
