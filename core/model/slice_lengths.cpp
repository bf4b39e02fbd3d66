#include "core/model/slice_lengths.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "core/base/check.h"
#include "core/base/error.h"

namespace tandem {

namespace {

/// Operations of a forward: so many a token, and so many for each pair of tokens of which one looks
/// at the other.
struct Work {
  double token = 0, pair = 0;
  double of(double tokens) const { return token * tokens + pair * tokens * tokens / 2; }
};

/// Those of the whole model, as if each stage had its share of embedding and head.
Work work_of(const ModelSpec& model) {
  if (model.architecture == Architecture::linear) return {1, 0};
  const TransformerShape shape = shape_of(model);
  constexpr double kSoftmax = 3;
  const ModelSpec taken = with_taken_experts(model);
  double matrices = 0;
  for (const LayerKind kind : layers_of(model)) {
    for (const HiddenMatrices& of : hidden_matrices(taken, kind))
      matrices += static_cast<double>(of.parameters());
  }
  const double pair = double{2} * (shape.head_width + shape.value_width()) + kSoftmax;
  return {4.0 * model.width * model.vocabulary + 2 * matrices, model.blocks * model.heads * pair};
}

std::vector<std::int32_t> equal_lengths(std::int32_t tokens, std::int32_t count) {
  std::vector<std::int32_t> lengths(static_cast<std::size_t>(count), tokens / count);
  for (std::int32_t i = 0; i < tokens % count; ++i) ++lengths[static_cast<std::size_t>(i)];
  return lengths;
}

std::vector<std::int32_t> lengths_by_work(const ModelSpec& model, std::int32_t count,
                                          std::int32_t multiple) {
  const Work work = work_of(model);
  if (work.pair == 0) return equal_lengths(model.sequence, count);
  std::vector<std::int32_t> lengths(static_cast<std::size_t>(count), 0);
  const double share = work.of(model.sequence) / count, a_token = work.token / work.pair;
  std::int32_t end = model.sequence;
  for (std::size_t slice = lengths.size(); --slice > 0;) {
    const double root = end + a_token;
    const double tokens = root - std::sqrt(root * root - 2 * share / work.pair);
    lengths[slice] = static_cast<std::int32_t>(tokens) / multiple * multiple;
    end -= lengths[slice];
  }
  lengths.front() = end;
  return lengths;
}

}  // namespace

std::vector<std::int32_t> slice_lengths(const Slicing& slicing, const ModelSpec& model,
                                        std::int32_t multiple) {
  TANDEM_CHECK(slicing.kind != Slicing::Kind::by_time);
  if (slicing.count == 1 && slicing.lengths.empty()) return {model.sequence};
  if (model.architecture == Architecture::transformer && !model.shape.causal) {
    throw InputError(fmt::format(
        "model {}: its tokens attend to later ones, so that its sequences can't be sliced",
        model.name));
  }
  std::vector<std::int32_t> lengths = slicing.kind == Slicing::Kind::given ? slicing.lengths
                                      : slicing.kind == Slicing::Kind::equal
                                          ? equal_lengths(model.sequence, slicing.count)
                                          : lengths_by_work(model, slicing.count, multiple);
  const std::int64_t sum = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  if (sum != model.sequence) {
    throw InputError(fmt::format("slices of {} tokens: a sequence of model {} has {}", sum,
                                 model.name, model.sequence));
  }
  if (std::ranges::all_of(lengths, [](std::int32_t tokens) { return tokens > 0; })) return lengths;
  throw InputError(fmt::format("{} slices: a sequence of model {} has {} tokens{}", lengths.size(),
                               model.name, model.sequence,
                               multiple > 1 ? fmt::format(", {} to each device", multiple) : ""));
}

std::vector<SequencePart> parts_of(const std::vector<std::int32_t>& lengths) {
  std::vector<SequencePart> parts;
  std::int32_t before = 0;
  for (const std::int32_t tokens : lengths) {
    parts.push_back({tokens, before});
    before += tokens;
  }
  return parts;
}

std::vector<SequencePart> sequence_parts(const Slicing& slicing, const ModelSpec& model) {
  if (slicing.count == 1) return {};
  return parts_of(slice_lengths(slicing, model));
}

Bytes boundary_bytes(const ModelSpec& model, SequencePart part, std::int32_t microbatch_size,
                     Bytes element) {
  const Bytes whole = boundary_bytes(model, microbatch_size, element);
  return part.is_whole() ? whole : whole / model.sequence * part.tokens;
}

}  // namespace tandem
