#pragma once
// The serial reference trainer: what an executor's bits are compared with. One thread, straight
// loops over batches, microbatches and layers; each tensor on its own, each version of the weights
// a whole copy. It shares kernels, layers, data and optimizer steps with the executor, and nothing
// else: no stage, no slot, no program.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/schedule/schedule.h"
#include "executor/data/data.h"
#include "executor/layers/all.h"
#include "executor/stage/gradient_guard.h"
#include "executor/stage/optimizer.h"
#include "executor/stage/reference_config.h"
#include "executor/stage/reference_version.h"

namespace tandem {

/// Gradients are sums over microbatches, of the mean loss over the microbatches that an update of
/// the last stage covers in all pipelines; a stage whose updates cover more or fewer scales its sum
/// to the mean over its own. Those of a tied embedding are summed apart in embedding and head, then
/// added, embedding + head. What several pipelines or replicas sum apart is added in their order.
template <Kernels K>
class Reference {
 public:
  using T = typename K::Scalar;

  /// REQUIRES: stages cover the layers, in order, and those of tied embeddings update for the same
  /// microbatches (checked). `data` made for the same model and microbatch size, and outlives this.
  /// `start`: what it goes on from; null: initial weights.
  Reference(const ModelSpec& model, const ReferenceConfig& config, const Data& data,
            const TrainingStart<T>* start = nullptr)
      : config_(config),
        tied_(has_tied_ends(model)),
        data_(data),
        left_(static_cast<std::size_t>(config.microbatches) * config.width) {
    check_trainable(model);
    const std::vector<ReferenceStage> stages = stages_of(model, config);
    const std::int32_t n = config.slice_count();
    for (const auto& stage : stages) TANDEM_CHECK(stage.microbatches % n == 0, n);
    TANDEM_CHECK(!tied_ || stages.front().microbatches == stages.back().microbatches);
    const double scale = mean_loss_scale(model, config.microbatch_size,
                                         stages.back().microbatches / n * config.width);
    for (const Slice& slice : slices_of(model.sequence, config.slices)) {
      shapes_.push_back({.model = model,
                         .microbatch_size = config.microbatch_size,
                         .loss_scale = scale,
                         .slice = slice});
    }
    const InitialWeights<T> initial(config.seed);
    const TrainingStart<T>& begin = start != nullptr ? *start : initial;
    state_.batches = begin.batches();
    for (const ReferenceStage& stage : stages) stages_.push_back(make_stage(stage, begin));
  }

  /// One batch and its updates. Throws DeviceError where the guard is to stop. Vanilla: W(t+1) =
  /// W(t) − ν∇f(W(t)); delayed by one: W(t) − ν∇f(W(max(t−1, 0))).
  const ReferenceState<T>& step(const std::function<void(const ReferenceUpdate&)>& on_update = {}) {
    const std::int32_t m = config_.microbatches;
    state_.losses.assign(static_cast<std::size_t>(m * config_.width), 0.0);
    for (SerialStage& stage : stages_) stage.added.assign(stage.to_add.size(), 0);
    for (const std::int32_t microbatch : turns()) {
      for (SerialStage& stage : stages_) load(stage, microbatch);
      for (std::int32_t pipeline = 0; pipeline < config_.width; ++pipeline)
        run_microbatch(pipeline, microbatch);
      std::vector<SerialStage*> due;
      for (SerialStage& stage : stages_) {
        if (add_gradients(stage, microbatch)) due.push_back(&stage);
      }
      if (due.empty()) continue;
      const Tensors gradients = summed_gradients(due);
      const std::map<std::string, GuardDecision> decisions = decisions_on(due, gradients);
      for (SerialStage* stage : due) {
        update_stage(*stage, gradients, decisions);
        if (!on_update) continue;
        ReferenceUpdate made{.tensors = {}, .version = stage->updates};
        for (const auto& [name, values] : stage->versions.back().weights)
          made.tensors.push_back(name);
        on_update(made);
      }
    }
    for (std::vector<Left>& left : left_) left.clear();
    ++state_.batches;
    return state_;
  }
  const ReferenceState<T>& state() const { return state_; }

 private:
  using Tensors = std::map<std::string, std::vector<T>>;

  /// What a microbatch leaves at a layer for the gradients of the layer's weights.
  struct Left {
    std::vector<T> input, stash, inner_gradient, scratch, output_gradient;
  };
  /// A layer, as it works on each slice, the weights in use, and sums of gradients, as layers want
  /// them: one for each replica of each pipeline.
  struct Entry {
    std::vector<AnyLayer<K>> of_slices;
    const AnyLayer<K>& layer() const { return of_slices.front(); }  // whose weights all share
    std::vector<T> weights = {}, backward_weights = {};  // the latter empty: both read the same
    std::vector<std::vector<T>> sums = {};
  };
  using Version = ReferenceVersion<T>;
  struct SerialStage {
    ReferenceStage config;
    std::vector<Entry> entries;
    std::deque<Version> versions;                    // the newest last
    std::int64_t updates = 0, steps = 0;             // steps: updates that were not skipped
    std::int64_t loaded = -1, loaded_backward = -1;  // the versions in the entries
    /// Of each update of a batch: its microbatches in the order in which they are added, and how
    /// many of them have been.
    std::vector<std::vector<std::int32_t>> to_add;
    std::vector<std::size_t> added;
  };

  SerialStage make_stage(const ReferenceStage& config, const TrainingStart<T>& start) {
    const std::int32_t updates = config_.microbatches / config.microbatches;
    SerialStage stage{
        .config = config,
        .entries = {},
        .versions = {},
        .updates = start.batches() * updates,
        .to_add = std::vector<std::vector<std::int32_t>>(static_cast<std::size_t>(updates)),
        .added = {}};
    stage.versions.resize(begun_versions(config, stage.updates));
    for (std::int32_t i = 0; i < config_.microbatches; ++i) {
      const std::int32_t k = row_of(config.order, i, i);
      stage.to_add[static_cast<std::size_t>(k / config.microbatches)].push_back(k);
    }
    for (std::int32_t index = config.layers.first; index < config.layers.last; ++index) {
      std::vector<AnyLayer<K>> of_slices;
      for (const LayerShape& shape : shapes_) of_slices.emplace_back(shape, index);
      for (const Tensor& tensor : of_slices.front().tensors()) {
        begin_versions(start, config.reading, tensor, stage.versions);
        state_.weights[tensor.name] = stage.versions.back().weights.at(tensor.name);
        state_.optimizer[tensor.name] =
            begin_state(start, config_.optimizer.optimizer(), config.reading.corrects(), tensor);
        stage.steps = start.steps(tensor);
      }
      stage.entries.push_back({.of_slices = std::move(of_slices)});
    }
    return stage;
  }
  /// The microbatches of a batch one after the other: where each stage updates once, in the order
  /// in which the first adds them, so that few wait for others.
  std::vector<std::int32_t> turns() const {
    const bool once = std::ranges::all_of(
        stages_, [](const SerialStage& stage) { return stage.to_add.size() == 1; });
    return turns_of(once ? stages_.front().to_add.front() : std::vector<std::int32_t>(),
                    config_.microbatches, config_.slice_count());
  }
  /// Puts the versions that the microbatch reads into the entries, and sums to add to.
  void load(SerialStage& stage, std::int32_t microbatch) {
    const ReferenceStage& config = stage.config;
    for (Entry& entry : stage.entries) {
      if (!entry.sums.empty()) continue;
      const auto sums = static_cast<std::size_t>(config_.width * config.replicas);
      entry.sums.assign(sums, zero_numbers<T>(entry.layer().weights_size()));
    }
    const std::int64_t update =
        state_.batches * std::ssize(stage.to_add) + microbatch / config.microbatches;
    const std::int32_t staleness = row_of(config.staleness, microbatch, 0);
    load(stage, update - staleness, stage.loaded, &Entry::weights);
    if (config.backward_staleness.empty()) return;
    load(stage, update - row_of(config.backward_staleness, microbatch, staleness),
         stage.loaded_backward, &Entry::backward_weights);
  }
  /// `version` into the entries, where `loaded` is now; version 0 where it is before that.
  void load(SerialStage& stage, std::int64_t version, std::int64_t& loaded,
            std::vector<T> Entry::* into) {
    version = std::max<std::int64_t>(version, 0);
    if (std::exchange(loaded, version) == version) return;
    const auto back = static_cast<std::size_t>(stage.updates - version);
    const Version& read = stage.versions.at(stage.versions.size() - 1 - back);
    const Tensors& weights =
        into == &Entry::backward_weights ? read.read_by_backward() : read.read_by_forward();
    for (Entry& entry : stage.entries) {
      (entry.*into).clear();
      for (const Tensor& tensor : entry.layer().tensors()) {
        const std::vector<T>& values = weights.at(tensor.name);
        (entry.*into).insert((entry.*into).end(), values.begin(), values.end());
      }
    }
  }
  /// Forward and backward, as far as the gradients of the inputs, up to the slice `last`.
  void run_microbatch(std::int32_t pipeline, std::int32_t last) {
    const std::int32_t n = config_.slice_count();
    const std::int32_t first = pipeline * config_.microbatches + last - n + 1;  // in the batch
    for (std::int32_t slice = 0; slice < n; ++slice)
      state_.losses[static_cast<std::size_t>(first + slice)] = run_forward(first, slice);
    context_gradients_.clear();
    for (std::int32_t slice = n; slice-- > 0;) run_backward(first, slice);
  }
  std::vector<Left>& left_by(std::int32_t unit) { return left_[static_cast<std::size_t>(unit)]; }
  double run_forward(std::int32_t first, std::int32_t slice) {
    const LayerShape& shape = shapes_[static_cast<std::size_t>(slice)];
    Sample<T> sample;
    const std::int64_t units = std::int64_t{config_.width} * config_.microbatches;
    data_.fill((state_.batches * units + first) / config_.slice_count(), shape.slice, sample);
    std::vector<Left>& left = left_by(first + slice);
    // What a layer reads; the first reads the data's numbers, if the model takes numbers.
    std::vector<T> input = sample.inputs;
    double loss = 0.0;
    for (const SerialStage& stage : stages_) {
      for (const Entry& entry : stage.entries) {
        const AnyLayer<K>& layer = entry.of_slices[static_cast<std::size_t>(slice)];
        const bool is_last = &entry == &stages_.back().entries.back();
        const Earlier earlier = earlier_of(left.size(), first, slice);
        Left& here = left.emplace_back();
        here.input = std::move(input);
        here.stash = zero_numbers<T>(layer.stash_size());
        input = zero_numbers<T>(is_last ? 0 : shape.boundary());
        layer.forward(kernels_, {.weights = entry.weights,
                                 .input = here.input,
                                 .sample = &sample,
                                 .stash = here.stash,
                                 .output = input,
                                 .loss = &loss,
                                 .earlier = earlier});
      }
    }
    return loss;
  }
  using Earlier = std::vector<std::span<const T>>;
  /// The stashes of a layer for the slices before this one.
  Earlier earlier_of(std::size_t layer, std::int32_t first, std::int32_t slice) {
    Earlier earlier;
    for (std::int32_t i = 0; i < slice; ++i) earlier.push_back(left_by(first + i)[layer].stash);
    return earlier;
  }
  void run_backward(std::int32_t first, std::int32_t slice) {
    std::vector<Left>& left = left_by(first + slice);
    std::vector<T> gradient;
    std::size_t i = left.size();
    context_gradients_.resize(i);
    for (auto stage = stages_.rbegin(); stage != stages_.rend(); ++stage) {
      for (auto entry = stage->entries.rbegin(); entry != stage->entries.rend(); ++entry) {
        const AnyLayer<K>& layer = entry->of_slices[static_cast<std::size_t>(slice)];
        Left& here = left[--i];
        here.inner_gradient = zero_numbers<T>(layer.inner_size());
        here.scratch = zero_numbers<T>(layer.scratch_size());
        here.output_gradient = std::move(gradient);
        gradient = zero_numbers<T>(i > 0 ? shapes_[static_cast<std::size_t>(slice)].boundary() : 0);
        std::vector<T>& of_context = context_gradients_[i];
        of_context.resize(static_cast<std::size_t>(layer.context_size()));
        const Earlier earlier = earlier_of(i, first, slice);
        const std::vector<T>& own = entry->backward_weights;
        layer.backward_input(kernels_, {.weights = own.empty() ? entry->weights : own,
                                        .input = here.input,
                                        .output_gradient = here.output_gradient,
                                        .stash = here.stash,
                                        .inner_gradient = here.inner_gradient,
                                        .scratch = here.scratch,
                                        .input_gradient = gradient,
                                        .earlier = earlier,
                                        .context_gradient = of_context});
      }
    }
  }
  /// Adds what may be added in its turn once `microbatch` has run. Whether that ends an update.
  bool add_gradients(SerialStage& stage, std::int32_t microbatch) {
    const auto update = static_cast<std::size_t>(microbatch / stage.config.microbatches);
    const std::vector<std::int32_t>& to_add = stage.to_add[update];
    std::size_t& added = stage.added[update];
    while (added < to_add.size() && !left_[static_cast<std::size_t>(to_add[added])].empty())
      add_gradients_of(stage, to_add[added++]);
    return added == to_add.size();
  }
  /// Of a microbatch of each pipeline: what it left at the stage's layers is used up.
  void add_gradients_of(SerialStage& stage, std::int32_t microbatch) {
    const std::int32_t m = config_.microbatches, replicas = stage.config.replicas;
    const std::int32_t replica = row_of(stage.config.replica, microbatch, microbatch % replicas);
    for (std::int32_t pipeline = 0; pipeline < config_.width; ++pipeline) {
      const auto sum = static_cast<std::size_t>(pipeline * replicas + replica);
      for (std::size_t i = 0; i < stage.entries.size(); ++i) {
        Entry& entry = stage.entries[i];
        Left& left = left_[static_cast<std::size_t>(pipeline * m + microbatch)]
                          [static_cast<std::size_t>(stage.config.layers.first) + i];
        const std::int32_t slice = microbatch % config_.slice_count();
        entry.of_slices[static_cast<std::size_t>(slice)].backward_weight(
            kernels_, {.input = left.input,
                       .output_gradient = left.output_gradient,
                       .stash = left.stash,
                       .inner_gradient = left.inner_gradient,
                       .scratch = left.scratch,
                       .gradients = entry.sums[sum]});
        left = {};
      }
    }
  }
  Tensors sum_of_rank(const SerialStage& stage, std::size_t rank) const {
    Tensors sum;
    for (const Entry& entry : stage.entries) {
      for (const Tensor& tensor : entry.layer().tensors()) {
        const auto first = entry.sums[rank].begin() + tensor.offset;
        sum[tensor.name].assign(first, first + tensor.size());
      }
    }
    return sum;
  }
  /// The gradients of an update of `stages`, by tensor; their sums are used up.
  Tensors summed_gradients(const std::vector<SerialStage*>& stages) {
    std::vector<Tensors> ranks;  // what stages sum for themselves, a rank each
    for (SerialStage* stage : stages) {
      ranks.resize(std::max(ranks.size(), stage->entries.front().sums.size()));
      for (std::size_t rank = 0; rank < stage->entries.front().sums.size(); ++rank)
        ranks[rank].merge(sum_of_rank(*stage, rank));
      for (Entry& entry : stage->entries) entry.sums.clear();
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
  /// Of the tensors of those stages that lie in `layers`.
  std::vector<double> squares_of(const std::vector<SerialStage*>& stages, const Tensors& gradients,
                                 LayerRange layers) {
    std::vector<double> squares;
    for (const SerialStage* stage : stages) {
      std::int32_t layer = stage->config.layers.first;
      for (const Entry& entry : stage->entries) {
        if (const std::int32_t at = layer++; at < layers.first || at >= layers.last) continue;
        for (Tensor tensor : entry.layer().tensors()) {
          tensor.offset = 0;
          squares.push_back(0.0);
          sum_squares(kernels_, std::span<const Tensor>(&tensor, 1), tied_, scale_of(*stage),
                      std::span<const T>(gradients.at(tensor.name)),
                      std::span<double>(&squares.back(), 1));
        }
      }
    }
    return squares;
  }
  /// What the guard says of each tensor of an update.
  std::map<std::string, GuardDecision> decisions_on(const std::vector<SerialStage*>& stages,
                                                    const Tensors& gradients) {
    const LayerRange whole{0, stages_.back().config.layers.last};
    state_.gradient_norm = decide({}, squares_of(stages, gradients, whole)).norm;
    const bool apart = config_.guard.clip == ClipScope::per_stage;
    std::map<std::string, GuardDecision> decisions;
    for (const LayerRange range : apart ? config_.clip_ranges : std::vector<LayerRange>{whole}) {
      const GuardDecision decision = decide(config_.guard, squares_of(stages, gradients, range));
      if (decision.skip && config_.guard.on_nan == NonFinite::stop)
        throw DeviceError(fmt::format("update {}: a gradient is not finite", stages[0]->updates));
      for (const SerialStage* stage : stages) {
        std::int32_t layer = stage->config.layers.first;
        for (const Entry& entry : stage->entries) {
          if (const std::int32_t at = layer++; at < range.first || at >= range.last) continue;
          for (const Tensor& tensor : entry.layer().tensors()) decisions[tensor.name] = decision;
        }
      }
    }
    return decisions;
  }
  /// What the stage's gradients lack to be the mean over its own updates.
  double scale_of(const SerialStage& stage) const {
    return static_cast<double>(stages_.back().config.microbatches) /
           static_cast<double>(stage.config.microbatches);
  }
  void update_stage(SerialStage& stage, const Tensors& gradients,
                    const std::map<std::string, GuardDecision>& decisions) {
    Version version;
    bool skipped = false;
    for (const Entry& entry : stage.entries) {
      for (const Tensor& tensor : entry.layer().tensors()) {
        const GuardDecision& decision = decisions.at(tensor.name);
        skipped = skipped || decision.skip;
        if (tied_ && tensor.name == kHeadTable) {
          state_.weights.at(kHeadTable) = state_.weights.at(kTokenTable);
          state_.optimizer.at(kHeadTable) = state_.optimizer.at(kTokenTable);
          version.tie(kHeadTable, kTokenTable);
        } else if (!decision.skip) {
          update_tensor(stage, tensor, gradients.at(tensor.name), decision, version);
        }
        version.weights[tensor.name] = state_.weights.at(tensor.name);
        if (decision.skip) version.skip(stage.versions.back(), stage.config.reading, tensor.name);
      }
    }
    stage.versions.push_back(std::move(version));
    const std::int64_t oldest_read =
        std::max<std::int64_t>(stage.updates + 1 - most_stale(stage.config), 0);
    while (stage.updates + 2 - std::ssize(stage.versions) < oldest_read) stage.versions.pop_front();
    ++stage.updates;
    if (!skipped) ++stage.steps;
  }
  void update_tensor(const SerialStage& stage, const Tensor& tensor, const std::vector<T>& gradient,
                     const GuardDecision& decision, Version& version) {
    const Tensor alone = by_itself(tensor);
    const std::span<const Tensor> tensors(&alone, 1);
    std::vector<T>& weights = state_.weights.at(tensor.name);
    const std::vector<T> before = weights;
    std::span<T> state = state_.optimizer.at(tensor.name), drift, forward, backward;
    const Reading& reading = stage.config.reading;
    if (reading.corrects()) {
      drift = state.last(weights.size());
      state = state.first(state.size() - weights.size());
    }
    version.predict_no_change(reading, tensor.name, weights);
    if (Version::has_forward(reading)) forward = version.forward[tensor.name];
    if (Version::has_backward(reading)) backward = version.backward[tensor.name];
    std::vector<T> scratch = zero_numbers<T>(update_scratch<T, T>(config_.optimizer.kind, tensors));
    update(kernels_, config_.optimizer,
           {.number = stage.steps + 1,
            .batch = state_.batches + 1,
            .gradient_scale = scale_of(stage) * decision.scale,
            .reading = reading},
           tensors,
           {.weights = before,
            .gradients = gradient,
            .state = state,
            .weights_out = weights,
            .forward_weights = forward,
            .backward_weights = backward,
            .drift = drift,
            .scratch = scratch});
  }

  ReferenceConfig config_;
  bool tied_;
  const Data& data_;
  K kernels_;
  std::vector<LayerShape> shapes_;  // of each slice
  std::vector<SerialStage> stages_;
  std::vector<std::vector<Left>> left_;  // of each microbatch or slice of each pipeline, its layers
  std::vector<std::vector<T>> context_gradients_;  // of the microbatch at hand, by layer
  ReferenceState<T> state_;
};

}  // namespace tandem
