#include "core/memory/storage.h"

#include <algorithm>
#include <vector>

#include "core/base/check.h"
#include "core/memory/recomputed_layers.h"
#include "core/memory/stage_bytes.h"

namespace tandem {
namespace {

/// How numbers lie in a stash or scratch of elements, as the executor's layers put them there.
struct Layout {
  Bytes element = 4;  // of an activation
  Bytes wide = 4;     // of what is not rounded
  Bytes step = 4;     // each part takes a multiple of so many bytes

  /// Elements that as many take; and numbers that are not rounded.
  std::int64_t room(std::int64_t count) const {
    return (count * element + step - 1) / step * step / element;
  }
  std::int64_t wide_room(std::int64_t count) const { return room(count * (wide / element)); }
  bool rounds() const { return wide != element; }
};

constexpr Layout kBf16{.element = 2, .wide = 4, .step = 16};
constexpr Layout all_of(Bytes element) { return {element, element, element}; }

/// Element counts of what a layer keeps for one microbatch of `microbatch_size` samples, of models
/// that can be trained.
struct LayerFootprint {
  std::int64_t stash = 0;    // forward → last gradient op
  std::int64_t scratch = 0;  // gradients inside the layer, and what selective recomputation makes
                             // again: kept from input- to weight-gradient where backward is split
  std::int64_t inner = 0;    // of the scratch: what is kept in the place of what it was made from
};

/// Numbers that attention reads of a token: queries, keys and values.
std::int64_t qkv_width(const ModelSpec& model) {
  const TransformerShape shape = shape_of(model);
  return (model.heads + 2 * std::int64_t{shape.key_value_heads}) * shape.head_width;
}

LayerFootprint footprint_of(const ModelSpec& model, LayerKind kind, std::int64_t tokens,
                            Recompute recompute, const Layout& layout) {
  const std::int64_t d = model.width;
  const bool drops = recompute == Recompute::selective;
  const auto with = [drops](std::int64_t stash, std::int64_t inner, std::int64_t scratch,
                            std::int64_t cheap) {
    return LayerFootprint{stash + (drops ? 0 : cheap), inner + scratch + (drops ? cheap : 0),
                          inner};
  };
  if (kind == LayerKind::linear) return {};
  const std::int64_t row = layout.room(tokens * d);
  if (kind == LayerKind::squared_error) return with(row, 0, 0, 0);
  const TransformerShape shape = shape_of(model);
  const std::int64_t norm = row + (shape.rms_norm ? 1 : 2) * layout.wide_room(tokens);
  switch (kind) {
    case LayerKind::embedding:
      return with(layout.wide_room(tokens), 0, 0, 0);
    case LayerKind::attention: {
      const std::int64_t queries = tokens * model.heads * shape.head_width;
      const std::int64_t qkv = layout.room(tokens * qkv_width(model));
      const std::int64_t attended = layout.room(queries);
      // Queries and keys before the norms of their heads; and the gradients behind these.
      const std::int64_t heads = std::int64_t{model.heads} + shape.key_value_heads;
      const std::int64_t before =
          shape.head_norm ? layout.room(tokens * heads * shape.head_width) : 0;
      const std::int64_t inverses = shape.head_norm ? layout.wide_room(tokens * heads) : 0;
      return with(qkv + layout.wide_room(tokens * model.heads) + attended + inverses + before, qkv,
                  std::max(row, attended) + before, norm);
    }
    case LayerKind::mlp: {
      const std::int64_t after = layout.room(tokens * shape.mlp_width);
      const std::int64_t inside = shape.gated ? layout.room(tokens * 2 * shape.mlp_width) : after;
      return with(inside, inside, row, norm + after);
    }
    case LayerKind::head:
      return with(layout.room(tokens * model.vocabulary), 0, row, norm);
    case LayerKind::linear:
    case LayerKind::squared_error:
    case LayerKind::dense_mlp:
      break;
  }
  TANDEM_CHECK(false, static_cast<int>(kind));
  return {};
}

/// Elements in which Muon makes the largest of a layer's matrices orthogonal (muon.h, of the
/// executor): the sum of squares, twice the matrix, twice the smaller of its products with itself.
std::int64_t update_scratch(const ModelSpec& model, LayerKind kind, Optimizer optimizer,
                            const Layout& layout) {
  if (optimizer.kind != OptimizerKind::muon) return 0;
  constexpr Bytes kSquares = 16;
  std::int64_t most = 0;
  for (const HiddenMatrices& matrix : hidden_matrices(model, kind)) {
    const std::int64_t size = matrix.rows * matrix.columns;
    const std::int64_t least = std::min(matrix.rows, matrix.columns), square = least * least;
    most = std::max(most, kSquares / layout.element + layout.room(size) + layout.wide_room(size) +
                              layout.room(square) + layout.wide_room(square));
  }
  return most;
}

StageBytes stage_bytes_of(const ModelSpec& model, LayerRange layers, std::int32_t microbatch_size,
                          Optimizer optimizer, Recompute recompute, const Layout& layout,
                          SequencePart part = {}) {
  const std::vector<LayerKind> kinds = layers_of(model);
  TANDEM_CHECK(0 <= layers.first && layers.first < layers.last &&
                   layers.last <= static_cast<std::int32_t>(kinds.size()),
               layers.first, layers.last, kinds.size());
  const std::int64_t tokens =
      std::int64_t{microbatch_size} * (part.is_whole() ? model.sequence : part.tokens);
  const bool is_slice = !part.is_whole() && part.tokens < model.sequence;
  std::vector<LayerBytes> of_layers;
  for (std::int32_t layer = layers.first; layer < layers.last; ++layer) {
    const LayerKind kind = kinds[static_cast<std::size_t>(layer)];
    const std::int64_t parameters = parameters_of(model, kind);
    const LayerFootprint held = footprint_of(model, kind, tokens, recompute, layout);
    of_layers.push_back(
        {.weights = parameters * layout.element,
         .gradients = parameters * layout.wide,
         .optimizer = (layer_states(model, kind, optimizer) + (layout.rounds() ? parameters : 0)) *
                      layout.wide,
         .stash = held.stash * layout.element,
         .kept = (held.scratch - held.inner) * layout.element,
         .scratch = held.scratch * layout.element,
         .update = update_scratch(model, kind, optimizer, layout) * layout.element});
    // Queries are kept with them: the three are one matrix.
    if (is_slice && kind == LayerKind::attention)
      of_layers.back().context = layout.room(tokens * qkv_width(model)) * layout.element;
  }
  // Of a linear model's first layer: the numbers that the data gave it.
  const bool reads_numbers = layers.first == 0 && model.architecture == Architecture::linear;
  const Bytes boundary = boundary_bytes(model, part, microbatch_size, layout.element);
  StageBytes bytes = stage_bytes(of_layers, layout.room(boundary / layout.element) * layout.element,
                                 recomputed_in_stage(model, layers, recompute), reads_numbers);
  for (const SlotKind kind : {SlotKind::input, SlotKind::output, SlotKind::input_gradient})
    bytes[kind] = boundary;
  return bytes;
}

}  // namespace

std::string_view name(Storage storage) { return storage == Storage::bf16 ? "bf16" : "f32"; }

StageBytes stage_bytes(const ModelSpec& model, LayerRange layers, std::int32_t microbatch_size,
                       Optimizer optimizer, Recompute recompute, Bytes element) {
  return stage_bytes_of(model, layers, microbatch_size, optimizer, recompute, all_of(element));
}

StageBytes stage_bytes(const ModelSpec& model, LayerRange layers, std::int32_t microbatch_size,
                       Optimizer optimizer, Recompute recompute, Storage storage,
                       const std::vector<SequencePart>& slices) {
  const Layout layout = storage == Storage::bf16 ? kBf16 : all_of(4);
  const auto of = [&](SequencePart part) {
    return stage_bytes_of(model, layers, microbatch_size, optimizer, recompute, layout, part);
  };
  if (slices.empty()) return of({});
  std::vector<StageBytes> each;
  for (const SequencePart slice : slices) each.push_back(of(slice));
  const std::vector<LayerKind> kinds = layers_of(model);
  const std::int64_t attentions =
      std::count(kinds.begin() + layers.first, kinds.begin() + layers.last, LayerKind::attention);
  const std::int64_t keys =
      attentions == 0 ? 0
                      : std::int64_t{shape_of(model).key_value_heads} * shape_of(model).head_width;
  const std::int64_t values = 2 * microbatch_size * model.sequence * keys;
  // Sums of many terms: not rounded.
  return of_slices(each, slices.size() > 1 ? attentions * values * layout.wide : 0);
}

}  // namespace tandem
