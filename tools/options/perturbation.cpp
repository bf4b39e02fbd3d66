#include "tools/options/perturbation.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "simulator/analysis/resource.h"

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

[[noreturn]] void refuse_factor(const Options& options, const std::string& name,
                                std::string_view otherwise = {}) {
  throw UsageError(fmt::format("tandem {}: --{}: expected {}, found \"{}\"{}", options.command(),
                               name, factors_of(name).expected, options.text(name), otherwise));
}

/// The text up to `mark`, which `rest` goes beyond; empty where there is no such mark.
std::string_view take_until(std::string_view& rest, char mark) {
  const std::size_t at = rest.find(mark);
  if (at == std::string_view::npos) return {};
  const std::string_view taken = rest.substr(0, at);
  rest.remove_prefix(at + 1);
  return taken;
}

DeviceId device_of(const Options& options, const std::string& name, std::string_view text,
                   const Program& program) {
  std::uint16_t device = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), device);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size())
    refuse_factor(options, name);
  if (device >= program.placement().devices) {
    throw UsageError(
        fmt::format("tandem {}: --{}: there is no device {}: a pipeline has {}, numbered from 0; "
                    "each stands for its replicas in all pipelines",
                    options.command(), name, device, program.placement().devices));
  }
  return DeviceId{device};
}

struct Change {
  Resource resource;
  double factor = 1.0;
};

/// "3:0.8,5:0.9", or "2-3:0.5" for links.
std::vector<Change> changes_of(const Options& options, const std::string& name, bool links,
                               const Program& program) {
  const std::string text = options.text(name);
  std::string_view rest = text;
  std::vector<Change> changes;
  while (true) {
    const std::size_t comma = rest.find(',');
    std::string_view one = rest.substr(0, comma);
    const std::string_view whom = take_until(one, ':');
    Change change;
    if (links) {
      std::string_view other = whom;
      const std::string_view first = take_until(other, '-');
      const DeviceId from = device_of(options, name, first, program);
      const DeviceId to = device_of(options, name, other, program);
      if (from == to) refuse_factor(options, name);
      change.resource = link_resource(from, to);
    } else {
      change.resource = device_resource(device_of(options, name, whom, program));
    }
    change.factor = factor_of(options, name, one);
    changes.push_back(change);
    if (comma == std::string_view::npos) return changes;
    rest.remove_prefix(comma + 1);
  }
}

void check_has_transfers(const Program& program, const Resource& link) {
  for (const CostKey& key : program.cost_keys()) {
    if (uses(link, key)) return;
  }
  throw InputError(fmt::format("{1} sends nothing over {0}", name(link), program.schedule()));
}

}  // namespace

void add_perturbation_options(Options& options) {
  options.group("Slow devices and links")
      .value("slow-device", "D:F",
             "device D of a pipeline, from 0, computes at F times its speed, at most 1, in all "
             "pipelines: 3:0.8; several: 3:0.8,5:0.9")
      .value("straggler", "D:F",
             "device D of a pipeline, from 0, takes F times as long to compute, at least 1: 3:1.25")
      .value("degraded-link", "A-B:F",
             "transfers between devices A and B of a pipeline, from 0, at F times their rate, at "
             "most 1: 2-3:0.5");
}

double factor_of(const Options& options, const std::string& name, std::string_view text) {
  if (text.ends_with('x')) text.remove_suffix(1);
  double factor = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), factor);
  const bool number = !text.empty() && error == std::errc{} && end == text.data() + text.size() &&
                      factor >= 1.0 / kMostFactor && factor <= kMostFactor;
  if (!number) refuse_factor(options, name);
  const FactorOf& kind = factors_of(name);
  if (kind.of_time ? factor < 1.0 : factor > 1.0) refuse_factor(options, name, kind.otherwise);
  return factor;
}

CostTable perturbed(const Options& options, const Program& program, CostTable costs, Json& config) {
  const auto change_all = [&](const char* name, const char* key, bool links, bool of_speed) {
    if (!options.has(name)) return;
    for (const Change& change : changes_of(options, name, links, program)) {
      if (links) check_has_transfers(program, change.resource);
      costs =
          scaled(program, costs, change.resource, of_speed ? 1.0 / change.factor : change.factor);
    }
    config[key] = options.text(name);
  };
  change_all("slow-device", "slow_device", false, true);
  change_all("straggler", "straggler", false, false);
  change_all("degraded-link", "degraded_link", true, true);
  return costs;
}

}  // namespace tandem::tools
