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
#include "core/schedules/search/order_problem.h"
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
      device.forward_arrivals = device.gradient_arrivals = zeros;
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
    Times now;                                                      // heads given a beginning
    std::vector<std::int64_t> forward_arrivals, gradient_arrivals;  // not before
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
    std::vector<std::int64_t> sent_forward(p, 0), sent_gradient(p, 0);  // tails of the sends before
    for (std::int32_t k = m_; k-- > 0;) {
      keep_going();
      for (std::size_t j = 0; j < p; ++j) {
        Device& device = devices_[j];
        const std::int32_t later = first_after(device.weights_before, k);
        device.tails[kWeight][as_index(k)] =
            std::max(problem_->devices[j].after, rest_from(j, {later, later, k + 1}));
        std::int64_t beyond = 0;
        if (j > 0) {
          const OrderProblem::Device& next = problem_->devices[j - 1];
          beyond = next.times[kInput] + devices_[j - 1].tails[kInput][as_index(k)];
          if (problem_->shared_links) beyond = std::max(beyond, sent_gradient[j]);
          sent_gradient[j] = beyond += next.to_next;
        }
        const std::int32_t freed = first_after(device.inputs_before, k);
        device.tails[kInput][as_index(k)] = std::max(beyond, rest_from(j, {freed, k + 1, k}));
      }
      for (std::size_t j = p; j-- > 0;) {
        Device& device = devices_[j];
        std::int64_t beyond = 0;
        if (j + 1 < p) {
          beyond = problem_->devices[j + 1].times[kForward] +
                   devices_[j + 1].tails[kForward][as_index(k)];
          if (problem_->shared_links) beyond = std::max(beyond, sent_forward[j]);
          sent_forward[j] = beyond += problem_->devices[j].to_next;
        }
        device.tails[kForward][as_index(k)] = std::max(beyond, rest_from(j, {k + 1, k, k}));
      }
    }
  }
  std::int64_t forward_head(const PartialOrder& order, std::size_t j, std::int32_t k) {
    Device& device = devices_[j];
    const auto& times = problem_->devices[j].times;
    const Counts& done = order[j].done;
    std::int64_t head = 0;
    if (k > done[kForward]) head = device.now[kForward][as_index(k - 1)] + times[kForward];
    if (j > 0) {
      std::int64_t& arrival = device.forward_arrivals[as_index(k)];
      if (k < order[j].forwards) {
        arrival = order.forward_arrival(j, k);
      } else {
        const OrderProblem::Device& from = problem_->devices[j - 1];
        std::int64_t sent = devices_[j - 1].now[kForward][as_index(k)] + from.times[kForward];
        if (problem_->shared_links && k > 0)
          sent = std::max(sent, device.forward_arrivals[as_index(k - 1)]);
        arrival = sent + from.to_next;
      }
      head = std::max(head, arrival);
    }
    const std::int32_t inputs = device.inputs_before[as_index(k)],
                       weights = device.weights_before[as_index(k)];
    if (inputs > done[kInput])
      head = std::max(head, device.now[kInput][as_index(inputs - 1)] + times[kInput]);
    if (weights > done[kWeight])
      head = std::max(head, device.now[kWeight][as_index(weights - 1)] + times[kWeight]);
    return head;
  }
  std::int64_t input_head(const PartialOrder& order, std::size_t j, std::int32_t k) {
    Device& device = devices_[j];
    const auto& times = problem_->devices[j].times;
    const Counts& done = order[j].done;
    std::int64_t head = 0;
    if (k > done[kInput]) head = device.now[kInput][as_index(k - 1)] + times[kInput];
    if (k >= done[kForward])
      head = std::max(head, device.now[kForward][as_index(k)] + times[kForward]);
    if (j + 1 < devices_.size()) {
      std::int64_t& arrival = device.gradient_arrivals[as_index(k)];
      if (k < order[j].gradients) {
        arrival = order.gradient_arrival(j, k);
      } else {
        std::int64_t sent =
            devices_[j + 1].now[kInput][as_index(k)] + problem_->devices[j + 1].times[kInput];
        if (problem_->shared_links && k > 0)
          sent = std::max(sent, device.gradient_arrivals[as_index(k - 1)]);
        arrival = sent + problem_->devices[j].to_next;
      }
      head = std::max(head, arrival);
    }
    return head;
  }
  /// No order ends the first ops of each kind, so many, sooner on this device.
  std::int64_t end_of_first(std::size_t j, const Counts& counts) const {
    // From the last op to start back: what starts from then on takes its time.
    const Times& heads = devices_[j].now;
    Counts left = counts;
    std::int64_t end = 0, work = 0;
    for (std::int64_t looked_at = 0; looked_at < most_; ++looked_at) {
      std::size_t latest = kLetters;
      for (std::size_t kind = 0; kind < kLetters; ++kind) {
        if (left[kind] == 0) continue;
        if (latest == kLetters ||
            heads[kind][as_index(left[kind] - 1)] > heads[latest][as_index(left[latest] - 1)])
          latest = kind;
      }
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
      std::size_t longest = kLetters;
      for (std::size_t kind = 0; kind < kLetters; ++kind) {
        if (next[kind] == m_) continue;
        if (longest == kLetters ||
            tails[kind][as_index(next[kind])] > tails[longest][as_index(next[longest])])
          longest = kind;
      }
      if (longest == kLetters) return rest;
      work += problem_->devices[j].times[longest];
      rest = std::max(rest, work + tails[longest][as_index(next[longest]++)]);
    }
    return rest;
  }
  /// Heads given what the order did; they are no less than those of all orders. With sets: what
  /// must precede an op on its device takes its time there.
  void advance(const PartialOrder& order, bool with_sets) {
    const auto settle = [&](std::size_t j, std::size_t kind, std::int32_t k, std::int64_t head,
                            const Counts& before) {
      Device& device = devices_[j];
      if (with_sets) head = std::max(head, end_of_first(j, before));
      device.now[kind][as_index(k)] =
          std::max({head, order[j].now, device.heads[kind][as_index(k)]});
    };
    for (std::int32_t k = 0; k < m_; ++k) {
      keep_going();
      for (std::size_t j = 0; j < devices_.size(); ++j) {
        if (k < order[j].done[kForward]) continue;
        settle(
            j, kForward, k, forward_head(order, j, k),
            {k, devices_[j].inputs_before[as_index(k)], devices_[j].weights_before[as_index(k)]});
      }
      for (std::size_t j = devices_.size(); j-- > 0;) {
        const Counts& done = order[j].done;
        if (k >= done[kInput]) {
          settle(j, kInput, k, input_head(order, j, k),
                 {k + 1, k, devices_[j].weights_before[as_index(k)]});
        }
        if (k < done[kWeight]) continue;
        std::int64_t head = 0;
        if (k > done[kWeight])
          head = devices_[j].now[kWeight][as_index(k - 1)] + problem_->devices[j].times[kWeight];
        if (k >= done[kInput])
          head = std::max(
              head, devices_[j].now[kInput][as_index(k)] + problem_->devices[j].times[kInput]);
        settle(j, kWeight, k, head, {k + 1, k + 1, k});
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
