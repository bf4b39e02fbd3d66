#pragma once
// Facts: who does what to which microbatch, read off a program once and kept in flat tables for the
// checkers.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/program.h"
#include "core/verify/report.h"

namespace tandem::verification {

inline constexpr InstructionId kNoInstruction{0xffffffffU};
inline constexpr StageId kNoStage{0xffffU};

constexpr bool exists(InstructionId id) { return id != kNoInstruction; }

/// What every microbatch needs on its stage, the first three always; `backward` is both gradients
/// at once.
enum class Work : std::uint8_t { forward, input_gradient, weight_gradient, recompute };
inline constexpr std::size_t kWorks = 4;

/// An update of a stage and the collectives that serve it. Covers the residues first … last.
struct UpdateFact {
  InstructionId id = kNoInstruction;
  std::int32_t first = 0, last = 0;
  InstructionId reduce_gradient = kNoInstruction, reduce_tied = kNoInstruction;
  InstructionId reduce_norm = kNoInstruction;
};

/// Two parts joined by edges. A residue crosses a link once: between the replicas that process it.
struct Link {
  PartId from{}, to{};
  std::vector<InstructionId> activation, gradient;  // a residue each; kNoInstruction: none
};

/// A microbatch is a batch and a residue. Everything repeats each batch, so the tables have a row a
/// residue.
class Facts {
 public:
  /// Fills the tables; reports what is there twice, and transfers and collectives that belong
  /// nowhere. REQUIRES: spans within a batch.
  Facts(const Program& program, Report& report);

  const Program& program() const { return *program_; }
  const Placement& placement() const { return program_->placement(); }
  std::int32_t microbatches() const { return m_; }

  /// The batch that an instruction's instance in body 0 works on.
  std::int32_t batch(InstructionId id) const { return batch_[index(id)]; }
  const std::vector<std::int32_t>& batches() const { return batch_; }
  std::int32_t residue(InstructionId id) const { return residue_[index(id)]; }

  InstructionId find(Work work, PartId part, std::int32_t residue) const {
    return work_[static_cast<std::size_t>(work)][row(part, residue)];
  }
  /// The replica of `part` whose forward takes `residue`, or kNoStage.
  StageId stage_of(PartId part, std::int32_t residue) const {
    return stage_of_[row(part, residue)];
  }
  /// The last of the microbatch's backward ops in the order of their lane, or kNoInstruction.
  InstructionId last_gradient(PartId part, std::int32_t residue) const;

  const std::vector<Link>& links() const { return links_; }
  bool joined(StageId from, StageId to) const;
  DeviceId device(StageId stage) const { return placement().device[stage]; }
  PartId part(StageId stage) const { return placement().part[stage]; }

  /// Of a stage, ascending by residue.
  const std::vector<UpdateFact>& updates(StageId stage) const { return updates_[stage]; }
  /// Which of the stage's updates covers `residue`, or −1.
  std::int32_t update_covering(StageId stage, std::int32_t residue) const;
  /// Participants of a collective in stage order, its own stage first; empty when they can't be
  /// told.
  std::vector<StageId> participants(InstructionId collective) const;
  /// Replicas of the whole pipeline, as the cost keys have it.
  std::uint16_t width() const { return width_; }
  /// Updates wait for the norm of all gradients, as the cost keys have it.
  bool has_norm() const { return has_norm_; }
  /// The replicas of a part, in stage order.
  const std::vector<StageId>& replicas(PartId part) const { return replicas_[part]; }
  /// The program is so far from complete that the tables were not filled.
  bool hopeless() const { return hopeless_; }

 private:
  std::size_t row(PartId part, std::int32_t residue) const {
    return index(part) * static_cast<std::size_t>(m_) + static_cast<std::size_t>(residue);
  }
  void read_placement();
  void read_work(Report& report);
  void enter(Work work, InstructionId id, std::int32_t residue, Report& report);
  void read_updates();
  void read_transfer(InstructionId id, Report& report);
  void read_collective(InstructionId id, Report& report);
  std::vector<StageId> tied_participants(InstructionId id) const;
  InstructionId* free_transfer(InstructionId id, std::int32_t residue);
  bool waited_for_by(InstructionId producer, InstructionId waiter) const;

  const Program* program_;
  std::int32_t m_;
  std::size_t parts_;
  std::uint16_t width_ = 1;
  bool hopeless_ = false, has_norm_ = false;
  std::vector<std::int32_t> batch_, residue_;
  std::array<std::vector<InstructionId>, kWorks> work_;
  std::vector<StageId> stage_of_;
  std::vector<Link> links_;
  std::vector<Placement::Edge> edges_;
  Table<PartId, std::vector<StageId>> replicas_;
  Table<StageId, std::vector<UpdateFact>> updates_;
};

}  // namespace tandem::verification
