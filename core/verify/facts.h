#pragma once
// Facts: who does what to which microbatch, read off a program once and kept in flat tables for the
// checkers.

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/program/program.h"
#include "core/verify/order.h"
#include "core/verify/report.h"

namespace tandem::verification {

inline constexpr StageId kNoStage{0xffffU};

constexpr bool exists(InstructionId id) { return id != kNoInstruction; }

/// What every microbatch needs on its stage, the first three always; `backward` is both gradients
/// at once.
enum class Work : std::uint8_t { forward, input_gradient, weight_gradient, recompute };
inline constexpr std::size_t kWorks = 4;

/// An update of a stage and the collectives that serve it. Covers the residues first … last.
struct UpdateFact {
  Seated id;
  std::int32_t first = 0, last = 0;
  Seated reduce_gradient{}, reduce_tied{}, reduce_norm{};
  Seated validate{};  // steps before the norm is known, and is settled here
};

/// How a stash goes to the partner of its stage's device and comes back; kNoInstruction: it stays.
struct Eviction {
  Seated evict{}, load{};
};

/// Two parts joined by edges. A residue crosses a link once: between the replicas that process it.
struct Link {
  PartId from{}, to{};
  std::vector<Placement::Edge> edges;        // ascending
  std::vector<Seated> activation, gradient;  // a residue each; kNoInstruction: none

  bool joins(StageId one, StageId other) const {
    if (edges.size() == 1) return edges.front() == Placement::Edge{one, other};
    return std::binary_search(edges.begin(), edges.end(), Placement::Edge{one, other});
  }
};

/// An op that does some work on a microbatch, with what the checkers ask of it.
struct WorkFact {
  Seated id;
  StageId stage = kNoStage;
  std::uint16_t staleness = 0;
};

/// A microbatch is a batch and a residue. Everything repeats each batch, so the tables have a row a
/// residue.
class Facts {
 public:
  /// Fills the tables; reports what is there twice, and transfers and collectives that belong
  /// nowhere. REQUIRES: spans within a batch.
  Facts(const Order& order, Report& report);

  const Program& program() const { return *program_; }
  const Placement& placement() const { return program_->placement(); }
  std::int32_t microbatches() const { return m_; }

  std::int32_t residue(InstructionId id) const {
    return static_cast<std::int32_t>((*program_)[id].op.microbatch - order_->batch(id) * m_);
  }

  const WorkFact& work(Work work, PartId part, std::int32_t residue) const {
    return work_[row(part, residue)][static_cast<std::size_t>(work)];
  }
  Seated find(Work kind, PartId part, std::int32_t residue) const {
    return work(kind, part, residue).id;
  }
  /// The replica of `part` whose forward takes `residue`, or kNoStage.
  StageId stage_of(PartId part, std::int32_t residue) const {
    const StageId only = only_[part];
    return only != kNoStage ? only : work(Work::forward, part, residue).stage;
  }
  /// Whether any stash is evicted.
  bool evicts() const { return !evictions_.empty(); }
  Eviction eviction(PartId part, std::int32_t residue) const {
    return evictions_.empty() ? Eviction{} : evictions_[row(part, residue)];
  }
  /// The last of the microbatch's backward ops in the order of their lane, or kNoInstruction.
  Seated last_gradient(PartId part, std::int32_t residue) const {
    const Seated input = find(Work::input_gradient, part, residue);
    const Seated weight = find(Work::weight_gradient, part, residue);
    if (!exists(input) || input.id == weight.id) return weight;
    return exists(weight) ? later(input, weight) : input;
  }

  /// Whether any op may be of a group.
  bool groups() const { return !groups_.empty(); }
  /// The ends of an op's group, neighbours on its lane that are one unit; itself where it stands
  /// alone.
  Seated first_of_group(Seated id) const {
    return groups_.empty() ? id : order_->seated(groups_[index(id.id)].first);
  }
  Seated last_of_group(Seated id) const {
    return groups_.empty() ? id : order_->seated(groups_[index(id.id)].last);
  }
  bool overlaps(InstructionId id) const {
    return !groups_.empty() && groups_[index(id)].first != groups_[index(id)].last;
  }

  const std::vector<Link>& links() const { return links_; }
  DeviceId device(StageId stage) const { return placement().device[stage]; }
  PartId part(StageId stage) const { return placement().part[stage]; }

  /// Of a stage, ascending by residue.
  const std::vector<UpdateFact>& updates(StageId stage) const { return updates_[stage]; }
  /// Which of the stage's updates covers `residue`, or −1.
  std::int32_t update_covering(StageId stage, std::int32_t residue) const {
    const auto& list = updates_[stage];
    if (list.size() == 1) return list[0].first <= residue && residue <= list[0].last ? 0 : -1;
    return search_covering(stage, residue);
  }
  /// Participants of a collective in stage order, its own stage first; empty when they can't be
  /// told.
  std::vector<StageId> participants(InstructionId collective) const;
  /// Replicas of the whole pipeline, as the cost keys have it.
  std::uint16_t width() const { return width_; }
  /// Updates wait for the norm of all gradients, as the cost keys have it.
  bool has_norm() const { return has_norm_; }
  /// Updates step before it is known, and are validated.
  bool has_validation() const { return has_validation_; }
  /// The replicas of a part, in stage order.
  const std::vector<StageId>& replicas(PartId part) const { return replicas_[part]; }
  /// The program is so far from complete that the tables were not filled.
  bool hopeless() const { return hopeless_; }

 private:
  std::size_t row(PartId part, std::int32_t residue) const {
    return index(part) * static_cast<std::size_t>(m_) + static_cast<std::size_t>(residue);
  }
  struct Group {
    InstructionId first{}, last{};
  };

  Seated later(Seated one, Seated other) const;  // in the order of their lane
  std::int32_t search_covering(StageId stage, std::int32_t residue) const;
  void read_placement();
  void read_groups(Report& report);
  void read_work(Report& report);  // and updates
  void enter(Work work, InstructionId id, std::int32_t residue, Report& report);
  void read_transfer(InstructionId id, Report& report);
  void read_move(InstructionId id, Report& report);
  void read_collective(InstructionId id, Report& report);
  void read_validation(InstructionId id, Report& report);
  UpdateFact* update_like(StageId stage, InstructionId id, Report& report);
  std::vector<StageId> tied_participants(InstructionId id) const;
  Seated* free_transfer(InstructionId id, std::int32_t residue);
  bool waited_for_by(InstructionId producer, InstructionId waiter) const;

  const Program* program_;
  const Order* order_;
  std::int32_t m_;
  std::size_t parts_;
  std::uint16_t width_ = 1;
  bool hopeless_ = false, has_norm_ = false, has_validation_ = false;
  std::vector<std::array<WorkFact, kWorks>> work_;
  std::vector<Eviction> evictions_;  // empty: there are none
  std::vector<Group> groups_;        // of each instruction; empty: there are none
  std::vector<Link> links_;
  Table<PartId, std::vector<std::size_t>> links_from_, links_to_;
  Table<PartId, std::vector<StageId>> replicas_;
  Table<PartId, StageId> only_;  // that takes all residues, or kNoStage
  Table<StageId, std::vector<UpdateFact>> updates_;
};

}  // namespace tandem::verification
