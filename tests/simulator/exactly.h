#pragma once
// Devices and links that reach their peaks, so that prices are counted by hand.

#include "simulator/cost/analytic.h"

namespace tandem::testing {

inline AnalyticAssumptions exactly(NumberFormat format = NumberFormat::fp32,
                                   AttentionKernel attention = AttentionKernel::plain) {
  return {.format = format,
          .attention = attention,
          .product_fraction = 1.0,
          .memory_fraction = 1.0,
          .link_fraction = 1.0,
          .calibration = Calibration{}};
}

}  // namespace tandem::testing
