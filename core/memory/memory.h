#pragma once
// Memory as a property of the program: how many slots of each kind a stage needs, so that a slot is
// reused only where the program's own waits guarantee that its last user has ended — under any
// timing, with no further wait.

#include <array>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "core/base/units.h"
#include "core/memory/of_slices.h"
#include "core/program/program.h"
#include "core/schedule/schedule.h"

namespace tandem {

/// The things that a slot may hold for one stage. Slots form a ring: the q-th use takes slot
/// q mod the count; but those of stashes, which their device takes and frees in the order of its
/// ops, are any that are free.
enum class SlotKind : std::uint8_t {
  weights,    // one version; slot of version v: v mod count
  gradients,  // sum over the microbatches of one update; first weight gradient … update
  stash,      // what forward (or recompute) leaves for the backward; … last gradient op of the
              // microbatch. Stages of a device take its pieces from one pool
  input,   // activation received from another device; transfer … last gradient op of the microbatch
  output,  // activation made here; forward … last gradient op of the microbatch, here and of
           // consumers on this device. Of a consumer on another device its gradient comes back to
           // the same slot, and a whole backward makes that of its input there, which ends as an
           // input_gradient does
  input_gradient,   // gradient made here, where not in an output's slot; input gradient op … its
                    // transfer, or the last gradient op of a consumer on this device
  kept_gradients,   // where backward is split: what its input half leaves for its weight half
  eviction_buffer,  // the stash of a microbatch that is evicted, on the stage's device: forward …
                    // evict, and load … last gradient op of the microbatch. One, which they take in
                    // turn (core/lower/lower.h)
  hosted_stash,     // the same on the partner of the stage's device: evict … load
  forward_weights,  // a version as forwards read it, predicted; slot of version v: v mod count
  backward_weights,  // the same as backwards read it, predicted or corrected
  context_gradient,  // of the keys and values of a whole microbatch whose sequences are sliced:
                     // the backward of a slice adds what it owes those before it; last slice's
                     // input gradient op … first slice's, in the order in which these begin
  context,  // keys and values of a slice whose stash is made again: later slices read them; forward
            // … its input gradient op. Pieces of the pool of stashes
};
inline constexpr std::size_t kSlotKinds = 13;
/// Versions: what updates make and passes read, not a microbatch's.
constexpr bool is_version(SlotKind kind) {
  return kind == SlotKind::weights || kind == SlotKind::forward_weights ||
         kind == SlotKind::backward_weights;
}
/// "weights", "input_gradient".
std::string_view name(SlotKind kind);

/// Slots of each kind for one stage.
struct StageSlots {
  std::array<std::int32_t, kSlotKinds> counts{};
  /// True where a stage recomputes and a forward may run while a stash is held: the forward then
  /// writes its activations to the workspace. Else it borrows its recomputation's slot.
  bool forwards_in_workspace = false;
  bool keeps_drift = false;  // δ, of which backwards read weights corrected
  std::int32_t& operator[](SlotKind kind) { return counts[index(kind)]; }
  std::int32_t operator[](SlotKind kind) const { return counts[index(kind)]; }
  friend bool operator==(const StageSlots&, const StageSlots&) = default;
};
using SlotCounts = Table<ReplicaId, StageSlots>;

/// The q of a microbatch's ring slots: its place among the microbatches that `replica` processes,
/// from the start of the run.
class MicrobatchSequence {
 public:
  explicit MicrobatchSequence(const Program& program);
  std::int64_t operator()(ReplicaId replica, std::int64_t microbatch) const {
    return all_[replica].place(microbatch);
  }
  /// True where the microbatch's stash is evicted.
  bool evicts(ReplicaId replica, std::int64_t microbatch) const {
    return !evicted_.empty() && evicted_[replica].has(microbatch);
  }
  /// Its place among those. REQUIRES: evicts(replica, microbatch) (checked).
  std::int64_t among_evicted(ReplicaId replica, std::int64_t microbatch) const {
    return evicted_[replica].place(microbatch);
  }
  /// True where the gradient of the microbatch's input is made in the slot of its output: the
  /// backward is whole, and the output's gradient came from another device.
  bool makes_gradient_in_output(ReplicaId replica, std::int64_t microbatch) const {
    return gradient_in_output_[replica].has(microbatch);
  }

 private:
  /// Some of the residues modulo the batch, counted.
  class Ranks {
   public:
    Ranks() = default;
    explicit Ranks(const std::vector<bool>& members);
    bool has(std::int64_t microbatch) const { return rank(microbatch) >= 0; }
    /// REQUIRES: has(microbatch) (checked).
    std::int64_t place(std::int64_t microbatch) const;

   private:
    std::int32_t rank(std::int64_t microbatch) const {
      return rank_[static_cast<std::size_t>(microbatch) % rank_.size()];
    }
    std::vector<std::int32_t> rank_;  // −1: none of them
    std::int32_t per_batch_ = 0;
  };
  Table<ReplicaId, Ranks> all_, gradient_in_output_;
  Table<ReplicaId, Ranks> evicted_;  // empty where nothing is
};

/// The slots a run of any length needs. Linear in the program; looks at ramp + a few bodies.
/// REQUIRES: the program's order is topological (lower() sees to it).
SlotCounts count_slots(const Program& program);

/// The share of an activation that a stage holds for one microbatch: `all` from its forward,
/// `after_input` once its input gradient is done, nothing after its weight gradient. Of `all`, a
/// stage that is recomputed holds `remade` from its recomputation on alone.
struct HeldActivation {
  double all = 1.0, after_input = 1.0, remade = 0.0;
  friend bool operator==(const HeldActivation&, const HeldActivation&) = default;
};

/// Peak over a run of what each device holds, by the order of its ops; an evicted stash is held by
/// the partner.
Table<DeviceId, double> peak_held(const Program& program, const OfSlices<HeldActivation>& held);
/// The same of its program. REQUIRES: none evicts, which changes what another device holds.
Table<DeviceId, double> peak_held(const Schedule& schedule, const OfSlices<HeldActivation>& held);

/// The same in the units of the field: each forward holds 1, `after_input` of it (G/A) once its
/// input-gradient is done; divided by the stages on the device, and by the slices of a microbatch.
/// That is the measure of the Zero Bubble papers (Qi et al., ICLR 2024), G/A in theirs
/// 32h / (34h + 5as).
Table<DeviceId, double> peak_activations(const Program& program, double after_input = 1.0);

/// How many pieces of each size, in bytes or in elements.
using Pieces = std::map<std::int64_t, std::int64_t>;
/// All of them together.
std::int64_t total_of(const Pieces& pieces);

/// Of one stash; and of the context that stays where it is made again, of slices alone.
struct StashPieces {
  Pieces stash = {}, context = {};
};

/// The pools that the stages of a device take the pieces of their stashes from: as many of each
/// size as are ever in use at once, by the order of the device's ops. Evicted stashes are
/// elsewhere.
Table<DeviceId, Pieces> stash_pools(const Program& program, const SlotCounts& slots,
                                    const OfSlices<StashPieces>& pieces);

/// What differs from slice to slice of a stage's microbatches.
struct SliceBytes {
  StashPieces pieces = {};
  HeldActivation framework = {0.0, 0.0};
};

/// Bytes of one slot of each kind, and of what is not in slots, for one stage.
struct StageBytes {
  std::array<Bytes, kSlotKinds> slot{};
  StashPieces pieces = {};  // together as large as their slots; of no stash: it is one piece
  Bytes optimizer = 0;      // state besides the weights, one copy whatever the versions
  Bytes drift = 0;          // further state where StageSlots::keeps_drift says so
  Bytes workspace = 0;  // scratch that one running op needs; stages of a device share the largest
  // Where StageSlots::forwards_in_workspace says so: the stash of a forward, gone when it returns.
  Bytes forward_workspace = 0;
  HeldActivation framework = {0.0, 0.0};  // what a framework holds of a microbatch, in bytes
  /// Where sequences are sliced, of each slice; else empty. Slots then have room for any of them.
  std::vector<SliceBytes> slices = {};
  Bytes& operator[](SlotKind kind) { return slot[index(kind)]; }
  Bytes operator[](SlotKind kind) const { return slot[index(kind)]; }
};

/// What a framework holds, and what a stash is made of, of each slice; of a whole microbatch alone.
OfSlices<HeldActivation> framework_of(const Table<ReplicaId, StageBytes>& bytes);
OfSlices<StashPieces> stash_pieces_of(const Table<ReplicaId, StageBytes>& bytes);

/// Bytes of a stash, and of the context that stays where it is made again.
struct StashBytes {
  Bytes stash = 0, context = 0;
};
/// Those of each slice; of a whole microbatch alone.
OfSlices<StashBytes> stash_bytes_of(const Table<ReplicaId, StageBytes>& bytes);

/// Bytes of the state that the updates of a stage with these slots keep.
Bytes optimizer_of(const StageSlots& slots, const StageBytes& bytes);

/// Bytes that a stage with these slots needs in the workspace that its device's stages share.
Bytes workspace_of(const StageSlots& slots, const StageBytes& bytes);

/// Bytes of a device by class.
struct MemoryByClass {
  Bytes weights = 0;   // one version
  Bytes versions = 0;  // the further versions
  Bytes gradients = 0;
  Bytes optimizer = 0;
  Bytes activations = 0;  // stash slots, and those of others that it hosts
  Bytes buffers = 0;      // input, output and gradient slots, workspace
  Bytes total() const { return weights + versions + gradients + optimizer + activations + buffers; }
  friend bool operator==(const MemoryByClass&, const MemoryByClass&) = default;
};

/// Bytes that each device needs for a run of any length: `slots` as count_slots() finds them,
/// `bytes` of one slot of each kind; both have a row for each replica.
Table<DeviceId, MemoryByClass> memory_by_class(const Program& program, const SlotCounts& slots,
                                               const Table<ReplicaId, StageBytes>& bytes);

}  // namespace tandem
