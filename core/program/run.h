#pragma once
// The loop that every machine runs: simulated, contended, CPU, CUDA. All of it.

#include <concepts>
#include <cstdint>

#include "core/program/program.h"

namespace tandem {

/// One execution of an instruction. `body` counts from −ramp; `microbatch` counts from the start of
/// the run.
struct Instance {
  InstructionId id{};
  std::int64_t body = 0;
  std::int64_t microbatch = 0;
};

template <class M>
concept Machine = requires(M& machine, const Program& program, Instance instance) {
  { machine.issue(program, instance) } -> std::same_as<void>;
};

/// Runs the instances of body `body` that fall inside a run of `batches` batches, from batch
/// `first` on.
template <Machine M, class Order>
void run_body(const Program& program, const Order& order, std::int64_t body, std::int64_t batches,
              M& machine, std::int64_t first = 0) {
  const std::int64_t begin = first * program.microbatches(), end = batches * program.microbatches();
  for (const InstructionId id : order) {
    const std::int64_t microbatch = body * program.microbatches() + program[id].op.microbatch;
    if (microbatch >= begin && microbatch < end) machine.issue(program, {id, body, microbatch});
  }
}

/// Runs the instructions in `order`, Program::order() or a device's slice of it, for `batches`
/// batches, or for those from `first` on when the machine has ended the ones before.
template <Machine M, class Order>
void run(const Program& program, const Order& order, std::int64_t batches, M& machine,
         std::int64_t first = 0) {
  for (std::int64_t body = first - program.ramp(); body < batches; ++body)
    run_body(program, order, body, batches, machine, first);
}

}  // namespace tandem
