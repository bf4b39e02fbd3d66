#include "tools/options/cluster_options.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/base/ascii.h"
#include "core/base/error.h"
#include "core/files/constants_files.h"
#include "core/files/model_file.h"
#include "core/files/plan_cluster.h"
#include "core/files/profile_file.h"
#include "core/files/read.h"
#include "core/import/models.h"
#include "core/model/catalog.h"
#include "core/text/json_document.h"
#include "planner/cluster/plan_of_cluster.h"
#include "planner/study/prepared_plan.h"
#include "planner/study/timed_search.h"
#include "tools/cli/file_cache.h"
#include "tools/cli/split.h"
#include "tools/options/cost_options.h"
#include "tools/options/training_options.h"

namespace tandem::tools {

namespace {

constexpr std::int64_t kMostDevices = static_cast<std::int64_t>(kMostClusterDevices);
constexpr std::int64_t kMostBatchSamples = 1'000'000'000, kMostTokens = 1'048'576;

constexpr std::initializer_list<NumberFormat> kPreferredFormats{
    NumberFormat::bf16, NumberFormat::fp16, NumberFormat::fp32, NumberFormat::tf32,
    NumberFormat::fp8};

/// "0-12,12-26".
std::vector<LayerRange> stages_named(const OptionValue& value) {
  std::vector<LayerRange> stages;
  for (const std::string_view one : split(value.text(), ",")) {
    const auto [first, last] = halved(one, '-');
    const auto from = number_in<std::int32_t>(first), to = number_in<std::int32_t>(last);
    if (!from || !to) value.reject("the layers of each stage, such as 0-12,12-26");
    stages.push_back({*from, *to});
  }
  return stages;
}

double fraction(const OptionValue& value) { return value.number(0.001, 1.0); }

/// "Llama-3-8B" of "meta-llama/Llama-3-8B", as the hub of Hugging Face calls it, if there is no
/// such folder here; else what was given.
std::string without_owner(const std::string& model) {
  const std::size_t slash = model.find('/');
  std::error_code unreadable;
  if (slash == 0 || slash == std::string::npos || model.find('/', slash + 1) != std::string::npos ||
      model.ends_with(".json") || std::filesystem::exists(model.substr(0, slash), unreadable))
    return model;
  return model.substr(slash + 1);
}

bool is_of_catalog(const std::string& model) {
  return !is_file_name(without_owner(model)) || find_model(model) != nullptr;
}

ModelSpec model_of(const GivenOptions& given) {
  if (!given.has("model")) refuse(given, "--model is missing: a name of the catalogue or a file");
  const std::string name = without_owner(given.model);
  ModelSpec model = is_of_catalog(name) ? model_of_name(name) : read_cached<model_at>(name);
  if (given.sequence) model.sequence = static_cast<std::int32_t>(*given.sequence);
  if (model.architecture != Architecture::transformer) return model;
  if (const std::string fault = shape_fault(model); !fault.empty())
    throw InputError(fmt::format("model {}: {}", name, fault));
  return model;
}

std::shared_ptr<const TensorProfiles> tensor_profiles_at(const std::string& path) {
  return std::make_shared<const TensorProfiles>(read_tensor_profiles(path));
}

AnalyticAssumptions assumptions_of(const GivenOptions& given, const Cluster& cluster,
                                   const std::optional<CalibrationFile>& calibration) {
  AnalyticAssumptions assumptions;
  assumptions.format = format_of(given, cluster);
  assumptions.attention = attention_of(given, assumptions.format);
  assumptions.tensor = static_cast<std::int32_t>(given.tensor.value_or(1));
  check_most(given, "tensor", assumptions.tensor, static_cast<std::int64_t>(cluster.size()));
  assumptions.product_fraction = given.product_fraction;
  assumptions.memory_fraction = given.memory_fraction;
  assumptions.link_fraction = given.link_fraction;
  if (given.has("collectives")) assumptions.collectives = read_collectives(given.collectives);
  assumptions.reserve = given.reserve.value_or(kReserveOnCluster);
  assumptions.fits_by = given.fits_by;
  assumptions.sequence_parallel = given.sequence_parallel;
  assumptions.sharded_optimizer = given.sharded_optimizer;
  if (given.has("profile")) assumptions.measured = read_cached<tensor_profiles_at>(given.profile);
  if (!calibration) return assumptions;
  if (!given.has("dtype")) assumptions.format = calibration->format;
  if (!given.has("attention")) assumptions.attention = calibration->attention;
  assumptions.calibration = calibration->constants;
  return assumptions;
}

void check_options(const GivenOptions& given) {
  refuse_given(given, cost_flags(), "a model on a cluster has analytic costs: --{} is not taken");
  refuse_given(given, {"devices", "schedule-file", "link-rate"},
               "--{} is not for a model on a cluster");
  if (given.has("collectives") && given.has("contention"))
    refuse(given,
           "--contention and --collectives exclude each other: measured constants do not model "
           "shared links");
  if (given.has("profile")) {
    refuse_given(given, {"calibration", "product-fraction"},
                 "--{} is not taken: --profile has the measured times of layers");
  }
  if (given.has("calibration")) {
    refuse_given(given, {"product-fraction", "memory-fraction", "link-fraction"},
                 "--{} is not taken: the calibration sets it");
    if (given.has("collectives"))
      refuse(given, "--calibration and --collectives exclude each other: both price sums");
    if (given.has("contention"))
      refuse(given,
             "--contention and --calibration exclude each other: fitted constants do not model "
             "shared links");
  }
  if (given.has("stages") && given.has("cut"))
    refuse(given, "--cut is not taken: --stages says where the model is cut");
  if (given.microbatches && given.global_batch)
    refuse(given, "give --microbatches or --global-batch, not both");
}

/// All but the shape and the stages.
Plan plan_of(const GivenOptions& given, ModelSpec model, const ScheduleTraits& traits,
             OtherOptions others) {
  if (is_search(traits)) refuse(given, "schedule search is for plain costs, not for a model");
  Plan plan{.model = std::move(model),
            .schedule = std::string(traits.name),
            .request = schedule_options_of(given, traits, others),
            .microbatch_size = static_cast<std::int32_t>(given.microbatch_size)};
  plan.optimizer = {given.optimizer.value_or(OptimizerKind::adamw),
                    given.delay_correction.value_or(DelayCorrection::none)};
  plan.stages = given.stages;
  return plan;
}

/// The depth that is given, or that the replicas of all stages add up to; empty: neither.
std::optional<std::uint16_t> depth_of(const GivenOptions& given, const Plan& plan) {
  std::int64_t depth = 0;
  for (const std::uint16_t replicas : plan.request.replicas) depth += replicas;
  if (depth != 0 && given.depth) refuse(given, "--depth is not taken: --replicas sets it");
  if (depth > kMostDevices)
    refuse(given, "--replicas: {} devices: expected at most {}", depth, kMostDevices);
  if (depth == 0 && !given.depth && given.stages.empty()) return std::nullopt;
  if (depth == 0 && !given.depth) {
    const ScheduleTraits& traits = find_schedule(plan.schedule);
    depth = static_cast<std::int64_t>(given.stages.size() * traits.replicas_per_stage /
                                      replicas_per_device(traits, plan.request));
  }
  return static_cast<std::uint16_t>(given.depth.value_or(depth));
}

}  // namespace

ModelSpec model_at(const std::string& path) {
  NotedModel read = read_noted_model(path);
  for (const std::string& note : read.notes) fmt::print(stderr, "warning: {}: {}\n", path, note);
  return std::move(read.model);
}

NumberFormat format_of(const GivenOptions& given, const Cluster& cluster) {
  if (given.format) return *given.format;
  for (const NumberFormat format : kPreferredFormats) {
    bool all = storage_format(format) == format;  // fp8 is to be asked for
    for (std::size_t i = 0; i < cluster.size(); ++i)
      all = all && cluster[id_at<DeviceId>(i)].flops(format) > 0.0;
    if (all) return format;
  }
  throw InputError(
      fmt::format("cluster {}: its devices have no number format in common", cluster.name()));
}

AttentionKernel attention_of(const GivenOptions& given, NumberFormat format) {
  const bool is_bf16 = storage_format(format) == NumberFormat::bf16;
  return given.attention.value_or(is_bf16 ? AttentionKernel::flash : AttentionKernel::plain);
}

std::string long_sequence_note(const ModelSpec& model, const std::string& file) {
  constexpr std::int32_t kUsual = 8192;
  if (model.sequence <= kUsual) return {};
  return fmt::format("sequence length {}, from {}; --sequence sets a shorter one", model.sequence,
                     file);
}

static ScenarioOption optimizer_row() {
  return {"optimizer", "KIND", "on a cluster: adamw|nadam|muon|momentum|sgd (default adamw)",
          [](const OptionValue& value) {
            return setting(&GivenOptions::optimizer, optimizer_kind(value));
          }};
}

static ScenarioOption delay_correction_row() {
  return {"delay-correction", "KIND",
          "none|error-feedback|error-feedback-with-decay: makes up for gradients that are one "
          "update late, as those of 2bw (default none, or as the plan says)",
          [](const OptionValue& value) {
            return setting(&GivenOptions::delay_correction, delay_correction(value));
          }};
}

static ScenarioOption cut_row() {
  return {"cut", "KIND",
          "on a cluster: balanced|blocks|even: the busiest stage computes least (default), the "
          "same of whole blocks, as other engines have them, or equal numbers of blocks",
          [](const OptionValue& value) {
            return setting(&GivenOptions::cut,
                           *one_of(value, {StageCut::balanced, StageCut::blocks, StageCut::even}));
          }};
}

std::span<const ScenarioOption> cluster_rows() {
  using Given = GivenOptions;
  using Value = const OptionValue&;
  static const std::array<ScenarioOption, 18> kRows{
      {text_option("model", "NAME",
                   "a model of the catalogue (tandem catalog list), or a file: tandem's, or a "
                   "config.json of Hugging Face",
                   &Given::model, Options::Use::input),
       text_option("cluster", "NAME",
                   "nodes of the catalogue, such as 8xp3.16xlarge, or a file: tandem's, nvidia-smi "
                   "topo -m, NCCL's topology XML, ASTRA-sim's network yml",
                   &Given::cluster, Options::Use::input),
       text_option("gpu", "NAME", "GPU model, if the --cluster file names none", &Given::gpu),
       integer_option("depth", "D",
                      "on a cluster: stages of a pipeline (default: the fastest that fits and uses "
                      "every device)",
                      &Given::depth, kMostDevices),
       integer_option("tensor", "T",
                      "devices that share each layer, as Megatron splits it (default 1)",
                      &Given::tensor, kMostDevices),
       {"sequence-parallel", "",
        "with --tensor: norms, dropout and what crosses stages are split over the sequence",
        [](Value) { return setting(&Given::sequence_parallel, true); }},
       integer_option("global-batch", "N",
                      "on a cluster: samples of a batch (default: 4 microbatches for each device)",
                      &Given::global_batch, kMostBatchSamples),
       integer_option("sequence", "T", "on a cluster: tokens of a sample, instead of the model's",
                      &Given::sequence, kMostTokens),
       {"dtype", "KIND",
        "bf16|fp16|tf32|fp32|fp8 (default: the first that all devices have); fp8: products of "
        "attention and mlp, the rest bf16",
        [](Value value) {
          return setting(&Given::format, one_of(value, kPreferredFormats, "auto"));
        }},
       {"attention", "KIND", "plain|flash (default: flash with bf16 and fp8)",
        [](Value value) {
          return setting(&Given::attention,
                         one_of(value, {AttentionKernel::plain, AttentionKernel::flash}, "auto"));
        }},
       optimizer_row(),
       delay_correction_row(),
       {"zero", "0|1", "on a cluster: 1: replicas shard the optimizer's state (ZeRO-1; default 0)",
        [](Value value) {
          return setting(&Given::sharded_optimizer, value.choice({"0", "1"}) == "1");
        }},
       {"device-order", "KIND",
        "replicas-first|stages-first: neighbouring devices hold replicas of a stage (default), or "
        "successive stages",
        [](Value value) {
          return setting(&Given::device_order,
                         *one_of(value, {DeviceOrder::replicas_first, DeviceOrder::stages_first}));
        }},
       text_option("node-order", "A,B",
                   "of a cluster file: its outermost members that hold devices, in the order in "
                   "which these are counted (default: the file's; plan looks at every order)",
                   &Given::node_order),
       cut_row(),
       {"stages", "A-B,B-C",
        "on a cluster: the layers of each stage, counted from 0 (embedding, attention, mlp, …, "
        "head), instead of --cut: 0-12,12-26",
        [](Value value) { return setting(&Given::stages, stages_named(value)); }},
       {"transfers", "KIND",
        "overlapped|blocking: devices compute while they send or receive (default), or they don't",
        [](Value value) {
          return setting(&Given::blocking_transfers,
                         value.choice({"overlapped", "blocking"}) == "blocking");
        }}}};
  return kRows;
}

std::span<const ScenarioOption> assumption_rows() {
  using Given = GivenOptions;
  using Value = const OptionValue&;
  static const std::array<ScenarioOption, 7> kRows{
      {{"product-fraction", "X",
        "fraction of a device's peak that products (GEMM) achieve (default 0.65)",
        [](Value value) { return setting(&Given::product_fraction, fraction(value)); }},
       {"memory-fraction", "X", "fraction of its memory's rate that is achieved (default 0.8)",
        [](Value value) { return setting(&Given::memory_fraction, fraction(value)); }},
       {"link-fraction", "X", "fraction of a link's rate that is achieved (default 0.8)",
        [](Value value) { return setting(&Given::link_fraction, fraction(value)); }},
       text_option("collectives", "FILE",
                   "on a cluster: measured all-reduce times, from tandem import --from nccl-tests",
                   &Given::collectives, Options::Use::input),
       text_option("calibration", "FILE",
                   "on a cluster: price ops by the constants of tandem calibrate, instead of the "
                   "fractions",
                   &Given::calibration, Options::Use::input),
       text_option("profile", "FILE",
                   "measured layer times; with a plan they replace its profile, on a cluster they "
                   "need the degree of --tensor",
                   &Given::profile, Options::Use::input),
       {"fits-by", "KIND",
        "framework|tandem: what fits is judged by the memory that a framework such as Megatron-LM "
        "takes (default), or by that of tandem's executor",
        [](Value value) {
          return setting(&Given::fits_by, *one_of(value, {FitsBy::framework, FitsBy::tandem}));
        }}}};
  return kRows;
}

void add_cluster_options(Options& options) {
  options.group("A model on a cluster");
  declare(options, cluster_rows());
  options.group("Assumptions on a cluster");
  declare(options, assumption_rows());
}

bool names_a_cluster(const GivenOptions& given) {
  if (given.has("model") || given.has("cluster")) return true;
  // Of these groups two options serve other sources, too.
  constexpr std::array kOfOthers{"transfers", "profile"};
  for (const auto rows : {cluster_rows(), assumption_rows()}) {
    for (const ScenarioOption& row : rows) {
      if (std::ranges::find(kOfOthers, row.flag) == kOfOthers.end())
        refuse_given(given, {row.flag}, "--{} is for a --model on a --cluster");
    }
  }
  return false;
}

ClusterRequest cluster_request(const GivenOptions& given, const ScheduleTraits& traits,
                               OtherOptions others) {
  check_options(given);
  ClusterRequest request{.plan = plan_of(given, model_of(given), traits, others)};
  const Plan& plan = request.plan;
  if (!given.sequence && !is_of_catalog(given.model))
    request.sequence_note = long_sequence_note(plan.model, given.model);
  request.cluster = cluster_of(given);
  request.cluster_name = given.cluster;
  request.memory = given.memory;
  if (given.has("calibration")) request.calibration = read_calibration(given.calibration);
  request.assumptions = assumptions_of(given, *request.cluster, request.calibration);
  request.order = given.device_order;
  request.cut = given.stages.empty() ? given.cut : StageCut::given;
  request.depth = depth_of(given, plan);
  if (given.has("width")) {
    request.width = plan.request.width;
    check_most(given, "width", plan.request.width,
               request.depth ? kMostDevices : static_cast<std::int64_t>(request.cluster->size()));
  }
  if (given.microbatches) request.microbatches = static_cast<std::int32_t>(*given.microbatches);
  request.global_batch = given.global_batch;
  request.blocking_transfers = given.blocking_transfers;
  return request;
}

ClusterRequest cluster_request(const GivenOptions& given, const Plan& plan) {
  refuse_given(given, {"cluster", "profile", "transfers"}, "--{} is not taken: the plan sets it");
  refuse_given(given, {"storage"}, "--{} is not taken: the plan has a dtype, that of its cluster");
  refuse_given(given, {"link-rate"}, "--{} is not taken: the plan has a cluster's links");
  const PlanCluster& on = *plan.cluster;
  if (given.has("contention") && (on.calibration || on.assumptions.collectives)) {
    refuse(
        given,
        "--contention is not taken: the plan's sums are priced by fitted constants, which do not "
        "model shared links");
  }
  check_schedule_options(given.plan, plan);
  std::shared_ptr<const TensorProfiles> measured;
  if (!plan.profile.empty())
    measured = read_cached<tensor_profiles_at>(profile_path_of(given.plan, plan));
  ClusterRequest request = cluster_request(plan, std::move(measured));
  if (given.memory) {
    ClusterSpec spec = on.cluster;
    for (DeviceSpec& device : spec.devices) device.memory_bytes = *given.memory;
    request.cluster = std::make_shared<const Cluster>(spec);
    request.memory = given.memory;
  }
  request.assumptions.reserve = given.reserve.value_or(request.assumptions.reserve);
  ScheduleRequest& schedule = request.plan.request;
  schedule.global_norm = given.global_norm().value_or(schedule.global_norm);
  schedule.post_validation = schedule.post_validation || given.post_validation();
  return request;
}

}  // namespace tandem::tools
