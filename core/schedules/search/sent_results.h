#pragma once
// What devices have sent one another: outputs of forwards to the next one of the line, gradients of
// inputs to the one before.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/schedules/order_problem.h"

namespace tandem {

/// By the kind of the ops that need it, 0 of forwards and 1 of input gradients.
class SentResults {
 public:
  /// Nothing is sent yet. `problem` must outlive it.
  explicit SentResults(const OrderProblem& problem)
      : problem_(&problem), links_(2 * problem.devices.size()), arrivals_(links_.size() * m()) {
    mark_own();
  }

  void clear() {
    std::fill(links_.begin(), links_.end(), Link{});
    mark_own();
  }

  /// How many have been sent to the device.
  std::int32_t count(std::size_t device, std::size_t kind) const {
    return links_[2 * device + kind].count;
  }
  /// When the last of them arrives.
  std::int64_t last(std::size_t device, std::size_t kind) const {
    return links_[2 * device + kind].last;
  }
  /// REQUIRES: it has been sent.
  std::int64_t arrival(std::size_t device, std::size_t kind, std::int32_t k) const {
    return arrivals_[(2 * device + kind) * m() + static_cast<std::size_t>(k)];
  }

  /// Once an op of the device has ended: to whom it goes, if to anybody.
  void send(std::size_t device, std::size_t kind, std::int64_t end) {
    const std::size_t to = kind == 0 ? device + 1 : device - 1;  // beyond the line: nobody
    if (kind > 1 || to >= problem_->devices.size()) return;
    Link& link = links_[2 * to + kind];
    if (problem_->shared_links) end = std::max(end, link.last);
    link.last = end + problem_->devices[std::min(device, to)].to_next;
    arrivals_[(2 * to + kind) * m() + static_cast<std::size_t>(link.count++)] = link.last;
  }

 private:
  struct Link {
    std::int32_t count = 0;
    std::int64_t last = 0;
  };

  std::size_t m() const { return static_cast<std::size_t>(problem_->microbatches); }

  /// What the first device's forwards and the last one's gradients need is there from the start.
  void mark_own() { links_.front().count = links_.back().count = problem_->microbatches; }

  const OrderProblem* problem_;
  std::vector<Link> links_;             // to each device, by kind
  std::vector<std::int64_t> arrivals_;  // the same by microbatch
};

}  // namespace tandem
