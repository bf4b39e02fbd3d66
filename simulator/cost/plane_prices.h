#pragma once
// What an update takes for the planes that it makes beside the weights: predicted or corrected
// ones.

#include "core/model/cluster.h"
#include "core/model/plan.h"
#include "simulator/cost/stage_costs.h"

namespace tandem {

/// Bytes that an update moves of each weight: without planes, for each plane, and for δ, of which
/// corrected ones are made.
struct UpdateBytes {
  double plain = 0.0, plane = 0.0, drift = 0.0;
};

/// Of floats on a CPU, which fetches what it writes: weights and gradients are read, states read
/// and written, the next weights written.
UpdateBytes update_bytes_on_cpu(Optimizer optimizer);

/// Of weights of so many bytes, but for the optimizer's states: reads the gradient, clears it,
/// writes the weights; reads and writes, of 16-bit weights, the master copy. 32-bit weights are
/// read themselves.
double stateless_update_bytes(double element);
/// Of numbers of this format, as a GPU moves them.
UpdateBytes update_bytes(Optimizer optimizer, NumberFormat format);

/// Lengthens the updates of stages whose passes read planes by the bytes that these add, for
/// memory's speed is what an update takes. Those of Muon's matrices stay: what makes them
/// orthogonal takes far longer. REQUIRES: times without planes; a row for each layer of the plan.
void add_planes(StageCosts& costs, const Plan& plan, const UpdateBytes& bytes);

}  // namespace tandem
