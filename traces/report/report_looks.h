#pragma once
// How a report's picture shows memory, and how much of a run it draws.

#include <array>
#include <cstddef>
#include <string_view>

#include "core/base/units.h"
#include "core/memory/memory.h"

namespace tandem {

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

}  // namespace tandem
