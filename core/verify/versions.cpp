#include <cstdlib>

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
    const bool differs = exists(forward) && op.staleness != program_[forward].op.staleness;
    if (differs && !program_.reads_newest()) {
      report_.add(ViolationKind::wrong_version, id,
                  "{}: microbatch {} uses weights {} updates old, its forward {}",
                  at_instruction(program_, id), r, op.staleness, program_[forward].op.staleness);
    }
    const std::int32_t covering = facts_.update_covering(op.replica, r);
    if (covering < 0) return;  // reported as a missing update
    const bool corrected =
        makes_input_gradient(op.kind) && program_.correction(op.replica).corrects();
    const Reader reader{id,       op.replica,
                        r,        op.staleness,
                        covering, corrected ? SlotKind::corrected_weights : SlotKind::weights};
    check_made(reader);
    check_kept(reader);
    if (program_.reads_newest()) check_newest(reader);
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

  void overwritten(const Reader& reader, InstructionId writer, std::int64_t later) {
    report_.add(ViolationKind::version_overwritten, writer,
                "{}: with {} {} slots, {}, {} {}, may overwrite the version that {} reads for "
                "microbatch {}",
                at_replica(program_, reader.replica), slots_[reader.replica][reader.slot],
                reader.slot == SlotKind::weights ? "weight" : "corrected weight",
                at_instruction(program_, writer), batches(std::abs(later)),
                later < 0 ? "before" : "later", at_instruction(program_, reader.id),
                reader.residue);
  }
};

}  // namespace

void check_versions(const Checker& of) { Versions{of}.check(); }

}  // namespace tandem::verification
