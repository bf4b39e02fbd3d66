#pragma once
// Random inputs of the schedule search, and what needs no search: every order there is.

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "core/schedules/order_problem.h"
#include "core/schedules/search/order_clock.h"

namespace tandem::testing {

/// Uneven times, a transfer a link, often a cap for each device, and half an activation kept for
/// the weights on some.
inline ScheduleRequest random_order_request(std::uint64_t seed, int devices, int microbatches) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t bound) {
    return static_cast<std::int64_t>(random() % bound);
  };
  ScheduleRequest request{
      .devices = static_cast<std::uint16_t>(devices), .microbatches = microbatches, .replicas = {}};
  OrderCosts costs{.stages = {}, .transfer = Duration(below(3) * 5)};
  for (int j = 0; j < devices; ++j) {
    costs.stages.push_back({.forward = Duration(1 + below(20)),
                            .backward_input = Duration(1 + below(20)),
                            .backward_weight = Duration(1 + below(20)),
                            .kept = below(2) == 0 ? 1.0 : 0.5,
                            .update = Duration(below(2) * 10)});
  }
  if (below(2) == 0) {
    for (int j = 0; j + 1 < devices; ++j) costs.links.push_back(Duration(below(30)));
  }
  costs.shared_links = below(2) == 0;
  request.costs = costs;
  if (below(4) > 0) {
    for (int j = 0; j < devices; ++j)
      request.activation_caps.push_back(1.0 + 0.5 * static_cast<double>(below(5)));
  }
  return request;
}

/// All possible words of a device.
inline std::vector<Word> every_word(const OrderProblem& problem, std::size_t device) {
  Word word;
  for (const Letter letter : {Letter::forward, Letter::input, Letter::weight})
    word.insert(word.end(), static_cast<std::size_t>(problem.microbatches), letter);
  std::vector<Word> words;
  do {
    if (is_possible(problem, device, word)) words.push_back(word);
  } while (std::next_permutation(word.begin(), word.end()));
  return words;
}

/// The least makespan of all orders, each looked at.
inline std::int64_t least_makespan(const OrderProblem& problem) {
  std::vector<std::vector<Word>> words;
  for (std::size_t j = 0; j < problem.devices.size(); ++j) words.push_back(every_word(problem, j));
  OrderClock clock(problem);
  std::int64_t least = OrderClock::kDeadlock;
  std::vector<std::size_t> at(words.size(), 0);
  while (true) {
    Words order;
    for (std::size_t j = 0; j < at.size(); ++j) order.push_back(words[j][at[j]]);
    least = std::min(least, clock.makespan(order));
    std::size_t j = 0;
    while (j < at.size() && ++at[j] == words[j].size()) at[j++] = 0;
    if (j == at.size()) return least;
  }
}

}  // namespace tandem::testing
