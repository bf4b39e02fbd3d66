#include "tools/options/optimizer_options.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace tandem::tools {

namespace {

constexpr std::array kKinds{LearningRateKind::constant, LearningRateKind::linear,
                            LearningRateKind::cosine, LearningRateKind::wsd};

LearningRateKind kind_of(const Options& options) {
  std::vector<std::string> names;
  for (const LearningRateKind kind : kKinds) names.emplace_back(name(kind));
  const std::string wanted = options.choice("lr-schedule", names);
  return *std::find_if(kKinds.begin(), kKinds.end(),
                       [&](LearningRateKind kind) { return name(kind) == wanted; });
}

void refuse_unread(const Options& options, const std::string& option, LearningRateKind kind) {
  if (!options.has(option)) return;
  throw UsageError(
      fmt::format("tandem train: --lr-schedule {} does not read --{}", name(kind), option));
}

}  // namespace

OptimizerKind optimizer_kind(const OptionValue& value) {
  const std::string name = value.choice({"adamw", "momentum", "sgd"});
  if (name == "sgd") return OptimizerKind::sgd;
  return name == "momentum" ? OptimizerKind::momentum : OptimizerKind::adamw;
}

void add_optimizer_options(Options& options) {
  options.value("learning-rate", "R", "learning rate after warm-up (default 0.0005)")
      .value("lr-schedule", "NAME", "constant|linear|cosine|wsd (default constant)")
      .value("warmup", "N", "updates over which the rate rises to it (default 0)")
      .value("min-learning-rate", "R",
             "learning rate at the end of linear, cosine and wsd (default 0)")
      .value("decay-steps", "N",
             "wsd: updates at the end over which the rate falls (default: a fifth of the steps)")
      .value("weight-decay", "R", "decoupled decay, of matrices only (default 0)");
}

OptimizerConfig optimizer_config(const Options& options, OptimizerKind kind, std::int64_t steps) {
  OptimizerConfig config{.kind = kind,
                         .learning_rate = options.number("learning-rate", 0.0, 1e6, 5e-4),
                         .weight_decay = options.number("weight-decay", 0.0, 1e6, 0.0)};
  LearningRateSchedule& schedule = config.schedule;
  schedule.kind = kind_of(options);
  schedule.total = steps;
  schedule.warmup = options.integer("warmup", 0, steps, 0);
  if (schedule.kind == LearningRateKind::constant) {
    refuse_unread(options, "min-learning-rate", schedule.kind);
  }
  schedule.least = options.number("min-learning-rate", 0.0, config.learning_rate, 0.0);
  if (schedule.kind != LearningRateKind::wsd) {
    refuse_unread(options, "decay-steps", schedule.kind);
    return config;
  }
  const std::int64_t most = steps - schedule.warmup;
  schedule.decay = options.integer("decay-steps", 0, most, std::min(most, steps / 5));
  return config;
}

}  // namespace tandem::tools
