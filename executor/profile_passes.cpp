#include "executor/profile_passes.h"

#include <algorithm>
#include <utility>

#include "executor/gradient_guard.h"

namespace tandem {

namespace {

using Clock = std::chrono::steady_clock;

LayerRange all_layers(const ModelSpec& model) {
  return {0, static_cast<std::int32_t>(layers_of(model).size())};
}

template <class T>
std::span<T> part(std::span<T> whole, std::int64_t first, std::int64_t size) {
  return whole.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(size));
}

}  // namespace

ModelPasses::InFlight::InFlight(const StageSizes& sizes)
    : stash(sizes.stash), kept_gradients(sizes.kept_gradients) {}

ModelPasses::ModelPasses(const ModelSpec& model, std::int32_t microbatch_size,
                         OptimizerKind optimizer, const Data& data)
    : optimizer_{.kind = optimizer},
      stage_(model, all_layers(model), microbatch_size, mean_loss_scale(model, microbatch_size, 1)),
      dropping_(model, all_layers(model), microbatch_size, 1.0, Recompute::selective),
      kinds_(layers_of(model)),
      weights_(stage_.sizes().parameters),
      next_weights_(stage_.sizes().parameters),
      gradients_(stage_.sizes().parameters),
      state_(stage_.sizes().parameters * optimizer_states(optimizer)),
      scratch_(std::max(stage_.sizes().scratch, dropping_.sizes().scratch)),
      whole_(stage_.sizes()),
      split_(stage_.sizes()) {
  for (std::size_t layer = 0; layer < stage_.layers(); ++layer)
    tensors_.push_back(tensors_of(layer));
  stage_.initialise(weights_.elements(), 1);
  data.fill(0, sample_);
}

void ModelPasses::pass(bool updates, Tallies* tallies) {
  tallies_ = tallies;
  forward(whole_);
  forward(split_);
  backward();
  backward_halves();
  if (updates) update();
}

std::vector<Tensor> ModelPasses::tensors_of(std::size_t layer) const {
  const ElementRange range = stage_.weights_of(layer);
  std::vector<Tensor> tensors;
  for (const Tensor& tensor : stage_.parameters()) {
    if (tensor.offset < range.first || tensor.offset >= range.last) continue;
    tensors.push_back(tensor);
    tensors.back().offset -= range.first;
  }
  return tensors;
}

BackwardSpans<float> ModelPasses::spans_of(InFlight& microbatch, std::span<float> scratch) {
  return {.weights = weights_.elements(),
          .input = {},
          .stash = microbatch.stash.elements(),
          .output_gradient = {},
          .scratch = scratch,
          .input_gradient = {},
          .gradients = gradients_.elements()};
}

void ModelPasses::forward(InFlight& microbatch) {
  double loss = 0.0;
  const ForwardSpans<float> spans{.weights = weights_.elements(),
                                  .input = {},
                                  .sample = &sample_,
                                  .stash = microbatch.stash.elements(),
                                  .output = {},
                                  .scratch = {},
                                  .loss = &loss};
  for (std::size_t layer = 0; layer < stage_.layers(); ++layer)
    timed(Measured::forward, layer, [&] { stage_.forward_layer(kernels_, spans, layer); });
}

void ModelPasses::backward() {
  const BackwardSpans<float> spans =
      spans_of(whole_, part(scratch_.elements(), 0, stage_.sizes().scratch));
  for (std::size_t layer = stage_.layers(); layer-- > 0;)
    timed(Measured::backward, layer, [&] { stage_.backward_layer(kernels_, spans, layer); });
}

void ModelPasses::backward_halves() {
  const BackwardSpans<float> spans = spans_of(split_, split_.kept_gradients.elements());
  for (std::size_t layer = stage_.layers(); layer-- > 0;) {
    timed(Measured::backward_input, layer,
          [&] { stage_.backward_input_layer(kernels_, spans, layer); });
  }
  for (std::size_t layer = stage_.layers(); layer-- > 0;) {
    timed(Measured::backward_weight, layer,
          [&] { stage_.backward_weight_layer(kernels_, spans, layer); });
    time_recompute(layer);
  }
}

/// Just after the stash of the layer was read: in training the backward that follows finds in the
/// caches what this fetched, so only one of them is to be charged for it.
void ModelPasses::time_recompute(std::size_t layer) {
  BackwardSpans<float> spans =
      spans_of(split_, part(scratch_.elements(), 0, dropping_.sizes().scratch));
  // What is read of it lies elsewhere than forward put it, but is as many numbers of a like size.
  spans.stash = part(spans.stash, 0, dropping_.sizes().stash);
  timed(Measured::selective_recompute, layer,
        [&] { dropping_.recompute_dropped(kernels_, spans, layer); });
}

/// All that a stage does for one: norm, optimizer, and the zeros that the next sum begins with.
/// Each goes through the whole stage before the next one begins.
void ModelPasses::update() {
  std::vector<Duration> times(stage_.layers());
  const auto each = [&](const auto& work) {
    for (std::size_t layer = 0; layer < stage_.layers(); ++layer) {
      const Clock::time_point start = Clock::now();
      work(tensors_[layer], stage_.weights_of(layer));
      times[layer] += Clock::now() - start;
    }
  };
  const auto of = [](Buffer& buffer, const ElementRange& range) {
    return part(buffer.elements(), range.first, range.size());
  };
  std::vector<double> squares(stage_.parameters().size());
  each([&](const std::vector<Tensor>& tensors, const ElementRange& range) {
    sum_squares(kernels_, std::span<const Tensor>(tensors), false, 1.0,
                std::span<const float>(of(gradients_, range)), squares);
  });
  // Into another version, as those schedules do that update often: in place is a little quicker.
  each([&](const std::vector<Tensor>& tensors, const ElementRange& range) {
    const std::int64_t states = optimizer_states(optimizer_.kind);
    tandem::update(
        kernels_, optimizer_, OptimizerStep{}, tensors,
        UpdateSpans<float>{.weights = of(weights_, range),
                           .gradients = of(gradients_, range),
                           .state = of(state_, {states * range.first, states * range.last}),
                           .weights_out = of(next_weights_, range)});
  });
  each([&](const std::vector<Tensor>&, const ElementRange& range) {
    kernels_.fill(of(gradients_, range), 0.0);
  });
  std::swap(weights_, next_weights_);
  for (std::size_t layer = 0; layer < stage_.layers(); ++layer)
    add(Measured::update, layer, times[layer]);
}

template <class Work>
void ModelPasses::timed(Measured what, std::size_t layer, const Work& work) {
  const Clock::time_point start = Clock::now();
  work();
  add(what, layer, Clock::now() - start);
}

void ModelPasses::add(Measured what, std::size_t layer, Duration time) {
  if (tallies_ == nullptr) return;
  Tally& tally = (*tallies_)[kinds_[layer]][index(what)];
  tally.sum += time;
  ++tally.count;
}

}  // namespace tandem
