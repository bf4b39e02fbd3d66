#include "planner/published/pipedream.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "core/base/error.h"
#include "planner/published/ideals.h"

namespace tandem {

namespace {

constexpr std::size_t kMostStates = 2048;
constexpr double kNoTime = std::numeric_limits<double>::infinity();

/// Whether the authors' optimizer takes it away before it plans.
bool left_out(const LayerGraph& graph, const NodeGraph& nodes, std::size_t layer) {
  const std::string_view what = graph.layers[layer].what;
  return (nodes.before[layer].empty() && what.starts_with("Input")) ||
         (nodes.next[layer].empty() && what.starts_with("__getitem__"));
}

/// What stands before a cut, and what crosses it.
struct CutSums {
  double seconds = 0.0, parameters = 0.0, held = 0.0, crossing = 0.0;
};

/// The graph as the programme sees it: cuts, and what lies between two of them.
class PipeDreamCuts {
 public:
  explicit PipeDreamCuts(const LayerGraph& graph) {
    NodeGraph all(graph.layers.size());
    for (const auto& [from, to] : graph.edges) all.add_edge(from, to);
    std::vector<std::size_t> place(graph.layers.size());
    for (std::size_t layer = 0; layer < place.size(); ++layer) {
      place[layer] = layers_.size();
      if (!left_out(graph, all, layer)) layers_.push_back(layer);
    }
    if (layers_.empty()) throw InputError("the graph has no layer that computes");
    NodeGraph nodes(layers_.size());
    for (const auto& [from, to] : graph.edges) {
      if (!left_out(graph, all, from) && !left_out(graph, all, to))
        nodes.add_edge(place[from], place[to]);
    }
    ideals_ = ideals_of(nodes, kMostStates + 1);
    for (const NodeSet& ideal : ideals_) sums_.push_back(sums_of(graph, nodes, ideal));
    before_.resize(ideals_.size());
    for (std::size_t cut = 0; cut < ideals_.size(); ++cut) {
      for (std::size_t other = 0; other < cut; ++other) {
        if (ideals_[cut].holds(ideals_[other])) before_[cut].push_back(other);
      }
    }
  }

  std::size_t size() const { return ideals_.size(); }
  std::size_t last() const { return size() - 1; }
  const CutSums& operator[](std::size_t cut) const { return sums_[cut]; }
  /// Cuts with less before them, all of that before this one, too; ascending.
  const std::vector<std::size_t>& before(std::size_t cut) const { return before_[cut]; }
  bool holds(std::size_t cut, std::size_t other) const {
    return ideals_[cut].holds(ideals_[other]);
  }
  std::vector<std::size_t> layers_between(std::size_t from, std::size_t to) const {
    std::vector<std::size_t> between;
    for (std::size_t node = 0; node < layers_.size(); ++node) {
      if (ideals_[to].has(node) && !ideals_[from].has(node)) between.push_back(layers_[node]);
    }
    return between;
  }

 private:
  CutSums sums_of(const LayerGraph& graph, const NodeGraph& nodes, const NodeSet& ideal) const {
    CutSums sums;
    for (std::size_t node = 0; node < layers_.size(); ++node) {
      if (!ideal.has(node)) continue;
      const ProfiledLayer& layer = graph.layers[layers_[node]];
      sums.seconds += to_seconds(layer.forward + layer.backward);
      sums.parameters += static_cast<double>(layer.parameters);
      sums.held += static_cast<double>(layer.held.value_or(layer.output));
      if (std::ranges::any_of(nodes.next[node], [&](std::size_t one) { return !ideal.has(one); }))
        sums.crossing += static_cast<double>(layer.output);
    }
    return sums;
  }

  std::vector<std::size_t> layers_;  // of the graph, that are no inputs
  std::vector<NodeSet> ideals_;
  std::vector<CutSums> sums_;
  std::vector<std::vector<std::size_t>> before_;
};

/// Of the layers between two cuts, on some of a level's machines.
struct PipeDreamChoice {
  double seconds = kNoTime;
  std::size_t split = 0;      // the last stage begins here; the first cut: there is but one stage
  std::int32_t machines = 0;  // of the last stage
};

class PipeDreamProgramme {
 public:
  explicit PipeDreamProgramme(const PipeDreamQuestion& question)
      : question_(question), cuts_(question.graph) {
    for (std::size_t level = 0; level < question.levels.size(); ++level) solve(level);
  }

  std::optional<PipeDreamPlan> plan() const {
    const std::size_t top = question_.levels.size() - 1;
    PipeDreamPlan plan;
    plan.bottleneck_s = at(top, 0, cuts_.last(), question_.levels[top].machines).seconds;
    if (plan.bottleneck_s == kNoTime) return std::nullopt;
    plan.one_device_s = cuts_[cuts_.last()].seconds;
    plan.states = cuts_.size() - 1;
    add_stages(top, 0, cuts_.last(), 1, plan.stages);
    return plan;
  }

 private:
  using Choices = std::vector<PipeDreamChoice>;

  const PipeDreamChoice& at(std::size_t level, std::size_t from, std::size_t to,
                            std::int32_t machines) const {
    const auto row = static_cast<std::size_t>(question_.levels[level].machines);
    return choices_[level]
                   [(from * cuts_.size() + to) * row + static_cast<std::size_t>(machines - 1)];
  }

  /// On one machine of a level.
  double block_s(std::size_t level, std::size_t from, std::size_t to) const {
    if (level == 0) return cuts_[to].seconds - cuts_[from].seconds;
    return at(level - 1, from, to, question_.levels[level - 1].machines).seconds;
  }

  bool fits(std::size_t from, std::size_t to, double in_flight) const {
    const double held = cuts_[to].held - cuts_[from].held,
                 parameters = cuts_[to].parameters - cuts_[from].parameters;
    const double kept = question_.state_share * parameters,
                 least = question_.state_share > 0.0 ? 1.0 : 0.0;
    return question_.memory_bytes <= 0.0 ||
           std::max(least, std::ceil(in_flight)) * (held + parameters) + kept <=
               question_.memory_bytes;
  }

  /// Of each microbatch, where `machines` take them in turn and sum their gradients.
  double replicated_s(std::size_t level, std::size_t from, std::size_t to, double machines,
                      double sum_shares) const {
    const double parameters = cuts_[to].parameters - cuts_[from].parameters;
    const double sum = 4.0 * (machines - 1.0) * parameters /
                       (question_.levels[level].bytes_per_s * machines) / sum_shares;
    return (block_s(level, from, to) + sum) / machines;
  }

  PipeDreamChoice one_stage(std::size_t level, std::size_t from, std::size_t to,
                            std::int32_t machines) const {
    const double count = machines, all = question_.levels[level].machines;
    if (!fits(from, to, (all - count) / count)) return {};
    // Here alone the optimizer lets a machine's members share out the sum.
    const double within = level == 0 ? 1.0 : question_.levels[level - 1].machines;
    return {replicated_s(level, from, to, count, within), from, machines};
  }

  PipeDreamChoice best(std::size_t level, std::size_t from, std::size_t to,
                       std::int32_t machines) const {
    const double rate = question_.levels[level].bytes_per_s,
                 others = question_.levels[level].machines - machines;
    PipeDreamChoice best = one_stage(level, from, to, machines);
    for (const std::size_t split : cuts_.before(to)) {
      if (split <= from || !cuts_.holds(split, from)) continue;
      for (std::int32_t last = 1; last < machines; ++last) {
        const double before = at(level, from, split, machines - last).seconds;
        if (before >= best.seconds || !fits(split, to, others / last)) continue;
        const double links =
            2.0 * std::max(cuts_[split].crossing, cuts_[to].crossing) / (rate * last);
        const double seconds = std::max({before, replicated_s(level, split, to, last, 1.0), links});
        if (seconds < best.seconds) best = {seconds, split, last};
      }
    }
    return best;
  }

  void solve(std::size_t level) {
    const std::int32_t machines = question_.levels[level].machines;
    const bool final = level + 1 == question_.levels.size();
    const std::size_t starts = final ? 1 : cuts_.size();
    choices_.emplace_back(starts * cuts_.size() * static_cast<std::size_t>(machines));
    for (std::size_t from = 0; from < starts; ++from) {
      for (std::int32_t count = 1; count <= machines; ++count) {
        for (std::size_t to = from + 1; to < cuts_.size(); ++to) {
          if (cuts_.holds(to, from))
            choices_[level][(from * cuts_.size() + to) * static_cast<std::size_t>(machines) +
                            static_cast<std::size_t>(count - 1)] = best(level, from, to, count);
        }
      }
    }
  }

  /// Of what lies between two cuts on all machines of a level, that `replicas` times.
  void add_stages(std::size_t level, std::size_t from, std::size_t to, std::int32_t replicas,
                  std::vector<PipeDreamStage>& stages) const {
    std::vector<std::pair<std::size_t, std::int32_t>> behind;  // where stages end, their machines
    std::int32_t machines = question_.levels[level].machines;
    std::vector<std::size_t> starts;
    for (std::size_t end = to; end != from;) {
      const PipeDreamChoice& choice = at(level, from, end, machines);
      behind.emplace_back(end, choice.machines);
      starts.push_back(choice.split);
      machines -= choice.machines;
      end = choice.split;
    }
    for (std::size_t i = behind.size(); i-- > 0;) {
      const auto& [end, own] = behind[i];
      if (level > 0)
        add_stages(level - 1, starts[i], end, replicas * own, stages);
      else
        stages.push_back({cuts_.layers_between(starts[i], end), replicas * own});
    }
  }

  const PipeDreamQuestion& question_;
  const PipeDreamCuts cuts_;
  std::vector<Choices> choices_;  // of each level
};

}  // namespace

std::optional<PipeDreamPlan> plan_pipedream(const PipeDreamQuestion& question) {
  return PipeDreamProgramme(question).plan();
}

}  // namespace tandem
