#include "core/plan.h"

namespace tandem {

ScheduleRequest schedule_request(const Plan& plan) {
  ScheduleRequest request;
  request.devices = plan.depth;
  request.microbatches = plan.microbatches;
  request.chunks = plan.chunks;
  request.group = plan.group;
  request.extra_in_flight = plan.extra_in_flight;
  request.replicas = plan.replicas;
  request.vertical_sync = plan.vertical_sync;
  request.width = plan.width;
  request.recompute = plan.recompute;
  request.global_norm = plan.global_norm;
  request.tied_embeddings = plan.model.architecture == Architecture::gpt2 && plan.model.tied;
  return request;
}

}  // namespace tandem
