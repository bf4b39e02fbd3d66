#pragma once
// The ten inputs that the schedule search is measured by. They were fixed, with their seed, before
// the search was tuned, and stay as they are.

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "core/schedule/schedule.h"

namespace tandem::testing {

struct SearchInput {
  std::string name;
  ScheduleRequest request;
};

/// Five kinds of unevenness, each on 4 devices with 12 microbatches and on 8 with 24: embedding and
/// head on the ends; a slow device; a slow link; tight memory; all of these. Every stage's times
/// are within 10 % of 10 ms, F, I and W each on its own, before that.
inline std::vector<SearchInput> search_inputs() {
  std::mt19937_64 random(2026);
  const auto below = [&](std::int64_t bound) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(bound));
  };
  const auto time = [&] { return Duration(9'000'000 + below(2'000'001)); };
  std::vector<SearchInput> inputs;
  for (const std::string kind : {"ends", "device", "link", "memory", "all"}) {
    const auto is = [&](const char* name) { return kind == name || kind == "all"; };
    for (const std::size_t p : {std::size_t{4}, std::size_t{8}}) {
      ScheduleRequest request{.devices = static_cast<std::uint16_t>(p),
                              .microbatches = static_cast<std::int32_t>(3 * p),
                              .replicas = {}};
      OrderCosts costs{.stages = {}, .transfer = Duration(500'000)};
      for (std::size_t j = 0; j < p; ++j) {
        costs.stages.push_back(
            {.forward = time(), .backward_input = time(), .backward_weight = time(), .kept = 1.0});
      }
      const auto add = [](Duration& to, std::int64_t us) { to += std::chrono::microseconds(us); };
      if (is("ends")) {
        add(costs.stages[StageId{0}].forward, 1'000);
        add(costs.stages[StageId{0}].backward_weight, 3'000);
        StageOrderCosts& head = costs.stages[id_at<StageId>(p - 1)];
        for (Duration* of : {&head.forward, &head.backward_input, &head.backward_weight})
          add(*of, 4'000);
      }
      if (is("device")) {
        StageOrderCosts& slow =
            costs.stages[id_at<StageId>(static_cast<std::size_t>(below(3 * p / 4)))];
        for (Duration* of : {&slow.forward, &slow.backward_input, &slow.backward_weight})
          *of += *of / 4;
      }
      if (is("link")) {
        costs.links.assign(p - 1, costs.transfer);
        costs.links[static_cast<std::size_t>(below(static_cast<std::int64_t>(p) - 1))] =
            Duration(12'000'000);
      }
      request.activation_caps.assign(p, static_cast<double>(p));
      if (is("memory")) {
        for (StageOrderCosts& stage : costs.stages) stage.kept = 0.6;
        for (double& cap : request.activation_caps)
          cap = static_cast<double>(p) * 0.6 + static_cast<double>(below(2));
      }
      request.costs = costs;
      inputs.push_back({kind + (p == 4 ? ", 4 x 12" : ", 8 x 24"), request});
    }
  }
  return inputs;
}

}  // namespace tandem::testing
