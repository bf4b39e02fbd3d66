#include "core/schedules/search/order_tree.h"

#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "core/schedules/search/partial_order.h"

namespace tandem {

namespace {

using Step = PartialOrder::Step;

void append(Words& words, Step step) {
  words[step.device].push_back(static_cast<Letter>(step.kind));
}

/// What has been done, and all times that the rest of an order depends on: of two with the same
/// counts, the one whose times are none later has no worse an end.
struct Key {
  std::vector<std::int32_t> done;
  std::vector<std::int64_t> times;
};

Key key_of(const OrderProblem& problem, const PartialOrder& order) {
  Key key;
  for (std::size_t j = 0; j < order.devices(); ++j) {
    const PartialOrder::Device& device = order[j];
    key.done.insert(key.done.end(), device.done.begin(), device.done.end());
    key.times.push_back(device.now);
    for (const std::size_t kind : {0u, 1u}) {
      const std::size_t from = kind == 0 ? j - 1 : j + 1;  // beyond the line: none
      if (from >= order.devices()) continue;
      for (std::int32_t k = device.done[kind]; k < order.sent().count(j, kind); ++k)
        key.times.push_back(std::max(order.sent().arrival(j, kind, k), device.now));
      if (problem.shared_links)
        key.times.push_back(std::max(order.sent().last(j, kind), order[from].now));
    }
  }
  return key;
}

bool none_later(const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b) {
  return std::ranges::equal(a, b, std::less_equal{});
}

class Tree {
 public:
  Tree(const OrderProblem& problem, OrderBound& bound, SearchMeter& meter, FoundOrder& best)
      : problem_(problem), bound_(bound), meter_(meter), best_(best) {}

  bool search() {
    visit(PartialOrder(problem_));
    return !cut_short_;
  }

 private:
  struct Child {
    std::int64_t bound;
    Step step;
    PartialOrder order;
  };

  void visit(const PartialOrder& order) {
    if (order.done()) {
      best_ = {Words(problem_.devices.size()), order.makespan()};
      for (const Step step : path_) append(best_.words, step);
      meter_.now.best = Duration(best_.makespan);
      return;
    }
    std::vector<Step> steps;
    order.choices(steps);
    std::vector<Child> children;
    for (const Step step : steps) {
      if (!meter_.spend()) {
        cut_short_ = true;
        return;
      }
      PartialOrder next = order;
      next.put(step.device, step.kind);
      const std::int64_t bound = bound_.of(next);
      if (bound < best_.makespan) children.push_back({bound, step, std::move(next)});
    }
    std::ranges::stable_sort(children, {}, &Child::bound);
    for (const Child& child : children) {
      if (cut_short_) return;
      if (child.bound >= best_.makespan || seen_better(child.order)) continue;
      path_.push_back(child.step);
      visit(child.order);
      path_.pop_back();
    }
  }

  bool seen_better(const PartialOrder& order) {
    constexpr std::size_t kMostKept = 2'000'000;
    Key key = key_of(problem_, order);
    std::vector<std::vector<std::int64_t>>& seen = seen_[std::move(key.done)];
    for (const std::vector<std::int64_t>& times : seen) {
      if (none_later(times, key.times)) return true;
    }
    if (kept_ < kMostKept) {
      const auto gone = std::remove_if(seen.begin(), seen.end(), [&](const auto& times) {
        return none_later(key.times, times);
      });
      kept_ -= static_cast<std::size_t>(seen.end() - gone);
      seen.erase(gone, seen.end());
      seen.push_back(std::move(key.times));
      ++kept_;
    }
    return false;
  }

  const OrderProblem& problem_;
  OrderBound& bound_;
  SearchMeter& meter_;
  FoundOrder& best_;
  std::vector<Step> path_;
  std::map<std::vector<std::int32_t>, std::vector<std::vector<std::int64_t>>> seen_;
  std::size_t kept_ = 0;
  bool cut_short_ = false;
};

class Beam {
 public:
  Beam(const OrderProblem& problem, OrderBound& bound, std::size_t width, SearchMeter& meter)
      : problem_(problem), bound_(bound), width_(width), meter_(meter) {}

  void search(FoundOrder& best) {
    std::vector<PartialOrder> level{PartialOrder(problem_)};
    while (!level.empty() && !level.front().done()) level = next(level, best.makespan);
    if (level.empty()) return;
    const auto found = std::ranges::min_element(level, {}, &PartialOrder::makespan);
    if (found->makespan() >= best.makespan) return;
    best = {words_to(static_cast<std::size_t>(found - level.begin())), found->makespan()};
    meter_.now.best = Duration(best.makespan);
  }

 private:
  struct Link {
    std::size_t parent;
    Step step;
  };
  struct Node {
    std::int64_t bound, idle;
    Link link;
  };

  std::int64_t idle(const PartialOrder& order) const {
    std::int64_t all = 0;
    for (std::size_t j = 0; j < order.devices(); ++j) {
      all += order[j].now;
      for (std::size_t kind = 0; kind < kLetters; ++kind)
        all -= order[j].done[kind] * problem_.devices[j].times[kind];
    }
    return all;
  }

  std::vector<PartialOrder> next(const std::vector<PartialOrder>& level, std::int64_t best) {
    std::vector<Node> nodes;
    std::vector<Step> steps;
    for (std::size_t parent = 0; parent < level.size(); ++parent) {
      level[parent].choices(steps);
      for (const Step step : steps) {
        if (!meter_.spend()) return {};
        PartialOrder child = level[parent];
        child.put(step.device, step.kind);
        const std::int64_t bound = bound_.of(child);
        if (bound < best) nodes.push_back({bound, idle(child), {parent, step}});
      }
    }
    std::ranges::stable_sort(nodes, {},
                             [](const Node& one) { return std::tie(one.bound, one.idle); });
    std::vector<PartialOrder> kept;
    std::vector<Link>& links = levels_.emplace_back();
    std::set<std::pair<std::vector<std::int32_t>, std::vector<std::int64_t>>> seen;
    for (const Node& node : nodes) {
      if (kept.size() == width_) break;
      PartialOrder child = level[node.link.parent];
      child.put(node.link.step.device, node.link.step.kind);
      Key key = key_of(problem_, child);
      if (!seen.emplace(std::move(key.done), std::move(key.times)).second) continue;
      links.push_back(node.link);
      kept.push_back(std::move(child));
    }
    return kept;
  }

  Words words_to(std::size_t node) const {
    std::vector<Step> path;
    for (std::size_t level = levels_.size(); level-- > 0;) {
      path.push_back(levels_[level][node].step);
      node = levels_[level][node].parent;
    }
    Words words(problem_.devices.size());
    for (std::size_t i = path.size(); i-- > 0;) append(words, path[i]);
    return words;
  }

  const OrderProblem& problem_;
  OrderBound& bound_;
  std::size_t width_;
  SearchMeter& meter_;
  std::vector<std::vector<Link>> levels_;
};

}  // namespace

bool search_tree(const OrderProblem& problem, OrderBound& bound, SearchMeter& meter,
                 FoundOrder& best) {
  return Tree(problem, bound, meter, best).search();
}

void search_beam(const OrderProblem& problem, OrderBound& bound, std::size_t width,
                 SearchMeter& meter, FoundOrder& best) {
  Beam(problem, bound, width, meter).search(best);
}

}  // namespace tandem
