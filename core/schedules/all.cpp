#include "core/schedules/all.h"

#include <utility>
#include <vector>

namespace tandem {

namespace {

std::optional<std::string> accept(const ScheduleRequest&) { return std::nullopt; }

using Rows = std::vector<ScheduleTraits>;

Rows baseline_rows() {
  return {
      {.name = "model-parallel",
       .aliases = {},
       .summary = "one microbatch in flight",
       .source = "PipeDream-2BW paper, section 2",
       .weights = WeightSemantics::vanilla,
       .stages_per_device = 1,
       .trainable = true,
       .constraints = "none",
       .bubble = "m (p-1)(F+B)",
       .activations = "1",
       .options = {},
       .reject = accept,
       .make = make_model_parallel},
      {.name = "data-parallel",
       .aliases = {},
       .summary = "no pipeline: the whole model on each device of the width",
       .source = "PipeDream, SOSP 2019, section 2.1",
       .weights = WeightSemantics::vanilla,
       .stages_per_device = 1,
       .trainable = true,
       .constraints = "p = 1",
       .bubble = "the sum over the width",
       .activations = "1",
       .options = {},
       .only_devices = 1,
       .reject = accept,
       .make = make_data_parallel},
      {.name = "gpipe",
       .aliases = {},
       .summary = "all forwards, then all backwards, flush",
       .source = "GPipe, arXiv 1811.06965",
       .weights = WeightSemantics::vanilla,
       .stages_per_device = 1,
       .trainable = true,
       .constraints = "none",
       .bubble = "(p-1)(F+B)",
       .activations = "m",
       .options = {},
       .reject = accept,
       .make = make_gpipe},
  };
}

Rows flush_rows() {
  return {
      {.name = "1f1b",
       .aliases = {"flush", "pipedream-flush", "dapple"},
       .summary = "one forward, one backward, with flush",
       .source = "PipeDream-2BW paper, section 3.2; DAPPLE; Megatron-LM",
       .weights = WeightSemantics::vanilla,
       .stages_per_device = 1,
       .trainable = true,
       .constraints = "none",
       .bubble = "(p-1)(F+B)",
       .activations = "min(m, p-d)",
       .options = {},
       .reject = accept,
       .make = make_one_forward_one_backward},
      {.name = "1f1b-eager",
       .aliases = {},
       .summary = "1f1b with forwards early enough to hide the latency of links",
       .source = "On Optimizing the Communication of Model Parallelism, MLSys 2023",
       .weights = WeightSemantics::vanilla,
       .stages_per_device = 1,
       .trainable = true,
       .constraints = "none",
       .bubble = "(p-1)(F+B)",
       .activations = "min(m, 2(p-d)-1)",
       .options = {},
       .reject = accept,
       .make = make_eager},
      {.name = "interleaved",
       .aliases = {},
       .summary = "1f1b over v chunks on each device, with flush",
       .source = "Megatron-LM, arXiv 2104.04473, section 2.2",
       .weights = WeightSemantics::vanilla,
       .stages_per_device = 0,
       .trainable = true,
       .constraints = "groups, the last too, of p microbatches or more",
       .bubble = "(p-1)(F+B)/v, m >= p",
       .activations = "min(mv, 2(p-1-d)+(v-1)g+1)/v",
       .options = {"chunks", "group"},
       .reject = reject_interleaved,
       .make = make_interleaved},
      {.name = "looped-bfs",
       .aliases = {},
       .summary = "v chunks on each device, one after the other: all forwards, then all backwards",
       .source = "Breadth-First Pipeline Parallelism (Lamy-Poirier), MLSys 2023",
       .weights = WeightSemantics::vanilla,
       .stages_per_device = 0,
       .trainable = true,
       .constraints = "none",
       .bubble = "(p-1)(F+B)/v, m >= p",
       .activations = "m",
       .options = {"chunks"},
       .backwards_descend = true,
       .reject = accept,
       .make = make_looped_bfs},
  };
}

Rows endless_rows() {
  return {
      {.name = "pipedream",
       .aliases = {},
       .summary = "weight stashing: an update after each microbatch, never drains",
       .source = "PipeDream, SOSP 2019; arXiv 1806.03377",
       .weights = WeightSemantics::stashed,
       .stages_per_device = 1,
       .trainable = true,
       .constraints = "m divisible by the replicas of each stage",
       .bubble = "0 in steady state",
       .activations = "p-d; p-d weight versions",
       .options = {"replicas", "vertical-sync"},
       .updates_together = false,
       .reject = reject_stashed,
       .make = make_stashed},
      {.name = "2bw",
       .aliases = {},
       .summary = "double-buffered weight updates, never drains",
       .source = "PipeDream-2BW, arXiv 2006.09503, section 3.1",
       .weights = WeightSemantics::delayed_by_one,
       .stages_per_device = 1,
       .trainable = true,
       .constraints = "m >= max(p, p-1+extra)",
       .bubble = "0 in steady state",
       .activations = "p-d",
       .options = {"extra-in-flight"},
       .reject = reject_double_buffered,
       .make = make_double_buffered},
  };
}

Rows split_rows() {
  return {
      {.name = "zb-h1",
       .aliases = {},
       .summary = "1f1b with weight gradients where it would wait, in the same activations",
       .source = "Zero Bubble Pipeline Parallelism, arXiv 2401.10241, section 2",
       .weights = WeightSemantics::vanilla,
       .stages_per_device = 1,
       .trainable = true,
       .constraints = "none",
       .bubble = "(p-1)(F+I-W), m >= p",
       .activations = "min(m, p)",
       .options = {},
       .reject = accept,
       .make = make_zero_bubble_h1},
      {.name = "zb-h2",
       .aliases = {},
       .summary = "zb-h1 with twice the forwards ahead: no bubble where F = I = W and m >= 2p-1",
       .source = "Zero Bubble Pipeline Parallelism, arXiv 2401.10241, section 2",
       .weights = WeightSemantics::vanilla,
       .stages_per_device = 1,
       .trainable = true,
       .constraints = "none",
       .bubble = "(p-1)(F+I-2W), span",
       .activations = "min(m, 2p-1)",
       .options = {},
       .reject = accept,
       .make = make_zero_bubble_h2},
      {.name = "interleaved-zb",
       .aliases = {},
       .summary = "interleaved with weight gradients where it would wait",
       .source = "PyTorch, ScheduleInterleavedZeroBubble",
       .weights = WeightSemantics::vanilla,
       .stages_per_device = 0,
       .trainable = true,
       .constraints = "groups, the last too, of p microbatches or more",
       .bubble = "(p-1)(F+I-W)/v, m >= p",
       .activations = "min(mv, p-1+(v-1)g+1)/v",
       .options = {"chunks", "group"},
       .reject = reject_interleaved,
       .make = make_interleaved_zero_bubble},
      {.name = "zbv",
       .aliases = {},
       .summary = "two chunks a device in a V: no bubble where F = I = W and m >= 2p-1, in the "
                  "activations of 1f1b",
       .source = "Pipeline Parallelism with Controllable Memory, arXiv 2405.15362",
       .weights = WeightSemantics::vanilla,
       .stages_per_device = 2,
       .trainable = true,
       .constraints = "none",
       .bubble = "(p-1)(F-W), span, F = I",
       .activations = "min(m, p)",
       .options = {},
       .reject = accept,
       .make = make_zero_bubble_v},
  };
}

Rows probe_rows() {
  return {
      {.name = "probe-v",
       .aliases = {},
       .summary = "probe: two chunks a device in a V, all forwards first",
       .source = "placement of ZBV, arXiv 2405.15362",
       .weights = WeightSemantics::vanilla,
       .stages_per_device = 2,
       .trainable = false,
       .constraints = "none",
       .bubble = "none published",
       .activations = "m",
       .options = {},
       .reject = accept,
       .make = make_v_probe},
      {.name = "probe-bidirectional",
       .aliases = {},
       .summary = "probe: two directions over the same parts",
       .source = "placement of Chimera, SC 2021",
       .weights = WeightSemantics::vanilla,
       .stages_per_device = 2,
       .trainable = false,
       .constraints = "p and m even",
       .bubble = "none published",
       .activations = "m/2",
       .options = {},
       .stages_per_part = 2,
       .reject = reject_bidirectional_probe,
       .make = make_bidirectional_probe},
  };
}

/// Built at the first call: tests ask before main() begins.
const Rows& registry() {
  static const Rows kRows = [] {
    Rows all;
    for (const Rows& rows :
         {baseline_rows(), flush_rows(), split_rows(), endless_rows(), probe_rows()}) {
      all.insert(all.end(), rows.begin(), rows.end());
    }
    return all;
  }();
  return kRows;
}

}  // namespace

std::span<const ScheduleTraits> schedules() { return registry(); }

}  // namespace tandem
