#pragma once
// Pass over a program: devices that do not compute while they send or receive.

#include "core/program/program.h"

namespace tandem {

/// The same program with blocking transfers: one waits for what both its devices compute before
/// it, and what they compute next waits for it. So two devices meet for it, as in the replay of
/// recordings (observed_pass.h). Those that stand between the same two ops of a device go together,
/// as where a send and a receive are one call. A recomputation stands right before its backward,
/// and so after the gradient has come. What stands inside a unit of several ops goes beside it, and
/// so do updates and sums, which wait for no transfer. For times alone: memory is counted without.
Program with_blocking_transfers(const Program& program);

}  // namespace tandem
