#pragma once
// Facts: who does what to which microbatch, read off a program once and kept in tables for the
// checkers.

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/program/program.h"
#include "core/verify/order.h"
#include "core/verify/report.h"

namespace tandem::verification {

inline constexpr InstructionId kNoInstruction{0xffffffffU};
inline constexpr ReplicaId kNoReplica{0xffffU};

constexpr bool exists(InstructionId id) { return id != kNoInstruction; }

/// What is done to a microbatch on its stage, the first three always; `backward` is both gradients
/// at once. `evict` and `load`: its stash goes to the partner of the device and comes back.
enum class Work : std::uint8_t { forward, input_gradient, weight_gradient, recompute, evict, load };
inline constexpr std::size_t kWorks = 6;

/// An update of a stage and what serves it. Covers the residues first … last.
struct UpdateFact {
  InstructionId id = kNoInstruction;
  std::int32_t first = 0, last = 0;
  InstructionId reduce_gradient = kNoInstruction, reduce_tied = kNoInstruction;
  InstructionId reduce_norm = kNoInstruction;
  InstructionId validate = kNoInstruction;  // of an update that steps before the norm is known
};

/// Two stages joined by edges. A residue crosses a link once: between the replicas that process it.
struct Link {
  StageId from{}, to{};
  std::vector<Placement::Edge> edges;
  std::vector<InstructionId> activation, gradient;  // a transfer for each residue, or none

  bool joins(ReplicaId one, ReplicaId other) const;
};

/// A microbatch is a batch and a residue. Everything repeats each batch, so the tables have a row a
/// residue.
class Facts {
 public:
  /// Fills the tables; reports what is there twice, and transfers and collectives that belong
  /// nowhere. REQUIRES: spans within a batch; `program` outlives this.
  Facts(const Program& program, Report& report);

  const Program& program() const { return program_; }
  const Placement& placement() const { return program_.placement(); }
  DeviceId device(ReplicaId replica) const { return placement().device[replica]; }
  StageId stage(ReplicaId replica) const { return placement().stage[replica]; }
  IdRange<StageId> stages() const { return ids(replicas_); }
  IdRange<ReplicaId> replicas() const { return ids(placement().device); }
  std::int32_t microbatches() const { return program_.microbatches(); }
  std::int32_t residue(InstructionId id) const {
    return program_[id].op.microbatch % microbatches();
  }

  /// Who does that work on a residue, or kNoInstruction.
  InstructionId find(Work work, StageId stage, std::int32_t residue) const {
    return work_[stage][static_cast<std::size_t>(residue)][static_cast<std::size_t>(work)];
  }
  /// The replica of `stage` whose forward takes `residue`, or kNoReplica.
  ReplicaId replica_of(StageId stage, std::int32_t residue) const;
  /// The last of the microbatch's backward ops in the order of their lane, or kNoInstruction.
  InstructionId last_gradient(StageId stage, std::int32_t residue) const;

  /// The ends of an op's group, neighbours on its lane that are one unit; itself where it stands
  /// alone.
  InstructionId first_of_group(InstructionId id) const { return groups_[id].first; }
  InstructionId last_of_group(InstructionId id) const { return groups_[id].last; }
  /// Whether ops of several kinds are one with it, itself too.
  bool in_mixed_group(InstructionId id) const { return groups_[groups_[id].first].mixed; }

  const std::vector<Link>& links() const { return links_; }

  /// Of a stage, ascending by residue.
  const std::vector<UpdateFact>& updates(ReplicaId replica) const { return updates_[replica]; }
  /// Which of the stage's updates covers `residue`, or −1.
  std::int32_t update_covering(ReplicaId replica, std::int32_t residue) const;
  /// The update number `number` of a stage, counted from the first of a batch (so it may be
  /// negative), and how many batches after that one it stands. REQUIRES: the stage has updates.
  std::pair<const UpdateFact&, std::int64_t> numbered_update(ReplicaId replica,
                                                             std::int64_t number) const;
  /// Participants of a collective, ascending, its own replica first; empty when they can't be
  /// told. Of a `validate` its replica.
  std::vector<ReplicaId> participants(InstructionId collective) const;
  /// Replicas of the whole pipeline, as the cost keys have it.
  std::uint16_t width() const { return width_; }
  /// Updates wait for the norm of all gradients, as the cost keys have it.
  bool has_norm() const { return has_norm_; }
  /// Updates step before it is known, and are validated.
  bool has_post_validation() const { return has_post_validation_; }
  /// The replicas of a stage, ascending.
  const std::vector<ReplicaId>& replicas(StageId stage) const { return replicas_[stage]; }

 private:
  struct Group {
    InstructionId first{}, last{};
    bool mixed = false;  // of several kinds; known of the first
  };

  void read_placement();
  void read_groups(Report& report);
  void read_updates();
  void read_work(InstructionId id, Report& report);
  void enter(Work work, InstructionId id, std::int32_t residue, Report& report);
  void read_move(InstructionId id, Report& report);
  void read_transfer(InstructionId id, Report& report);
  void read_service(InstructionId id, Report& report);
  UpdateFact* update_like(ReplicaId replica, InstructionId id, Report& report);
  std::vector<ReplicaId> tied_participants(InstructionId id) const;
  InstructionId* free_transfer(InstructionId id, std::int32_t residue);
  bool waits_for(InstructionId waiter, InstructionId producer) const;

  const Program& program_;
  std::uint16_t width_ = 1;
  bool has_norm_ = false, has_post_validation_ = false;
  Table<StageId, std::vector<ReplicaId>> replicas_;
  Table<StageId, std::vector<std::array<InstructionId, kWorks>>> work_;  // of each residue
  Table<InstructionId, Group> groups_;
  std::vector<Link> links_;
  Table<ReplicaId, std::vector<UpdateFact>> updates_;
};

}  // namespace tandem::verification
