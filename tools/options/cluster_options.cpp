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

#include "core/files/constants_files.h"
#include "core/files/model_file.h"
#include "core/files/profile_file.h"
#include "core/files/read.h"
#include "core/import/models.h"
#include "core/import/topology.h"
#include "core/model/catalog.h"
#include "core/schedule/shape_error.h"
#include "core/text/files.h"
#include "core/text/json_document.h"
#include "planner/study/timed_search.h"
#include "tools/cli/file_cache.h"
#include "tools/options/cost_options.h"
#include "tools/options/optimizer_options.h"
#include "tools/options/reserve_option.h"

namespace tandem::tools {

namespace {

constexpr std::int64_t kMostSamples = 1'000'000;
constexpr std::int64_t kMostDevices = static_cast<std::int64_t>(kMostClusterDevices);
constexpr double kLeastFraction = 0.001;
constexpr const char* kModelGroup = "A model on a cluster";
constexpr const char* kAssumptionsGroup = "Assumptions on a cluster";

bool is_file(const std::string& name) {
  std::error_code unreadable;
  return name.find('/') != std::string::npos || name.ends_with(".json") ||
         std::filesystem::exists(name, unreadable);
}

bool is_of_catalog(const std::string& model) {
  return !is_file(model) || find_model(model) != nullptr;
}

ModelSpec model_of(const Options& options) {
  if (!options.has("model"))
    refuse(options, "--model is missing: a name of the catalogue or a file");
  const std::string name = options.text("model");
  ModelSpec model = is_of_catalog(name) ? model_of_name(name) : read_cached<model_at>(name);
  model.sequence =
      static_cast<std::int32_t>(options.integer("sequence", 1, 1'048'576, model.sequence));
  if (model.architecture != Architecture::transformer) return model;
  if (const std::string fault = shape_fault(model); !fault.empty())
    throw InputError(fmt::format("model {}: {}", name, fault));
  return model;
}

/// "4" "x" FILE: the joints between its copies nobody has said.
void refuse_copies_of_file(const std::string& name) {
  const std::size_t digits = name.find_first_not_of("0123456789");
  if (digits == 0 || digits == std::string::npos || name[digits] != 'x') return;
  const std::string file = name.substr(digits + 1);
  std::error_code unreadable;
  if (std::filesystem::exists(name, unreadable) ||
      !std::filesystem::is_regular_file(file, unreadable)) {
    return;
  }
  throw UsageError(fmt::format(
      "cluster {}: a number of nodes is for those of the catalogue; file {} describes one node and "
      "no network between several: tandem import writes it as cluster.json, where you can add them",
      name, file));
}

}  // namespace

ModelSpec model_at(const std::string& path) {
  NotedModel read = read_noted_model(path);
  for (const std::string& note : read.notes) fmt::print(stderr, "warning: {}: {}\n", path, note);
  return std::move(read.model);
}

std::shared_ptr<const TensorProfiles> tensor_profiles_at(const std::string& path) {
  return std::make_shared<const TensorProfiles>(read_tensor_profiles(path));
}

std::string cluster_text_at(const std::string& path) { return read_file(path, kLargestJson); }

ClusterSpec cluster_at(const std::string& path, const DeviceSpec* gpu) {
  const std::string& text = read_cached<cluster_text_at>(path);
  return parse_any_cluster(path, text, gpu);
}

Cluster cluster_of(const Options& options) {
  if (!options.has("cluster"))
    refuse(options, "--cluster is missing: nodes of the catalogue, such as 4xDGX-H100, or a file");
  const std::string name = options.text("cluster");
  refuse_copies_of_file(name);
  const bool by_name = !is_file(name) || find_node(name) != nullptr;
  if (by_name && options.has("gpu"))
    refuse(options, "--gpu is for a --cluster file that names no GPU model");
  ClusterSpec spec = by_name ? cluster_of_nodes(name) : cluster_at(name, named_gpu(options));
  if (const auto memory = options.bytes("memory")) {
    for (DeviceSpec& device : spec.devices) device.memory_bytes = *memory;
  }
  return Cluster(spec);
}

NumberFormat format_of(const Options& options, const Cluster& cluster) {
  constexpr std::array kPreferred{NumberFormat::bf16, NumberFormat::fp16, NumberFormat::fp32,
                                  NumberFormat::tf32};
  std::vector<std::string> names{"auto"};
  for (const NumberFormat format : kPreferred) names.emplace_back(name(format));
  const std::string wanted = options.choice("dtype", names);
  for (const NumberFormat format : kPreferred) {
    if (wanted != "auto" && wanted != name(format)) continue;
    bool all = true;
    for (std::size_t i = 0; i < cluster.size(); ++i)
      all = all && cluster[id_at<DeviceId>(i)].flops(format) > 0.0;
    if (all || wanted != "auto") return format;
  }
  throw InputError(
      fmt::format("cluster {}: its devices have no number format in common", cluster.name()));
}

AttentionKernel attention_of(const Options& options, NumberFormat format) {
  const std::string attention = options.choice("attention", {"auto", "plain", "flash"});
  const bool flash = attention == "auto" ? format == NumberFormat::bf16 : attention == "flash";
  return flash ? AttentionKernel::flash : AttentionKernel::plain;
}

namespace {

AnalyticAssumptions assumptions_of(const Options& options, const Cluster& cluster,
                                   const std::optional<CalibrationFile>& calibration) {
  AnalyticAssumptions assumptions;
  assumptions.format = format_of(options, cluster);
  assumptions.attention = attention_of(options, assumptions.format);
  assumptions.tensor = static_cast<std::int32_t>(
      options.integer("tensor", 1, static_cast<std::int64_t>(cluster.size()), 1));
  const auto fraction = [&](const char* name, double& value) {
    value = options.number(name, kLeastFraction, 1.0, value);
  };
  fraction("product-fraction", assumptions.product_fraction);
  fraction("memory-fraction", assumptions.memory_fraction);
  fraction("link-fraction", assumptions.link_fraction);
  if (options.has("collectives"))
    assumptions.collectives = read_collectives(options.text("collectives"));
  assumptions.reserve = reserve_of(options, kReserveOnCluster);
  assumptions.sharded_optimizer = options.choice("zero", {"0", "1"}) == "1";
  if (options.has("profile"))
    assumptions.measured = read_cached<tensor_profiles_at>(options.text("profile"));
  if (!calibration) return assumptions;
  if (!options.has("dtype")) assumptions.format = calibration->format;
  if (!options.has("attention")) assumptions.attention = calibration->attention;
  return calibrated(assumptions, calibration->constants);
}

void check_options(const Options& options) {
  refuse_given(options, cost_flags(), "a model on a cluster has analytic costs: --{} is not taken");
  refuse_given(options, {"devices", "schedule-file", "link-rate"},
               "--{} is not for a model on a cluster");
  if (options.has("collectives") && options.has("contention"))
    refuse(options,
           "--contention and --collectives exclude each other: measured constants do not model "
           "shared links");
  if (options.has("profile")) {
    refuse_given(options, {"calibration", "product-fraction"},
                 "--{} is not taken: --profile has the measured times of layers");
  }
  if (options.has("calibration")) {
    refuse_given(options, {"product-fraction", "memory-fraction", "link-fraction"},
                 "--{} is not taken: the calibration sets it");
    if (options.has("collectives"))
      refuse(options, "--calibration and --collectives exclude each other: both price sums");
    if (options.has("contention"))
      refuse(options,
             "--contention and --calibration exclude each other: fitted constants do not model "
             "shared links");
  }
  if (options.has("microbatches") && options.has("global-batch"))
    refuse(options, "give --microbatches or --global-batch, not both");
}

/// All but the shape and the stages.
Plan plan_of(const Options& options, ModelSpec model, const ScheduleTraits& traits,
             OtherOptions others) {
  if (is_search(traits)) refuse(options, "schedule search is for plain costs, not for a model");
  Plan plan{.model = std::move(model),
            .schedule = std::string(traits.name),
            .request = schedule_options_of(options, traits, others),
            .microbatch_size =
                static_cast<std::int32_t>(options.integer("microbatch-size", 1, kMostSamples, 1))};
  plan.optimizer = optimizer_kind(options);
  return plan;
}

/// The depth that is given, or that the replicas of all stages add up to; empty: neither.
std::optional<std::uint16_t> depth_of(const Options& options, const Plan& plan) {
  std::int64_t depth = 0;
  for (const std::uint16_t replicas : plan.request.replicas) depth += replicas;
  if (depth != 0 && options.has("depth"))
    refuse(options, "--depth is not taken: --replicas sets it");
  if (depth > kMostDevices) {
    refuse(options,
           fmt::format("--replicas: {} devices: expected at most {}", depth, kMostDevices));
  }
  if (depth == 0 && !options.has("depth")) return std::nullopt;
  return static_cast<std::uint16_t>(options.integer("depth", 1, kMostDevices, depth));
}

}  // namespace

std::string long_sequence_note(const ModelSpec& model, const std::string& file) {
  constexpr std::int32_t kUsual = 8192;
  if (model.sequence <= kUsual) return {};
  return fmt::format("sequence length {}, from {}; --sequence sets a shorter one", model.sequence,
                     file);
}

const DeviceSpec* named_gpu(const Options& options) {
  return options.has("gpu") ? &gpu_of_name(options.text("gpu")) : nullptr;
}

bool blocks_transfers(const Options& options) {
  return options.choice("transfers", {"overlapped", "blocking"}) == "blocking";
}

void add_cluster_options(Options& options) {
  options.group(kModelGroup)
      .input("model", "NAME",
             "a model of the catalogue (tandem catalog list), or a file: tandem's, or a "
             "config.json of Hugging Face")
      .input("cluster", "NAME",
             "nodes of the catalogue, such as 8xp3.16xlarge, or a file: tandem's, nvidia-smi topo "
             "-m, NCCL's topology XML, ASTRA-sim's network yml")
      .value("gpu", "NAME", "GPU model, if the --cluster file names none")
      .value("depth", "D",
             "on a cluster: stages of a pipeline (default: the fastest that fits and uses every "
             "device)")
      .value("tensor", "T", "devices that share each layer, as Megatron splits it (default 1)")
      .value("global-batch", "N",
             "on a cluster: samples of a batch (default: 4 microbatches for each device)")
      .value("sequence", "T", "on a cluster: tokens of a sample, instead of the model's")
      .value("dtype", "KIND", "bf16|fp16|tf32|fp32 (default: the first that all devices have)")
      .value("attention", "KIND", "plain|flash (default: flash with bf16)")
      .value("optimizer", "KIND", "on a cluster: adamw|momentum|sgd (default adamw)")
      .value("zero", "0|1",
             "on a cluster: 1: replicas shard the optimizer's state (ZeRO-1; default 0)")
      .value("device-order", "KIND",
             "replicas-first|stages-first: neighbouring devices hold replicas of a stage "
             "(default), or successive stages")
      .value("cut", "balanced|even",
             "on a cluster: balanced: minimise the busiest stage's compute (default); even: equal "
             "numbers of blocks")
      .value("transfers", "KIND",
             "overlapped|blocking: devices compute while they send or receive (default), or they "
             "don't")
      .group(kAssumptionsGroup)
      .value("product-fraction", "X",
             "fraction of a device's peak that products (GEMM) achieve (default 0.65)")
      .value("memory-fraction", "X", "fraction of its memory's rate that is achieved (default 0.8)")
      .value("link-fraction", "X", "fraction of a link's rate that is achieved (default 0.8)")
      .input("collectives", "FILE",
             "on a cluster: measured all-reduce times, from tandem import --from nccl-tests")
      .input(
          "calibration", "FILE",
          "on a cluster: price ops by the constants of tandem calibrate, instead of the fractions")
      .input("profile", "FILE",
             "measured layer times; with a plan they replace its profile, on a cluster they need "
             "the degree of --tensor");
}

bool names_a_cluster(const Options& options) {
  const bool named = options.has("model") || options.has("cluster");
  if (named) return true;
  // Of these groups two options serve other sources, too.
  constexpr std::array kOfOthers{"transfers", "profile"};
  std::vector<std::string> of_clusters;
  for (const Options::Row& row : options.rows()) {
    if ((row.group == kModelGroup || row.group == kAssumptionsGroup) &&
        std::ranges::find(kOfOthers, row.name) == kOfOthers.end())
      of_clusters.push_back(row.name);
  }
  refuse_given(options, of_clusters, "--{} is for a --model on a --cluster");
  return false;
}

ClusterRequest cluster_request(const Options& options, const ScheduleTraits& traits,
                               OtherOptions others) {
  check_options(options);
  ClusterRequest request{.plan = plan_of(options, model_of(options), traits, others)};
  const Plan& plan = request.plan;
  if (!options.has("sequence") && !is_of_catalog(options.text("model")))
    request.sequence_note = long_sequence_note(plan.model, options.text("model"));
  request.cluster = std::make_shared<const Cluster>(cluster_of(options));
  request.cluster_name = options.text("cluster");
  request.memory = options.bytes("memory");
  if (options.has("calibration"))
    request.calibration = read_calibration(options.text("calibration"));
  request.assumptions = assumptions_of(options, *request.cluster, request.calibration);
  if (options.choice("device-order", {"replicas-first", "stages-first"}) == "stages-first")
    request.order = DeviceOrder::stages_first;
  if (options.choice("cut", {"balanced", "even"}) == "even") request.cut = StageCut::even;
  request.depth = depth_of(options, plan);
  const auto whole = [&](const char* name, std::int64_t most) -> std::optional<std::int64_t> {
    if (!options.has(name)) return std::nullopt;
    return options.integer(name, 1, most, 1);
  };
  const std::int64_t most_width =
      request.depth ? kMostDevices : static_cast<std::int64_t>(request.cluster->size());
  if (const auto width = whole("width", most_width))
    request.width = static_cast<std::uint16_t>(*width);
  if (const auto microbatches = whole("microbatches", kMostPlannedMicrobatches))
    request.microbatches = static_cast<std::int32_t>(*microbatches);
  request.global_batch = whole("global-batch", 1'000'000'000);
  request.blocking_transfers = blocks_transfers(options);
  return request;
}

}  // namespace tandem::tools
