#include "tools/print/near_fits.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/model/catalog.h"
#include "planner/search/nearest_fits.h"

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

/// Options that make what fits of what `given` makes: those that say something else, and those
/// whose defaults would.
class OptionsOf {
 public:
  OptionsOf(const ClusterSetup& setup, const Options& given, std::string node)
      : setup_(setup), given_(given), node_(std::move(node)) {}

  std::string text(const NearFit& fit) {
    const Plan& plan = fit.request.plan;
    const AnalyticAssumptions& assumptions = fit.request.assumptions;
    const auto group =
        std::size_t{plan.request.devices} * static_cast<std::size_t>(assumptions.tensor);
    const std::int64_t at_once = std::int64_t{plan.request.width} * plan.microbatch_size;
    const std::size_t nodes = setup_.cluster.nodes();
    if (fit.request.nodes != nodes)
      words_.push_back("--cluster " + nodes_text(fit.request.nodes, node_));
    if (plan.schedule != setup_.made.plan.schedule) say("schedule", plan.schedule, "");
    if (plan.request.replicas.empty()) say("depth", plan.request.devices, "");
    say("width", plan.request.width, setup_.cluster.size() / nodes * fit.request.nodes / group);
    say("tensor", assumptions.tensor, 1);
    say("microbatch-size", plan.microbatch_size, 1);
    if (given_.has("microbatches")) {
      say("microbatches", plan.request.microbatches, "");
    } else {
      say("global-batch", at_once * plan.request.microbatches,
          kMicrobatchesADevice * at_once * plan.request.devices);
    }
    say("recompute", name(plan.request.recompute), "none");
    say("zero", assumptions.sharded_optimizer ? 1 : 0, 0);
    say("cut", fit.request.cut == StageCut::even ? "even" : "balanced", "balanced");
    if (plan.schedule == "gpipe") say("group", plan.request.group, 0);
    say("extra-in-flight", plan.request.extra_in_flight, 0);
    return fmt::format("{}", fmt::join(std::exchange(words_, {}), " "));
  }

 private:
  template <class Value, class Default>
  void say(const char* option, const Value& value, const Default& otherwise) {
    const std::string text = fmt::format("{}", value);
    if (text != given_.text(option, fmt::format("{}", otherwise)))
      words_.push_back(fmt::format("--{} {}", option, text));
  }

  const ClusterSetup& setup_;
  const Options& given_;
  const std::string node_;
  std::vector<std::string> words_;
};

std::string change_text(FitChange change, const Plan& to) {
  switch (change) {
    case FitChange::extra_in_flight:
      return "no extra in flight";
    case FitChange::cut:
      return "another cut";
    case FitChange::schedule:
      return "schedule " + to.schedule;
    case FitChange::group:
      return fmt::format("groups of {}", to.request.group);
    case FitChange::recompute:
      return fmt::format("recompute {}", name(to.request.recompute));
    case FitChange::depth:
      return fmt::format("{} stages", to.request.devices);
    case FitChange::global_batch:
      return fmt::format("a global batch of {}",
                         std::int64_t{to.request.width} * to.request.microbatches * to.microbatch_size);
    default:
      return fmt::format("microbatches {} x {}", to.microbatch_size, to.request.microbatches);
  }
}

}  // namespace

std::vector<std::string> near_fits(const ClusterSetup& setup, const Options& given) {
  const std::string node = node_of(given.text("cluster"));
  ClusterOfNodes of_nodes;
  if (!node.empty()) {
    of_nodes = [&](std::size_t nodes) {
      Options more = given;
      more.set("cluster", nodes_text(nodes, node));
      return cluster_of(more);
    };
  }
  const FitRequest request{.plan = setup.made.plan,
                           .assumptions = setup.assumptions,
                           .order = setup.order,
                           .cut = setup.cut};
  OptionsOf options(setup, given, node);
  std::vector<std::string> lines;
  for (const NearFit& fit : nearest_fits(request, setup.cluster, of_nodes)) {
    lines.push_back(fmt::format("{} ({} on the fullest device, {})", options.text(fit),
                                print_bytes(fit.peak_bytes), index(fit.fullest)));
  }
  return lines;
}

std::vector<std::string> near_fits(const Options& given, std::size_t most) {
  if (!names_a_cluster(given)) return {};
  std::vector<std::string> lines = near_fits(make_cluster_setup(given), given);
  lines.resize(std::min(lines.size(), most));
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

}  // namespace tandem::tools
