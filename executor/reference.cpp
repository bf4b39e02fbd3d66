#include "executor/reference.h"

#include <algorithm>

#include "core/check.h"
#include "executor/cpu/kernels.h"

namespace tandem {
namespace {

template <class T>
std::vector<T> zeros(std::int64_t size) {
  return std::vector<T>(static_cast<std::size_t>(size));
}

}  // namespace

template <Kernels K>
Reference<K>::Reference(const ModelSpec& model, const ReferenceConfig& config, const Data& data)
    : config_(config), tied_(model.architecture == Architecture::gpt2 && model.tied), data_(data) {
  TANDEM_CHECK(config.semantics != WeightSemantics::stashed);
  const LayerShape shape{
      .model = model,
      .microbatch_size = config.microbatch_size,
      .loss_scale = mean_loss_scale(model, config.microbatch_size, config.microbatches)};
  boundary_ = shape.boundary();
  const auto layers = static_cast<std::int32_t>(layers_of(model).size());
  for (std::int32_t index = 0; index < layers; ++index) {
    AnyLayer<K> layer(shape, index);
    for (const Tensor& tensor : layer.tensors()) {
      std::vector<T> weights = zeros<T>(tensor.size());
      initialise<T>(tensor, config.seed, weights);
      state_.weights[tensor.name] = std::move(weights);
      state_.optimizer[tensor.name] =
          zeros<T>(tensor.size() * optimizer_states(config.optimizer.kind));
    }
    entries_.push_back(Entry{.layer = std::move(layer), .weights = {}, .gradients = {}});
  }
  previous_ = state_.weights;
}

template <Kernels K>
void Reference<K>::load(const Tensors& weights) {
  for (Entry& entry : entries_) {
    entry.weights.clear();
    for (const Tensor& tensor : entry.layer.tensors()) {
      const std::vector<T>& values = weights.at(tensor.name);
      entry.weights.insert(entry.weights.end(), values.begin(), values.end());
    }
    entry.gradients = zeros<T>(entry.layer.weights_size());
  }
}

template <Kernels K>
double Reference<K>::run_microbatch(std::int64_t k) {
  Sample<T> sample;
  data_.fill(k, sample);
  // inputs[i] is what layer i reads; the first holds the data's numbers, if the model takes
  // numbers.
  std::vector<std::vector<T>> inputs{sample.inputs}, stashes;
  std::optional<double> loss;
  for (const Entry& entry : entries_) {
    const bool last = &entry == &entries_.back();
    stashes.push_back(zeros<T>(entry.layer.stash_size()));
    std::vector<T> output = zeros<T>(last ? 0 : boundary_);
    loss = entry.layer.forward(kernels_, {.weights = entry.weights,
                                          .input = inputs.back(),
                                          .sample = &sample,
                                          .stash = stashes.back(),
                                          .output = output});
    inputs.push_back(std::move(output));
  }
  std::vector<T> gradient;
  for (std::size_t i = entries_.size(); i-- > 0;) {
    Entry& entry = entries_[i];
    std::vector<T> scratch = zeros<T>(entry.layer.scratch_size());
    std::vector<T> input_gradient = zeros<T>(i > 0 ? boundary_ : 0);
    const BackwardSpans<T> spans{.weights = entry.weights,
                                 .input = inputs[i],
                                 .stash = stashes[i],
                                 .output_gradient = gradient,
                                 .scratch = scratch,
                                 .input_gradient = input_gradient,
                                 .gradients = entry.gradients};
    entry.layer.backward_input(kernels_, spans);
    entry.layer.backward_weight(kernels_, spans);
    gradient = std::move(input_gradient);
  }
  TANDEM_CHECK(loss.has_value());
  return *loss;
}

template <Kernels K>
void Reference<K>::update_tensor(const Tensor& tensor, const std::vector<T>& gradient) {
  Tensor alone = tensor;
  alone.offset = 0;
  std::vector<T>& weights = state_.weights.at(tensor.name);
  const std::vector<T> before = weights;
  update(kernels_, config_.optimizer, state_.updates + 1, std::span<const Tensor>(&alone, 1),
         {.weights = before,
          .gradients = gradient,
          .state = state_.optimizer.at(tensor.name),
          .weights_out = weights});
}

template <Kernels K>
void Reference<K>::update_all() {
  std::map<std::string, std::vector<T>> gradients;
  for (const Entry& entry : entries_) {
    for (const Tensor& tensor : entry.layer.tensors()) {
      const auto first = entry.gradients.begin() + tensor.offset;
      gradients[tensor.name].assign(first, first + tensor.size());
    }
  }
  if (tied_) {
    std::vector<T>& sum = gradients.at(kTokenTable);
    kernels_.add(sum, gradients.at(kHeadTable), sum);
  }
  for (const Entry& entry : entries_) {
    for (const Tensor& tensor : entry.layer.tensors()) {
      if (tied_ && tensor.name == kHeadTable) {
        continue;
      }
      update_tensor(tensor, gradients.at(tensor.name));
    }
  }
  if (tied_) {
    state_.weights.at(kHeadTable) = state_.weights.at(kTokenTable);
    state_.optimizer.at(kHeadTable) = state_.optimizer.at(kTokenTable);
  }
}

template <Kernels K>
const ReferenceState<typename K::Scalar>& Reference<K>::step() {
  const bool delayed = config_.semantics == WeightSemantics::delayed_by_one;
  load(delayed ? previous_ : state_.weights);
  previous_ = state_.weights;
  state_.losses.clear();
  for (std::int32_t i = 0; i < config_.microbatches; ++i) {
    state_.losses.push_back(run_microbatch(state_.updates * config_.microbatches + i));
  }
  update_all();
  ++state_.updates;
  return state_;
}

template class Reference<cpu::Kernels<float>>;
template class Reference<cpu::Kernels<double>>;

}  // namespace tandem
