#pragma once
// How a report's picture looks: colours, names, and how much of a run is drawn.

#include <array>
#include <cstddef>
#include <string_view>

#include "core/memory.h"
#include "core/op.h"
#include "core/units.h"

namespace tandem {

/// As on the page (report/data.js): the palette of Okabe and Ito.
struct OpLook {
  OpKind kind;
  std::string_view title, colour;
};
inline constexpr std::array<OpLook, kOpKinds> kLooks{{
    {OpKind::forward, "forward", "#56b4e9"},
    {OpKind::recompute, "recomputation", "#f0e442"},
    {OpKind::backward, "backward", "#e69f00"},
    {OpKind::backward_input, "input-gradient", "#e69f00"},
    {OpKind::backward_weight, "weight-gradient", "#009e73"},
    {OpKind::send_activation, "activation on a link", "#0072b2"},
    {OpKind::send_gradient, "gradient on a link", "#d55e00"},
    {OpKind::reduce_tied, "sum of tied gradients", "#a05195"},
    {OpKind::reduce_gradient, "sum over replicas", "#a05195"},
    {OpKind::reduce_norm, "norm of all gradients", "#6b4c9a"},
    {OpKind::update, "update", "#cc79a7"},
    {OpKind::validate, "validation", "#cc79a7"},
    {OpKind::evict, "stash to the partner", "#8a8f98"},
    {OpKind::load, "stash back", "#8a8f98"},
}};

inline const OpLook& look_of(OpKind kind) { return kLooks[index(kind)]; }

struct MemoryBand {
  std::string_view title, colour;
  Bytes MemoryByClass::* bytes;
};
inline constexpr std::array<MemoryBand, 5> kBands{{
    {"weights", "#0072b2", &MemoryByClass::weights},
    {"further versions", "#56b4e9", &MemoryByClass::versions},
    {"gradients", "#d55e00", &MemoryByClass::gradients},
    {"optimizer", "#cc79a7", &MemoryByClass::optimizer},
    {"buffers", "#9aa0a8", &MemoryByClass::buffers},
}};
inline constexpr std::string_view kActivations = "#009e73", kInFlight = "#56b4e9";

/// What is drawn, beginning with all.
struct PictureDetail {
  std::size_t devices;
  bool links = true;
  double smallest = 0.8;  // a box narrower than this, in pixels, is drawn with its neighbours

  /// Takes away what is missed least; false where nothing is left to take.
  bool make_coarser() {
    if (smallest < (links ? 1.0 : 12.0)) {
      smallest *= 2.0;
    } else if (links) {
      links = false;
      smallest = 0.8;
    } else if (devices > 1) {
      devices /= 2;
    } else {
      return false;
    }
    return true;
  }
};

consteval bool looks_in_order() {
  for (std::size_t i = 0; i < kOpKinds; ++i) {
    if (index(kLooks[i].kind) != i) return false;
  }
  return true;
}
static_assert(looks_in_order());

}  // namespace tandem
