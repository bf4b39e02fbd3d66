#include "simulator/cost/analytic.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.h"
#include "simulator/cost/plane_prices.h"
#include "simulator/cost/tiles.h"
#include "simulator/cost/transformer_share.h"

namespace tandem {

namespace {

constexpr double kLongestPrice = 86'400.0;  // a day
constexpr double kFusedMatrices = 4;        // of scores: Megatron's fused softmax takes multiples

/// Of each op.
struct OpSums {
  double forward = 0, backward_input = 0, backward_weight = 0, update = 0, again = 0;
};

/// Kernels of one layer, added up.
class Kernels {
 public:
  Kernels(const DeviceSpec& device, NumberFormat format, const Calibration& constants)
      : element_(static_cast<double>(bytes_of(format))),
        casts_(storage_format(format) != format),
        flops_per_s_(device.flops(storage_format(format)) * constants.product_fraction),
        product_flops_per_s_(device.flops(format) * constants.product_fraction),
        bytes_per_s_(device.memory_bytes_per_s * constants.memory_fraction),
        product_s_(constants.product_s),
        launch_s_(constants.launch_s),
        multiprocessors_(device.multiprocessors) {}

  double element() const { return element_; }

  void run(double OpSums::* op, double flops, double bytes) { run(op, flops, bytes, flops_per_s_); }

  void run(double OpSums::* op, double flops, double bytes, double flops_per_s) {
    double one = std::max(flops / flops_per_s, bytes / bytes_per_s_);
    if (flops > 0) one += product_s_;
    seconds.*op += one;
    launches.*op += 1;
    if (op == &OpSums::update) return;  // an optimizer launches what it has of all layers at once
    all_s += one;
    if (one < launch_s_) short_s += one;
  }

  /// y = xW, of (rows × in) and (in × out), with both gradients; that of W is added to a sum. Of
  /// several W's, each row meets one.
  void product(double rows, double in, double out, double matrices = 1) {
    multiply(rows, in, out, matrices, flops_per_s_, element_);
  }
  /// The same of a layer's weights, in fp8 where that is asked for: both x and the gradient of y
  /// are cast first, and transposed for the products that read them so.
  void layer_product(double rows, double in, double out, double matrices = 1) {
    if (casts_) {
      const double cast = element_ + 2 * kFp8Bytes;
      run(&OpSums::forward, 0, cast * rows * in);
      run(&OpSums::backward_input, 0, cast * rows * out);
    }
    multiply(rows, in, out, matrices, product_flops_per_s_, casts_ ? kFp8Bytes : element_);
  }

  /// What only moves bytes.
  void pass(double forward, double backward) {
    run(&OpSums::forward, 0, forward);
    run(&OpSums::backward_input, 0, backward);
  }

  void norm(double elements) { pass(2 * element_ * elements, 3 * element_ * elements); }
  void activation(double elements) { norm(elements); }
  /// Dropout of a block's output, and the residual sum.
  void residual(double elements, bool dropout) {
    pass((3 * element_ + mask_bytes(dropout)) * elements,
         ((dropout ? 4 : 2) * element_ + mask_bytes(dropout)) * elements);
  }

  OpSums seconds, launches;
  double all_s = 0, short_s = 0;  // of kernels, and of those shorter than a launch

 private:
  /// `read`: bytes of a number that is multiplied.
  void multiply(double rows, double in, double out, double matrices, double flops_per_s,
                double read) {
    const double flops = 2 * rows * in * out, weights = matrices * in * out;
    run(&OpSums::forward, flops * waste(rows, out, in, matrices),
        read * (rows * in + weights) + element_ * rows * out, flops_per_s);
    run(&OpSums::backward_input, flops * waste(rows, in, out, matrices),
        read * (rows * out + weights) + element_ * rows * in, flops_per_s);
    run(&OpSums::backward_weight, flops * waste(in, out, rows, 1),
        read * (rows * in + rows * out) + 2 * element_ * weights, flops_per_s);
  }

  double waste(double rows, double columns, double depth, double matrices) const {
    return tile_waste({rows / matrices, columns, depth}, matrices, multiprocessors_);
  }

  double element_;
  bool casts_;
  double flops_per_s_, product_flops_per_s_, bytes_per_s_, product_s_, launch_s_;
  std::int32_t multiprocessors_;
};

/// Scores, softmax, dropout, weighted values. Its backward needs no weight gradient.
void attention_core(Kernels& kernels, const TransformerShare& shape, AttentionKernel kernel,
                    Recompute recompute, double unfused_launches) {
  const double element = kernels.element();
  // Of one product, of all pairs: what makes or takes scores, and what weighted values.
  const double pairs = 2 * shape.tokens * (shape.seen / shape.samples);
  const double scored = pairs * shape.queries, weighted = pairs * shape.attended;
  const double keyed = element * (shape.tokens * shape.queries + shape.seen * shape.keys),
               valued = element * (shape.tokens * shape.attended + shape.seen * shape.values);
  if (kernel == AttentionKernel::flash) {
    // Two products forward, five backward, of a causal one half of each, or more of a slice.
    const double part = shape.built.causal ? shape.looks : 1.0;
    kernels.run(&OpSums::forward, part * (scored + weighted), keyed + valued);
    kernels.run(&OpSums::backward_input, part * (3 * scored + 2 * weighted), 2 * (keyed + valued));
    return;
  }
  const double softmax = 2 * element * shape.scores;
  const auto dropout = [&](double OpSums::* op) {
    if (shape.built.dropout) kernels.run(op, 0, (2 * element + kMaskBytes) * shape.scores);
  };
  const auto score = [&](double OpSums::* op) {
    kernels.run(op, scored, keyed + element * shape.scores);
  };
  const auto weigh = [&](double OpSums::* op) {
    kernels.run(op, weighted, valued + element * shape.scores);
  };
  const auto forward = [&](double OpSums::* op) {
    score(op);
    weigh(op);
    kernels.run(op, 0, softmax);
    dropout(op);
  };
  forward(&OpSums::forward);
  if (recompute == Recompute::selective) forward(&OpSums::again);
  for (int i = 0; i < 2; ++i) {
    score(&OpSums::backward_input);
    weigh(&OpSums::backward_input);
  }
  kernels.run(&OpSums::backward_input, 0, 3 * element * shape.scores);
  dropout(&OpSums::backward_input);
  if (std::fmod(shape.matrices, kFusedMatrices) != 0.0) {
    kernels.launches.forward += unfused_launches / 2;
    kernels.launches.backward_input += unfused_launches / 2;
  }
}

void heads_of_stream(Kernels& kernels, const TransformerShare& shape) {
  const double turned = shape.tokens * (shape.queries + shape.keys);
  kernels.layer_product(shape.tokens, shape.width, shape.queries + shape.keys + shape.values);
  if (shape.built.head_norm) kernels.norm(turned);
  if (shape.built.positions == 0)  // turned in place
    kernels.pass(2 * kernels.element() * turned, 2 * kernels.element() * turned);
}

/// Who shares the layer makes narrow channels of its own part of a split sequence, and each its
/// heads of those of all tokens.
void heads_of_latents(Kernels& kernels, const TransformerShare& shape) {
  const LatentAttention& latent = shape.built.latent;
  const double element = kernels.element(), turned = latent.rotary_width;
  const double turned_share = turned / shape.built.head_width;  // of a head
  const double held = latent.key_value_rank, asked = latent.query_rank;
  if (asked > 0) {
    kernels.layer_product(shape.split_tokens, shape.width, asked);
    kernels.norm(shape.split_tokens * asked);
  }
  kernels.layer_product(shape.tokens, asked > 0 ? asked : shape.width, shape.queries);
  kernels.layer_product(shape.split_tokens, shape.width, held + turned);
  kernels.norm(shape.split_tokens * held);
  kernels.layer_product(shape.tokens, held, (1 - turned_share) * shape.keys + shape.values);
  const double turns = 2 * element * shape.tokens * (turned_share * shape.queries + turned);
  kernels.pass(turns, turns);
  // The part of keys that heads share is copied to each, and its gradients are added up.
  const double copies = 2 * element * shape.tokens * shape.keys;
  kernels.pass(copies, copies);
}

void attention(Kernels& kernels, const TransformerShare& shape, AttentionKernel kernel,
               Recompute recompute, double unfused_launches) {
  const double elements = shape.split_tokens * shape.width;
  kernels.norm(elements);
  (shape.built.is_latent() ? heads_of_latents : heads_of_stream)(kernels, shape);
  attention_core(kernels, shape, kernel, recompute, unfused_launches);
  kernels.layer_product(shape.tokens, shape.attended, shape.width);
  if (shape.built.output_norm) kernels.norm(elements);
  kernels.residual(elements, shape.built.dropout);
}

/// Two products and what is between them; of several mlps, each row meets one.
void products_of_mlp(Kernels& kernels, double rows, double width, double inner, double mlp,
                     double mlps) {
  const double read = kernels.element() * rows * inner, written = kernels.element() * rows * mlp;
  kernels.layer_product(rows, width, inner, mlps);
  kernels.pass(read + written, 2 * read + written);
  kernels.layer_product(rows, mlp, width, mlps);
}

void mlp(Kernels& kernels, const TransformerShare& shape) {
  const double element = kernels.element(), elements = shape.split_tokens * shape.width;
  // Tokens are copied in the order of their experts, and what these make is added up for each.
  const double spread = element * (shape.tokens + shape.mlp_rows) * shape.width;
  kernels.norm(elements);
  if (shape.built.experts > 0) {
    const double scores = element * shape.tokens * shape.built.experts;
    kernels.product(shape.tokens, shape.width, shape.built.experts);
    kernels.pass(2 * scores, 3 * scores);
    kernels.pass(spread, spread);
  }
  products_of_mlp(kernels, shape.mlp_rows, shape.width, shape.inner, shape.mlp, shape.mlps);
  if (shape.built.experts > 0) kernels.pass(spread, spread);
  if (shape.shared > 0) {
    products_of_mlp(kernels, shape.tokens, shape.width, shape.shared_inner, shape.shared, 1);
    const double sum = 3 * element * shape.tokens * shape.width;
    kernels.pass(sum, sum);
  }
  if (shape.built.output_norm) kernels.norm(elements);
  kernels.residual(elements, shape.built.dropout);
}

void head(Kernels& kernels, const TransformerShare& shape, double passes) {
  const double element = kernels.element(), elements = shape.tokens * shape.width;
  const double logits = shape.tokens * shape.vocabulary;
  if (shape.built.norm_first) kernels.norm(shape.split_tokens * shape.width);
  if (shape.built.masked_head) {
    kernels.product(shape.tokens, shape.width, shape.width);
    kernels.activation(elements);
    kernels.norm(elements);
  }
  if (shape.built.pooler) kernels.product(shape.samples, shape.width, shape.width);
  kernels.product(shape.tokens, shape.width, shape.vocabulary);
  const double loss = passes * (element + kLossBytes) * logits;
  kernels.pass(loss, loss);
}

void embedding(Kernels& kernels, const TransformerShare& shape) {
  const double element = kernels.element(), elements = shape.tokens * shape.width;
  const double split = shape.split_tokens * shape.width;
  const double mask = mask_bytes(shape.built.dropout);
  // Reads a row of each table, writes their sum.
  const double rows = 2 + (shape.built.positions > 0 ? 1 : 0) + (shape.built.segments > 0 ? 1 : 0);
  kernels.run(&OpSums::forward, 0, rows * element * elements + mask * split);
  if (shape.built.dropout) kernels.run(&OpSums::backward_input, 0, (2 * element + mask) * split);
  kernels.run(&OpSums::backward_weight, 0, 3 * element * elements);
  if (!shape.built.norm_first) kernels.norm(split);
}

/// Muon makes each hidden matrix orthogonal in five steps of a product with itself, the square of
/// that, and a product with the matrix: 20m²n + 10m³ operations, m the smaller side. Of other
/// optimizers nothing.
void orthogonalise(Kernels& kernels, const ModelSpec& model, LayerKind kind, Optimizer optimizer) {
  if (optimizer.kind != OptimizerKind::muon) return;
  constexpr int kSteps = 5;
  const double element = kernels.element();
  for (const HiddenMatrices& matrices : hidden_matrices(model, kind)) {
    const auto count = static_cast<double>(matrices.count);
    const auto m = static_cast<double>(std::min(matrices.rows, matrices.columns));
    const double size = static_cast<double>(matrices.rows) * static_cast<double>(matrices.columns);
    // The slope is written, its squares are summed, and it is read once more, to be divided.
    kernels.run(&OpSums::update, 0, count * (3 * kStateBytes + element) * size);
    for (int step = 0; step < kSteps; ++step) {
      for (const auto& [flops, moved] :
           {std::pair(2 * m * size, size + m * m), std::pair(2 * m * m * m, 2 * m * m),
            std::pair(2 * m * size, 2 * size + m * m)}) {
        kernels.run(&OpSums::update, count * flops, count * element * moved);
      }
      // b A + c A², and a X + B X.
      kernels.run(&OpSums::update, 0, count * 3 * element * (m * m + size));
    }
    kernels.run(&OpSums::update, 0, count * element * size);  // what the step itself reads
  }
}

Kernels layer_kernels(const ModelSpec& model, LayerKind kind, std::int32_t microbatch_size,
                      Recompute recompute, Optimizer optimizer, const DeviceSpec& device,
                      const AnalyticAssumptions& assumptions, const Calibration& constants,
                      SequencePart part = {}) {
  if (kind == LayerKind::dense_mlp) {
    return layer_kernels(with_dense_mlp(model), LayerKind::mlp, microbatch_size, recompute,
                         optimizer, device, assumptions, constants, part);
  }
  Kernels kernels(device, assumptions.format, constants);
  const TransformerShare shape =
      share_of(model, microbatch_size, assumptions.tensor, assumptions.sequence_parallel, part);
  const double element = kernels.element();
  switch (kind) {
    case LayerKind::embedding:
      embedding(kernels, shape);
      break;
    case LayerKind::attention:
      attention(kernels, shape, assumptions.attention, recompute, constants.unfused_launches);
      break;
    case LayerKind::mlp:
      mlp(kernels, shape);
      break;
    case LayerKind::head:
      head(kernels, shape, constants.loss_passes);
      break;
    case LayerKind::dense_mlp:
    case LayerKind::linear:
    case LayerKind::squared_error:
      check_transformer(model);
  }
  double moved = stateless_update_bytes(element);
  if (has_fp8_weights(kind, assumptions.format)) moved += element + 2 * kFp8Bytes;  // made anew
  const double parameters = parameters_of_share(model, kind, assumptions.tensor);
  const double states = states_of_share(model, kind, optimizer, assumptions.tensor);
  kernels.run(&OpSums::update, 0, moved * parameters + 2.0 * kStateBytes * states);
  orthogonalise(kernels, model, kind, optimizer);
  return kernels;
}

Duration duration(double seconds) {
  if (!(seconds <= kLongestPrice))
    throw InputError(fmt::format(
        "a layer would take {:.3g} s for a microbatch: expected at most a day", seconds));
  return Duration(std::llround(seconds * 1e9));
}

/// What an op takes of the device, and of its host, which launches what follows meanwhile:
/// whichever takes longer is its time.
struct OpWork {
  double device_s = 0, host_s = 0;
  OpWork operator+(const OpWork& other) const {
    return {device_s + other.device_s, host_s + other.host_s};
  }
  Duration time() const { return duration(std::max(device_s, host_s)); }
};

/// Of the sum over those that share a layer.
OpWork tensor_sum_work(Duration time, std::int32_t tensor, const Calibration& constants) {
  if (tensor == 1) return {};
  return {to_seconds(time), constants.launch_s + (tensor - 1) * constants.sum_s};
}

/// Of one layer; `sum` is over those that share it.
StageTimes layer_times(const Kernels& kernels, LayerKind kind, const OpWork& sum, double launch_s) {
  const auto work = [&](double OpSums::* op) {
    return OpWork{kernels.seconds.*op, kernels.launches.*op * launch_s};
  };
  // The layers that are shared are summed once each way: an embedding forward, a head backward.
  StageTimes times;
  times.forward = times.recompute =
      (work(&OpSums::forward) + (kind == LayerKind::head ? OpWork{} : sum)).time();
  const OpWork input = work(&OpSums::backward_input) + work(&OpSums::again) +
                       (kind == LayerKind::embedding ? OpWork{} : sum);
  const OpWork weight = work(&OpSums::backward_weight);
  times.backward_input = input.time();
  times.backward_weight = weight.time();
  times.backward = (input + weight).time();
  times.update = duration(kernels.seconds.update);
  return times;
}

}  // namespace

Calibration constants_of(const AnalyticAssumptions& assumptions, const DeviceSpec& device) {
  Calibration constants =
      assumptions.calibration ? *assumptions.calibration : device.typical.value_or(Calibration{});
  const auto given = [](const std::optional<double>& fraction, double& constant) {
    constant = fraction.value_or(constant);
  };
  given(assumptions.product_fraction, constants.product_fraction);
  given(assumptions.memory_fraction, constants.memory_fraction);
  given(assumptions.link_fraction, constants.link_fraction);
  given(assumptions.link_fraction, constants.network_fraction);
  return constants;
}

LayerTimes analytic_layers(const ModelSpec& model, std::int32_t microbatch_size,
                           Recompute recompute, Optimizer optimizer, const DeviceSpec& device,
                           const AnalyticAssumptions& assumptions, Duration tensor_sum,
                           SequencePart part) {
  check_tensor(model, assumptions, part);
  check_whole_matrices(optimizer, assumptions);
  for (const NumberFormat format : {assumptions.format, storage_format(assumptions.format)}) {
    if (device.flops(format) > 0.0) continue;
    throw InputError(fmt::format("{} has no peak for {}: give a --dtype that it has", device.name,
                                 name(format)));
  }
  const Calibration constants = constants_of(assumptions, device);
  const auto times_of = [&](LayerKind kind) {
    return layer_times(layer_kernels(model, kind, microbatch_size, recompute, optimizer, device,
                                     assumptions, constants, part),
                       kind, tensor_sum_work(tensor_sum, assumptions.tensor, constants),
                       constants.launch_s);
  };
  return times_of_layers(model, times_of, recompute);
}

double short_kernel_share(const ModelSpec& model, std::int32_t microbatch_size,
                          const DeviceSpec& device, const AnalyticAssumptions& assumptions) {
  const Calibration constants = constants_of(assumptions, device);
  double all = 0.0, of_short = 0.0;
  for (const LayerKind kind : {LayerKind::attention, LayerKind::mlp}) {
    const Kernels kernels = layer_kernels(model, kind, microbatch_size, Recompute::none,
                                          Optimizer{}, device, assumptions, constants);
    all += kernels.all_s;
    of_short += kernels.short_s;
  }
  return of_short / all;
}

Duration moving_time(double bytes, double bytes_per_s, std::int64_t steps, Duration latency) {
  const double waited = static_cast<double>(steps) * to_seconds(latency);
  const double moved = bytes / bytes_per_s;
  if (!(waited + moved <= kLongestPrice)) {
    throw InputError(fmt::format(
        "{:.4g} bytes at {:.4g} bytes a second would take {:.3g} s: expected at most a day", bytes,
        bytes_per_s, waited + moved));
  }
  return steps * latency + Duration(std::llround(moved * 1e9));
}

}  // namespace tandem
