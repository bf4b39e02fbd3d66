#include <algorithm>

#include "core/verify/checkers.h"

namespace tandem::verification {

namespace {

/// Floor division, for update numbers before the batch; mostly by a batch at most.
constexpr std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  if (b == 1) return a;
  if (-b <= a && a < b) return a < 0 ? -1 : 0;
  return a >= 0 ? a / b : -((-a + b - 1) / b);
}

/// Update number n of a stage makes version n + 1 from version n. Numbers here count from the batch
/// of the reader.
class Versions {
 public:
  Versions(const Facts& facts, Order& order, const SlotCounts& slots, Report& report)
      : facts_(facts), program_(facts.program()), order_(order), slots_(slots), report_(report) {}

  void check() {
    for (std::size_t p = 0; p < facts_.placement().parts(); ++p) {
      const PartId part = id_at<PartId>(p);
      for (std::int32_t r = 0; r < facts_.microbatches(); ++r) check_microbatch(part, r);
    }
  }

 private:
  struct Reader {
    WorkFact op;
    std::int32_t residue = 0;
    std::int64_t covering = 0;  // the update that covers the microbatch
  };

  void check_microbatch(PartId part, std::int32_t r) {
    const WorkFact& forward = facts_.work(Work::forward, part, r);
    for (const Work work : {Work::forward, Work::recompute, Work::input_gradient}) {
      const WorkFact& op = facts_.work(work, part, r);
      if (!exists(op.id)) continue;
      if (exists(forward.id) && op.staleness != forward.staleness) {
        report_.add(ViolationKind::wrong_version, op.id,
                    "{}: microbatch {} uses weights {} updates old, its forward {}",
                    at_instruction(program_, op.id), r, op.staleness, forward.staleness);
      }
      const std::int32_t covering = facts_.update_covering(op.stage, r);
      if (covering < 0) continue;  // reported as a missing update
      check_made({op, r, covering});
      check_kept({op, r, covering});
    }
  }

  /// The update of a stage with number `number`, and how many batches after the reader's it stands.
  Seated update(StageId stage, std::int64_t number, std::int64_t& batches_later) const {
    const auto& updates = facts_.updates(stage);
    const auto count = static_cast<std::int64_t>(updates.size());
    batches_later = floor_div(number, count);
    return updates[static_cast<std::size_t>(number - batches_later * count)].id;
  }

  /// Version 0 is there from the start; any other was made by the update with the number before.
  void check_made(const Reader& reader) {
    const WorkFact& op = reader.op;
    std::int64_t later = 0;
    const Seated maker = update(op.stage, reader.covering - op.staleness - 1, later);
    if (order_.before(maker, reader.op.id, -later)) return;
    report_.add(ViolationKind::wrong_version, reader.op.id,
                "{}: the weights that microbatch {} uses, {} updates old, may not exist yet: "
                "it may start before {}, {} before, has ended",
                at_instruction(program_, reader.op.id), reader.residue, op.staleness,
                at_instruction(program_, maker), batches(-later));
  }

  /// With n slots, version v goes when the update makes version v + n.
  void check_kept(const Reader& reader) {
    const WorkFact& op = reader.op;
    const std::int64_t slots = slots_[op.stage][SlotKind::weights];
    if (slots < 1) return overwritten(reader, reader.op.id, 0);
    const std::int64_t number = reader.covering - op.staleness + slots - 1;
    const bool kept = check_kept_until(reader, number);
    // The first microbatches read version 0, younger than their staleness says. Only with fewer
    // slots than versions in use can the update that overwrites it come before the reader's own.
    const auto per_batch = static_cast<std::int64_t>(facts_.updates(op.stage).size());
    for (std::int64_t own = reader.covering; own < op.staleness; own += per_batch) {
      if (own < slots) continue;
      if (!check_kept_until(reader, reader.covering + slots - 1 - own)) return;
    }
    // A run may pause after any batch, its updates done, and go on.
    if (!kept || slots > op.staleness) return;
    std::int64_t later = 0;
    const Seated writer = update(op.stage, number, later);
    overwritten(reader, writer, later);
  }

  bool check_kept_until(const Reader& reader, std::int64_t number) {
    std::int64_t later = 0;
    const Seated writer = update(reader.op.stage, number, later);
    if (order_.before(reader.op.id, writer, later)) return true;
    overwritten(reader, writer, later);
    return false;
  }

  void overwritten(const Reader& reader, Seated writer, std::int64_t later) {
    const StageId stage = reader.op.stage;
    report_.add(ViolationKind::version_overwritten, writer,
                "{}: with {} weight slots, {}, {} later, may overwrite the version that {} "
                "reads for microbatch {}",
                at_stage(program_, stage), slots_[stage][SlotKind::weights],
                at_instruction(program_, writer), batches(later),
                at_instruction(program_, reader.op.id), reader.residue);
  }

  const Facts& facts_;
  const Program& program_;
  Order& order_;
  const SlotCounts& slots_;
  Report& report_;
};

}  // namespace

void check_versions(const Facts& facts, Order& order, const SlotCounts& slots, Report& report) {
  Versions(facts, order, slots, report).check();
}

}  // namespace tandem::verification
