// The rows of the schedules that are found, not written down: by costs, or from building blocks.

#include "core/schedules/all.h"

namespace tandem {

namespace {

using Rows = std::vector<ScheduleTraits>;
using Asked = const ScheduleRequest&;

constexpr std::string_view kZeroBubble =
    "Zero Bubble Pipeline Parallelism, arXiv 2401.10241, section 3.1";
constexpr std::string_view kControllableMemory =
    "Pipeline Parallelism with Controllable Memory, arXiv 2405.15362";

Rows v_rows() {
  return {
      {{"1f1b-v",
        "two chunks a device in a V with whole backwards: two thirds of the activations and most "
        "of the bubble of 1f1b",
        kControllableMemory},
       {"2/3 to 5/6 of 1f1b's, B = 2F", "about 2p/3 + 1"},
       {.replicas_per_device = 2, .make = make_one_forward_one_backward_v}},
      {{"v-min",
        "two chunks a device in a V with a third of the activations of 1f1b; unequal times cost it "
        "more with each microbatch",
        kControllableMemory},
       {"(4p-5)F/2, 3|p: (4p-7)F/2", "(p+4) div 3"},
       {.replicas_per_device = 2, .make = make_v_min}},
      {{"v-half", "two chunks a device in a V with half the activations of 1f1b",
        kControllableMemory},
       {"(3p-4)F/2, even p: (3p-7)F/2", "(p+2) div 2"},
       {.replicas_per_device = 2, .compared = PageComparison::same_stages, .make = make_v_half}},
      {{"v-zb", "the same way, with the activations of 1f1b: no bubble where F = I = W",
        kControllableMemory},
       {"0, span, F = I = W", "p"},
       {.replicas_per_device = 2, .make = make_v_zero_bubble}},
      {{"v-adaptive",
        "two chunks a device in a V: the best by the times of each stage, in the activations that "
        "the cap allows",
        kControllableMemory},
       {"searched", "the cap at most"},
       {.replicas_per_device = 2,
        .options = {"activation-cap"},
        .orders_by_costs = true,
        .effort = effort_of_v_adaptive,
        .reject = reject_v_adaptive,
        .make = make_v_adaptive}},
  };
}

Rows search_rows() {
  return {
      {{"search",
        "the fastest order found by the times of each stage and link, in the activations that the "
        "cap of each device allows, with a proved bound",
        "branch and bound and local search of our own"},
       {"searched", "the cap at most", "cap >= 1"},
       {.options = {"activation-cap", "seed", "orders", "time-limit"},
        .orders_by_costs = true,
        .caps_each_device = true,
        .effort = effort_of_search,
        .make = make_search}},
  };
}

Rows auto_rows() {
  return {
      {{"zb-1p", "ordered by the times of each stage, in the activations of 1f1b", kZeroBubble},
       {"searched", "p at most"},
       {.orders_by_costs = true,
        .make = [](Asked request) { return make_zero_bubble_auto(request, request.devices); }}},
      {{"zb-2p", "ordered by the times of each stage, in twice the activations of 1f1b",
        kZeroBubble},
       {"searched", "2p at most"},
       {.orders_by_costs = true,
        .make =
            [](Asked request) { return make_zero_bubble_auto(request, 2.0 * request.devices); }}},
      {{"zb-auto", "ordered by the times of each stage, in the activations that the cap allows",
        kZeroBubble},
       {"searched", "the cap at most", "cap >= 1"},
       {.options = {"activation-cap"},
        .orders_by_costs = true,
        .make =
            [](Asked request) {
              return make_zero_bubble_auto(
                  request, request.activation_cap(0).value_or(request.microbatches));
            }}},
      {{"zbv-auto", "zbv ordered by the times of each stage, in the activations of 1f1b",
        kControllableMemory},
       {"searched", "p at most"},
       {.replicas_per_device = 2, .orders_by_costs = true, .make = make_zero_bubble_v_auto}},
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
