#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/export/engine.h"
#include "core/model/cluster.h"

namespace tandem {

namespace {

/// Whole nodes, all with as many devices.
struct Nodes {
  std::int64_t count = 1, devices = 1;
};

std::int64_t devices_of(const Plan& plan) {
  return std::int64_t{cluster_or_machine(plan).assumptions.tensor} * plan.request.devices *
         plan.request.width;
}

/// Empty: the plan's devices are no such nodes.
std::optional<Nodes> nodes_of(const Plan& plan) {
  const std::int64_t taken = devices_of(plan);
  if (!plan.cluster) return Nodes{1, taken};
  const Cluster cluster(plan.cluster->cluster);
  std::vector<std::int64_t> of_nodes;
  for (std::int64_t device = 0; device < taken; ++device) {
    const std::size_t node = cluster.node(id_at<DeviceId>(static_cast<std::size_t>(device)));
    of_nodes.resize(std::max(of_nodes.size(), node + 1), 0);
    ++of_nodes[node];
  }
  const bool even = std::ranges::all_of(
      of_nodes, [&](std::int64_t devices) { return devices == of_nodes.front(); });
  if (!even) return std::nullopt;
  return Nodes{std::ssize(of_nodes), of_nodes.front()};
}

/// What the script starts: the first that can do the plan.
enum class Started : std::uint8_t { megatron, torchtitan };

std::optional<Started> started(const ExportedPlan& exported) {
  if (megatron_obstacles(exported).empty()) return Started::megatron;
  if (torchtitan_obstacles(exported).empty()) return Started::torchtitan;
  return std::nullopt;
}

std::string torchrun(Nodes nodes) {
  return fmt::format(
      "srun torchrun --nnodes={} --nproc-per-node={} --rdzv-backend=c10d --rdzv-id=$SLURM_JOB_ID "
      "\\\n"
      "  --rdzv-endpoint=\"$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\":29500 "
      "\\\n",
      nodes.count, nodes.devices);
}

std::string megatron_job(const ExportedPlan& exported, Nodes nodes) {
  const std::vector<std::string> arguments = megatron_arguments(exported);
  return fmt::format(
      "# MEGATRON: a checkout of Megatron-LM. DATA: arguments of data, tokenizer, learning rate "
      "and "
      "steps.\n{}  \"${{MEGATRON:?}}/pretrain_gpt.py\" \\\n  {} \\\n  ${{DATA:?}}\n",
      torchrun(nodes), fmt::join(arguments, " \\\n  "));
}

std::string torchtitan_job(const ExportedPlan& exported, Nodes nodes) {
  const std::string stem = stem_of(exported.file);
  return fmt::format(
      "# MODEL: arguments of model, data and tokenizer. The files come from\n"
      "#   tandem export {0} --to torchtitan --output {1}.toml\n"
      "#   tandem export {0} --to pytorch-csv --output {1}.csv\n"
      "{2}  -m torchtitan.train --job.config_file {1}.toml ${{MODEL:?}}\n",
      exported.file, stem, torchrun(nodes));
}

}  // namespace

std::vector<ExportObstacle> sbatch_obstacles(const ExportedPlan& exported) {
  std::vector<ExportObstacle> obstacles;
  if (!nodes_of(exported.plan)) {
    obstacles.push_back(
        {fmt::format("its {} devices are not as many on each node: Slurm starts as "
                     "many ranks everywhere",
                     devices_of(exported.plan))});
  }
  if (started(exported)) return obstacles;
  for (ExportObstacle& one : megatron_obstacles(exported)) obstacles.push_back(std::move(one));
  return obstacles;
}

std::string sbatch_text(const ExportedPlan& exported) {
  const Nodes nodes = *nodes_of(exported.plan);
  std::string text = fmt::format(
      "#!/bin/bash\n{}#SBATCH --job-name={}\n#SBATCH --nodes={}\n#SBATCH --ntasks-per-node=1\n"
      "#SBATCH --gpus-per-node={}\n#SBATCH --exclusive\nset -euo pipefail\n",
      comments(exported), stem_of(exported.file), nodes.count, nodes.devices);
  return text + (*started(exported) == Started::megatron ? megatron_job(exported, nodes)
                                                         : torchtitan_job(exported, nodes));
}

}  // namespace tandem
