#include "core/schedules/all.h"

namespace tandem {

namespace {

using Rows = std::vector<ScheduleTraits>;

// Built once, in functions: aliases and options are lists of any length, which g++ 12 takes in no
// constexpr row.
Rows baseline_rows() {
  return {
      {.name = "model-parallel",
       .summary = "one microbatch in flight",
       .source = "PipeDream-2BW paper, section 2",
       .bubble = "m (p-1)(F+B)",
       .activations = "1",
       .make = make_model_parallel},
      {.name = "data-parallel",
       .summary = "no pipeline: the whole model on each device of the width",
       .source = "PipeDream, SOSP 2019, section 2.1",
       .constraints = "p = 1",
       .bubble = "the sum over the width",
       .activations = "1",
       .only_devices = 1,
       .make = make_data_parallel},
      {.name = "gpipe",
       .summary = "all forwards, then all backwards, flush",
       .source = "GPipe, arXiv 1811.06965",
       .bubble = "(p-1)(F+B) a group",
       .activations = "min(m, g)",
       .options = {"group"},
       .drains_groups = true,
       .compared = PageComparison::always,
       .make = make_gpipe},
  };
}

Rows flush_rows() {
  return {
      {.name = "1f1b",
       .aliases = {"flush", "pipedream-flush", "dapple"},
       .summary = "one forward, one backward, with flush",
       .source = "PipeDream-2BW paper, section 3.2; DAPPLE; Megatron-LM",
       .bubble = "(p-1)(F+B)",
       .activations = "min(m, p-d)",
       .plain = true,
       .compared = PageComparison::always,
       .make = make_one_forward_one_backward},
      {.name = "1f1b-eager",
       .summary = "1f1b with forwards early enough to hide the latency of links",
       .source = "On Optimizing the Communication of Model Parallelism, MLSys 2023",
       .bubble = "(p-1)(F+B)",
       .activations = "min(m, 2(p-d)-1)",
       .make = make_eager},
      {.name = "bpipe",
       .summary =
           "1f1b with the activations of each pair of devices shared out evenly: what is too "
           "much for one goes to its partner and back",
       .source = "BPipe (Kim et al.), ICML 2023",
       .constraints = "p even",
       .bubble = "(p-1)(F+B), 2 moves <= F+B",
       .activations = "min(m, p/2+1), hosted ones too",
       .evicts = true,
       .reject = reject_bpipe,
       .make = make_bpipe},
      {.name = "interleaved",
       .summary = "1f1b over v chunks on each device, with flush",
       .source = "Megatron-LM, arXiv 2104.04473, section 2.2",
       .replicas_per_device = 0,
       .constraints = "groups, the last too, of p microbatches or more",
       .bubble = "(p-1)(F+B)/v, m >= p",
       .activations = "min(mv, 2(p-1-d)+(v-1)g+1)/v",
       .options = {"chunks", "group"},
       .compared = PageComparison::always,
       .reject = reject_interleaved,
       .make = make_interleaved},
      {.name = "looped-bfs",
       .summary = "v chunks on each device, one after the other: all forwards, then all backwards",
       .source = "Breadth-First Pipeline Parallelism (Lamy-Poirier), MLSys 2023",
       .replicas_per_device = 0,
       .bubble = "(p-1)(F+B)/v, m >= p",
       .activations = "m",
       .options = {"chunks"},
       .compared = PageComparison::same_stages,
       .make = make_looped_bfs},
  };
}

Rows endless_rows() {
  return {
      {.name = "pipedream",
       .summary = "weight stashing: an update after each microbatch, never drains",
       .source = "PipeDream, SOSP 2019; arXiv 1806.03377",
       .weights = WeightSemantics::stashed,
       .constraints = "m divisible by the replicas of each stage",
       .bubble = "0 in steady state",
       .activations = "p-d; p-d weight versions",
       .options = {"replicas", "vertical-sync"},
       .updates_together = false,
       .reject = reject_stashed,
       .make = make_stashed},
      {.name = "2bw",
       .summary = "double-buffered weight updates, never drains",
       .source = "PipeDream-2BW, arXiv 2006.09503, section 3.1",
       .weights = WeightSemantics::delayed_by_one,
       .constraints = "m >= max(p, p-1+extra)",
       .bubble = "0 in steady state",
       .activations = "p-d",
       .options = {"extra-in-flight"},
       .compared = PageComparison::always,
       .reject = reject_double_buffered,
       .make = make_double_buffered},
  };
}

Rows split_rows() {
  return {
      {.name = "zb-h1",
       .summary = "1f1b with weight gradients where it would wait, in the same activations",
       .source = "Zero Bubble Pipeline Parallelism, arXiv 2401.10241, section 2",
       .bubble = "(p-1)(F+I-W), m >= p",
       .activations = "min(m, p)",
       .compared = PageComparison::always,
       .make = make_zero_bubble_h1},
      {.name = "zb-h2",
       .summary = "zb-h1 with twice the forwards ahead: no bubble where F = I = W and m >= 2p-1",
       .source = "Zero Bubble Pipeline Parallelism, arXiv 2401.10241, section 2",
       .bubble = "(p-1)(F+I-2W), span",
       .activations = "min(m, 2p-1)",
       .make = make_zero_bubble_h2},
      {.name = "interleaved-zb",
       .summary = "interleaved with weight gradients where it would wait",
       .source = "PyTorch, ScheduleInterleavedZeroBubble",
       .replicas_per_device = 0,
       .constraints = "groups, the last too, of p microbatches or more",
       .bubble = "(p-1)(F+I-W)/v, m >= p",
       .activations = "min(mv, p-1+(v-1)g+1)/v",
       .options = {"chunks", "group"},
       .compared = PageComparison::same_stages,
       .reject = reject_interleaved,
       .make = make_interleaved_zero_bubble},
      {.name = "zbv",
       .summary = "two chunks a device in a V: no bubble where F = I = W and m >= 2p-1, in the "
                  "activations of 1f1b",
       .source = "Pipeline Parallelism with Controllable Memory, arXiv 2405.15362",
       .replicas_per_device = 2,
       .bubble = "(p-1)(F-W), span, F = I",
       .activations = "min(m, p)",
       .compared = PageComparison::always,
       .make = make_zero_bubble_v},
  };
}

Rows two_stage_rows() {
  return {
      {.name = "2bp-naive",
       .summary = "one microbatch in flight; the weight gradients of all of them as one",
       .source = "2BP, arXiv 2405.18047",
       .bubble = "m (p-1)(F+I)",
       .activations = "m",
       .make = make_two_stage_naive},
      {.name = "2bp-gpipe",
       .summary = "gpipe with the weight gradients of all microbatches as one",
       .source = "2BP, arXiv 2405.18047",
       .bubble = "(p-1)(F+I)",
       .activations = "m",
       .make = make_two_stage_gpipe},
      {.name = "2bp-1f1b-1",
       .summary = "1f1b of p microbatches; weight gradients where it would wait, the rest as one",
       .source = "2BP, arXiv 2405.18047",
       .constraints = "m = p",
       .bubble = "(p-1)(F+I-W), W <= F",
       .activations = "m",
       .reject = reject_two_stage_1f1b_1,
       .make = make_two_stage_1f1b_1},
      {.name = "2bp-1f1b-2",
       .summary = "1f1b of 2p microbatches; weight gradients where it would wait, the rest as one",
       .source = "2BP, arXiv 2405.18047",
       .constraints = "m = 2p",
       .bubble = "(p-1)(F+I-W), W <= F",
       .activations = "m",
       .reject = reject_two_stage_1f1b_2,
       .make = make_two_stage_1f1b_2},
  };
}

Rows two_way_rows() {
  return {
      {.name = "hanayo",
       .summary = "waves: down the devices and back up, w times, whole backwards",
       .source = "Hanayo, SC 2023, arXiv 2308.15762; the order is our own",
       .replicas_per_device = 0,
       .bubble = "none published",
       .activations = "p, m = p; else below 2p",
       .options = {"waves"},
       .reject = reject_hanayo,
       .make = make_hanayo},
      {.name = "chimera",
       .summary = "pipelines both ways over copies of the model; gradients of copies are summed",
       .source = "Chimera, SC 2021, arXiv 2107.06925",
       .replicas_per_device = 2,
       .constraints = "p and m multiples of the directions k",
       .bubble = "2p/k-2 slots, F = B = 1",
       .activations = "p/2+1 ... p, k = 2",
       .options = {"directions"},
       .replicas_per_stage = 2,
       .reject = reject_chimera,
       .make = make_chimera},
      {.name = "dualpipe",
       .summary = "two copies of the model, a direction each: forward and backward of microbatches "
                  "that meet are one unit, X",
       .source = "DeepSeek-V3, arXiv 2412.19437, section 3.2.1",
       .replicas_per_device = 2,
       .constraints = "p and m even, m >= 2p",
       .bubble = "(p/2-1)(X+B-3W)",
       .activations = "p+1",
       .replicas_per_stage = 2,
       .reject = reject_dual_pipe,
       .make = make_dual_pipe},
      {.name = "dualpipev",
       .summary = "dualpipe folded into a V: forward and backward of microbatches that meet are "
                  "one unit, X",
       .source = "DeepSeek, DualPipeV",
       .replicas_per_device = 2,
       .constraints = "m >= 2p",
       .bubble = "(p-1)(X+B-3W)/2",
       .activations = "p+1/2",
       .reject = reject_dual_pipe_v,
       .make = make_dual_pipe_v},
  };
}

/// Built at the first call: tests ask before main() begins.
const Rows& registry() {
  static const Rows kRows = [] {
    Rows all;
    for (const Rows& rows : {baseline_rows(), flush_rows(), split_rows(), two_stage_rows(),
                             two_way_rows(), automatic_rows(), endless_rows()}) {
      all.insert(all.end(), rows.begin(), rows.end());
    }
    return all;
  }();
  return kRows;
}

}  // namespace

std::span<const ScheduleTraits> schedules() { return registry(); }

}  // namespace tandem
