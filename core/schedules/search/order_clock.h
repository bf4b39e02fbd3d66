#pragma once
// When each op of an order runs, and which of them no order of the others can hasten.

#include <cstdint>
#include <limits>
#include <vector>

#include "core/schedules/search/order_problem.h"

namespace tandem {

class OrderClock {
 public:
  /// `problem` must outlive it.
  explicit OrderClock(const OrderProblem& problem);

  static constexpr std::int64_t kDeadlock = std::numeric_limits<std::int64_t>::max();

  /// From 0 to the end of the last update, as simulate() has it; kDeadlock: it never ends.
  /// REQUIRES: words that are possible on each device.
  std::int64_t makespan(const Words& words);

  struct Place {
    std::size_t device = 0, position = 0;
  };
  /// A longest chain of ops that wait for one another, from the end. REQUIRES: a makespan() of
  /// `words` that ended.
  void critical(const Words& words, std::vector<Place>& path);

 private:
  struct Device {
    std::size_t at = 0;  // of its word
    std::int64_t now = 0;
    std::array<std::int32_t, kLetters> done{};
    std::int32_t forwards = 0, gradients = 0;  // that have arrived
    std::int64_t last_forward = 0, last_gradient = 0;
  };
  bool run(std::size_t j, const Word& word);
  Place awaited(Place place) const;
  void find_places(const Words& words);
  void send_forward(std::size_t j, std::int64_t end);
  void send_gradient(std::size_t j, std::int64_t end);
  std::size_t cell(std::size_t device, std::int32_t k) const {
    return device * static_cast<std::size_t>(problem_->microbatches) + static_cast<std::size_t>(k);
  }

  const OrderProblem* problem_;
  std::vector<Device> devices_;
  std::vector<std::int64_t> forwards_, gradients_;        // arrivals, by device and microbatch
  std::vector<std::vector<std::int64_t>> starts_, ends_;  // by device and position
  // Of critical(): the microbatch of each op and whether it is a forward's, by device and position;
  // where forwards and gradients of each microbatch stand, by device and microbatch.
  std::vector<std::vector<std::int32_t>> microbatches_;
  std::vector<std::vector<bool>> is_forward_;
  std::vector<std::size_t> forward_places_, gradient_places_;
};

}  // namespace tandem
