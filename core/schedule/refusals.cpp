#include "core/schedule/refusals.h"

#include <fmt/format.h>

namespace tandem {

namespace {

struct Refusal {
  bool (*holds)(const WeightUse& use, const ScheduleRequest& request);
  std::string_view reason;  // behind "schedule NAME "
};

bool mixes(const WeightUse& use) { return use.weights == WeightSemantics::latest; }

// In the order in which they are told.
constexpr Refusal kRefusals[] = {
    {[](const WeightUse& use, const ScheduleRequest& request) {
       return request.global_norm && !use.updates_together;
     },
     "has no global norm: each stage updates at times of its own, so there is no moment at which "
     "the gradients of one update are all there; clip each stage by its own norm (--clip "
     "per-stage)"},
    {[](const WeightUse& use, const ScheduleRequest& request) {
       return request.post_validation && use.weights != WeightSemantics::vanilla;
     },
     "has no use for post-validation: the forwards of the next batch read weights that the norm no "
     "longer changes, so that no device waits for it"},
    {[](const WeightUse& use, const ScheduleRequest& request) {
       return mixes(use) && request.recompute != Recompute::none;
     },
     "can't recompute activations: a backward would make them again from newer weights than its "
     "forward read, and so train something else (--recompute none)"},
    {[](const WeightUse& use, const ScheduleRequest& request) {
       return mixes(use) && request.tied_embeddings && request.devices > 1;
     },
     "can't train tied embeddings: the last stage updates before the first one's gradient of the "
     "shared table is there (a model with \"tied\": false has none)"},
    {[](const WeightUse& use, const ScheduleRequest& request) {
       return use.reads_planes && request.tied_embeddings && request.devices > 1;
     },
     "can't train tied embeddings: each stage reads weights predicted for a time of its own, so a "
     "table that the first and the last one share would be two"},
};

}  // namespace

std::optional<std::string> refused(std::string_view name, const WeightUse& use,
                                   const ScheduleRequest& request) {
  for (const Refusal& refusal : kRefusals) {
    if (refusal.holds(use, request)) return fmt::format("schedule {} {}", name, refusal.reason);
  }
  return std::nullopt;
}

}  // namespace tandem
