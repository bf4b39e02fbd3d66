#include "executor/cuda/stock.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

#include "core/model/model.h"
#include "core/schedule/op_kind.h"
#include "executor/backend/kernels.h"
#include "executor/run/device_machine.h"

namespace tandem::cuda {
namespace {

/// Of long sequences samples beyond it are made as they are needed.
constexpr std::size_t kMostSampleBytes = std::size_t{64} << 20;

/// How many of a device's instructions take what, a body.
struct Takers {
  std::size_t samples = 0, losses = 0, updates = 0;
  bool meet = false;  // squares of all stages
};

Takers count(const Program& program, const std::vector<InstructionId>& slice,
             std::size_t last_stage) {
  Takers counts;
  for (const InstructionId id : slice) {
    const Op& op = program[id].op;
    const std::size_t stage = index(program.placement().stage[op.replica]);
    const bool forwards = reads_weights(op.kind) && !traits(op.kind).makes_input_gradient;
    if (forwards) {
      if (stage == 0 || stage == last_stage) ++counts.samples;
      if (stage == last_stage) ++counts.losses;
    }
    if (makes_version(op.kind)) ++counts.updates;
    if (makes_norm(op.kind)) counts.meet = true;
  }
  return counts;
}

/// Of tokens, or of the numbers of a model without any.
std::size_t sample_bytes(const StageSetup& stage) {
  const ModelSpec& model = stage.model;
  std::int64_t tokens = model.sequence;
  if (!stage.slices.empty()) tokens = std::ranges::max(stage.slices);
  if (model.architecture == Architecture::linear) tokens *= model.width;
  static_assert(sizeof(float) == sizeof(std::int32_t));
  return static_cast<std::size_t>(stage.microbatch_size * tokens) * sizeof(float);
}

std::size_t slots_on(const Program& program, DeviceId device, const SlotCounts& slots) {
  std::size_t sum = 0;
  for (const ReplicaId replica : program.placement().replicas_on(device)) {
    const auto& counts = slots[replica].counts;
    sum += static_cast<std::size_t>(std::accumulate(counts.begin(), counts.end(), 0));
  }
  return sum;
}

}  // namespace

Stock stock_of(const Program& program, DeviceId device, const TrainingSetup<float>& setup,
               const Table<StageId, std::size_t>& stage_tensors) {
  const std::vector<InstructionId> slice = program.on(device);
  const std::size_t queued = most_queued(slice.size());
  const std::size_t bodies = queued / std::max<std::size_t>(slice.size(), 1) + 2;
  const Takers counts = count(program, slice, program.placement().stages() - 1);
  const std::size_t replicas = program.placement().replicas_on(device).size();
  const std::size_t slots = slots_on(program, device, setup.slots);
  const std::size_t norms = bodies * counts.updates + 2 * slots + replicas;
  std::vector<Stock::Pieces> numbers{{sizeof(UpdateDecision), norms}};
  if (counts.meet) {
    std::size_t tensors = 0;
    for (const std::size_t of_stage : stage_tensors) tensors += of_stage;
    numbers.push_back({tensors * sizeof(double), norms});
  } else {
    for (const ReplicaId replica : program.placement().replicas_on(device))
      numbers.push_back(
          {stage_tensors[program.placement().stage[replica]] * sizeof(double), norms});
  }
  std::vector<Stock::Pieces> pinned = numbers;           // seen by the host, too
  const std::size_t sample = sample_bytes(setup.stage);  // of tokens; as many targets
  pinned.push_back({sample, std::min(2 * bodies * counts.samples, kMostSampleBytes / sample)});
  pinned.push_back({sizeof(double), bodies * counts.losses});
  // An event a call in flight, one a slot, and one an instruction that others wait for.
  return {.events = queued + 2 * slots + program.depth() * slice.size() + 8 * replicas,
          .timed_events = setup.keep_timeline ? queued + 2 * slots : bodies * counts.losses + norms,
          .pinned = std::move(pinned),
          .numbers = std::move(numbers)};
}

}  // namespace tandem::cuda
