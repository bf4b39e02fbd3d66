#pragma once
// A question that a search answers at once.

#include <memory>

#include "core/model/catalog.h"
#include "planner/cluster/cluster_space.h"

namespace tandem::testing {

/// GPT-2 by 1f1b, batches of 32, every byte of the devices usable.
inline ClusterQuestion question_of_gpt2(const ClusterSpec& cluster) {
  ClusterQuestion question;
  question.base.plan.model = find_model("gpt2")->model;
  question.base.cluster = std::make_shared<const Cluster>(cluster);
  question.base.assumptions.reserve = {};
  question.schedules = {"1f1b"};
  question.global_batch = 32;
  question.tensor = 1;
  return question;
}

}  // namespace tandem::testing
