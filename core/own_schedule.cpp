#include "core/own_schedule.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "core/error.h"
#include "core/insert_recompute.h"
#include "core/insert_reduction.h"
#include "core/insert_validation.h"

namespace tandem {

namespace {

template <class Test>
bool has_op(const Schedule& schedule, Test test) {
  return std::ranges::any_of(schedule.order, [&](const std::vector<Op>& order) {
    return std::ranges::any_of(order, test);
  });
}

bool has_kind(const Schedule& schedule, OpKind kind) {
  return has_op(schedule, [&](const Op& op) { return op.kind == kind; });
}

void tie(Schedule& schedule, bool tied) {
  auto& rows = schedule.placement.tied;
  const PartId last = id_at<PartId>(schedule.placement.parts() - 1);
  const std::vector<std::vector<PartId>> ends{{PartId{0}, last}};
  if (rows.empty() && tied) rows = ends;
  if (rows == (tied ? ends : std::vector<std::vector<PartId>>{})) return;
  throw InputError(fmt::format("schedule \"{}\" ties parts of the model that share no parameters",
                               schedule.name));
}

/// Microbatches of a batch in the order in which a stage makes their weight gradients.
std::vector<std::int32_t> summing_order_of(const Schedule& schedule, StageId stage) {
  const std::int32_t m = schedule.microbatches;
  std::vector<std::int32_t> offsets;
  for (const Op& op : schedule.order[schedule.placement.device[stage]]) {
    if (op.stage != stage || !makes_weight_gradient(op.kind)) continue;
    for (std::int32_t k = op.microbatch - op.span + 1; k <= op.microbatch; ++k)
      offsets.push_back(k);
  }
  // Of one batch, what stands a body's length further on is made a body earlier.
  std::ranges::stable_sort(offsets, std::greater(), [m](std::int32_t k) { return k / m; });
  for (std::int32_t& k : offsets) k %= m;
  return offsets;
}

/// As the schedule itself has it, or else inserted.
void validate(Schedule& schedule, const ScheduleRequest& request) {
  if (!request.post_validation || has_kind(schedule, OpKind::validate)) return;
  const bool flushes = !has_op(schedule, [&](const Op& op) {
    return op.staleness != 0 || op.microbatch >= schedule.microbatches || moves_stash(op.kind) ||
           (op.kind == OpKind::update && op.span != schedule.microbatches);
  });
  if (flushes && request.global_norm) return insert_validation(schedule);
  throw InputError(fmt::format(
      "schedule \"{}\": post-validation needs a norm of all gradients (--clip NORM), one update a "
      "batch, batches that do not overlap, and stashes that stay where they are",
      schedule.name));
}

}  // namespace

bool recomputes(const Schedule& schedule) { return has_kind(schedule, OpKind::recompute); }

Schedule completed(Schedule schedule, const ScheduleRequest& request) {
  tie(schedule, request.tied_embeddings);
  if (recomputes(schedule) && request.recompute != Recompute::full) {
    throw InputError(
        fmt::format("schedule \"{}\" recomputes forwards: its plan has to say so", schedule.name));
  }
  if (request.recompute == Recompute::full && !recomputes(schedule)) insert_recompute(schedule);
  const bool sums = has_op(schedule, [](const Op& op) { return is_collective(op.kind); });
  if (!sums) insert_reduction(schedule, request.global_norm);
  if (request.global_norm && !has_kind(schedule, OpKind::reduce_norm)) {
    throw InputError(fmt::format(
        "schedule \"{}\" says what its devices sum, and not the norm of all gradients (N)",
        schedule.name));
  }
  validate(schedule, request);
  return schedule;
}

WeightSemantics weight_semantics(const Schedule& schedule) {
  const auto older_than = [](std::int32_t staleness) {
    return [staleness](const Op& op) { return reads_weights(op.kind) && op.staleness > staleness; };
  };
  if (!has_op(schedule, older_than(0))) return WeightSemantics::vanilla;
  const bool alike = !has_op(schedule, older_than(1)) && !has_op(schedule, [&](const Op& op) {
    return (reads_weights(op.kind) && op.staleness != 1) ||
           (op.kind == OpKind::update && op.span != schedule.microbatches);
  });
  return alike ? WeightSemantics::delayed_by_one : WeightSemantics::stashed;
}

std::vector<std::int32_t> summing_order(const Schedule& schedule) {
  const auto m = static_cast<std::size_t>(schedule.microbatches);
  std::vector<std::int32_t> ascending(m);
  std::iota(ascending.begin(), ascending.end(), 0);
  std::vector<std::vector<std::int32_t>> candidates{ascending};
  candidates.emplace_back(ascending.rbegin(), ascending.rend());
  candidates.push_back(summing_order_of(schedule, StageId{0}));
  for (std::vector<std::int32_t>& order : candidates) {
    if (order.size() != m) continue;
    std::vector<std::size_t> place(m);
    for (std::size_t i = 0; i < m; ++i) place[static_cast<std::size_t>(order[i])] = i;
    const auto fits = [&](StageId stage) {
      return std::ranges::is_sorted(
          summing_order_of(schedule, stage), {},
          [&](std::int32_t residue) { return place[static_cast<std::size_t>(residue)]; });
    };
    bool all = true;
    for (const StageId stage : ids(schedule.placement.device)) all = all && fits(stage);
    if (all) return std::move(order);
  }
  return {};
}

std::vector<std::int32_t> copies_passed(const Schedule& schedule) {
  const Placement& placement = schedule.placement;
  const auto m = static_cast<std::size_t>(schedule.microbatches);
  std::vector<std::int32_t> all;
  for (const PartId part : all_ids<PartId>(placement.parts())) {
    const std::vector<StageId> replicas = placement.replicas_of(part);
    std::vector<std::int32_t> copies(m);
    for (std::size_t copy = 0; copy < replicas.size(); ++copy) {
      for (const std::int32_t residue : summing_order_of(schedule, replicas[copy]))
        copies[static_cast<std::size_t>(residue)] = static_cast<std::int32_t>(copy);
    }
    if (index(part) > 0 && (copies != all || replicas.size() != placement.replicas_of({}).size()))
      return {};
    all = std::move(copies);
  }
  return all;
}

}  // namespace tandem
