#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/export/engine.h"

namespace tandem {

namespace {

bool is_torchtitan_loop(const Schedule& schedule) {
  const Placement& placement = schedule.placement;
  const std::size_t stages = placement.stages();
  return placement.devices != 0 && stages % placement.devices == 0 &&
         placement.device == looped_placement(placement.devices, static_cast<std::uint16_t>(
                                                                     stages / placement.devices))
                                 .device;
}

bool is_torchtitan_v(const Schedule& schedule) {
  return schedule.placement.device == v_placement(schedule.placement.devices).device;
}

bool has_torchtitan_place(const Schedule& schedule) {
  return is_torchtitan_loop(schedule) || is_torchtitan_v(schedule);
}

bool torchtitan_runs(const Schedule& schedule) {
  return has_csv_words(schedule) && has_torchtitan_place(schedule);
}

void check_torchtitan_schedule(const ExportedPlan& exported,
                               std::vector<ExportObstacle>& obstacles) {
  const std::size_t before = obstacles.size();
  check_csv(exported, obstacles);
  if (obstacles.size() == before && !has_torchtitan_place(exported.schedule)) {
    obstacles.push_back(
        {"its stages go round the ranks neither in a loop nor in one V", "schedule"});
  }
  if (obstacles.size() > before)
    obstacles.back().values = schedules_that(exported, torchtitan_runs);
}

void check_torchtitan_assumptions(const ExportedPlan& exported,
                                  std::vector<ExportObstacle>& obstacles) {
  const PlanCluster& on = cluster_or_machine(exported.plan);
  const NumberFormat format = on.assumptions.format;
  if (exported.plan.model.tied && exported.plan.request.devices > 1)
    obstacles.push_back({"its embeddings are tied: torchtitan's pipelines share no weights"});
  if (format == NumberFormat::fp16 || format == NumberFormat::fp8) {
    obstacles.push_back({fmt::format("torchtitan trains in bf16 or fp32, not in {}", name(format)),
                         "dtype",
                         {"bf16"}});
  }
  if (on.order == DeviceOrder::stages_first) {
    obstacles.push_back(
        {"the stages of a pipeline are neighbours: torchtitan's mesh has the "
         "replicas of a stage together",
         "device-order",
         {"replicas-first"}});
  }
}

void check_torchtitan_recompute(const ExportedPlan& exported,
                                std::vector<ExportObstacle>& obstacles) {
  const Recompute recompute = exported.plan.request.recompute;
  if (recompute == Recompute::none || recompute == Recompute::selective ||
      recompute == Recompute::full)
    return;
  obstacles.push_back({fmt::format("it recomputes {}: torchtitan all blocks, each by itself, or "
                                   "chosen ops",
                                   name(recompute)),
                       "recompute",
                       {"full"}});
}

/// The modules of each stage, by torchtitan's names.
std::string modules_text(const std::vector<BlockStage>& stages) {
  std::string text = "[\n";
  for (const BlockStage& stage : stages) {
    std::vector<std::string> names;
    if (stage.embedding) names.emplace_back("\"tok_embeddings\"");
    for (std::int32_t block = stage.first; block < stage.last; ++block)
      names.push_back(fmt::format("\"layers.{}\"", block));
    if (stage.head) names.insert(names.end(), {"\"norm\"", "\"output\""});
    text += fmt::format("  [{}],\n", fmt::join(names, ", "));
  }
  return text + "]\n";
}

/// What places the stages; the CSV says their order.
std::string_view class_name(const ExportedPlan& exported) {
  if (exported.plan.stages.size() == exported.plan.request.devices) return "1F1B";
  return is_torchtitan_loop(exported.schedule) ? "Interleaved1F1B" : "ZBVZeroBubble";
}

std::string pipeline_text(const ExportedPlan& exported) {
  const Plan& plan = exported.plan;
  std::string text = fmt::format("pipeline_parallel_degree = {}\n", plan.request.devices);
  if (plan.request.devices == 1) return text;
  text += fmt::format(
      "pipeline_parallel_schedule = \"{}\"  # places the stages\n"
      "pipeline_parallel_schedule_csv = \"{}.csv\"  # orders them\n"
      "pipeline_parallel_microbatch_size = {}\n"
      "module_fqns_per_model_part = {}",
      class_name(exported), stem_of(exported.file), plan.microbatch_size,
      modules_text(*block_stages(plan)));
  return text;
}

std::string parallelism_text(const ExportedPlan& exported) {
  const Plan& plan = exported.plan;
  const AnalyticAssumptions& assumptions = cluster_or_machine(plan).assumptions;
  const bool sharded = assumptions.sharded_optimizer;
  std::string text = "\n[parallelism]\n";
  text += fmt::format("data_parallel_replicate_degree = {}\ndata_parallel_shard_degree = {}\n",
                      sharded ? 1 : plan.request.width, sharded ? plan.request.width : 1);
  if (sharded) {
    text +=
        "# ZeRO-1 was predicted: weights that stay gathered for a step come nearest. FSDP shards\n"
        "# gradients and weights besides, so that it needs less memory and sends more.\n"
        "fsdp_reshard_after_forward = \"never\"\n";
  }
  text += fmt::format("tensor_parallel_degree = {}\n", assumptions.tensor);
  return text + pipeline_text(exported);
}

std::string recompute_text(const ExportedPlan& exported) {
  const Recompute recompute = exported.plan.request.recompute;
  std::string text = "\n[activation_checkpoint]\n";
  if (recompute == Recompute::selective) {
    text +=
        "# What is cheap to make again was predicted to be; torchtitan chooses by op.\n"
        "mode = \"selective\"\nselective_ac_option = \"op\"\n";
    return text;
  }
  return text + fmt::format("mode = \"{}\"\n", recompute == Recompute::full ? "full" : "none");
}

}  // namespace

std::vector<ExportObstacle> torchtitan_obstacles(const ExportedPlan& exported) {
  std::vector<ExportObstacle> obstacles;
  check_torchtitan_schedule(exported, obstacles);
  check_blocks(exported, obstacles);
  check_torchtitan_assumptions(exported, obstacles);
  check_torchtitan_recompute(exported, obstacles);
  check_correction(exported, obstacles);
  check_optimizer(exported, {OptimizerKind::adamw}, "torchtitan", obstacles);
  return obstacles;
}

std::string torchtitan_text(const ExportedPlan& exported) {
  const Plan& plan = exported.plan;
  const AnalyticAssumptions& assumptions = cluster_or_machine(plan).assumptions;
  const bool bf16 = assumptions.format == NumberFormat::bf16;
  const std::int64_t of_pipeline = std::int64_t{plan.microbatch_size} * plan.request.microbatches;
  // Without a pipeline its microbatches are steps of gradient accumulation.
  const std::int64_t local = plan.request.devices == 1 ? plan.microbatch_size : of_pipeline;
  std::string text = comments(exported);
  text += fmt::format("# For {} ranks. Model, data and tokenizer are yours.\n",
                      std::int64_t{assumptions.tensor} * plan.request.devices * plan.request.width);
  if (plan.request.devices > 1) {
    text += fmt::format("# The order of ops: tandem export {} --to pytorch-csv --output {}.csv\n",
                        exported.file, stem_of(exported.file));
  }
  text += fmt::format(
      "# Later versions call module_fqns_per_model_part "
      "pipeline_parallel_module_fqns_per_model_part,\n"
      "# and have num_pp_microbatches ({} here) in place of a microbatch's size.\n",
      plan.request.microbatches);
  text += fmt::format(
      "[training]\nseq_len = {}\nlocal_batch_size = {}\nglobal_batch_size = {}\n"
      "mixed_precision_param = \"{}\"\n",
      plan.model.sequence, local, of_pipeline * plan.request.width, bf16 ? "bfloat16" : "float32");
  text += "\n[optimizer]\nname = \"AdamW\"\n";
  return text + recompute_text(exported) + parallelism_text(exported);
}

}  // namespace tandem
