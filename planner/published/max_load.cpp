#include "planner/published/max_load.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.h"
#include "planner/published/operator_classes.h"

namespace tandem {

namespace {

constexpr std::size_t kMostCuts = 2'000'000;
constexpr double kRounding = 1e-12;
constexpr double kTooLong = std::numeric_limits<double>::infinity();

/// The classes of a part, one added or taken away at a time, and what it takes.
class GrowingPart {
 public:
  explicit GrowingPart(const OperatorClasses& of)
      : of_(of),
        in_(of.classes.size()),
        reached_(of.senders.size()),
        sends_(of.classes.size()),
        gets_(of.classes.size()) {
    for (std::size_t sender = 0; sender < of.senders.size(); ++sender) {
      sends_[of.senders[sender].from].push_back(sender);
      for (const std::size_t to : of.senders[sender].to) gets_[to].push_back(sender);
    }
  }

  void add(std::size_t one) {
    before_.push_back(now_);
    const OperatorClass& added = of_.classes[one];
    now_.accelerator += added.accelerator_time;
    now_.processor += added.processor_time;
    now_.bytes += added.bytes;
    now_.elsewhere += added.on_accelerators ? 0 : 1;
    for (const std::size_t sender : sends_[one]) now_.links -= links(sender);
    for (const std::size_t sender : gets_[one]) now_.links -= links(sender);
    in_[one] = 1;
    for (const std::size_t sender : gets_[one]) ++reached_[sender];
    for (const std::size_t sender : sends_[one]) now_.links += links(sender);
    for (const std::size_t sender : gets_[one]) now_.links += links(sender);
  }
  void take_away(std::size_t one) {
    in_[one] = 0;
    for (const std::size_t sender : gets_[one]) --reached_[sender];
    now_ = before_.back();
    before_.pop_back();
  }

  double accelerator_time() const { return now_.accelerator; }
  double processor_time() const { return now_.processor; }
  double bytes() const { return now_.bytes; }
  bool on_accelerators() const { return now_.elsewhere == 0; }
  double accelerator_load() const { return now_.accelerator + now_.links; }

 private:
  struct Sums {
    double accelerator = 0.0, processor = 0.0, bytes = 0.0, links = 0.0;
    int elsewhere = 0;  // classes that no accelerator takes
  };

  /// Of one sender: its output leaves the part, or comes into it.
  double links(std::size_t sender) const {
    const OperatorSender& of = of_.senders[sender];
    const bool crosses = in_[of.from] != 0 ? reached_[sender] < of.to.size() : reached_[sender] > 0;
    return crosses ? of.time : 0.0;
  }

  const OperatorClasses& of_;
  std::vector<char> in_;
  std::vector<std::size_t> reached_;  // of each sender: classes in the part that get its output
  std::vector<std::vector<std::size_t>> sends_, gets_;
  Sums now_;
  std::vector<Sums> before_;
};

class MaxLoadProgramme {
 public:
  explicit MaxLoadProgramme(const OperatorGraph& graph)
      : graph_(graph), of_(classes_of(graph)), part_(of_), all_(of_.classes.size()) {
    for (std::size_t one = 0; one < of_.classes.size(); ++one) {
      total_ += of_.classes[one].accelerator_time;
      all_.add(one);
      const OperatorClass& added = of_.classes[one];
      if (added.accelerator_time > 0.0)
        share_ = std::max(share_, added.processor_time > 0.0
                                      ? added.accelerator_time / added.processor_time
                                      : kTooLong);
    }
  }

  std::optional<MaxLoadPlan> plan() {
    // What is found has to be less: a hair above what is known to be possible.
    limit_ = std::min(along(true), along(false)) * (1.0 + 1e-9);
    Cut& none = cut_at(NodeSet(of_.classes.size()), 0);
    none.states[0].load = 0.0;
    for (std::size_t size = 0; size < by_size_.size(); ++size) {
      for (std::size_t i = 0; i < by_size_[size].size(); ++i) grow(by_size_[size][i]);
    }
    const auto whole = known_.find(all_);
    if (whole == known_.end()) return std::nullopt;
    return told(whole->second);
  }

 private:
  struct State {
    double load = kTooLong;
    std::uint32_t before = 0;  // cut
    bool accelerator = true;   // the last device
  };
  /// What stands before a cut, on so many processors and accelerators.
  struct Cut {
    NodeSet set;
    std::vector<State> states;
    double accelerator_time = 0.0;
  };

  std::size_t state_of(std::int32_t processors, std::int32_t accelerators) const {
    return static_cast<std::size_t>(processors * (graph_.accelerators + 1) + accelerators);
  }

  Cut& cut_at(const NodeSet& set, std::size_t size) {
    const auto [place, unknown] = known_.try_emplace(set, cuts_.size());
    if (unknown) {
      if (cuts_.size() == kMostCuts)
        throw InputError(
            fmt::format("more than {} cuts of the graph are to be looked at", kMostCuts));
      cuts_.push_back({set,
                       std::vector<State>(state_of(graph_.processors, graph_.accelerators) + 1),
                       current_accelerator_time_});
      if (by_size_.size() <= size) by_size_.resize(size + 1);
      by_size_[size].push_back(static_cast<std::uint32_t>(place->second));
    }
    return cuts_[place->second];
  }

  /// Whether the devices left over can take the rest.
  bool rest_fits(double before, std::int32_t processors, std::int32_t accelerators) const {
    if (limit_ == kTooLong) return true;  // nothing is known yet
    const double by_accelerators = (graph_.accelerators - accelerators) * limit_;
    const std::int32_t left = graph_.processors - processors;
    const double by_processors = left == 0 ? 0.0 : left * limit_ * share_;
    // The same times in another order sum up to a little more or less.
    return total_ - before <= by_accelerators + by_processors + total_ * kRounding;
  }

  /// The states that may lead to something better.
  void grow(std::uint32_t at) {
    from_ = at;
    alive_.clear();
    for (std::int32_t processors = 0; processors <= graph_.processors; ++processors) {
      for (std::int32_t accelerators = 0; accelerators <= graph_.accelerators; ++accelerators) {
        const double load = cuts_[at].states[state_of(processors, accelerators)].load;
        if (load < limit_ && rest_fits(cuts_[at].accelerator_time, processors, accelerators))
          alive_.push_back({processors, accelerators, load});
      }
    }
    if (alive_.empty()) return;
    accelerator_left_ = std::ranges::any_of(
        alive_, [&](const Alive& one) { return one.accelerators < graph_.accelerators; });
    processor_left_ = std::ranges::any_of(
        alive_, [&](const Alive& one) { return one.processors < graph_.processors; });
    current_ = cuts_[at].set;
    current_accelerator_time_ = cuts_[at].accelerator_time;
    missing_.assign(of_.classes.size(), 0);
    open_.clear();
    size_ = 0;
    for (std::size_t one = 0; one < of_.classes.size(); ++one) {
      if (current_.has(one)) {
        ++size_;
        continue;
      }
      for (const std::size_t before : of_.order.before[one])
        missing_[one] += current_.has(before) ? 0 : 1;
      if (missing_[one] == 0) open_.push_back(one);
    }
    extend(0);
  }

  /// Lists each part once: open classes are taken or left in their order.
  void extend(std::size_t place) {
    for (std::size_t i = place; i < open_.size(); ++i) {
      const std::size_t one = open_[i], count = open_.size();
      part_.add(one);
      current_.add(one);
      const double time_before = current_accelerator_time_;
      current_accelerator_time_ += of_.classes[one].accelerator_time;
      ++size_;
      for (const std::size_t next : of_.order.next[one]) {
        if (--missing_[next] == 0) open_.push_back(next);
      }
      const bool on_accelerator = accelerator_left_ && part_.on_accelerators() &&
                                  part_.bytes() <= graph_.memory_bytes &&
                                  part_.accelerator_time() < limit_;
      const bool on_processor = processor_left_ && part_.processor_time() < limit_;
      if (on_accelerator) offer(part_.accelerator_load(), true);
      if (on_processor) offer(part_.processor_time(), false);
      if (on_accelerator || on_processor) extend(i + 1);
      for (const std::size_t next : of_.order.next[one]) ++missing_[next];
      open_.resize(count);
      --size_;
      current_accelerator_time_ = time_before;
      current_.remove(one);
      part_.take_away(one);
    }
  }

  void offer(double part_load, bool accelerator) {
    if (part_load >= limit_) return;
    for (const Alive& one : alive_) {
      const std::int32_t processors = one.processors + (accelerator ? 0 : 1),
                         accelerators = one.accelerators + (accelerator ? 1 : 0);
      const double load = std::max(one.load, part_load);
      if (processors > graph_.processors || accelerators > graph_.accelerators || load >= limit_ ||
          !rest_fits(current_accelerator_time_, processors, accelerators))
        continue;
      Cut& to = cut_at(current_, size_);
      State& state = to.states[state_of(processors, accelerators)];
      if (load >= state.load) continue;
      state = {load, from_, accelerator};
      if (size_ == of_.classes.size()) limit_ = load;
    }
  }

  /// An order in which each class is behind those that feed it: the last that can be next, or the
  /// first; and the least load of parts in a row along it.
  double along(bool last) {
    std::vector<std::size_t> order, ready, missing(of_.classes.size());
    for (std::size_t one = 0; one < missing.size(); ++one) {
      missing[one] = of_.order.before[one].size();
      if (missing[one] == 0) ready.push_back(one);
    }
    while (!ready.empty()) {
      const auto place = last ? ready.end() - 1 : ready.begin();
      const std::size_t one = *place;
      ready.erase(place);
      order.push_back(one);
      for (const std::size_t next : of_.order.next[one]) {
        if (--missing[next] == 0) ready.push_back(next);
      }
    }
    const std::size_t states = state_of(graph_.processors, graph_.accelerators) + 1;
    std::vector<std::vector<double>> best(order.size() + 1, std::vector<double>(states, kTooLong));
    best[0][0] = 0.0;
    for (std::size_t from = 0; from < order.size(); ++from) {
      for (std::size_t to = from; to < order.size(); ++to) {
        part_.add(order[to]);
        const double load = part_.on_accelerators() && part_.bytes() <= graph_.memory_bytes
                                ? part_.accelerator_load()
                                : kTooLong;
        for (std::int32_t p = 0; p <= graph_.processors; ++p) {
          for (std::int32_t a = 0; a <= graph_.accelerators; ++a) {
            const double now = best[from][state_of(p, a)];
            if (a < graph_.accelerators)
              lower(best[to + 1][state_of(p, a + 1)], std::max(now, load));
            if (p < graph_.processors)
              lower(best[to + 1][state_of(p + 1, a)], std::max(now, part_.processor_time()));
          }
        }
      }
      for (std::size_t to = order.size(); to-- > from;) part_.take_away(order[to]);
    }
    return *std::ranges::min_element(best.back());
  }
  static void lower(double& value, double to) { value = std::min(value, to); }

  MaxLoadPlan told(std::size_t whole) const {
    MaxLoadPlan plan;
    plan.classes = of_.classes.size();
    plan.cuts = cuts_.size();
    std::int32_t processors = 0, accelerators = 0;
    plan.load = kTooLong;
    for (std::int32_t p = 0; p <= graph_.processors; ++p) {
      for (std::int32_t a = 0; a <= graph_.accelerators; ++a) {
        const double load = cuts_[whole].states[state_of(p, a)].load;
        if (load >= plan.load) continue;
        plan.load = load;
        processors = p;
        accelerators = a;
      }
    }
    for (std::size_t at = whole; processors + accelerators > 0;) {
      const State& state = cuts_[at].states[state_of(processors, accelerators)];
      plan.devices.push_back(device_of(cuts_[state.before].set, cuts_[at].set, state.accelerator));
      (state.accelerator ? accelerators : processors) -= 1;
      at = state.before;
    }
    std::ranges::reverse(plan.devices);
    return plan;
  }

  MaxLoadDevice device_of(const NodeSet& before, const NodeSet& behind, bool accelerator) const {
    MaxLoadDevice device{.accelerator = accelerator, .nodes = {}};
    GrowingPart part(of_);
    for (std::size_t one = 0; one < of_.classes.size(); ++one) {
      if (before.has(one) || !behind.has(one)) continue;
      part.add(one);
      const std::vector<std::size_t>& nodes = of_.classes[one].nodes;
      device.nodes.insert(device.nodes.end(), nodes.begin(), nodes.end());
    }
    std::ranges::sort(device.nodes);
    device.load = accelerator ? part.accelerator_load() : part.processor_time();
    return device;
  }

  const OperatorGraph& graph_;
  const OperatorClasses of_;
  GrowingPart part_;
  NodeSet all_;
  double total_ = 0.0;  // of accelerators
  double share_ = 0.0;  // that an accelerator takes, of what a processor does, at most
  double limit_ = kTooLong;
  std::vector<Cut> cuts_;
  struct Hash {
    std::size_t operator()(const NodeSet& set) const { return set.hash(); }
  };
  std::unordered_map<NodeSet, std::size_t, Hash> known_;
  std::vector<std::vector<std::uint32_t>> by_size_;
  // Of the cut that grows:
  struct Alive {
    std::int32_t processors = 0, accelerators = 0;
    double load = 0.0;
  };
  std::uint32_t from_ = 0;
  std::vector<Alive> alive_;
  bool accelerator_left_ = false, processor_left_ = false;
  NodeSet current_;
  double current_accelerator_time_ = 0.0;
  std::size_t size_ = 0;
  std::vector<int> missing_;
  std::vector<std::size_t> open_;
};

}  // namespace

std::optional<MaxLoadPlan> plan_max_load(const OperatorGraph& graph) {
  return MaxLoadProgramme(graph).plan();
}

}  // namespace tandem
