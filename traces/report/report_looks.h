#pragma once
// How a report's picture looks: colours, names, and how much of a run is drawn.

#include <array>
#include <cstddef>
#include <string_view>

#include "core/base/units.h"
#include "core/memory/memory.h"
#include "core/schedule/op.h"

namespace tandem {

/// In pictures, on the page and in viewers of traces. Colours of Okabe and Ito's palette, which
/// people of any colour vision tell apart, and some more; two kinds of one colour differ by a
/// hatch.
struct OpLook {
  OpKind kind;
  std::string_view title, colour;
  std::string_view viewer;  // the name of the colour that chrome://tracing has nearest to it
  bool hatch = false;       // a second sign besides the colour
};
inline constexpr std::array<OpLook, kOpKinds> kLooks{{
    {OpKind::forward, "forward", "#56b4e9", "rail_response"},
    {OpKind::recompute, "recomputation", "#f0e442", "startup"},
    {OpKind::backward, "backward", "#e69f00", "thread_state_iowait"},
    {OpKind::backward_input, "input-gradient", "#f5c66e", "cq_build_running"},
    {OpKind::backward_weight, "weight-gradient", "#009e73", "rail_load", true},
    {OpKind::send_activation, "activation on a link", "#0072b2", "thread_state_runnable"},
    {OpKind::send_gradient, "gradient on a link", "#d55e00", "rail_animation"},
    {OpKind::reduce_tied, "sum of tied gradients", "#8c510a", "thread_state_unknown"},
    {OpKind::reduce_gradient, "sum over replicas", "#a05195", "detailed_memory_dump", true},
    {OpKind::reduce_norm, "norm of all gradients", "#6b4c9a", "light_memory_dump"},
    {OpKind::update, "update", "#cc79a7", "cq_build_failed"},
    {OpKind::validate, "validation of an update", "#cc79a7", "thread_state_uninterruptible", true},
    {OpKind::evict, "stash to the partner", "#8a8f98", "generic_work"},
    {OpKind::load, "stash back", "#8a8f98", "grey", true},
}};

inline const OpLook& look_of(OpKind kind) { return kLooks[index(kind)]; }

struct MemoryBand {
  std::string_view title, colour;
  Bytes MemoryByClass::*bytes;
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
