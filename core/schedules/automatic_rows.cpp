// The rows of the schedules that are found, not written down: by costs, or from building blocks.

#include <vector>

#include "core/schedules/all.h"

namespace tandem {

namespace {

using Rows = std::vector<ScheduleTraits>;

constexpr std::string_view kZeroBubble =
    "Zero Bubble Pipeline Parallelism, arXiv 2401.10241, section 3.1";
constexpr std::string_view kControllableMemory =
    "Pipeline Parallelism with Controllable Memory, arXiv 2405.15362";

Rows v_rows() {
  return {
      {.name = "1f1b-v",
       .summary = "two chunks a device in a V with whole backwards: two thirds of the activations "
                  "and most of the bubble of 1f1b",
       .source = kControllableMemory,
       .replicas_per_device = 2,
       .bubble = "2/3 to 5/6 of 1f1b's, B = 2F",
       .activations = "about 2p/3 + 1",
       .make = make_one_forward_one_backward_v},
      {.name = "v-min",
       .summary = "two chunks a device in a V with a third of the activations of 1f1b; unequal "
                  "times cost it more with each microbatch",
       .source = kControllableMemory,
       .replicas_per_device = 2,
       .bubble = "(4p-5)F/2, 3|p: (4p-7)F/2",
       .activations = "(p+4) div 3",
       .make = make_v_min},
      {.name = "v-half",
       .summary = "two chunks a device in a V with half the activations of 1f1b",
       .source = kControllableMemory,
       .replicas_per_device = 2,
       .bubble = "(3p-4)F/2, even p: (3p-7)F/2",
       .activations = "(p+2) div 2",
       .compared = PageComparison::same_stages,
       .make = make_v_half},
      {.name = "v-zb",
       .summary = "the same way, with the activations of 1f1b: no bubble where F = I = W",
       .source = kControllableMemory,
       .replicas_per_device = 2,
       .bubble = "0, span, F = I = W",
       .activations = "p",
       .make = make_v_zero_bubble},
      {.name = "v-adaptive",
       .summary = "two chunks a device in a V: the best by the times of each stage, in the "
                  "activations that the cap allows",
       .source = kControllableMemory,
       .replicas_per_device = 2,
       .bubble = "searched",
       .activations = "the cap at most",
       .options = {"activation-cap"},
       .orders_by_costs = true,
       .effort = effort_of_v_adaptive,
       .reject = reject_v_adaptive,
       .make = make_v_adaptive},
  };
}

Rows search_rows() {
  return {
      {.name = "search",
       .summary = "the fastest order found by the times of each stage and link, in the activations "
                  "that the cap of each device allows, with a proved bound",
       .source = "branch and bound and local search of our own",
       .constraints = "cap >= 1",
       .bubble = "searched",
       .activations = "the cap at most",
       .options = {"activation-cap", "seed", "orders", "time-limit"},
       .orders_by_costs = true,
       .caps_each_device = true,
       .effort = effort_of_search,
       .make = make_search},
  };
}

Rows auto_rows() {
  return {
      {.name = "zb-1p",
       .summary = "ordered by the times of each stage, in the activations of 1f1b",
       .source = kZeroBubble,
       .bubble = "searched",
       .activations = "p at most",
       .orders_by_costs = true,
       .make = make_zero_bubble_1p},
      {.name = "zb-2p",
       .summary = "ordered by the times of each stage, in twice the activations of 1f1b",
       .source = kZeroBubble,
       .bubble = "searched",
       .activations = "2p at most",
       .orders_by_costs = true,
       .make = make_zero_bubble_2p},
      {.name = "zb-auto",
       .summary = "ordered by the times of each stage, in the activations that the cap allows",
       .source = kZeroBubble,
       .constraints = "cap >= 1",
       .bubble = "searched",
       .activations = "the cap at most",
       .options = {"activation-cap"},
       .orders_by_costs = true,
       .make = make_zero_bubble_auto},
      {.name = "zbv-auto",
       .summary = "zbv ordered by the times of each stage, in the activations of 1f1b",
       .source = kControllableMemory,
       .replicas_per_device = 2,
       .bubble = "searched",
       .activations = "p at most",
       .orders_by_costs = true,
       .make = make_zero_bubble_v_auto},
  };
}

}  // namespace

std::vector<ScheduleTraits> automatic_rows() {
  Rows all = auto_rows();
  for (const Rows& more : {v_rows(), search_rows()})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace tandem
