#include "executor/checkpoint/named_parts.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "core/base/check.h"
#include "executor/checkpoint/library_model.h"
#include "executor/cpu/kernels.h"
#include "executor/layers/all.h"

namespace tandem {
namespace {

using Names = std::pair<std::string_view, std::string_view>;  // ours, theirs

constexpr std::array<Names, 5> kGpt2Names = {{
    {kTokenTable, "transformer.wte.weight"},
    {kPositionTable, "transformer.wpe.weight"},
    {"head.norm.gain", "transformer.ln_f.weight"},
    {"head.norm.bias", "transformer.ln_f.bias"},
    {kHeadTable, "lm_head.weight"},
}};
/// Behind the name of a block: "block3." and "transformer.h.3.".
constexpr std::array<Names, 12> kGpt2BlockNames = {{
    {"attention.norm.gain", "ln_1.weight"},
    {"attention.norm.bias", "ln_1.bias"},
    {"attention.qkv.weight", "attn.c_attn.weight"},
    {"attention.qkv.bias", "attn.c_attn.bias"},
    {"attention.projection.weight", "attn.c_proj.weight"},
    {"attention.projection.bias", "attn.c_proj.bias"},
    {"mlp.norm.gain", "ln_2.weight"},
    {"mlp.norm.bias", "ln_2.bias"},
    {"mlp.expand.weight", "mlp.c_fc.weight"},
    {"mlp.expand.bias", "mlp.c_fc.bias"},
    {"mlp.projection.weight", "mlp.c_proj.weight"},
    {"mlp.projection.bias", "mlp.c_proj.bias"},
}};

constexpr std::array<Names, 3> kLlamaNames = {{
    {kTokenTable, "model.embed_tokens.weight"},
    {"head.norm.gain", "model.norm.weight"},
    {kHeadTable, "lm_head.weight"},
}};
/// Behind "block3." and "model.layers.3.". Of a product that makes several the names are apart:
/// "q_proj", "k_proj" and "v_proj" of queries, keys and values.
constexpr std::array<Names, 12> kLlamaBlockNames = {{
    {"attention.norm.gain", "input_layernorm.weight"},
    {"attention.qkv.weight", "self_attn.{}_proj.weight"},
    {"attention.qkv.bias", "self_attn.{}_proj.bias"},
    {"attention.query_norm.gain", "self_attn.q_norm.weight"},
    {"attention.key_norm.gain", "self_attn.k_norm.weight"},
    {"attention.projection.weight", "self_attn.o_proj.weight"},
    {"attention.projection.bias", "self_attn.o_proj.bias"},
    {"mlp.norm.gain", "post_attention_layernorm.weight"},
    {"mlp.expand.weight", "mlp.{}_proj.weight"},
    {"mlp.expand.bias", "mlp.{}_proj.bias"},
    {"mlp.projection.weight", "mlp.down_proj.weight"},
    {"mlp.projection.bias", "mlp.down_proj.bias"},
}};

std::string_view named(std::span<const Names> names, std::string_view ours) {
  const auto found = std::ranges::find(names, ours, &Names::first);
  TANDEM_CHECK(found != names.end(), ours);
  return found->second;
}

/// "block3.attention.norm.gain" → "3" and "attention.norm.gain"; of what is in no block the first
/// is empty.
std::pair<std::string_view, std::string_view> cut_block(std::string_view name) {
  constexpr std::string_view kBlock = "block";
  if (!name.starts_with(kBlock)) return {{}, name};
  const std::size_t dot = name.find('.');
  return {name.substr(kBlock.size(), dot - kBlock.size()), name.substr(dot + 1)};
}

std::string gpt2_name(std::string_view ours) {
  const auto [block, rest] = cut_block(ours);
  if (block.empty()) return std::string(named(kGpt2Names, ours));
  return fmt::format("transformer.h.{}.{}", block, named(kGpt2BlockNames, rest));
}

/// One that holds all of a tensor, as it lies.
NamedPart whole(std::string name, const Tensor& tensor) {
  const std::int64_t columns = tensor.shape.back();
  return {.name = std::move(name),
          .shape = tensor.shape,
          .columns = columns,
          .rows = tensor.size() / columns,
          .row_length = columns};
}

/// The columns of a matrix of Llama's layers, or of its bias, which the library has apart.
struct Columns {
  std::string_view name;
  std::int64_t count = 0;
};
std::vector<Columns> columns_of(const ModelSpec& model, std::string_view rest) {
  const TransformerShape& shape = model.shape;
  const std::int64_t queries = std::int64_t{model.heads} * shape.head_width;
  const std::int64_t keys = std::int64_t{shape.key_value_heads} * shape.head_width;
  if (rest.starts_with("attention.qkv.")) return {{"q", queries}, {"k", keys}, {"v", keys}};
  return {{"gate", shape.mlp_width}, {"up", shape.mlp_width}};
}

/// Matrices lie in its files turned: outputs as rows.
std::vector<NamedPart> llama_parts(const ModelSpec& model, const Tensor& tensor) {
  const auto [block, rest] = cut_block(tensor.name);
  if (block.empty()) return {whole(std::string(named(kLlamaNames, tensor.name)), tensor)};
  const std::string name = fmt::format("model.layers.{}.{}", block, named(kLlamaBlockNames, rest));
  const NamedPart all = whole(name, tensor);
  std::vector<NamedPart> parts;
  if (const std::size_t gap = name.find("{}"); gap == std::string::npos) {
    parts.push_back(all);
  } else {
    std::int64_t first = 0;
    for (const auto& [part, count] : columns_of(model, rest)) {
      parts.push_back({.name = std::string(name).replace(gap, 2, part),
                       .shape = {count},
                       .first_column = first,
                       .columns = count,
                       .rows = all.rows,
                       .row_length = all.row_length});
      first += count;
    }
    TANDEM_CHECK(first == all.row_length, first, all.row_length);
  }
  if (tensor.shape.size() < 2) return parts;
  for (NamedPart& part : parts) {
    part.shape = {part.columns, part.rows};
    part.transposed = true;
  }
  return parts;
}

/// Calls `copy(of the part, of the whole)` for each element.
template <class Copy>
void each_element(const NamedPart& part, const Copy& copy) {
  constexpr std::int64_t kBlock = 64;  // of rows and columns, so that both sides stay in cache
  for (std::int64_t row0 = 0; row0 < part.rows; row0 += kBlock) {
    for (std::int64_t column0 = 0; column0 < part.columns; column0 += kBlock) {
      for (std::int64_t row = row0; row < std::min(row0 + kBlock, part.rows); ++row) {
        for (std::int64_t column = column0; column < std::min(column0 + kBlock, part.columns);
             ++column) {
          copy(static_cast<std::size_t>(column * part.rows + row),
               static_cast<std::size_t>(row * part.row_length + part.first_column + column));
        }
      }
    }
  }
}

/// Calls `copy(place in the part, place in the whole, count)` for each row.
template <class Copy>
void each_row(const NamedPart& part, const Copy& copy) {
  for (std::int64_t row = 0; row < part.rows; ++row) {
    copy(static_cast<std::size_t>(row * part.columns),
         static_cast<std::size_t>(row * part.row_length + part.first_column),
         static_cast<std::size_t>(part.columns));
  }
}

void check_part(const NamedPart& part, std::size_t whole, std::size_t taken) {
  TANDEM_CHECK(static_cast<std::int64_t>(whole) == part.rows * part.row_length &&
                   static_cast<std::int64_t>(taken) == part.size(),
               whole, taken);
}

}  // namespace

bool is_tied_copy(const ModelSpec& model, const Tensor& tensor) {
  return has_tied_ends(model) && tensor.name == kHeadTable;
}

std::vector<NamedPart> named_parts(const ModelSpec& model, const Tensor& tensor) {
  if (is_tied_copy(model, tensor)) return {};
  switch (library_model(model)) {
    case LibraryModel::none:
      return {whole(tensor.name, tensor)};
    case LibraryModel::gpt2:
      return {whole(gpt2_name(tensor.name), tensor)};
    case LibraryModel::llama:
    case LibraryModel::qwen2:
    case LibraryModel::qwen3:
      return llama_parts(model, tensor);
  }
  return {};
}

void take_part(const NamedPart& part, std::span<const float> whole, std::span<float> taken) {
  check_part(part, whole.size(), taken.size());
  if (part.transposed) {
    each_element(part, [&](std::size_t to, std::size_t from) { taken[to] = whole[from]; });
  } else {
    each_row(part, [&](std::size_t to, std::size_t from, std::size_t count) {
      std::copy_n(whole.begin() + static_cast<std::ptrdiff_t>(from), count,
                  taken.begin() + static_cast<std::ptrdiff_t>(to));
    });
  }
}

void put_part(const NamedPart& part, std::span<const float> taken, std::span<float> whole) {
  check_part(part, whole.size(), taken.size());
  if (part.transposed) {
    each_element(part, [&](std::size_t from, std::size_t to) { whole[to] = taken[from]; });
  } else {
    each_row(part, [&](std::size_t from, std::size_t to, std::size_t count) {
      std::copy_n(taken.begin() + static_cast<std::ptrdiff_t>(from), count,
                  whole.begin() + static_cast<std::ptrdiff_t>(to));
    });
  }
}

std::vector<LayerTensor> tensors_of(const ModelSpec& model) {
  std::vector<LayerTensor> all;
  const auto layers = static_cast<std::int32_t>(layers_of(model).size());
  for (std::int32_t layer = 0; layer < layers; ++layer) {
    const AnyLayer<cpu::Kernels<float>> described(LayerShape{.model = model}, layer);
    for (const Tensor& tensor : described.tensors()) all.push_back({layer, tensor});
  }
  return all;
}

}  // namespace tandem
