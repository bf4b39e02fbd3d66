#include "tools/options/training_options.h"

#include <algorithm>
#include <ranges>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "executor/cpu/products.h"
#include "tools/options/given_options.h"

namespace tandem::tools {

namespace {

constexpr std::int64_t kMostAnnealing = 1'000'000'000;

/// A backend's transports; the first is its default.
std::vector<std::string> transports_of(std::string_view backend) {
  std::vector<std::string> names;
  for (const TransportTraits& transport : transports()) {
    if (transport.backend == backend) names.emplace_back(transport.name);
  }
  return names;
}

std::vector<std::string> transports_between_ranks(std::string_view backend) {
  std::vector<std::string> names;
  for (const TransportTraits& transport : transports()) {
    if (transport.backend == backend && transport.between_ranks) names.emplace_back(transport.name);
  }
  return names;
}

bool carries(const TransportTraits& transport, Storage storage) {
  return std::ranges::find(transport.storages, storage) != transport.storages.end();
}

const TransportTraits& transport_of(const Options& options) {
  return find_transport(options.choice("transport", names_of(transports())));
}

/// "threads (cpu); peer, nccl (cuda)".
std::string transports_by_backend() {
  const auto described = [](const BackendTraits& backend) {
    return fmt::format("{} ({})", fmt::join(transports_of(backend.name), ", "), backend.name);
  };
  return fmt::format("{}", fmt::join(backends() | std::views::transform(described), "; "));
}

}  // namespace

void add_backend_option(Options& options) {
  options.value(
      "backend", "NAME",
      fmt::format("{} (default {})", fmt::join(backend_names(), "|"), backends().front().name));
}

void add_backend_options(Options& options) {
  add_backend_option(options);
  options.value("transport", "NAME", transports_by_backend());
  declare(options, "storage");
}

const BackendTraits& backend_of(const Options& options) {
  return find_backend(options.choice("backend", backend_names()));
}

Storage storage_of(const OptionValue& value) {
  if (value.text() == "fp8")
    value.reject("f32 or bf16", ": fp8 is priced on a cluster (--dtype fp8), not executed");
  return *one_of(value, {Storage::f32, Storage::bf16});
}

Storage storage_of(const Options& options) {
  return options.has("storage") ? storage_of(options["storage"]) : Storage::f32;
}

void check_ranks(const Options& options, const RankPlace* place) {
  const bool several = place != nullptr;
  const BackendTraits& backend = backend_of(options);
  const TransportTraits& transport = transport_of(options);
  if (several && (options.has("transport") || !backend.on_host) && !transport.between_ranks) {
    refuse(options, "{}several ranks with --backend {} need --transport {}",
           options.has("transport")
               ? fmt::format("--transport {} is within a process: ", transport.name)
               : "",
           backend.name, fmt::join(transports_between_ranks(backend.name), " or "));
  }
  if (!several && !transport.within_process) {
    refuse(options, "--transport {} is between ranks: start them by {}", transport.name,
           transport.by_launcher ? "mpirun or srun" : "tandem launch, torchrun, mpirun or srun");
  }
  if (!several || !transport.by_launcher) return;
  if (!place->by_mpi()) {
    refuse(options, "--transport {} is for ranks that mpirun or srun has started: {} started these",
           transport.name, place->launcher);
  }
  if (const std::string why = transport.library().why_absent; !why.empty())
    throw AbsentError(fmt::format("--transport {}: {}; use --transport tcp", transport.name, why));
}

void prepare_transport(const Options& options) {
  if (const auto prepare = transport_of(options).prepare) prepare();
}

bool by_messages(const Options& options) { return transport_of(options).by_messages; }

void check_storage(const Options& options) {
  const Storage storage = storage_of(options);
  if (!backend_of(options).offers(storage))
    refuse(options, "--storage {} is for --backend {}", name(storage),
           backend_offering(storage).name);
}

void check_backend(const Options& options) {
  const BackendTraits& backend = backend_of(options);
  const TransportTraits& transport = transport_of(options);
  const Storage storage = storage_of(options);
  if (options.has("transport") && transport.backend != backend.name)
    refuse(options, "--transport {} needs --backend {}", transport.name, transport.backend);
  check_storage(options);
  if (options.has("transport") && !carries(transport, storage)) {
    const auto other = std::ranges::find_if(transports(), [&](const TransportTraits& one) {
      return one.backend == backend.name && carries(one, storage);
    });
    refuse(options, "--storage {} needs --transport {} in this version", name(storage),
           other->name);
  }
  if (options.has("verify") && !backend.why_other_bits.empty())
    refuse(options, "--verify compares bits with the CPU, and {}", backend.why_other_bits);
}

void add_kernel_options(Options& options) {
  options
      .value(
          "kernels", "NAME",
          "auto|portable|onednn: library for matrix products on the CPU (default: TANDEM_KERNELS "
          "of the environment, or auto)")
      .value("products", "TYPE",
             "f32|bf16: how the factors of products are rounded; sums and weights are f32 (default "
             "f32)");
}

void choose_kernels(const Options& options, bool on_host) {
  const bool rounds = options.choice("products", {"f32", "bf16"}) == "bf16";
  const cpu::Precision precision = rounds ? cpu::Precision::bf16 : cpu::Precision::f32;
  const std::string engine = options.choice("kernels", {"auto", "portable", "onednn"});
  if (on_host) return cpu::set_products({.engine = engine, .precision = precision});
  if (options.has("kernels"))
    refuse(options, "--kernels is for --backend cpu: on GPUs cuBLASLt computes products");
  cpu::set_product_precision(precision);
}

OptimizerKind optimizer_kind(const OptionValue& value) {
  return *one_of(value, {OptimizerKind::adamw, OptimizerKind::nadam, OptimizerKind::muon,
                         OptimizerKind::momentum, OptimizerKind::sgd});
}

DelayCorrection delay_correction(const OptionValue& value) {
  return *one_of(value, {DelayCorrection::none, DelayCorrection::error_feedback,
                         DelayCorrection::error_feedback_with_decay});
}

void add_optimizer_options(Options& options) {
  options.value("learning-rate", "R", "learning rate after warm-up (default 0.0005)")
      .value("lr-schedule", "NAME", "constant|linear|cosine|wsd (default constant)")
      .value("warmup", "N", "updates over which the rate rises to it (default 0)")
      .value("min-learning-rate", "R",
             "learning rate at the end of linear, cosine and wsd (default 0)")
      .value("decay-steps", "N",
             "wsd: updates at the end over which the rate falls (default: a fifth of the steps)")
      .value("muon-learning-rate", "R",
             "muon: learning rate of hidden matrices after warm-up, on the same schedule (default: "
             "--learning-rate)")
      .value("muon-scale", "NAME",
             "muon: match-rms-adamw|original: how long a step is for its rate; with the first "
             "AdamW's rates fit (default match-rms-adamw)")
      .value("weight-decay", "R", "decoupled decay, of matrices only (default 0)")
      .value("rate-annealing", "N",
             "pipemare: updates over which each stage's rate, divided by its delay at first, rises "
             "to the whole rate; 0: whole at once (default: five times --warmup, or a quarter of "
             "the steps)");
}

namespace {

void read_muon(const Options& options, OptimizerConfig& config) {
  if (config.kind != OptimizerKind::muon) {
    return refuse_given(
        options, {"muon-learning-rate", "muon-scale"},
        fmt::format("the plan's optimizer is {}: it does not read --{{}}", name(config.kind)));
  }
  if (options.has("muon-learning-rate"))
    config.muon_learning_rate = options.number("muon-learning-rate", 0.0, 1e6, 0.0);
  if (options.has("muon-scale"))
    config.muon_scale =
        *one_of(options["muon-scale"], {MuonScale::match_rms_adamw, MuonScale::original});
}

}  // namespace

OptimizerConfig optimizer_config(const Options& options, Optimizer optimizer, std::int64_t steps,
                                 bool corrects) {
  OptimizerConfig config{.kind = optimizer.kind,
                         .correction = optimizer.correction,
                         .learning_rate = options.number("learning-rate", 0.0, 1e6, 5e-4),
                         .weight_decay = options.number("weight-decay", 0.0, 1e6, 0.0)};
  read_muon(options, config);
  LearningRateSchedule& schedule = config.schedule;
  if (options.has("lr-schedule")) {
    schedule.kind =
        *one_of(options["lr-schedule"], {LearningRateKind::constant, LearningRateKind::linear,
                                         LearningRateKind::cosine, LearningRateKind::wsd});
  }
  schedule.total = steps;
  schedule.warmup = options.integer("warmup", 0, steps, 0);
  if (corrects) {
    const std::int64_t otherwise = schedule.warmup > 0 ? 5 * schedule.warmup : steps / 4;
    schedule.annealing = options.integer("rate-annealing", 0, kMostAnnealing, otherwise);
  } else {
    refuse_given(options, {"rate-annealing"},
                 "the plan's schedule divides no rates by delays: it does not read --{}");
  }
  const std::string unread =
      fmt::format("--lr-schedule {} does not read --{{}}", name(schedule.kind));
  if (schedule.kind == LearningRateKind::constant)
    refuse_given(options, {"min-learning-rate"}, unread);
  schedule.least = options.number("min-learning-rate", 0.0, config.learning_rate, 0.0);
  if (schedule.kind != LearningRateKind::wsd) {
    refuse_given(options, {"decay-steps"}, unread);
    return config;
  }
  const std::int64_t most = steps - schedule.warmup;
  schedule.decay = options.integer("decay-steps", 0, most, std::min(most, steps / 5));
  return config;
}

}  // namespace tandem::tools
