#include "executor/reference.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/check.h"
#include "core/error.h"
#include "executor/cpu/kernels.h"

namespace tandem {
namespace {

template <class T>
std::vector<T> zeros(std::int64_t size) {
  return std::vector<T>(static_cast<std::size_t>(size));
}

std::vector<ReferencePart> parts_of(const ModelSpec& model, const ReferenceConfig& config) {
  const auto layers = static_cast<std::int32_t>(layers_of(model).size());
  if (config.semantics == WeightSemantics::stashed) {
    std::int32_t covered = 0;
    for (const ReferencePart& part : config.parts) {
      TANDEM_CHECK(part.layers.first == covered, part.layers.first, covered);
      covered = part.layers.last;
    }
    TANDEM_CHECK(covered == layers, covered, layers);
    return config.parts;
  }
  TANDEM_CHECK(config.parts.empty());
  return {{.layers = {0, layers},
           .microbatches = config.microbatches,
           .round = config.microbatches,
           .staleness = config.semantics == WeightSemantics::delayed_by_one ? 1 : 0,
           .replicas = config.replicas}};
}

}  // namespace

std::vector<ReferencePart> stashed_parts(const Schedule& schedule,
                                         const std::vector<LayerRange>& layers,
                                         bool vertical_sync) {
  std::vector<ReferencePart> parts;
  for (const PartId part : all_ids<PartId>(layers.size())) {
    const std::vector<StageId> stages = schedule.placement.replicas_of(part);
    ReferencePart row{.layers = layers[index(part)],
                      .replicas = static_cast<std::int32_t>(stages.size())};
    for (const Op& op : schedule.order[schedule.placement.device[stages.front()]]) {
      if (op.kind == OpKind::update) row.microbatches = row.round = op.span;
      if (op.kind == OpKind::forward) row.staleness = op.staleness;
    }
    if (vertical_sync && !parts.empty()) {
      row.round = parts.front().round;
      row.staleness = parts.front().staleness;
    }
    parts.push_back(row);
  }
  return parts;
}

template <Kernels K>
Reference<K>::Reference(const ModelSpec& model, const ReferenceConfig& config, const Data& data)
    : config_(config), tied_(model.architecture == Architecture::gpt2 && model.tied), data_(data) {
  check_trainable(model);
  const std::vector<ReferencePart> parts = parts_of(model, config);
  TANDEM_CHECK(!tied_ || parts.front().microbatches == parts.back().microbatches);
  const LayerShape shape{.model = model,
                         .microbatch_size = config.microbatch_size,
                         .loss_scale = mean_loss_scale(model, config.microbatch_size,
                                                       parts.back().microbatches * config.width)};
  boundary_ = shape.boundary();
  for (const ReferencePart& part : parts) {
    TANDEM_CHECK(config.microbatches % part.microbatches == 0, part.microbatches);
    TANDEM_CHECK(part.round % part.microbatches == 0, part.round, part.microbatches);
    parts_.push_back({.config = part, .entries = {}, .versions = {Tensors{}}});
    for (std::int32_t index = part.layers.first; index < part.layers.last; ++index) {
      AnyLayer<K> layer(shape, index);
      for (const Tensor& tensor : layer.tensors()) {
        std::vector<T> weights = zeros<T>(tensor.size());
        initialise<T>(tensor, config.seed, weights);
        parts_.back().versions.back()[tensor.name] = weights;
        state_.weights[tensor.name] = std::move(weights);
        state_.optimizer[tensor.name] =
            zeros<T>(tensor.size() * optimizer_states(config.optimizer.kind));
      }
      parts_.back().entries.push_back({.layer = std::move(layer)});
    }
  }
}

/// Puts the version that the microbatch reads into the entries, and sums to add to.
template <Kernels K>
void Reference<K>::load(Part& part, std::int64_t microbatch) {
  const ReferencePart& config = part.config;
  const std::int64_t known =
      std::max<std::int64_t>(microbatch / config.round - config.staleness, 0) * config.round;
  const std::int64_t version = known / config.microbatches;
  for (Entry& entry : part.entries) {
    if (entry.sums.empty()) {
      const auto sums = static_cast<std::size_t>(config_.width * config.replicas);
      entry.sums.assign(sums, zeros<T>(entry.layer.weights_size()));
    }
    if (part.loaded == version) continue;
    entry.weights.clear();
    const auto back = static_cast<std::size_t>(part.updates - version);
    const Tensors& weights = part.versions.at(part.versions.size() - 1 - back);
    for (const Tensor& tensor : entry.layer.tensors()) {
      const std::vector<T>& values = weights.at(tensor.name);
      entry.weights.insert(entry.weights.end(), values.begin(), values.end());
    }
  }
  part.loaded = version;
}

template <Kernels K>
double Reference<K>::run_microbatch(std::int64_t batch, std::int32_t pipeline,
                                    std::int32_t microbatch) {
  Sample<T> sample;
  data_.fill((batch * config_.width + pipeline) * config_.microbatches + microbatch, sample);
  // inputs[i] is what layer i reads; the first holds the data's numbers, if the model takes
  // numbers.
  std::vector<std::vector<T>> inputs{sample.inputs}, stashes;
  double loss = 0.0;
  for (const Part& part : parts_) {
    for (const Entry& entry : part.entries) {
      const bool last = &entry == &parts_.back().entries.back();
      stashes.push_back(zeros<T>(entry.layer.stash_size()));
      std::vector<T> output = zeros<T>(last ? 0 : boundary_);
      entry.layer.forward(kernels_, {.weights = entry.weights,
                                     .input = inputs.back(),
                                     .sample = &sample,
                                     .stash = stashes.back(),
                                     .output = output,
                                     .loss = &loss});
      inputs.push_back(std::move(output));
    }
  }
  run_backward(inputs, stashes, pipeline, batch * config_.microbatches + microbatch);
  return loss;
}

template <Kernels K>
void Reference<K>::run_backward(std::vector<std::vector<T>>& inputs,
                                std::vector<std::vector<T>>& stashes, std::int32_t pipeline,
                                std::int64_t microbatch) {
  std::vector<T> gradient;
  std::size_t i = stashes.size();
  const auto of_batch = static_cast<std::size_t>(microbatch % config_.microbatches);
  for (auto part = parts_.rbegin(); part != parts_.rend(); ++part) {
    const std::int32_t replicas = part->config.replicas;
    const std::int64_t replica =
        config_.copies.empty() ? microbatch % replicas : config_.copies[of_batch];
    const std::int64_t sum = pipeline * replicas + replica;
    for (auto entry = part->entries.rbegin(); entry != part->entries.rend(); ++entry) {
      --i;
      std::vector<T> scratch = zeros<T>(entry->layer.scratch_size());
      std::vector<T> input_gradient = zeros<T>(i > 0 ? boundary_ : 0);
      const BackwardSpans<T> spans{.weights = entry->weights,
                                   .input = inputs[i],
                                   .stash = stashes[i],
                                   .output_gradient = gradient,
                                   .scratch = scratch,
                                   .input_gradient = input_gradient,
                                   .gradients = entry->sums[static_cast<std::size_t>(sum)]};
      entry->layer.backward_input(kernels_, spans);
      entry->layer.backward_weight(kernels_, spans);
      gradient = std::move(input_gradient);
    }
  }
}

template <Kernels K>
typename Reference<K>::Tensors Reference<K>::sum_of_rank(const Part& part, std::size_t rank) const {
  Tensors sum;
  for (const Entry& entry : part.entries) {
    for (const Tensor& tensor : entry.layer.tensors()) {
      const auto first = entry.sums[rank].begin() + tensor.offset;
      sum[tensor.name].assign(first, first + tensor.size());
    }
  }
  return sum;
}

/// The gradients of an update of `parts`, by tensor; their sums are used up.
template <Kernels K>
typename Reference<K>::Tensors Reference<K>::summed_gradients(const std::vector<Part*>& parts) {
  std::vector<Tensors> ranks;  // what parts sum for themselves, a rank each
  for (Part* part : parts) {
    ranks.resize(std::max(ranks.size(), part->entries.front().sums.size()));
    for (std::size_t rank = 0; rank < part->entries.front().sums.size(); ++rank)
      ranks[rank].merge(sum_of_rank(*part, rank));
    for (Entry& entry : part->entries) entry.sums.clear();
  }
  for (Tensors& sums : ranks) {
    if (!tied_ || !sums.contains(kHeadTable)) continue;
    std::vector<T>& table = sums.at(kTokenTable);
    kernels_.add(table, sums.at(kHeadTable), table);
  }
  Tensors total = std::move(ranks.front());
  for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
    for (const auto& [name, gradient] : ranks[rank]) {
      std::vector<T>& sum = total.at(name);
      kernels_.add(sum, gradient, sum);
    }
  }
  return total;
}

/// Of the tensors of those parts that lie in `layers`.
template <Kernels K>
std::vector<double> Reference<K>::squares_of(const std::vector<Part*>& parts,
                                             const Tensors& gradients, LayerRange layers) {
  std::vector<double> squares;
  for (const Part* part : parts) {
    std::int32_t layer = part->config.layers.first;
    for (const Entry& entry : part->entries) {
      if (const std::int32_t at = layer++; at < layers.first || at >= layers.last) continue;
      for (Tensor tensor : entry.layer.tensors()) {
        tensor.offset = 0;
        squares.push_back(0.0);
        sum_squares(kernels_, std::span<const Tensor>(&tensor, 1), tied_, scale_of(*part),
                    std::span<const T>(gradients.at(tensor.name)),
                    std::span<double>(&squares.back(), 1));
      }
    }
  }
  return squares;
}

/// What the guard says of each tensor of an update.
template <Kernels K>
std::map<std::string, GuardDecision> Reference<K>::decisions_on(const std::vector<Part*>& parts,
                                                                const Tensors& gradients) {
  const LayerRange whole{0, parts_.back().config.layers.last};
  state_.gradient_norm = decide({}, squares_of(parts, gradients, whole)).norm;
  const bool apart = config_.guard.clip == ClipScope::per_stage;
  std::map<std::string, GuardDecision> decisions;
  for (const LayerRange stage : apart ? config_.stages : std::vector<LayerRange>{whole}) {
    const GuardDecision decision = decide(config_.guard, squares_of(parts, gradients, stage));
    if (decision.skip && config_.guard.on_nan == NonFinite::stop)
      throw DeviceError(fmt::format("update {}: a gradient is not finite", parts[0]->updates));
    for (const Part* part : parts) {
      std::int32_t layer = part->config.layers.first;
      for (const Entry& entry : part->entries) {
        if (const std::int32_t at = layer++; at < stage.first || at >= stage.last) continue;
        for (const Tensor& tensor : entry.layer.tensors()) decisions[tensor.name] = decision;
      }
    }
  }
  return decisions;
}

/// What the part's gradients lack to be the mean over its own updates.
template <Kernels K>
double Reference<K>::scale_of(const Part& part) const {
  return static_cast<double>(parts_.back().config.microbatches) /
         static_cast<double>(part.config.microbatches);
}

template <Kernels K>
void Reference<K>::update_tensor(const Part& part, const Tensor& tensor,
                                 const std::vector<T>& gradient, const GuardDecision& decision) {
  Tensor alone = tensor;
  alone.offset = 0;
  std::vector<T>& weights = state_.weights.at(tensor.name);
  const std::vector<T> before = weights;
  update(kernels_, config_.optimizer,
         {.number = part.steps + 1,
          .batch = state_.batches + 1,
          .gradient_scale = scale_of(part) * decision.scale},
         std::span<const Tensor>(&alone, 1),
         {.weights = before,
          .gradients = gradient,
          .state = state_.optimizer.at(tensor.name),
          .weights_out = weights});
}

template <Kernels K>
void Reference<K>::update_part(Part& part, const Tensors& gradients,
                               const std::map<std::string, GuardDecision>& decisions) {
  Tensors version;
  bool skipped = false;
  for (const Entry& entry : part.entries) {
    for (const Tensor& tensor : entry.layer.tensors()) {
      const GuardDecision& decision = decisions.at(tensor.name);
      skipped = skipped || decision.skip;
      if (tied_ && tensor.name == kHeadTable) {
        state_.weights.at(kHeadTable) = state_.weights.at(kTokenTable);
        state_.optimizer.at(kHeadTable) = state_.optimizer.at(kTokenTable);
      } else if (!decision.skip) {
        update_tensor(part, tensor, gradients.at(tensor.name), decision);
      }
      version[tensor.name] = state_.weights.at(tensor.name);
    }
  }
  part.versions.push_back(std::move(version));
  const std::int64_t oldest_read = std::max<std::int64_t>(
      part.updates + 1 -
          (part.config.staleness + 1) * (part.config.round / part.config.microbatches),
      0);
  while (part.updates + 2 - std::ssize(part.versions) < oldest_read) part.versions.pop_front();
  ++part.updates;
  if (!skipped) ++part.steps;
}

template <Kernels K>
const ReferenceState<typename K::Scalar>& Reference<K>::step(
    const std::function<void(const ReferenceUpdate&)>& on_update) {
  const std::int32_t m = config_.microbatches;
  state_.losses.assign(static_cast<std::size_t>(m * config_.width), 0.0);
  for (std::int32_t i = 0; i < m; ++i) {
    const std::int32_t microbatch =
        config_.order.empty() ? i : config_.order[static_cast<std::size_t>(i)];
    for (Part& part : parts_) load(part, state_.batches * m + microbatch);
    for (std::int32_t pipeline = 0; pipeline < config_.width; ++pipeline) {
      state_.losses[static_cast<std::size_t>(pipeline * m + microbatch)] =
          run_microbatch(state_.batches, pipeline, microbatch);
    }
    std::vector<Part*> due;
    for (Part& part : parts_) {
      if ((i + 1) % part.config.microbatches == 0) due.push_back(&part);
    }
    if (due.empty()) continue;
    const Tensors gradients = summed_gradients(due);
    const std::map<std::string, GuardDecision> decisions = decisions_on(due, gradients);
    for (Part* part : due) {
      update_part(*part, gradients, decisions);
      if (!on_update) continue;
      ReferenceUpdate made{.tensors = {}, .version = part->updates};
      for (const auto& [name, values] : part->versions.back()) made.tensors.push_back(name);
      on_update(made);
    }
  }
  ++state_.batches;
  return state_;
}

template class Reference<cpu::Kernels<float>>;
template class Reference<cpu::Kernels<double>>;

}  // namespace tandem
