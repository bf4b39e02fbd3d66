#pragma once
// Measurements at some tensor-parallel degrees (how many devices share each layer), and what lies
// between them.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/model/model.h"

namespace tandem {

/// A profile for each tensor degree at which layers were measured; all of one machine and model.
using TensorProfiles = std::map<std::int32_t, Profile>;

struct TensorDegrees {
  std::int32_t below = 1, above = 1;  // equal: it was measured
  double share = 0.0;                 // of the way from the one to the other
  bool measured() const { return below == above; }
};

/// Between two measured degrees T what a layer takes is on the curve a + b / T through both: b is
/// what the devices share, and each one's bytes of a ring sum, a what each does alike. Throws
/// InputError, about `what`, below the least degree and beyond the largest, of which no law is
/// known. REQUIRES: ascending, not empty.
TensorDegrees degrees_around(const std::vector<std::int32_t>& measured, std::int32_t tensor,
                             const std::string& what);

/// On the line from `below` to `above`, so far.
std::int64_t on_line(std::int64_t below, std::int64_t above, double share);

}  // namespace tandem
