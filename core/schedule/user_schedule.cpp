#include "core/schedule/user_schedule.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/schedule/passes.h"
#include "core/schedule/refusals.h"

namespace tandem {

namespace {

template <class Test>
bool has_op(const Schedule& schedule, Test test) {
  return std::ranges::any_of(schedule.order, [&](const std::vector<Op>& order) {
    return std::ranges::any_of(order, test);
  });
}

/// Of a kind whose row says so.
bool has_kind(const Schedule& schedule, bool (*is)(OpKind)) {
  return has_op(schedule, [&](const Op& op) { return is(op.kind); });
}

void tie(Schedule& schedule, bool tied) {
  auto& rows = schedule.placement.tied;
  const StageId last = id_at<StageId>(schedule.placement.stages() - 1);
  const std::vector<std::vector<StageId>> ends{{StageId{0}, last}};
  if (rows.empty() && tied) rows = ends;
  if (rows == (tied ? ends : std::vector<std::vector<StageId>>{})) return;
  throw InputError(fmt::format("schedule \"{}\" ties stages of the model that share no parameters",
                               schedule.name));
}

/// Predicted or corrected weights.
bool reads_planes(const Schedule& schedule) {
  return std::ranges::any_of(schedule.readings,
                             [](const Reading& one) { return one != Reading{}; });
}

void refuse_by_use_of_weights(const Schedule& schedule, ScheduleRequest request) {
  const bool mixes = mixes_versions(schedule.version_rule), planes = reads_planes(schedule);
  if (!mixes && !planes) return;
  request.post_validation = request.post_validation || has_kind(schedule, settles_step);
  const WeightUse use{mixes ? WeightSemantics::latest : WeightSemantics::stashed, !mixes, planes};
  if (const auto reason = refused(fmt::format("\"{}\"", schedule.name), use, request))
    throw InputError(*reason);
}

/// As the schedule itself has it, or else inserted.
void validate(Schedule& schedule, const ScheduleRequest& request) {
  if (!request.post_validation || has_kind(schedule, settles_step)) return;
  const bool flushes = !has_op(schedule, [&](const Op& op) {
    return op.staleness != 0 || op.microbatch >= schedule.microbatches || moves_stash(op.kind) ||
           (makes_version(op.kind) && op.span != schedule.microbatches);
  });
  if (flushes && request.global_norm) return insert_validation(schedule);
  throw InputError(fmt::format(
      "schedule \"{}\": post-validation needs a norm of all gradients (--clip NORM), one update a "
      "batch, batches that do not overlap, and stashes that stay where they are",
      schedule.name));
}

}  // namespace

bool recomputes(const Schedule& schedule) { return has_kind(schedule, repeats); }

Schedule completed(Schedule schedule, const ScheduleRequest& request) {
  refuse_by_use_of_weights(schedule, request);
  tie(schedule, request.tied_embeddings);
  if (recomputes(schedule) && request.recompute != Recompute::stage) {
    throw InputError(
        fmt::format("schedule \"{}\" recomputes forwards: its plan has to say so", schedule.name));
  }
  if (request.recompute == Recompute::stage && !recomputes(schedule)) insert_recompute(schedule);
  const bool sums = has_kind(schedule, is_collective);
  if (!sums) insert_reduction(schedule, request.global_norm);
  if (schedule.width > 1 && !has_kind(schedule, sums_replicas)) {
    throw InputError(fmt::format(
        "schedule \"{}\" names its sums, but not those of gradients over its {} pipelines (R)",
        schedule.name, schedule.width));
  }
  if (request.global_norm && !has_kind(schedule, makes_norm)) {
    throw InputError(fmt::format(
        "schedule \"{}\" names its sums, but not the norm of all gradients (N)", schedule.name));
  }
  validate(schedule, request);
  return schedule;
}

WeightSemantics weight_semantics(const Schedule& schedule) {
  if (mixes_versions(schedule.version_rule)) return WeightSemantics::latest;
  if (reads_planes(schedule)) return WeightSemantics::stashed;  // of no other name
  const auto older_than = [](std::int32_t staleness) {
    return [staleness](const Op& op) { return reads_weights(op.kind) && op.staleness > staleness; };
  };
  if (!has_op(schedule, older_than(0))) return WeightSemantics::vanilla;
  const bool alike = !has_op(schedule, older_than(1)) && !has_op(schedule, [&](const Op& op) {
    return (reads_weights(op.kind) && op.staleness != 1) ||
           (makes_version(op.kind) && op.span != schedule.microbatches);
  });
  return alike ? WeightSemantics::delayed_by_one : WeightSemantics::stashed;
}

/// Stages of a trained model are a chain: what each makes, the next one takes.
static std::optional<std::string> not_a_chain(const Placement& placement) {
  std::vector<bool> joined(placement.stages());
  for (const Placement::Edge& edge : placement.edges) {
    const std::size_t from = index(placement.stage[edge.from]),
                      to = index(placement.stage[edge.to]);
    if (to != from + 1)
      return fmt::format("an edge leads from stage {} to stage {}, not to the stage after it", from,
                         to);
    joined[from] = true;
  }
  for (std::size_t stage = 0; stage + 1 < joined.size(); ++stage) {
    if (!joined[stage])
      return fmt::format("no edge leads from stage {} to stage {}", stage, stage + 1);
  }
  return std::nullopt;
}

/// The mean that an update steps by is over as many microbatches each time.
static std::optional<std::string> uneven_updates(const Schedule& schedule, ReplicaId replica) {
  const Op* first = nullptr;
  for (const Op& op : schedule.order[schedule.placement.device[replica]]) {
    if (op.replica != replica || !makes_version(op.kind)) continue;
    if (first == nullptr) first = &op;
    if (op.span % schedule.slices != 0) {
      return fmt::format("stage {} (device {}): the update U{} covers a part of a microbatch",
                         index(replica), index(schedule.placement.device[replica]), op.microbatch);
    }
    if (op.span == first->span) continue;
    return fmt::format(
        "stage {} (device {}): the update U{} covers {} of the batch's microbatches and U{} covers "
        "{}: all updates of a stage must cover equally many",
        index(replica), index(schedule.placement.device[replica]), first->microbatch, first->span,
        op.microbatch, op.span);
  }
  return std::nullopt;
}

std::optional<std::string> reason_not_trained(const Schedule& schedule) {
  if (auto reason = not_a_chain(schedule.placement)) return reason;
  for (const ReplicaId replica : ids(schedule.placement.device)) {
    if (auto reason = uneven_updates(schedule, replica)) return reason;
  }
  return std::nullopt;
}

}  // namespace tandem
