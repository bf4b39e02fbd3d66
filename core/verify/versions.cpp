#include <cstdlib>
#include <string_view>

#include "core/verify/checkers.h"

namespace tandem::verification {

namespace {

/// Update number n of a stage makes version n + 1 from version n. Numbers here count from the batch
/// of the reader.
class Versions : public Checker {
 public:
  void check() {
    for (const StageId stage : facts_.stages()) {
      for (std::int32_t r = 0; r < facts_.microbatches(); ++r) {
        for (const Work work : {Work::forward, Work::recompute, Work::input_gradient})
          check_reader(facts_.find(work, stage, r), facts_.find(Work::forward, stage, r), r);
      }
    }
    for (const ReplicaId replica : facts_.replicas()) check_newest_has_slot(replica);
  }

 private:
  struct Reader {
    InstructionId id{};
    ReplicaId replica{};
    std::int32_t residue = 0, staleness = 0;
    std::int64_t covering = 0;  // the update that covers the microbatch
    SlotKind slot = SlotKind::weights;
  };

  void check_reader(InstructionId id, InstructionId forward, std::int32_t r) {
    if (!exists(id)) return;  // reported as missing
    const Op& op = program_[id].op;
    if (program_.forwards_alone()) {
      const Reader reader{.id = id, .replica = op.replica, .residue = r};
      if (slots_[op.replica][SlotKind::weights] < 1) overwritten(reader, id, 0);
      return;
    }
    const bool differs = exists(forward) && op.staleness != program_[forward].op.staleness;
    if (differs && !mixes_versions(program_.version_rule())) {
      report_.add(ViolationKind::wrong_version, id,
                  "{}: microbatch {} uses weights {} updates old, its forward {}",
                  at_instruction(program_, id), r, op.staleness, program_[forward].op.staleness);
    }
    const std::int32_t covering = facts_.update_covering(op.replica, r);
    if (covering < 0) return;  // reported as a missing update
    const Reader reader{id, op.replica, r, op.staleness, covering, slot_of(op)};
    check_made(reader);
    check_kept(reader);
    check_rule(op, reader);
  }

  void check_rule(const Op& op, const Reader& reader) {
    if (!mixes_versions(program_.version_rule())) return;
    const bool forward = op.kind == OpKind::forward;
    if (forward && program_.version_rule() == VersionRule::vertical &&
        facts_.stage(op.replica) != StageId{})
      return check_entered(reader);
    const bool shared = forward && program_.reading(op.replica).shares_prediction;
    shared ? check_shared(op, reader) : check_newest(reader);
  }

  /// A forward reads what its microbatch's forward on stage 0 read.
  void check_entered(const Reader& reader) {
    const InstructionId entry = facts_.find(Work::forward, StageId{}, reader.residue);
    if (!exists(entry)) return;  // reported as missing
    const Op& first = program_[entry].op;
    const std::int32_t covering = facts_.update_covering(first.replica, reader.residue);
    if (covering < 0) return;  // reported as a missing update
    const std::size_t updates = facts_.updates(reader.replica).size(),
                      of_first = facts_.updates(first.replica).size();
    if (updates != of_first) {
      report_.add(ViolationKind::wrong_version, reader.id,
                  "{}: microbatch {} can't use the version with which it entered the first stage, "
                  "which updates {} times a batch, this one {} times",
                  at_instruction(program_, reader.id), reader.residue, of_first, updates);
      return;
    }
    const std::int64_t after = reader.covering - reader.staleness - (covering - first.staleness);
    if (after == 0) return;
    report_.add(ViolationKind::wrong_version, reader.id,
                "{}: microbatch {} uses weights {} updates {} than those with which it entered the "
                "first stage",
                at_instruction(program_, reader.id), reader.residue, std::abs(after),
                after > 0 ? "newer" : "older");
  }

  /// The plane of a version that an op reads.
  SlotKind slot_of(const Op& op) const {
    const Reading reading = program_.reading(op.replica);
    const bool backward = makes_input_gradient(op.kind);
    if (backward && reading.corrects()) return SlotKind::backward_weights;
    const double horizon = backward ? reading.backward_horizon : reading.forward_horizon;
    if (horizon == 0.0) return SlotKind::weights;
    return horizon == reading.forward_horizon ? SlotKind::forward_weights
                                              : SlotKind::backward_weights;
  }

  /// Updates read the newest weights, even where every pass reads a plane of them.
  void check_newest_has_slot(ReplicaId replica) {
    if (slots_[replica][SlotKind::weights] > 0) return;
    for (const UpdateFact& update : facts_.updates(replica))
      overwritten({.id = update.id, .replica = replica, .residue = update.last}, update.id, 0);
  }

  /// All forwards of an update read what its first one reads, which is the newest then.
  void check_shared(const Op& op, const Reader& reader) {
    const std::int32_t first =
        facts_.updates(op.replica)[static_cast<std::size_t>(reader.covering)].first;
    if (first == reader.residue) return check_newest(reader);
    const InstructionId forward = facts_.find(Work::forward, facts_.stage(op.replica), first);
    if (!exists(forward) || program_[forward].op.staleness == op.staleness) return;
    report_.add(ViolationKind::wrong_version, reader.id,
                "{}: microbatch {} uses weights {} updates old, the first of its update {}",
                at_instruction(program_, reader.id), reader.residue, op.staleness,
                program_[forward].op.staleness);
  }

  /// The update that makes the next version comes after the reader.
  void check_newest(const Reader& reader) {
    const auto [maker, later] =
        facts_.numbered_update(reader.replica, reader.covering - reader.staleness);
    if (order_.before(reader.id, maker.id, later)) return;
    report_.add(ViolationKind::wrong_version, reader.id,
                "{}: the weights that microbatch {} uses, {} updates old, may not be the newest: "
                "{} may make newer ones before it ends",
                at_instruction(program_, reader.id), reader.residue, reader.staleness,
                at_instruction(program_, maker.id));
  }

  /// Version 0 is there from the start; any other was made by the update with the number before.
  void check_made(const Reader& reader) {
    const auto [maker, later] =
        facts_.numbered_update(reader.replica, reader.covering - reader.staleness - 1);
    if (order_.before(maker.id, reader.id, -later)) return;
    report_.add(ViolationKind::wrong_version, reader.id,
                "{}: the weights that microbatch {} uses, {} updates old, may not exist yet: "
                "it may start before {}, {} before, has ended",
                at_instruction(program_, reader.id), reader.residue, reader.staleness,
                at_instruction(program_, maker.id), batches(-later));
  }

  /// With n slots, version v goes when the update makes version v + n.
  void check_kept(const Reader& reader) {
    const std::int64_t slots = slots_[reader.replica][reader.slot];
    if (slots < 1) return overwritten(reader, reader.id, 0);
    const std::int64_t number = reader.covering - reader.staleness + slots - 1;
    const bool kept = check_kept_until(reader, number);
    // The first microbatches read version 0, younger than their staleness says. Only with fewer
    // slots than versions in use can the update that overwrites it come before the reader's own.
    const auto per_batch = static_cast<std::int64_t>(facts_.updates(reader.replica).size());
    for (std::int64_t own = reader.covering; own < reader.staleness; own += per_batch) {
      if (own < slots) continue;
      if (!check_kept_until(reader, reader.covering + slots - 1 - own)) return;
    }
    // A run may pause after any batch, its updates done, and go on.
    if (!kept || slots > reader.staleness) return;
    const auto [writer, later] = facts_.numbered_update(reader.replica, number);
    overwritten(reader, writer.id, later);
  }

  bool check_kept_until(const Reader& reader, std::int64_t number) {
    const auto [writer, later] = facts_.numbered_update(reader.replica, number);
    if (order_.before(reader.id, writer.id, later)) return true;
    overwritten(reader, writer.id, later);
    return false;
  }

  static std::string_view words_for(SlotKind slot) {
    if (slot == SlotKind::weights) return "weight";
    return slot == SlotKind::forward_weights ? "forward weight" : "backward weight";
  }

  void overwritten(const Reader& reader, InstructionId writer, std::int64_t later) {
    report_.add(ViolationKind::version_overwritten, writer,
                "{}: with {} {} slots, {}, {} {}, may overwrite the version that {} reads for "
                "microbatch {}",
                at_replica(program_, reader.replica), slots_[reader.replica][reader.slot],
                words_for(reader.slot), at_instruction(program_, writer), batches(std::abs(later)),
                later < 0 ? "before" : "later", at_instruction(program_, reader.id),
                reader.residue);
  }
};

}  // namespace

void check_versions(const Checker& of) { Versions{of}.check(); }

}  // namespace tandem::verification
