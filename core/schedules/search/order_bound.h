#pragma once
// A proved lower bound on the makespan of every order of a problem, and of every way to complete
// one.
//
// Each op has a head, a time before which it can't start in any order, and a tail, a time that
// passes after its end in any order: along what it needs and what needs it, on its own device and
// along the pipeline; and on its device all that must come before (or after) it takes its time.
// The cap adds to this: a forward needs the gradients that make room for it. A device then is one
// machine whose ops have heads and tails, and its preemptive optimum (Jackson's rule, largest tail
// first) bounds every order (Carlier, "The one-machine sequencing problem", 1982).

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/base/progress.h"
#include "core/schedules/common.h"
#include "core/schedules/order_problem.h"
#include "core/schedules/search/partial_order.h"

namespace tandem {

class OrderBound {
 public:
  /// `problem` must outlive it.
  explicit OrderBound(const OrderProblem& problem)
      : problem_(&problem),
        m_(problem.microbatches),
        most_(most_looked_at(problem)),
        devices_(problem.devices.size()) {
    const std::vector<std::int64_t> zeros(as_index(m_));
    for (std::size_t j = 0; j < devices_.size(); ++j) {
      Device& device = devices_[j];
      device.heads = device.tails = device.now = {zeros, zeros, zeros};
      device.arrivals = {zeros, zeros};
      find_room_makers(j);
    }
    const PartialOrder nothing(problem);
    advance(nothing, true);
    for (Device& device : devices_) device.heads = device.now;
    find_tails();
    of_all_ = of(nothing);
  }

  std::int64_t of_all() const { return of_all_; }
  /// Of the orders that begin like this one.
  std::int64_t of(const PartialOrder& order) {
    advance(order, false);
    std::int64_t bound = order.makespan();
    for (std::size_t j = 0; j < devices_.size(); ++j)
      bound = std::max(bound, one_machine(j, order[j].done));
    return bound;
  }

 private:
  static constexpr std::size_t kForward = 0, kInput = 1, kWeight = 2;

  static std::size_t as_index(std::int32_t k) { return static_cast<std::size_t>(k); }

  /// All of them, of a device, where that is soon done.
  static std::int64_t most_looked_at(const OrderProblem& problem) {
    constexpr std::int64_t kMost = 100'000'000, kOfAnOp = 8;
    const auto ops = static_cast<std::int64_t>(kLetters * problem.devices.size()) *
                     std::int64_t{problem.microbatches};
    return std::max(kOfAnOp, kMost / ops);
  }

  using Counts = std::array<std::int32_t, kLetters>;
  using Times = std::array<std::vector<std::int64_t>, kLetters>;  // by kind and microbatch
  struct Device {
    Times heads, tails;
    /// So many gradients must be done before a forward can start, by its microbatch.
    std::vector<std::int32_t> inputs_before, weights_before;
    Times now;                                          // heads given a beginning
    std::array<std::vector<std::int64_t>, 2> arrivals;  // of what forwards and gradients need
  };

  void find_room_makers(std::size_t j) {
    const OrderProblem::Device& device = problem_->devices[j];
    for (std::int64_t k = 0; k < m_; ++k) {
      // With as many of the other kind as there can be.
      const std::int64_t inputs = (k + 1) * kActivation - device.cap;
      const std::int64_t room = device.cap - kActivation;
      const std::int64_t weights = device.kept > 0 ? k - room / device.kept : 0;
      devices_[j].inputs_before.push_back(static_cast<std::int32_t>(
          std::max<std::int64_t>(0, (inputs + kActivation - 1) / kActivation)));
      devices_[j].weights_before.push_back(
          static_cast<std::int32_t>(std::max<std::int64_t>(0, weights)));
    }
  }
  void find_tails() {
    const std::size_t p = devices_.size();
    // The first forward that so many gradients make room for.
    const auto first_after = [&](const std::vector<std::int32_t>& before, std::int32_t k) {
      return static_cast<std::int32_t>(std::upper_bound(before.begin(), before.end(), k) -
                                       before.begin());
    };
    // What passes from the end of an op on, by way of the neighbour that takes its result. Once for
    // each microbatch, from the last on.
    std::array<std::vector<std::int64_t>, 2> sent;  // tails of the sends of the microbatch before
    sent.fill(std::vector<std::int64_t>(p, 0));
    const auto beyond = [&](std::size_t j, std::size_t kind, std::int32_t k) -> std::int64_t {
      const std::size_t to = kind == kForward ? j + 1 : j - 1;  // beyond the line: none
      if (to >= p) return 0;
      std::int64_t tail = problem_->devices[to].times[kind] + devices_[to].tails[kind][as_index(k)];
      if (problem_->shared_links) tail = std::max(tail, sent[kind][j]);
      return sent[kind][j] = tail + problem_->devices[std::min(j, to)].to_next;
    };
    for (std::int32_t k = m_; k-- > 0;) {
      keep_going();
      for (std::size_t j = 0; j < p; ++j) {
        Device& device = devices_[j];
        const std::int32_t later = first_after(device.weights_before, k);
        device.tails[kWeight][as_index(k)] =
            std::max(problem_->devices[j].after, rest_from(j, {later, later, k + 1}));
        const std::int32_t freed = first_after(device.inputs_before, k);
        device.tails[kInput][as_index(k)] =
            std::max(beyond(j, kInput, k), rest_from(j, {freed, k + 1, k}));
      }
      for (std::size_t j = p; j-- > 0;) {
        devices_[j].tails[kForward][as_index(k)] =
            std::max(beyond(j, kForward, k), rest_from(j, {k + 1, k, k}));
      }
    }
  }
  /// When what an op needs of its neighbour is there.
  std::int64_t arrival(const PartialOrder& order, std::size_t j, std::size_t kind, std::int32_t k) {
    const std::size_t from = kind == kForward ? j - 1 : j + 1;  // beyond the line: none
    if (from >= devices_.size()) return 0;
    std::vector<std::int64_t>& arrivals = devices_[j].arrivals[kind];
    if (k < order.sent().count(j, kind))
      return arrivals[as_index(k)] = order.sent().arrival(j, kind, k);
    std::int64_t sent = devices_[from].now[kind][as_index(k)] + problem_->devices[from].times[kind];
    if (problem_->shared_links && k > 0) sent = std::max(sent, arrivals[as_index(k - 1)]);
    return arrivals[as_index(k)] = sent + problem_->devices[std::min(j, from)].to_next;
  }
  /// When so many of the device's ops of a kind have ended; 0: the order has done them.
  std::int64_t end_of(const PartialOrder& order, std::size_t j, std::size_t kind,
                      std::int32_t count) const {
    if (count <= order[j].done[kind]) return 0;
    return devices_[j].now[kind][as_index(count - 1)] + problem_->devices[j].times[kind];
  }
  std::int64_t head(const PartialOrder& order, std::size_t j, std::size_t kind, std::int32_t k) {
    const std::int64_t before = end_of(order, j, kind, k);
    if (kind > kForward) {
      const std::int64_t made = std::max(before, end_of(order, j, kind - 1, k + 1));
      return kind == kWeight ? made : std::max(made, arrival(order, j, kind, k));
    }
    const Device& device = devices_[j];
    return std::max({before, arrival(order, j, kind, k),
                     end_of(order, j, kInput, device.inputs_before[as_index(k)]),
                     end_of(order, j, kWeight, device.weights_before[as_index(k)])});
  }
  /// The kind of which `value` is the largest, the first of several; kLetters: all are below 0.
  template <class Value>
  static std::size_t kind_of_largest(const Value& value) {
    std::size_t best = kLetters;
    std::int64_t largest = -1;
    for (std::size_t kind = 0; kind < kLetters; ++kind) {
      const std::int64_t one = value(kind);
      if (one <= largest) continue;
      best = kind;
      largest = one;
    }
    return best;
  }
  /// No order ends the first ops of each kind, so many, sooner on this device.
  std::int64_t end_of_first(std::size_t j, const Counts& counts) const {
    // From the last op to start back: what starts from then on takes its time.
    const Times& heads = devices_[j].now;
    Counts left = counts;
    std::int64_t end = 0, work = 0;
    for (std::int64_t looked_at = 0; looked_at < most_; ++looked_at) {
      const std::size_t latest = kind_of_largest([&](std::size_t kind) {
        return left[kind] == 0 ? -1 : heads[kind][as_index(left[kind] - 1)];
      });
      if (latest == kLetters) return end;
      work += problem_->devices[j].times[latest];
      end = std::max(end, heads[latest][as_index(--left[latest])] + work);
    }
    return end;
  }
  /// No order takes less from the start of the first of the ops from these on to the end.
  std::int64_t rest_from(std::size_t j, const Counts& from) const {
    const Times& tails = devices_[j].tails;
    Counts next = from;
    std::int64_t rest = 0, work = 0;
    for (std::int64_t looked_at = 0; looked_at < most_; ++looked_at) {
      const std::size_t longest = kind_of_largest([&](std::size_t kind) {
        return next[kind] == m_ ? -1 : tails[kind][as_index(next[kind])];
      });
      if (longest == kLetters) return rest;
      work += problem_->devices[j].times[longest];
      rest = std::max(rest, work + tails[longest][as_index(next[longest]++)]);
    }
    return rest;
  }
  /// Heads given what the order did; they are no less than those of all orders. With sets: what
  /// must precede an op on its device takes its time there.
  void advance(const PartialOrder& order, bool with_sets) {
    const auto settle = [&](std::size_t j, std::size_t kind, std::int32_t k, const Counts& before) {
      if (k < order[j].done[kind]) return;
      Device& device = devices_[j];
      std::int64_t first = head(order, j, kind, k);
      if (with_sets) first = std::max(first, end_of_first(j, before));
      device.now[kind][as_index(k)] =
          std::max({first, order[j].now, device.heads[kind][as_index(k)]});
    };
    for (std::int32_t k = 0; k < m_; ++k) {
      keep_going();
      for (std::size_t j = 0; j < devices_.size(); ++j) {
        const Device& device = devices_[j];
        settle(j, kForward, k,
               {k, device.inputs_before[as_index(k)], device.weights_before[as_index(k)]});
      }
      for (std::size_t j = devices_.size(); j-- > 0;) {
        settle(j, kInput, k, {k + 1, k, devices_[j].weights_before[as_index(k)]});
        settle(j, kWeight, k, {k + 1, k + 1, k});
      }
    }
  }
  /// Jackson's preemptive rule. Tails fall along each kind, so of a kind the first is the one to
  /// run.
  std::int64_t one_machine(std::size_t j, const Counts& from) const {
    const Device& device = devices_[j];
    constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
    Counts next = from;
    std::array<std::int64_t, kLetters> left = problem_->devices[j].times;
    std::int64_t now = 0, end = 0;
    while (true) {
      std::size_t best = kLetters;
      std::int64_t first = kNever;  // of those that are still to come
      for (std::size_t kind = 0; kind < kLetters; ++kind) {
        if (next[kind] == m_) continue;
        const std::int64_t head = device.now[kind][as_index(next[kind])];
        if (head > now) {
          first = std::min(first, head);
        } else if (best == kLetters || device.tails[kind][as_index(next[kind])] >
                                           device.tails[best][as_index(next[best])]) {
          best = kind;
        }
      }
      if (best == kLetters) {
        if (first == kNever) return end;
        now = first;
        continue;
      }
      const std::int64_t runs = std::min(left[best], first == kNever ? left[best] : first - now);
      now += runs;
      left[best] -= runs;
      if (left[best] > 0) continue;
      end = std::max(end, now + device.tails[best][as_index(next[best]++)]);
      left[best] = problem_->devices[j].times[best];
    }
  }

  const OrderProblem* problem_;
  std::int32_t m_;
  std::int64_t most_;  // ops that end_of_first() and rest_from() look at: fewer bound less
  std::vector<Device> devices_;
  std::int64_t of_all_ = 0;
};

}  // namespace tandem
