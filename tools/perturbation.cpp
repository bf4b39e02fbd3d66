#include "tools/perturbation.h"

#include <charconv>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "simulator/resource.h"

namespace tandem::tools {

namespace {

constexpr double kMostFactor = 1e6;

[[noreturn]] void refuse(const Options& options, const std::string& name, const char* expected) {
  throw UsageError(fmt::format("tandem {}: --{}: expected {}, found \"{}\"", options.command(),
                               name, expected, options.text(name)));
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
                   const Program& program, const char* expected) {
  std::uint16_t device = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), device);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size())
    refuse(options, name, expected);
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
  const char* const expected = links ? "links and what is left of their rates, such as 2-3:0.5"
                                     : "devices and factors, such as 3:1.25";
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
      const DeviceId from = device_of(options, name, first, program, expected);
      const DeviceId to = device_of(options, name, other, program, expected);
      if (from == to) refuse(options, name, expected);
      change.resource = link_resource(from, to);
    } else {
      change.resource = device_resource(device_of(options, name, whom, program, expected));
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
  throw InputError(fmt::format("nothing is sent over {} by {}", name(link), program.schedule()));
}

}  // namespace

void add_perturbation_options(Options& options) {
  options
      .value("slow-device", "D:F",
             "device D of a pipeline, from 0, computes at F times its speed, in all pipelines: "
             "3:0.8; several: 3:0.8,5:0.9")
      .value("straggler", "D:F",
             "what device D of a pipeline, from 0, computes takes F times as long: 3:1.3")
      .value("degraded-link", "A-B:F",
             "transfers between devices A and B of a pipeline, from 0, at F times their rate: "
             "2-3:0.5");
}

double factor_of(const Options& options, const std::string& name, std::string_view text) {
  if (text.ends_with('x')) text.remove_suffix(1);
  double factor = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), factor);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size() ||
      !(factor >= 1.0 / kMostFactor && factor <= kMostFactor)) {
    throw UsageError(fmt::format(
        "tandem {}: --{}: expected a factor above 0 behind a colon, such as 1.3, found \"{}\"",
        options.command(), name, options.text(name)));
  }
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
