#pragma once
// Pass over a program: devices that do not compute while they send or receive.

#include "core/program/program.h"

namespace tandem {

/// The same program with blocking transfers: one waits for what both its devices compute before
/// it, and what they compute next waits for it. So two devices meet for it, as in the replay of
/// recordings (recorded_program.h). Those that stand between the same two ops of a device go
/// together, as where a send and a receive are one call. A recomputation stands right before its
/// backward, and so after the gradient has come. What stands inside a unit of several ops goes
/// beside it, and so do updates and sums, which wait for no transfer. For times alone: memory is
/// counted without. From 3 devices on 2BW with x for each transfer takes F + B + 2x a microbatch,
/// 1F1B (m+p−1)(F+B) + 2x(m+p−2) − x a batch, GPipe x more.
Program with_blocking_transfers(const Program& program);

}  // namespace tandem
