#pragma once
// AlikeRanges: which ranges of a model's layers are alike, layer for layer.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/model/model.h"

namespace tandem {

/// Ranges whose layers are of the same kinds, one after the other, take as long and hold as much.
class AlikeRanges {
 public:
  explicit AlikeRanges(const ModelSpec& model) : kinds_(layers_of(model)) {}

  std::int32_t layers() const { return static_cast<std::int32_t>(kinds_.size()); }
  bool alike(LayerRange a, LayerRange b) const {
    return std::ranges::equal(kinds_in(a), kinds_in(b));
  }
  /// The first range that is like this one.
  LayerRange first_like(LayerRange range) const {
    const auto found = std::ranges::search(kinds_, kinds_in(range));
    const auto first = static_cast<std::int32_t>(found.begin() - kinds_.begin());
    return {first, first + range.size()};
  }

 private:
  std::span<const LayerKind> kinds_in(LayerRange range) const {
    return std::span(kinds_).subspan(static_cast<std::size_t>(range.first),
                                     static_cast<std::size_t>(range.size()));
  }

  std::vector<LayerKind> kinds_;
};

}  // namespace tandem
