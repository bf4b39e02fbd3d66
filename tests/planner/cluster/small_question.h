#pragma once
// Questions so small that all of their space can be simulated.

#include <cstdint>
#include <memory>

#include "core/model/catalog.h"
#include "planner/cluster/cluster_search.h"

namespace tandem::testing {

inline ModelSpec small_model(std::int32_t blocks, std::int32_t width) {
  ModelSpec model = find_model("gpt2")->model;
  model.name = "small";
  model.blocks = blocks;
  model.width = width;
  model.heads = 8;
  model.sequence = 256;
  return model;
}

inline ClusterQuestion ask(const ModelSpec& model, ClusterSpec spec, std::int64_t batch,
                           Bytes memory) {
  for (DeviceSpec& device : spec.devices) device.memory_bytes = memory;
  ClusterQuestion question;
  question.base.plan.model = model;
  question.base.cluster = std::make_shared<const Cluster>(spec);
  question.base.assumptions.reserve = {};
  question.global_batch = batch;
  return question;
}

/// Half of its nodes have slower devices.
inline ClusterSpec uneven_cluster() {
  ClusterSpec spec = cluster_of_nodes("2xp3.16xlarge");
  const std::size_t node = *spec.groups[spec.root].members.front().group;
  spec.groups[spec.root].members.front().count = 1;
  DeviceSpec slow = spec.devices.front();
  slow.name = "slow";
  for (double& flops : slow.flops_per_s) flops /= 2;
  slow.typical = {};
  spec.devices.push_back(slow);
  GroupSpec other = spec.groups[node];
  other.name = "slow node";
  for (ClusterMember& member : other.members) {
    if (member.device) member.device = spec.devices.size() - 1;
  }
  spec.groups.push_back(other);
  ClusterMember second = spec.groups[spec.root].members.front();
  second.name = "slow";
  second.group = spec.groups.size() - 1;
  GroupSpec& root = spec.groups[spec.root];
  root.members.push_back(second);
  JointSpec joint = root.joints.front();
  const std::size_t first = root.joints.front().from.member == 0 ? 0 : 1;
  (first == 0 ? joint.from : joint.to).member = root.members.size() - 1;
  root.joints.push_back(joint);
  return spec;
}

}  // namespace tandem::testing
