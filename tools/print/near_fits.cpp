#include "tools/print/near_fits.h"

#include <ranges>
#include <string_view>
#include <type_traits>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/model/catalog.h"
#include "core/schedule/options.h"
#include "planner/search/nearest_fits.h"
#include "tools/print/words.h"

namespace tandem::tools {

namespace {

/// "p3.16xlarge" of "8xp3.16xlarge"; empty: no node of the catalogue that several can be made of.
std::string node_of(const std::string& cluster) {
  const std::size_t digits = cluster.find_first_not_of("0123456789");
  const bool counted = digits != 0 && digits != std::string::npos && cluster[digits] == 'x';
  std::string name = counted ? cluster.substr(digits + 1) : cluster;
  const GroupSpec* node = find_node(name);
  return node != nullptr && node->network ? name : std::string();
}

std::string nodes_text(std::size_t nodes, const std::string& node) {
  return nodes == 1 ? node : fmt::format("{}x{}", nodes, node);
}

/// Options that make what fits of what was asked for: those that say something else, and those
/// whose defaults would.
std::string options_text(const NearFit& fit, const ClusterSetup& setup, const std::string& node) {
  const ClusterRequest& asked = setup.request;
  const Plan& plan = fit.request.plan;
  const ScheduleRequest& shape = plan.request;
  const AnalyticAssumptions& assumptions = fit.request.assumptions;
  std::vector<std::string> words;
  const auto say = [&]<class Value>(std::string_view option, const Value& value,
                                    const std::type_identity_t<Value>& otherwise) {
    if (value != otherwise) words.push_back(fmt::format("--{} {}", option, value));
  };
  const auto group = std::size_t{shape.devices} * static_cast<std::size_t>(assumptions.tensor);
  const std::int64_t at_once = std::int64_t{shape.width} * plan.microbatch_size;
  const std::size_t nodes = setup.cluster().nodes();
  if (fit.request.nodes != nodes)
    words.push_back("--cluster " + nodes_text(fit.request.nodes, node));
  say("schedule", plan.schedule, setup.made.plan.schedule);
  if (shape.replicas.empty()) say("depth", shape.devices, asked.depth.value_or(0));
  const std::size_t devices = setup.cluster().size() / nodes * fit.request.nodes;
  say("width", std::size_t{shape.width}, asked.width ? *asked.width : devices / group);
  say("tensor", assumptions.tensor, asked.assumptions.tensor);
  say("microbatch-size", plan.microbatch_size, asked.plan.microbatch_size);
  if (asked.microbatches)
    say("microbatches", shape.microbatches, *asked.microbatches);
  else
    say("global-batch", at_once * shape.microbatches,
        asked.global_batch.value_or(kMicrobatchesADevice * at_once * shape.devices));
  for (const ScheduleOption& option : schedule_options()) {
    if (!option.flag.empty() && option.member != OptionMember(&ScheduleRequest::width))
      say(option.flag, option_text(option, shape), option_text(option, asked.plan.request));
  }
  say("zero", assumptions.sharded_optimizer ? 1 : 0, asked.assumptions.sharded_optimizer ? 1 : 0);
  say("cut", name(fit.request.cut), name(asked.cut));
  return fmt::format("{}", fmt::join(words, " "));
}

/// ", 5+4+4+5": layers of each stage.
std::string cut_text(const Plan& plan) {
  const auto sizes = plan.stages | std::views::transform(&LayerRange::size);
  return fmt::format(", {}", fmt::join(sizes, "+"));
}

std::string change_text(FitChange change, const Plan& to) {
  switch (change) {
    case FitChange::extra_in_flight:
      return "no extra in flight";
    case FitChange::cut:
      return "another cut" + cut_text(to);
    case FitChange::slices:
      return fmt::format("schedule {} of {} slices", to.schedule, to.request.slices.count);
    case FitChange::schedule:
      return "schedule " + to.schedule;
    case FitChange::group:
      return fmt::format("groups of {}", to.request.group);
    case FitChange::recompute:
      return fmt::format("recompute {}", name(to.request.recompute));
    case FitChange::depth:
      return fmt::format("{} stages{}", to.stages.size(), cut_text(to));
    case FitChange::global_batch:
      return fmt::format("a global batch of {}", std::int64_t{to.request.width} *
                                                     to.request.microbatches * to.microbatch_size);
    default:
      return fmt::format("microbatches {} x {}", to.microbatch_size, to.request.microbatches);
  }
}

}  // namespace

std::vector<std::string> near_fits(const ClusterSetup& setup) {
  const ClusterRequest& asked = setup.request;
  const std::string node = node_of(asked.cluster_name);
  ClusterOfNodes of_nodes;
  if (!node.empty()) {
    of_nodes = [&](std::size_t nodes) {
      return cluster_of_nodes(nodes_text(nodes, node), asked.memory);
    };
  }
  const FitRequest request{.plan = setup.made.plan,
                           .assumptions = asked.assumptions,
                           .order = asked.order,
                           .cut = asked.cut};
  std::vector<std::string> lines;
  for (const NearFit& fit : nearest_fits(request, setup.cluster(), of_nodes)) {
    lines.push_back(fmt::format("{} ({} on device {}, the fullest)", options_text(fit, setup, node),
                                print_bytes(fit.peak_bytes), index(fit.fullest)));
  }
  return lines;
}

std::vector<std::string> near_fits(const Plan& plan, Bytes limit, Storage storage) {
  std::vector<std::string> lines;
  for (const NearFit& fit : nearest_fits(plan, limit, storage)) {
    std::vector<std::string> changes;
    for (const FitChange change : fit.changes)
      changes.push_back(change_text(change, fit.request.plan));
    lines.push_back(fmt::format("{} ({} on the fullest device)", fmt::join(changes, ", "),
                                print_bytes(fit.peak_bytes)));
  }
  return lines;
}

std::string offers_text(const std::vector<std::string>& near, std::string_view heading) {
  if (near.empty()) return "; none of the similar plans that were tried fits";
  return fmt::format("; {}:\n  {}", heading, fmt::join(near, "\n  "));
}

std::string miss_text(const MemoryMiss& miss, Bytes capacity, const Reserve& reserve,
                      std::optional<FitsBy> by) {
  return fmt::format(
      "does not fit in {} a device{}: device {} needs {}{}, {} too much (largest: {}, {})",
      print_bytes(capacity),
      reserve.none() ? "" : fmt::format(", {} in reserve", describe(reserve)), index(miss.device),
      print_bytes(miss.needed), by ? fmt::format(" by {}", taker(*by)) : "",
      print_bytes(miss.excess), miss.largest, print_bytes(miss.largest_bytes));
}

}  // namespace tandem::tools
