#include "core/plan.h"

namespace tandem {

ScheduleRequest schedule_request(const Plan& plan) {
  ScheduleRequest request;
  request.devices = plan.depth;
  request.microbatches = plan.microbatches;
  request.extra_in_flight = plan.extra_in_flight;
  request.width = plan.width;
  request.recompute = plan.recompute;
  // A single stage holds the one table that both ends use: nothing to sum.
  request.tied_embeddings =
      plan.model.architecture == Architecture::gpt2 && plan.model.tied && plan.depth > 1;
  return request;
}

}  // namespace tandem
