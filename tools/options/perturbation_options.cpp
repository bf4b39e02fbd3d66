#include "tools/options/perturbation_options.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/base/ascii.h"
#include "core/base/error.h"
#include "core/base/units.h"
#include "tools/cli/split.h"

namespace tandem::tools {

namespace {

constexpr double kMostFactor = 1e6;

/// What an option's factors are of. The other way round they would say the opposite of the option's
/// name: a slow device would be faster.
struct FactorOf {
  std::string_view option;
  bool of_time = false;  // at least 1; else at most 1
  std::string_view expected;
  std::string_view otherwise = {};
};
constexpr std::array<FactorOf, 4> kFactors{
    {{"slow-device", false,
      "devices and the fraction of their speed that is left, at most 1, such as 3:0.8",
      ": --straggler takes factors of the time"},
     {"straggler", true, "devices and how many times as long they take, at least 1, such as 3:1.25",
      ": --slow-device takes factors of the speed"},
     {"degraded-link", false,
      "links and the fraction of their rate that is left, at most 1, such as 2-3:0.5"},
     {"straggler-rate", true,
      "a chance and how many times as long a device takes, at least 1, such as 1%:1.5x"}}};

const FactorOf& factors_of(std::string_view option) {
  return *std::ranges::find(kFactors, option, &FactorOf::option);
}

[[noreturn]] void refuse_factor(const OptionValue& value, std::string_view otherwise = {}) {
  value.reject(std::string(factors_of(value.name()).expected), std::string(otherwise));
}

/// "1.5" or "1.5x": of the time at least 1, of a speed or a rate at most 1, whichever the option,
/// of whose value it is a part, takes.
double factor_of(const OptionValue& value, std::string_view text) {
  if (text.ends_with('x')) text.remove_suffix(1);
  const auto factor = number_in<double>(text);
  if (!factor || !(*factor >= 1.0 / kMostFactor && *factor <= kMostFactor)) refuse_factor(value);
  const FactorOf& kind = factors_of(value.name());
  if (kind.of_time ? *factor < 1.0 : *factor > 1.0) refuse_factor(value, kind.otherwise);
  return *factor;
}

DeviceId device_of(const OptionValue& value, std::string_view text) {
  const auto device = number_in<std::uint16_t>(text);
  if (!device) refuse_factor(value);
  return DeviceId{*device};
}

/// "3", or "2-3" of a link.
Resource resource_of(const OptionValue& value, std::string_view whom, bool link) {
  if (!link) return device_resource(device_of(value, whom));
  const auto [first, second] = halved(whom, '-');
  const DeviceId from = device_of(value, first), to = device_of(value, second);
  if (from == to) refuse_factor(value);
  return link_resource(from, to);
}

/// "3:0.8,5:0.9", or "2-3:0.5" for links.
Setting perturbations_of(PerturbationKind kind, const OptionValue& value) {
  std::vector<Perturbation> all;
  for (const std::string_view one : split(value.text(), ",")) {
    const auto [whom, factor] = halved(one, ':');
    all.push_back({.kind = kind,
                   .resource = resource_of(value, whom, kind == PerturbationKind::degraded_link),
                   .factor = factor_of(value, factor)});
  }
  return [kind, all = std::move(all)](GivenOptions& given) { given.perturbations[kind] = all; };
}

ScenarioOption perturbation_row(PerturbationKind kind, std::string argument, std::string help) {
  return {std::string(traits(kind).flag), std::move(argument), std::move(help),
          [kind](const OptionValue& value) { return perturbations_of(kind, value); }};
}

constexpr std::int64_t kMostScenarios = 1'000'000;
constexpr std::int64_t kMostScenarioThreads = 1024;

/// "5%" → 0.05, from 0 to `most`. `text` is the option's value, or what of it is a share.
double share_of(const Options& options, const std::string& name, std::string_view text,
                double most) {
  const std::optional<double> share = parse_percent(text);
  if (!share || *share > most) {
    refuse(options, "--{}: expected a share from 0% to {:.0f}%, found \"{}\"", name, 100.0 * most,
           text);
  }
  return *share;
}

}  // namespace

std::span<const ScenarioOption> perturbation_rows() {
  static const std::array<ScenarioOption, 3> kRows{
      perturbation_row(PerturbationKind::slow_device, "D:F",
                       "device D of a pipeline, from 0, computes at F times its speed, at most 1, "
                       "in all pipelines: 3:0.8; several: 3:0.8,5:0.9"),
      perturbation_row(
          PerturbationKind::straggler, "D:F",
          "device D of a pipeline, from 0, takes F times as long to compute, at least 1: 3:1.25"),
      perturbation_row(PerturbationKind::degraded_link, "A-B:F",
                       "transfers between devices A and B of a pipeline, from 0, at F times their "
                       "rate, at most 1: 2-3:0.5")};
  return kRows;
}

void add_uncertainty_options(Options& options) {
  options.group("Uncertainty")
      .value("scenarios", "N",
             "simulate this many runs with random times, from --seed: percentiles of a batch")
      .value("jitter", "J%", "with --scenarios: standard deviation of the time of each op")
      .value("straggler-rate", "R%:F",
             "with --scenarios: each device takes F times as long with a chance of R%: 1%:1.5x")
      .value(
          "threads", "N",
          "with --scenarios: threads to use; answers do not depend on them (default: all cores)");
}

std::optional<UncertaintyRequest> uncertainty_of(const Options& options) {
  if (!options.has("scenarios")) {
    refuse_given(options, {"jitter", "straggler-rate", "threads"}, "--{} is for --scenarios");
    return std::nullopt;
  }
  UncertaintyRequest request;
  request.scenarios = options.integer("scenarios", 1, kMostScenarios, 1);
  constexpr std::int64_t kMostSeed = 9'000'000'000'000'000'000;
  request.what.seed = static_cast<std::uint64_t>(options.integer("seed", 0, kMostSeed, 1));
  if (options.has("jitter"))
    request.what.jitter = share_of(options, "jitter", options.text("jitter"), noise::Jitter::kMost);
  if (options.has("straggler-rate")) {
    const std::string text = options.text("straggler-rate");
    const auto [rate, factor] = halved(text, ':');
    request.what.straggler_rate = share_of(options, "straggler-rate", rate, 1.0);
    request.what.straggler_factor = factor_of(options["straggler-rate"], factor);
  }
  return request;
}

int threads_of(const Options& options) {
  const auto cores =
      std::clamp<std::int64_t>(std::thread::hardware_concurrency(), 1, kMostScenarioThreads);
  return static_cast<int>(options.integer("threads", 1, kMostScenarioThreads, cores));
}

}  // namespace tandem::tools
