#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/export/engine.h"
#include "core/import/megatron_arguments.h"

namespace tandem {

namespace {

/// "E" "t*3" "L".
std::string layout_text(const std::vector<BlockStage>& stages) {
  std::vector<std::string> words;
  for (const BlockStage& stage : stages) {
    const std::int32_t blocks = stage.last - stage.first;
    std::string word = stage.embedding ? "E" : "";
    if (blocks > 0) word += blocks == 1 ? "t" : fmt::format("t*{}", blocks);
    if (stage.head) word += "L";
    words.push_back(std::move(word));
  }
  return fmt::format("{}", fmt::join(words, "|"));
}

class ArgumentList {
 public:
  template <class Value>
  void add(std::string_view name, const Value& value) {
    lines_.push_back(fmt::format("--{} {}", name, value));
  }
  void flag(std::string_view name, bool given = true) {
    if (given) lines_.push_back(fmt::format("--{}", name));
  }
  std::vector<std::string> take() { return std::move(lines_); }

 private:
  std::vector<std::string> lines_;
};

void add_positions(const ModelSpec& model, const TransformerShape& shape, ArgumentList& to) {
  if (shape.positions > 0) return to.add("max-position-embeddings", shape.positions);
  to.add("max-position-embeddings", model.sequence);
  to.add("position-embedding-type", "rope");
  const RotaryPositions& rotary = shape.details.rotary;
  if (rotary.theta > 0.0) to.add("rotary-base", static_cast<std::int64_t>(rotary.theta));
  if (rotary.scaling != RotaryScaling::llama3) return;
  to.flag("use-rope-scaling");
  to.add("rope-scaling-factor", rotary.factor);
}

void add_model(const ModelSpec& model, ArgumentList& to) {
  const TransformerShape shape = shape_of(model);
  to.add("num-layers", model.blocks);
  to.add("hidden-size", model.width);
  to.add("ffn-hidden-size", shape.mlp_width);
  to.add("num-attention-heads", model.heads);
  if (shape.key_value_heads != model.heads) {
    to.flag("group-query-attention");
    to.add("num-query-groups", shape.key_value_heads);
  }
  to.add("kv-channels", shape.head_width);
  to.add("seq-length", model.sequence);
  add_positions(model, shape, to);
  to.add("vocab-size", model.vocabulary);
  to.add("make-vocab-size-divisible-by", 1);
  to.flag("swiglu", shape.gated);
  if (shape.rms_norm) to.add("normalization", "RMSNorm");
  to.add("norm-epsilon", shape.details.norm_epsilon);
  to.add("init-method-std", shape.details.initial_deviation);
  to.flag("disable-bias-linear", !shape.mlp_bias);
  to.flag("add-qkv-bias", !shape.mlp_bias && shape.query_bias);
  to.flag("qk-layernorm", shape.head_norm);
  to.flag("untie-embeddings-and-output-weights", !model.tied);
  if (!shape.dropout) {
    to.add("hidden-dropout", "0.0");
    to.add("attention-dropout", "0.0");
  }
}

void add_recompute(Recompute recompute, ArgumentList& to) {
  if (recompute == Recompute::none) return;
  if (recompute == Recompute::selective) return to.add("recompute-granularity", "selective");
  to.add("recompute-granularity", "full");
  to.add("recompute-method", recompute.kind == Recompute::Kind::blocks ? "block" : "uniform");
  to.add("recompute-num-layers", recompute.count);
}

void add_format(NumberFormat format, ArgumentList& to) {
  if (format == NumberFormat::fp16) to.flag("fp16");
  if (format == NumberFormat::bf16 || format == NumberFormat::fp8) to.flag("bf16");
  if (format == NumberFormat::fp8) to.add("fp8-format", "hybrid");
}

void add_optimizer(OptimizerKind kind, ArgumentList& to) {
  to.add("optimizer", kind == OptimizerKind::adamw ? "adam" : "sgd");
  if (kind == OptimizerKind::sgd) to.add("sgd-momentum", "0.0");
}

/// Microbatches that pass the first device's first chunk before any passes its second: it begins
/// with forwards of them all.
std::int32_t group_in(const Schedule& schedule) {
  const std::vector<Op>& order = schedule.order[DeviceId{}];
  const auto other = std::ranges::find_if(
      order, [&](const Op& op) { return op.replica != order.front().replica; });
  return static_cast<std::int32_t>(other - order.begin());
}

void add_pipeline(const ExportedPlan& exported, ArgumentList& to) {
  const Plan& plan = exported.plan;
  to.add("pipeline-model-parallel-size", plan.request.devices);
  if (plan.stages.size() == 1) return;
  to.add("pipeline-model-parallel-layout", fmt::format("\"{}\"", layout_text(*block_stages(plan))));
  if (plan.stages.size() == plan.request.devices) return;
  // As many as devices, unless it is told.
  const std::int32_t group = group_in(exported.schedule);
  if (plan.request.group > 0 || group > plan.request.devices)
    to.add("microbatch-group-size-per-virtual-pipeline-stage", group);
}

ArgumentList arguments_of(const ExportedPlan& exported) {
  const Plan& plan = exported.plan;
  const PlanCluster& on = cluster_or_machine(plan);
  ArgumentList to;
  add_model(plan.model, to);
  to.add("tensor-model-parallel-size", on.assumptions.tensor);
  to.flag("sequence-parallel", on.assumptions.sequence_parallel && on.assumptions.tensor > 1);
  add_pipeline(exported, to);
  to.flag("use-tp-pp-dp-mapping", on.order == DeviceOrder::stages_first);
  to.flag("use-distributed-optimizer", on.assumptions.sharded_optimizer);
  to.add("micro-batch-size", plan.microbatch_size);
  to.add("global-batch-size",
         std::int64_t{plan.microbatch_size} * plan.request.microbatches * plan.request.width);
  add_recompute(plan.request.recompute, to);
  add_format(on.assumptions.format, to);
  to.flag("use-flash-attn", on.assumptions.attention == AttentionKernel::flash);
  add_optimizer(plan.optimizer.kind, to);
  return to;
}

std::string joined(ArgumentList list) { return fmt::format("{}\n", fmt::join(list.take(), "\n")); }

/// Whether what the model's arguments say is this model: of some shapes none say it.
bool has_words_for(const ModelSpec& model) {
  if (model.architecture == Architecture::linear) return false;
  ArgumentList list;
  add_model(model, list);
  ModelSpec read = parse_megatron("plan", joined(std::move(list)));
  TransformerShape shape = shape_of(read);
  shape.details = shape_of(model).details;  // no price depends on them
  return shape == shape_of(model) && read.vocabulary == model.vocabulary &&
         read.tied == model.tied && model.shape.experts == 0;
}

void check_megatron_recompute(const ExportedPlan& exported,
                              std::vector<ExportObstacle>& obstacles) {
  if (exported.plan.request.recompute.kind != Recompute::Kind::stage) return;
  obstacles.push_back({"its stages run whole forwards again: Megatron-LM does so by blocks",
                       "recompute",
                       {"full"}});
}

bool in_megatrons_order(const ExportedPlan& exported) {
  return exported.schedule.slices == 1 &&
         (runs_as(exported, "1f1b") || runs_as(exported, "interleaved"));
}

void check_megatron_schedule(const ExportedPlan& exported, std::vector<ExportObstacle>& obstacles) {
  if (in_megatrons_order(exported)) return;
  obstacles.push_back(
      {fmt::format("its schedule is {}: Megatron-LM runs 1f1b and interleaved, with a flush",
                   exported.plan.schedule),
       "schedule",
       {"1f1b", "interleaved"}});
}

}  // namespace

std::vector<ExportObstacle> megatron_obstacles(const ExportedPlan& exported) {
  const ModelSpec& model = exported.plan.model;
  std::vector<ExportObstacle> obstacles;
  check_megatron_schedule(exported, obstacles);
  check_blocks(exported, obstacles);
  check_megatron_recompute(exported, obstacles);
  check_correction(exported, obstacles);
  check_optimizer(exported, {OptimizerKind::adamw, OptimizerKind::momentum, OptimizerKind::sgd},
                  "Megatron-LM", obstacles);
  if (model.architecture != Architecture::linear && !has_words_for(model)) {
    obstacles.push_back(
        {fmt::format("no arguments that tandem import reads say what {} is made of", model.name)});
  }
  return obstacles;
}

std::vector<std::string> megatron_arguments(const ExportedPlan& exported) {
  return arguments_of(exported).take();
}

std::string megatron_text(const ExportedPlan& exported) {
  const Plan& plan = exported.plan;
  const std::int32_t tensor = cluster_or_machine(plan).assumptions.tensor;
  std::string text = comments(exported);
  text += fmt::format(
      "# For {} ranks: tensor {} x depth {} x width {}. Data and tokenizer are yours.\n",
      std::int64_t{tensor} * plan.request.devices * plan.request.width, tensor,
      plan.request.devices, plan.request.width);
  if (plan.model.vocabulary % tensor != 0) {
    text += fmt::format("# The vocabulary is padded to {}, a multiple of the tensor degree.\n",
                        (plan.model.vocabulary + tensor - 1) / tensor * tensor);
  }
  return text + joined(arguments_of(exported));
}

}  // namespace tandem
