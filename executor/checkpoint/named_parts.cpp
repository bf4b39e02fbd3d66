#include "executor/checkpoint/named_parts.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "core/base/check.h"
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
  if (model.architecture != Architecture::gpt2) return {whole(tensor.name, tensor)};
  return {whole(gpt2_name(tensor.name), tensor)};
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
