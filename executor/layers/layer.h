#pragma once
// What every layer is: sizes, parameter tensors, and three functions over kernels.
//
// A layer owns no tensor memory. What its functions read and write is handed in:
//   forward          reads weights, input, sample;
//                    writes stash, output (empty: not wanted, as in recomputation), and the loss
//                    where the layer computes one (null: not wanted)
//   backward_input   reads weights, input, stash, output_gradient;
//                    writes inner_gradient, scratch and input_gradient (empty: not wanted)
//   backward_weight  reads input, stash, output_gradient, inner_gradient, scratch;
//                    adds to gradients
// backward_weight may run any time after backward_input of the same microbatch, as long as what it
// reads is kept. It does not read the first inner_size() elements of the stash: once backward_input
// has returned, the inner gradient may take their place. The same inputs give the same bits.
//
// With selective recomputation the outputs of layer norms and of GELU live in scratch instead of
// the stash: forward writes them there and forgets them, and backward_input begins with
//   recompute        reads weights, input, stash; writes its part of scratch
// by the kernels that forward used, so the bits are the same.
//
// A layer of a slice (slice.h) has the sizes of its own tokens. Slices go forward in their order,
// backward in the reverse one. Attention reads the first inner_size() elements of the stashes of
// earlier slices, `earlier`; its backward_input adds to their `context_gradient`, which that of the
// last slice clears first, and takes from it what later slices have added for its own tokens. Of a
// text, which only goes forward, attention puts keys and values into `kept`, context_size() long,
// and reads those of earlier slices there.

#include <concepts>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/base/random.h"
#include "core/model/model.h"
#include "core/schedule/schedule.h"
#include "executor/backend/kernels.h"
#include "executor/layers/slice.h"

namespace tandem {

/// How a tensor begins.
enum class Initial : std::uint8_t { normal, zeros, ones, dyadic };

/// A named part of the weights of a layer or a stage.
struct Tensor {
  std::string name;
  std::vector<std::int64_t> shape;
  bool decayed = false;  // subject to weight decay: matrices are, vectors are not
  bool hidden = false;   // a matrix, neither a table nor of the head (core's hidden_matrices())
  Initial initial = Initial::zeros;
  double deviation = 0.0;  // of Initial::normal
  std::string key = {};  // names its random numbers: its name, or that of what it is a tied copy of
  std::int64_t offset = 0;  // in the layer's or the stage's weights

  std::int64_t size() const {
    return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  }
};

/// What the data gives for one microbatch: tokens to a language model, numbers to a linear one.
template <class T>
struct Sample {
  std::vector<std::int32_t> tokens, targets;  // (B, T)
  std::vector<T> inputs, expected;            // (B, T, d)
};

/// A sample as kernels read it; empty: none.
template <class T>
struct SampleSpans {
  std::span<const std::int32_t> tokens, targets;
  std::span<const T> inputs, expected;

  SampleSpans() = default;
  SampleSpans(std::span<const std::int32_t> tokens_of, std::span<const std::int32_t> targets_of,
              std::span<const T> inputs_of, std::span<const T> expected_of)
      : tokens(tokens_of), targets(targets_of), inputs(inputs_of), expected(expected_of) {}
  /// Where the host's memory is the kernels'.
  SampleSpans(const Sample<T>* sample)  // NOLINT(google-explicit-constructor)
      : SampleSpans(sample->tokens, sample->targets, sample->inputs, sample->expected) {}
  bool empty() const { return tokens.empty() && inputs.empty(); }
};

template <class T, class W = T>
struct ForwardSpans {
  std::span<const T> weights = {}, input = {};
  SampleSpans<W> sample = {};  // read where a stage is first or last
  std::span<T> stash = {}, output = {};
  std::span<const std::span<T>> pieces = {};   // of a stage's stash, in its place
  std::span<const std::span<T>> context = {};  // StageSizes::context_pieces; empty: not wanted
  std::span<T> scratch = {};                   // with selective recomputation
  double* loss = nullptr;                      // written where a stage is last
  std::span<const std::span<const T>> earlier = {};  // of a layer: its stashes of earlier slices
  std::span<const std::span<const std::span<T>>> earlier_pieces = {};  // of a stage: the same
  std::span<T> kept = {};  // keys and values of a text: read, and written behind these
};

template <class T, class W = T>
struct BackwardSpans {
  std::span<const T> weights = {}, input = {}, output_gradient = {};
  std::span<T> stash = {};  // a layer reads it; a stage whose backward is split writes it, too
  std::span<const std::span<T>> pieces = {};  // of a stage's stash, in its place
  std::span<T> inner_gradient = {}, scratch = {}, input_gradient = {};
  std::span<W> gradients = {};
  std::span<const std::span<const T>> earlier = {};  // of a layer: its stashes of earlier slices
  std::span<const std::span<const std::span<T>>> earlier_pieces = {};  // of a stage: the same
  std::span<W> context_gradient = {};  // of the microbatch's keys and values, while it is sliced
};

/// A norm of rows.
struct NormShape {
  RowShape of;
  bool is_rms = false;  // scales alone: no mean, no bias
  double epsilon = 0.0;
};

/// Everything a layer must know to state its sizes and to compute.
struct LayerShape {
  ModelSpec model;
  std::int32_t microbatch_size = 1;
  double loss_scale = 1.0;  // factor of the gradient of the loss summed over tokens; for a mean
                            // over a batch 1 / (B·T·m)
  Recompute recompute = Recompute::none;  // by block or stage: the stage's matter, as none
  Slice slice = {};

  /// Of each sample.
  std::int64_t tokens() const { return slice.tokens > 0 ? slice.tokens : model.sequence; }
  std::int64_t rows() const { return microbatch_size * tokens(); }
  std::int64_t boundary() const { return rows() * model.width; }
  AttentionShape attention() const {
    const TransformerShape built = shape_of(model);
    return {.batch = microbatch_size,
            .sequence = tokens(),
            .heads = model.heads,
            .width = std::int64_t{model.heads} * built.head_width,
            .key_value_heads = built.key_value_heads};
  }
  NormShape norm() const {
    const TransformerShape built = shape_of(model);
    return {.of = {.rows = rows(), .width = model.width},
            .is_rms = built.rms_norm,
            .epsilon = built.details.norm_epsilon};
  }
  /// What is cheap to make again stands in scratch, not in the stash.
  bool drops() const { return recompute == Recompute::selective; }
};

template <class L, class K>
concept Layer =
    requires(const L layer, K kernels, ForwardSpans<typename K::Scalar, typename K::Wide> forward,
             BackwardSpans<typename K::Scalar, typename K::Wide> backward, std::int32_t block) {
      { layer.tensors(block) } -> std::same_as<std::vector<Tensor>>;  // offsets not yet set
      { layer.stash_size() } -> std::same_as<std::int64_t>;
      { layer.inner_size() } -> std::same_as<std::int64_t>;
      { layer.scratch_size() } -> std::same_as<std::int64_t>;
      { layer.context_size() } -> std::same_as<std::int64_t>;  // of context_gradient, and kept
      { layer.forward(kernels, forward) } -> std::same_as<void>;
      { layer.recompute(kernels, backward) } -> std::same_as<void>;
      { layer.backward_input(kernels, backward) } -> std::same_as<void>;
      { layer.backward_weight(kernels, backward) } -> std::same_as<void>;
    };

// In a stash or scratch of elements T lie numbers of W, too. Where W is wider, every part begins at
// a multiple of 16 bytes.

/// Elements that a part of `count` elements takes.
template <class T, class W>
constexpr std::int64_t room(std::int64_t count) {
  constexpr std::int64_t kStep = sizeof(T) == sizeof(W) ? 1 : 16 / sizeof(T);
  return (count + kStep - 1) / kStep * kStep;
}
/// Elements that a part of `count` numbers of W takes.
template <class T, class W>
constexpr std::int64_t wide_room(std::int64_t count) {
  return room<T, W>(count * static_cast<std::int64_t>(sizeof(W) / sizeof(T)));
}

/// Cuts a span into consecutive parts. INVARIANT: never beyond its end (checked).
template <class U, class W = std::remove_const_t<U>>
class Carver {
 public:
  using T = std::remove_const_t<U>;
  using WideU = std::conditional_t<std::is_const_v<U>, const W, W>;

  explicit Carver(std::span<U> whole) : rest_(whole) {}
  /// Without a gap behind it: of weights.
  std::span<U> take(std::int64_t size) {
    const auto count = static_cast<std::size_t>(size);
    TANDEM_CHECK(size >= 0 && count <= rest_.size(), size, rest_.size());
    return std::exchange(rest_, rest_.subspan(count)).first(count);
  }
  std::span<U> take_part(std::int64_t size) {
    return take(room<T, W>(size)).first(static_cast<std::size_t>(size));
  }
  std::span<WideU> take_wide(std::int64_t size) {
    const std::span<U> part = take(wide_room<T, W>(size));
    if constexpr (std::same_as<T, W>) {
      return part;
    } else {
      return {reinterpret_cast<WideU*>(part.data()), static_cast<std::size_t>(size)};
    }
  }

 private:
  std::span<U> rest_;
};

/// A layer's `size` numbers that are cheap to make again: the last ones of its scratch with
/// selective recomputation, of its stash without.
template <class W, class U>
Carver<U, W> cheap_part(const LayerShape& shape, std::span<U> stash, std::span<U> scratch,
                        std::int64_t size) {
  const std::span<U> home = shape.drops() ? scratch : stash;
  TANDEM_CHECK(size <= static_cast<std::int64_t>(home.size()), size, home.size());
  return Carver<U, W>(home.last(static_cast<std::size_t>(size)));
}

/// Appends tensors, giving them their offsets.
void append_tensors(std::vector<Tensor> more, std::vector<Tensor>& tensors);

/// Elements of all tensors. REQUIRES: offsets are set.
std::int64_t total_size(std::span<const Tensor> tensors);

/// Initial values of one tensor, rounded to float whatever T is. Pure function of (seed, tensor
/// key, element).
template <class T>
void initialise(const Tensor& tensor, std::uint64_t seed, std::span<T> values);

/// Weight (inner × columns) and, where it has one, bias of a projection.
std::vector<Tensor> projection_tensors(const std::string& prefix, std::int64_t inner,
                                       std::int64_t columns, double deviation, bool has_bias);

inline constexpr const char* kTokenTable = "embedding.token.weight";
inline constexpr const char* kHeadTable = "head.projection.weight";
inline constexpr const char* kPositionTable = "embedding.position.weight";

/// The scale that makes gradients those of the mean loss over the tokens of a whole batch: 1 /
/// (B·T·m).
double mean_loss_scale(const ModelSpec& model, std::int32_t microbatch_size,
                       std::int32_t microbatches);

/// Of the model's matrices and tables, before training.
double initial_deviation(const ModelSpec& model);
/// GPT-2 shrinks what is added to the residual stream by the root of the number of additions;
/// models with rotary positions, which follow Llama, do not.
double residual_deviation(const ModelSpec& model);

}  // namespace tandem
