#pragma once
// All kernels over one context, as tandem::Kernels asks for them: what is stored is float or
// bfloat16, what must not be rounded float. A context is a grid (block.h) that multiplies:
// context.multiply(ProductSpans<Stored, Stored>), and ProductSpans<Stored, float>. It may have
// attention of its own: context.attend(shape, spans) says whether it has taken it.

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <span>

#include "core/base/check.h"
#include "executor/backend/kernels.h"
#include "executor/cuda/kernels/attention_backward.h"
#include "executor/cuda/kernels/attention_forward.h"
#include "executor/cuda/kernels/column_sums.h"
#include "executor/cuda/kernels/elementwise.h"
#include "executor/cuda/kernels/embedding.h"
#include "executor/cuda/kernels/loss.h"
#include "executor/cuda/kernels/muon.h"
#include "executor/cuda/kernels/norm.h"
#include "executor/cuda/kernels/product.h"
#include "executor/cuda/kernels/rotary.h"
#include "executor/cuda/kernels/squares.h"
#include "executor/cuda/kernels/steps.h"

namespace tandem::cuda {

/// A pointer to its context: cheap to copy. Calls queue their work and return.
template <class Context, class Stored = float>
class KernelSet {
 public:
  using Scalar = Stored;
  using Wide = float;
  using In = std::span<const Stored>;
  using Out = std::span<Stored>;
  using WideIn = std::span<const float>;
  using WideOut = std::span<float>;
  using Ids = std::span<const std::int32_t>;  // the host reads them, too

  /// Where it does not, what takes a Wide takes a Scalar.
  static constexpr bool kRounds = !std::same_as<Stored, float>;

  explicit KernelSet(Context& context) : context_(&context) {}

  static Stored rounded(float value) { return narrow<Stored>(value); }
  static float widened(Stored value) { return to_float(value); }
  void fill(WideOut y, double value) const { cuda::fill(*context_, y, static_cast<float>(value)); }
  void copy(In x, Out y) const { cuda::copy(*context_, x, y); }
  void store(WideIn x, Out y) const { cuda::copy(*context_, x, y); }
  void copy(WideIn x, WideOut y) const
    requires kRounds
  {
    cuda::copy(*context_, x, y);
  }
  void add(In a, In b, Out y) const { cuda::add(*context_, a, b, y); }
  void add(WideIn a, WideIn b, WideOut y) const
    requires kRounds
  {
    cuda::add(*context_, a, b, y);
  }
  void combine(double a, In x, double b, In y, Out out) const {
    cuda::combine(*context_, a, x, b, y, out);
  }
  void sums_of_squares(WideIn x, std::span<const ElementRange> ranges, double factor,
                       std::span<double> sums) const {
    cuda::sums_of_squares(*context_, x, ranges, factor, sums);
  }

  void matmul(MatmulShape shape, In x, In w, In bias, Out y) const {
    context_->multiply(matmul_product<ProductSpans>(shape, x, w, bias, y));
  }
  void matmul_transposed(MatmulShape shape, In x, In w, Out y) const {
    context_->multiply(matmul_transposed_product<ProductSpans>(shape, x, w, y));
  }
  void accumulate_product(MatmulShape shape, In x, In dy, WideOut dw) const {
    context_->multiply(accumulated_product<ProductSpans>(shape, x, dy, dw));
  }
  void accumulate_rows(RowShape shape, In dy, WideOut db) const {
    cuda::accumulate_rows(*context_, shape, dy, db);
  }
  void matmul_gelu(MatmulShape shape, In x, In w, In bias, Out before, Out y) const {
    TANDEM_CHECK(before.size() == y.size(), before.size(), y.size());
    auto spans = matmul_product<ProductSpans>(shape, x, w, bias, y);
    spans.before_gelu = before.data();
    context_->multiply(spans);
  }
  void matmul_transposed_gelu_backward(MatmulShape shape, In x, In w, In before, Out dx) const {
    TANDEM_CHECK(before.size() == dx.size(), before.size(), dx.size());
    auto spans = matmul_transposed_product<ProductSpans>(shape, x, w, dx);
    spans.gelu_input = before.data();
    context_->multiply(spans);
  }
  void accumulate_product_and_rows(MatmulShape shape, In x, In dy, WideOut dw, WideOut db) const {
    TANDEM_CHECK(std::ssize(db) == shape.columns, db.size(), shape.columns);
    auto spans = accumulated_product<ProductSpans>(shape, x, dy, dw);
    spans.column_sums = db.data();
    context_->multiply(spans);
  }

  void layer_norm(RowShape shape, const NormForward<Stored, float>& spans) const {
    check_sizes(shape.rows * shape.width, spans.x, spans.y);
    check_sizes(shape.rows, spans.mean, spans.inverse_deviation);
    check_sizes(shape.width, spans.gain, spans.bias);
    norm_rows(shape, spans);
  }
  void rms_norm(RowShape shape, const NormForward<Stored, float>& spans) const {
    check_sizes(shape.rows * shape.width, spans.x, spans.y);
    check_size(spans.inverse_deviation, shape.rows);
    check_size(spans.gain, shape.width);
    TANDEM_CHECK(spans.mean.empty() && spans.bias.empty(), spans.mean.size(), spans.bias.size());
    norm_rows(shape, spans);
  }
  void layer_norm_backward(RowShape shape, const NormBackward<Stored, float>& spans) const {
    const std::int64_t size = shape.rows * shape.width;
    check_sizes(size, spans.x, spans.dy, spans.dx);
    if (!spans.residual.empty()) check_size(spans.residual, size);
    check_sizes(shape.rows, spans.mean, spans.inverse_deviation);
    check_size(spans.gain, shape.width);
    norm_rows_backward(shape, spans);
  }
  void rms_norm_backward(RowShape shape, const NormBackward<Stored, float>& spans) const {
    const std::int64_t size = shape.rows * shape.width;
    check_sizes(size, spans.x, spans.dy, spans.dx);
    if (!spans.residual.empty()) check_size(spans.residual, size);
    check_size(spans.inverse_deviation, shape.rows);
    check_size(spans.gain, shape.width);
    TANDEM_CHECK(spans.mean.empty(), spans.mean.size());
    norm_rows_backward(shape, spans);
  }
  void layer_norm_backward_weight(RowShape shape,
                                  const NormBackwardWeight<Stored, float>& spans) const {
    check_sizes(shape.rows * shape.width, spans.x, spans.dy);
    check_sizes(shape.rows, spans.mean, spans.inverse_deviation);
    sum_columns(*context_, shape,
                NormWeightTerms<Stored>{spans.x.data(), spans.dy.data(), spans.mean.data(),
                                        spans.inverse_deviation.data()},
                rows_are_whole(shape.width, spans.x.data(), spans.dy.data()),
                {spans.dgain, spans.dbias});
  }

  void rms_norm_backward_weight(RowShape shape,
                                const NormBackwardWeight<Stored, float>& spans) const {
    check_sizes(shape.rows * shape.width, spans.x, spans.dy);
    check_size(spans.inverse_deviation, shape.rows);
    sum_columns(
        *context_, shape,
        RmsWeightTerms<Stored>{spans.x.data(), spans.dy.data(), spans.inverse_deviation.data()},
        rows_are_whole(shape.width, spans.x.data(), spans.dy.data()), {spans.dgain});
  }
  void head_norm(AttentionShape shape, const HeadNormForward<Stored, float>& spans) const {
    check_head_norm(shape, spans);
    run_each_element(*context_, std::ssize(spans.inverse_deviation),
                     HeadNorm<Stored>{shape, spans});
  }
  void head_norm_backward(AttentionShape shape,
                          const HeadNormBackward<Stored, float>& spans) const {
    check_head_norm(shape, spans);
    run_each_element(*context_, std::ssize(spans.inverse_deviation),
                     HeadNormGradient<Stored>{shape, spans});
  }
  void head_norm_backward_weight(AttentionShape shape,
                                 const HeadNormBackwardWeight<Stored, float>& spans) const {
    check_head_norm(shape, spans);
    const HeadGainGradient<Stored> sums{shape, spans};
    context_->run(sums.grid(), sums);
  }

  void swiglu(RowShape shape, In gate_up, Out y) const {
    check_size(gate_up, 2 * shape.rows * shape.width);
    check_size(y, shape.rows * shape.width);
    run_each_element(*context_, std::ssize(y),
                     Swiglu<Stored>{shape.width, gate_up.data(), y.data()});
  }
  void matmul_transposed_swiglu_backward(MatmulShape shape, In x, In w, In gate_up,
                                         Out gradient) const {
    const std::int64_t size = shape.rows * shape.columns;
    check_sizes(2 * size, gate_up, In(gradient));
    if (size == 0) return;
    // dy goes to where the gradient of up will be.
    auto spans = matmul_transposed_product<ProductSpans>(
        shape, x, w,
        gradient.subspan(static_cast<std::size_t>(shape.columns), static_cast<std::size_t>(size)));
    spans.c_row = 2 * shape.columns;
    context_->multiply(spans);
    run_each_element(*context_, size,
                     SwigluBackward<Stored>{shape.columns, gate_up.data(), gradient.data()});
  }

  void gelu(In x, Out y) const { cuda::gelu(*context_, x, y); }
  void gelu_backward(In x, In dy, Out dx) const { cuda::gelu_backward(*context_, x, dy, dx); }

  void rotate(AttentionShape shape, const Rotation& rotation, Out qkv) const {
    check_size(qkv, shape.rows() * shape.qkv_width());
    const RotateToken<Stored> body{shape, rotation, qkv.data()};
    context_->run(body.grid(), body);
  }
  void attention(AttentionShape shape, const AttentionForward<Stored, float>& spans) const {
    check_attention(shape, spans.qkv, spans.log_sum, spans.y);
    TANDEM_CHECK(spans.kept.empty(), spans.kept.size());  // texts are made on the CPU alone
    if constexpr (requires { context_->attend(shape, spans); }) {
      if (spans.earlier.empty() && context_->attend(shape, spans)) return;
    }
    with_tiles(shape, spans.earlier, packs_are_whole(spans.qkv.data(), spans.y.data()),
               [&](const auto& tiles) {
                 const AttendQueries attend{tiles, spans};
                 context_->run(attend.grid(), attend);
               });
  }
  void attention_backward(AttentionShape shape,
                          const AttentionBackward<Stored, float>& spans) const {
    check_attention(shape, spans.qkv, spans.log_sum, spans.y);
    check_attention(shape, spans.dqkv, spans.log_sum, spans.dy);
    if constexpr (requires { context_->attend_backward(shape, spans); }) {
      if (spans.context_gradient.empty() && context_->attend_backward(shape, spans)) return;
    }
    const std::int64_t tokens = check_context(shape, spans);
    const std::int64_t rows = attention_backward_workspace(shape);
    float* along = context_->template workspace<float>(rows);
    run_each_element(*context_, rows,
                     AlongOutput<Stored>{shape, spans.y.data(), spans.dy.data(), along});
    const bool whole = packs_are_whole(spans.qkv.data(), spans.dy.data(), spans.dqkv.data(),
                                       spans.context_gradient.data());
    with_tiles(shape, spans.earlier, whole, [&](const auto& tiles) {
      const AttentionPairs pairs{tiles, spans, along};
      const QueryGradients of_queries{pairs};
      context_->run(of_queries.grid(), of_queries);
      const KeyGradients of_keys{pairs, tokens};
      context_->run(of_keys.grid(), of_keys);
    });
  }

  void keep_tokens(Ids tokens, WideOut kept) const {
    constexpr std::int32_t kTokenLimit = 1 << 24;  // beyond, float skips integers
    for (const std::int32_t token : tokens) TANDEM_CHECK(token >= 0 && token < kTokenLimit, token);
    cuda::keep_tokens(*context_, tokens, kept);
  }
  void embed(AttentionShape shape, WideIn tokens, In table, In positions, Out y) const {
    const std::int64_t rows = shape.batch * shape.sequence;
    check_size(tokens, rows);
    check_size(y, rows * shape.width);
    if (!positions.empty()) check_size(positions, shape.sequence * shape.width);
    run_each_element(
        *context_, std::ssize(y),
        EmbedElement<Stored>{shape.sequence, shape.width, std::ssize(table) / shape.width,
                             tokens.data(), table.data(), data_or_null(positions), y.data()});
  }
  void embed_backward(AttentionShape shape, WideIn tokens, In dy, WideOut dtable,
                      WideOut dpositions) const {
    const std::int64_t rows = shape.batch * shape.sequence;
    const std::int64_t positions = shape.sequence * shape.width;
    check_size(tokens, rows);
    check_size(dy, rows * shape.width);
    if (!dpositions.empty()) check_size(dpositions, positions);
    const TokenGradient<Stored> of_tokens{rows,
                                          shape.width,
                                          std::ssize(dtable) / shape.width,
                                          rows_are_whole(shape.width, dy.data(), dtable.data()),
                                          tokens.data(),
                                          dy.data(),
                                          dtable.data()};
    context_->run(of_tokens.grid(), of_tokens);
    if (dpositions.empty()) return;
    run_each_element(
        *context_, positions,
        PositionGradient<Stored>{shape.batch, positions, dy.data(), dpositions.data()});
  }

  void cross_entropy(RowShape shape, Ids targets, double scale, Out logits, double* loss) const {
    for (const std::int32_t target : targets)
      TANDEM_CHECK(target >= 0 && target < shape.width, target, shape.width);
    cuda::cross_entropy(*context_, shape, targets, scale, logits, loss);
  }
  void squared_error(RowShape shape, In y, WideIn expected, double scale, Out gradient,
                     double* loss) const {
    check_sizes(shape.rows * shape.width, y, expected, gradient);
    sum_terms(*context_, std::ssize(y),
              SquaredErrorTerm<Stored>{y.data(), expected.data(), static_cast<float>(scale),
                                       gradient.data()},
              packs_are_whole(y.data(), expected.data(), gradient.data()),
              0.5 / static_cast<double>(shape.rows), loss);
  }

  void decide(std::span<const double> squares, const DecideNumbers& numbers,
              const UpdateDecision* before, UpdateDecision* decision,
              const ShownDecision& shown) const {
    context_->run({.blocks = 1},
                  Decide{std::ssize(squares), squares.data(), numbers, before, decision, shown});
  }
  void step(OptimizerKind kind, const StepSpans<Stored, float>& spans,
            const StepNumbers& numbers) const {
    with_rule(kind, [&](auto rule) {
      check_step<decltype(rule)>(spans);
      constexpr std::size_t kMost = RangeTable::kMost;
      constexpr std::int64_t kPack = kPackOf<float>;  // is stepped whole
      std::span<const ElementRange> rest = spans.decayed;
      std::int64_t begin = 0;
      while (rest.size() > kMost) {
        const std::int64_t end = rest[kMost].first / kPack * kPack;
        step_part(rule, spans, numbers, {begin, end}, RangeTable(rest.first(kMost)));
        begin = end;
        rest = rest.subspan(kMost - 1);  // the last of them may go on
      }
      step_part(rule, spans, numbers, {begin, std::ssize(spans.weights)}, RangeTable(rest));
    });
  }

  void nesterov(const NesterovSpans<float>& spans, const StepNumbers& numbers) const {
    cuda::nesterov(*context_, spans, numbers);
  }
  void divide_by_norm(WideIn x, std::span<const double> square, Out y) const {
    cuda::divide_by_norm(*context_, x, square, y);
  }

 private:
  /// Calls run(tiles) with tiles of attention for the width of the heads. `whole`: what is not
  /// earlier can be moved in packs, if heads can.
  template <class Run>
  static void with_tiles(const AttentionShape& shape, std::span<const In> earlier, bool whole,
                         const Run& run) {
    whole = whole && shape.head_width() % kPackOf<Stored> == 0 &&
            std::ranges::all_of(earlier, [](In slice) { return packs_are_whole(slice.data()); });
    const EarlierSlices<Stored> slices(shape, earlier);
    const float scale = 1.0F / std::sqrt(static_cast<float>(shape.head_width()));
    if (shape.head_width() > kTileChannels) {
      run(AttentionTiles<Stored, 2>{shape, slices, whole, scale});
    } else {
      run(AttentionTiles<Stored, 1>{shape, slices, whole, scale});
    }
  }
  void norm_rows(RowShape shape, const NormForward<Stored, float>& spans) const {
    const LaneRows<kPackOf<Stored>> rows{
        shape, rows_are_whole(shape.width, spans.x.data(), spans.gain.data(), spans.bias.data(),
                              spans.y.data())};
    context_->run(rows.grid(), NormRows<Stored>{rows, spans});
  }
  void norm_rows_backward(RowShape shape, const NormBackward<Stored, float>& spans) const {
    const LaneRows<kPackOf<Stored>> rows{
        shape, rows_are_whole(shape.width, spans.x.data(), spans.dy.data(), spans.gain.data(),
                              spans.residual.data(), spans.dx.data())};
    context_->run(rows.grid(), NormRowsBackward<Stored>{rows, spans});
  }
  template <class Element>
  static Element* data_or_null(std::span<Element> span) {
    return span.empty() ? nullptr : span.data();
  }

  /// The elements of `part`, of which those of the ranges decay.
  template <class Rule>
  void step_part(Rule /*rule*/, const StepSpans<Stored, float>& spans, const StepNumbers& numbers,
                 const ElementRange& part, const RangeTable& decayed) const {
    GridShape grid = grid_of_elements(divide_up(part.size(), kPackOf<float>));
    grid.shared_bytes = shared_bytes<DecidedStep>(1);
    float* const last_step = data_or_null(spans.last_step);
    context_->run(grid, StepElements<Rule, Stored>{
                            .begin = part.first,
                            .end = part.last,
                            .weights = spans.weights.data(),
                            .gradient = spans.gradient.data(),
                            .change = spans.change.data(),
                            .first = spans.first.data(),
                            .second = spans.second.data(),
                            .last_step = last_step,
                            .out = data_or_null(spans.weights_out),
                            .rounded = data_or_null(spans.rounded),
                            .forward_weights = data_or_null(spans.forward_weights),
                            .backward_weights = data_or_null(spans.backward_weights),
                            .drift = data_or_null(spans.drift),
                            .keeps_state = spans.keeps_state,
                            .whole = packs_are_whole(
                                spans.weights.data(), spans.gradient.data(), spans.change.data(),
                                spans.first.data(), spans.second.data(), last_step,
                                spans.weights_out.data(), spans.rounded.data(), spans.drift.data(),
                                spans.forward_weights.data(), spans.backward_weights.data()),
                            .numbers = numbers,
                            .decayed = decayed});
  }

  Context* context_;
};

}  // namespace tandem::cuda
