#include "simulator/cost/analytic.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "core/check.h"
#include "core/error.h"
#include "core/stage_bytes.h"

namespace tandem {

namespace {

constexpr double kLongest = 86'400.0;  // a day
constexpr double kMostBytes = 0x1p42;  // of a slot
constexpr Bytes kMaskBytes = 1;        // of dropout, for an element
constexpr Bytes kLossBytes = 4;        // logits enter the loss in fp32
constexpr Bytes kStateBytes = 4;       // of the optimizer, in fp32
constexpr double kFusedMatrices = 4;   // of scores: Megatron's fused softmax takes multiples

/// None, unless there is a calibration.
const Calibration& overheads_of(const AnalyticAssumptions& assumptions) {
  static const Calibration kNone;
  return assumptions.calibration ? *assumptions.calibration : kNone;
}

void check_transformer(const ModelSpec& model) {
  if (model.architecture == Architecture::gpt2) return;
  throw InputError(fmt::format(
      "model {}: a chain of linear maps has no analytic costs: give a profile", model.name));
}

void check_tensor(const ModelSpec& model, const AnalyticAssumptions& assumptions) {
  check_transformer(model);
  if (model.heads % assumptions.tensor == 0) return;
  throw InputError(fmt::format("model {}: {} heads can't be shared evenly by {} devices: --tensor",
                               model.name, model.heads, assumptions.tensor));
}

/// Parameters of a layer on each of the devices that share it: norms, the biases of outputs and
/// positions are on all of them.
double parameters_of_share(const ModelSpec& model, LayerKind kind, std::int32_t tensor) {
  const auto all = static_cast<double>(parameters_of(model, kind));
  const double d = model.width;
  double whole = 0;
  if (kind == LayerKind::embedding) whole = d * model.sequence;
  if (kind == LayerKind::attention || kind == LayerKind::mlp) whole = 3 * d;
  if (kind == LayerKind::head) whole = 2 * d;
  return whole + (all - whole) / tensor;
}

/// Of each op.
struct OpSums {
  double forward = 0, backward_input = 0, backward_weight = 0, update = 0, again = 0;
};

/// Kernels of one layer, added up.
class Kernels {
 public:
  Kernels(const DeviceSpec& device, const AnalyticAssumptions& assumptions)
      : element_(static_cast<double>(bytes_of(assumptions.format))),
        flops_per_s_(device.flops(assumptions.format) * assumptions.product_fraction),
        bytes_per_s_(device.memory_bytes_per_s * assumptions.memory_fraction),
        product_s_(overheads_of(assumptions).product_s) {}

  double element() const { return element_; }

  void run(double OpSums::* op, double flops, double bytes) {
    seconds.*op += std::max(flops / flops_per_s_, bytes / bytes_per_s_);
    if (flops > 0) seconds.*op += product_s_;
    launches.*op += 1;
  }

  /// y = xW, of (rows × in) and (in × out), with both gradients; that of W is added to a sum.
  void product(double rows, double in, double out) {
    const double flops = 2 * rows * in * out;
    const double moved = element_ * (rows * in + in * out + rows * out);
    run(&OpSums::forward, flops, moved);
    run(&OpSums::backward_input, flops, moved);
    run(&OpSums::backward_weight, flops, moved + element_ * in * out);
  }

  /// What only moves bytes.
  void pass(double forward, double backward) {
    run(&OpSums::forward, 0, forward);
    run(&OpSums::backward_input, 0, backward);
  }

  void layer_norm(double elements) { pass(2 * element_ * elements, 3 * element_ * elements); }
  /// Dropout of a block's output, and the residual sum.
  void residual(double elements) {
    pass((3 * element_ + kMaskBytes) * elements, (4 * element_ + kMaskBytes) * elements);
  }

  OpSums seconds, launches;

 private:
  double element_, flops_per_s_, bytes_per_s_, product_s_;
};

/// Matrices of scores, their elements, vocabulary and `share`, the channels of attention, are those
/// of one device.
struct Shape {
  double tokens, width, sequence, matrices, scores, vocabulary, share;
};

Shape shape_of(const ModelSpec& model, std::int32_t microbatch_size, std::int32_t tensor) {
  const double samples = microbatch_size, sequence = model.sequence;
  return {.tokens = samples * sequence,
          .width = static_cast<double>(model.width),
          .sequence = sequence,
          .matrices = samples * model.heads / tensor,
          .scores = samples * model.heads * sequence * sequence / tensor,
          .vocabulary = static_cast<double>(model.vocabulary) / tensor,
          .share = static_cast<double>(model.width) / tensor};
}

/// Scores, softmax, dropout, weighted values. Its backward needs no weight gradient.
void attention_core(Kernels& kernels, const Shape& shape, const AnalyticAssumptions& assumptions,
                    Recompute recompute) {
  const double element = kernels.element();
  const double flops = 2 * shape.tokens * shape.sequence * shape.share;  // of one product
  const double values = element * shape.tokens * shape.share;
  if (assumptions.attention == AttentionKernel::flash) {
    // Two products forward, five backward, the causal half of each.
    kernels.run(&OpSums::forward, flops, 4 * values);
    kernels.run(&OpSums::backward_input, 2.5 * flops, 8 * values);
    return;
  }
  const double product = 2 * values + element * shape.scores;
  const double softmax = 2 * element * shape.scores;
  const double dropout = (2 * element + kMaskBytes) * shape.scores;
  const auto forward = [&](double OpSums::* op) {
    for (int i = 0; i < 2; ++i) kernels.run(op, flops, product);
    kernels.run(op, 0, softmax);
    kernels.run(op, 0, dropout);
  };
  forward(&OpSums::forward);
  if (recompute == Recompute::selective) forward(&OpSums::again);
  for (int i = 0; i < 4; ++i) kernels.run(&OpSums::backward_input, flops, product);
  kernels.run(&OpSums::backward_input, 0, 3 * element * shape.scores);
  kernels.run(&OpSums::backward_input, 0, dropout);
  if (std::fmod(shape.matrices, kFusedMatrices) != 0.0) {
    const double more = overheads_of(assumptions).unfused_launches / 2;
    kernels.launches.forward += more;
    kernels.launches.backward_input += more;
  }
}

Kernels layer_kernels(const ModelSpec& model, LayerKind kind, std::int32_t microbatch_size,
                      Recompute recompute, OptimizerKind optimizer, const DeviceSpec& device,
                      const AnalyticAssumptions& assumptions) {
  Kernels kernels(device, assumptions);
  const Shape shape = shape_of(model, microbatch_size, assumptions.tensor);
  const double element = kernels.element(), d = shape.width, elements = shape.tokens * d;
  const double share = shape.share;
  switch (kind) {
    case LayerKind::embedding:
      kernels.pass((3 * element + kMaskBytes) * elements, (2 * element + kMaskBytes) * elements);
      kernels.run(&OpSums::backward_weight, 0, 3 * element * elements);
      break;
    case LayerKind::attention:
      kernels.layer_norm(elements);
      kernels.product(shape.tokens, d, 3 * share);
      attention_core(kernels, shape, assumptions, recompute);
      kernels.product(shape.tokens, share, d);
      kernels.residual(elements);
      break;
    case LayerKind::mlp:
      kernels.layer_norm(elements);
      kernels.product(shape.tokens, d, 4 * share);
      kernels.pass(8 * element * shape.tokens * share,
                   12 * element * shape.tokens * share);  // GELU
      kernels.product(shape.tokens, 4 * share, d);
      kernels.residual(elements);
      break;
    case LayerKind::head: {
      const double logits = shape.tokens * shape.vocabulary;
      kernels.layer_norm(elements);
      kernels.product(shape.tokens, d, shape.vocabulary);
      const double passes = overheads_of(assumptions).loss_passes;
      kernels.pass(passes * (element + kLossBytes) * logits,
                   passes * (kLossBytes + element) * logits);
      break;
    }
    case LayerKind::linear:
    case LayerKind::squared_error:
      check_transformer(model);
  }
  // Reads the gradient, clears it, writes the weights; reads and writes the states and, of 16-bit
  // weights, the master copy. 32-bit weights are read themselves.
  const bool narrow = element < kStateBytes;
  const double states = optimizer_states(optimizer) + (narrow ? 1 : 0);
  const double moved = 2.0 * kStateBytes * states + (narrow ? 3 : 4) * element;
  kernels.run(&OpSums::update, 0, moved * parameters_of_share(model, kind, assumptions.tensor));
  return kernels;
}

Duration duration(double seconds) {
  if (!(seconds <= kLongest))
    throw InputError(fmt::format(
        "a layer would take {:.3g} s for a microbatch: expected at most a day", seconds));
  return Duration(std::llround(seconds * 1e9));
}

/// What an op takes of the device, and how often its host launches something.
struct OpWork {
  Duration device{};
  double launches = 0;
  OpWork operator+(const OpWork& other) const {
    return {device + other.device, launches + other.launches};
  }
};

/// Of kernels, and of the sum that they end with.
OpWork work_of(const Kernels& kernels, double OpSums::* op, Duration sum = {}) {
  return {duration(kernels.seconds.*op) + sum, kernels.launches.*op + (sum == Duration{} ? 0 : 1)};
}

/// Of one layer; `tensor_sum` is the time of a sum over those that share it.
StageTimes layer_times(const Kernels& kernels, LayerKind kind, Duration tensor_sum,
                       const Calibration& overheads) {
  // While the device works, the host launches what follows: whichever takes longer is the time.
  const auto time = [&](const OpWork& work) {
    return std::max(work.device, duration(work.launches * overheads.launch_s));
  };
  // The layers that are shared are summed once each way: an embedding forward, a head backward.
  const Duration none{};
  StageTimes times;
  times.forward = times.recompute =
      time(work_of(kernels, &OpSums::forward, kind == LayerKind::head ? none : tensor_sum));
  const OpWork input =
      work_of(kernels, &OpSums::backward_input, kind == LayerKind::embedding ? none : tensor_sum) +
      work_of(kernels, &OpSums::again);
  const OpWork weight = work_of(kernels, &OpSums::backward_weight);
  times.backward_input = time(input);
  times.backward_weight = time(weight);
  times.backward = time(input + weight);
  times.update = duration(kernels.seconds.update);
  return times;
}

constexpr std::array<Duration StageTimes::*, 6> kTimes{
    &StageTimes::forward,        &StageTimes::recompute,       &StageTimes::backward,
    &StageTimes::backward_input, &StageTimes::backward_weight, &StageTimes::update};

}  // namespace

AnalyticAssumptions calibrated(AnalyticAssumptions assumptions, const Calibration& calibration) {
  assumptions.product_fraction = calibration.product_fraction;
  assumptions.memory_fraction = calibration.memory_fraction;
  assumptions.link_fraction = calibration.link_fraction;
  assumptions.calibration = calibration;
  return assumptions;
}

AnalyticLayers::AnalyticLayers(const ModelSpec& model, std::int32_t microbatch_size,
                               Recompute recompute, OptimizerKind optimizer,
                               const DeviceSpec& device, const AnalyticAssumptions& assumptions,
                               Duration tensor_sum) {
  check_tensor(model, assumptions);
  if (device.flops(assumptions.format) == 0.0) {
    throw InputError(fmt::format("{} has no peak for {}: --dtype with a format that it has",
                                 device.name, name(assumptions.format)));
  }
  std::array<std::optional<StageTimes>, kLayerKinds> known;
  sums_.emplace_back();
  for (const LayerKind kind : layers_of(model)) {
    std::optional<StageTimes>& times = known[static_cast<std::size_t>(kind)];
    if (!times) {
      times = layer_times(
          layer_kernels(model, kind, microbatch_size, recompute, optimizer, device, assumptions),
          kind, tensor_sum, overheads_of(assumptions));
    }
    StageTimes sum = sums_.back();
    for (const auto member : kTimes) sum.*member += (*times).*member;
    sums_.push_back(sum);
  }
}

StageTimes AnalyticLayers::of(LayerRange range) const {
  const StageTimes& before = sums_[static_cast<std::size_t>(range.first)];
  StageTimes times = sums_[static_cast<std::size_t>(range.last)];
  for (const auto member : kTimes) times.*member -= before.*member;
  return times;
}

namespace {

/// Bytes of one microbatch in a layer; its input is the boundary's.
LayerBytes layer_bytes(const ModelSpec& model, LayerKind kind, const Shape& shape,
                       OptimizerKind optimizer, Recompute recompute,
                       const AnalyticAssumptions& assumptions) {
  const Bytes element = bytes_of(assumptions.format);
  const double parameters = parameters_of_share(model, kind, assumptions.tensor);
  const auto wide = static_cast<double>(element);
  const double states = optimizer_states(optimizer) + (element < kStateBytes ? 1 : 0);
  const double elements = shape.tokens * shape.width, shared = shape.tokens * shape.share;
  const bool stores_scores =
      assumptions.attention == AttentionKernel::plain && recompute != Recompute::selective;
  double stash = 0, kept = 0, scratch = 0;
  switch (kind) {
    case LayerKind::embedding:
      stash = kMaskBytes * elements;
      break;
    case LayerKind::attention:
      // Output of the norm, q, k, v, weighted values; mask of the output.
      stash = (wide + kMaskBytes) * elements + 4 * wide * shared;
      if (stores_scores) stash += (2 * wide + kMaskBytes) * shape.scores;
      kept = scratch = wide * elements + 3 * wide * shared;
      if (assumptions.attention == AttentionKernel::plain) scratch += 2 * wide * shape.scores;
      break;
    case LayerKind::mlp:
      // Output of the norm, input and output of GELU; mask of the output.
      stash = (wide + kMaskBytes) * elements + 8 * wide * shared;
      kept = scratch = wide * elements + 4 * wide * shared;
      break;
    case LayerKind::head:
      stash = wide * elements + kLossBytes * shape.tokens * shape.vocabulary;
      kept = scratch = wide * shape.tokens * shape.vocabulary;
      break;
    case LayerKind::linear:
    case LayerKind::squared_error:
      check_transformer(model);
  }
  const double all = stash + kept + scratch + parameters * (2 * wide + kStateBytes * states);
  if (!(all < kMostBytes)) {
    throw InputError(
        fmt::format("layer {} of model {} would take {:.3g} bytes: expected at most "
                    "2^42",
                    name(kind), model.name, all));
  }
  const auto bytes = [](double value) { return static_cast<Bytes>(value); };
  return {.weights = bytes(wide * parameters),
          .gradients = bytes(wide * parameters),
          .optimizer = bytes(kStateBytes * states * parameters),
          .stash = bytes(stash),
          .kept = bytes(kept),
          .scratch = bytes(scratch)};
}

}  // namespace

StageBytes analytic_stage_bytes(const ModelSpec& model, LayerRange layers,
                                std::int32_t microbatch_size, OptimizerKind optimizer,
                                Recompute recompute, const AnalyticAssumptions& assumptions,
                                std::int32_t shards) {
  const std::vector<LayerKind> kinds = layers_of(model);
  TANDEM_CHECK(0 <= layers.first && layers.first < layers.last &&
                   layers.last <= static_cast<std::int32_t>(kinds.size()),
               layers.first, layers.last, kinds.size());
  check_tensor(model, assumptions);
  const Shape shape = shape_of(model, microbatch_size, assumptions.tensor);
  std::vector<LayerBytes> of_layers;
  for (std::int32_t layer = layers.first; layer < layers.last; ++layer) {
    of_layers.push_back(layer_bytes(model, kinds[static_cast<std::size_t>(layer)], shape, optimizer,
                                    recompute, assumptions));
  }
  StageBytes bytes = stage_bytes(
      of_layers, boundary_bytes(model, microbatch_size, bytes_of(assumptions.format)), recompute);
  bytes.optimizer = (bytes.optimizer + shards - 1) / shards;
  for (const Bytes slot : bytes.slot) {
    if (static_cast<double>(slot) < kMostBytes) continue;
    throw InputError(fmt::format(
        "a stage of model {} would take {:.3g} bytes for a microbatch: expected at most 2^42",
        model.name, static_cast<double>(slot)));
  }
  return bytes;
}

double forward_flops(const ModelSpec& model) {
  check_transformer(model);
  const Shape shape = shape_of(model, 1, 1);
  const double s = shape.sequence, d = shape.width;
  return model.blocks * (24 * s * d * d + 4 * s * s * d) + 2 * s * d * shape.vocabulary;
}

double model_flops(const ModelSpec& model) { return 3 * forward_flops(model); }

Duration moving_time(double bytes, double bytes_per_s, std::int64_t steps, Duration latency) {
  const double waited = static_cast<double>(steps) * to_seconds(latency);
  const double moved = bytes / bytes_per_s;
  if (!(waited + moved <= kLongest)) {
    throw InputError(fmt::format(
        "{:.4g} bytes at {:.4g} bytes a second would take {:.3g} s: expected at most a day", bytes,
        bytes_per_s, waited + moved));
  }
  return steps * latency + Duration(std::llround(moved * 1e9));
}

Duration ring_all_reduce(Bytes bytes, std::int64_t devices, double bytes_per_s, Duration latency) {
  if (devices <= 1) return {};
  const std::int64_t steps = 2 * (devices - 1);
  const double moved =
      static_cast<double>(bytes) * static_cast<double>(steps) / static_cast<double>(devices);
  return moving_time(moved, bytes_per_s, steps, latency);
}

}  // namespace tandem
