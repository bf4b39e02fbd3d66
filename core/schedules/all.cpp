#include "core/schedules/all.h"

namespace tandem {

namespace {

using Rows = std::vector<ScheduleTraits>;
using Asked = const ScheduleRequest&;

// Built once, in functions: aliases and options are lists of any length, which g++ 12 takes in no
// constexpr row.
Rows baseline_rows() {
  const auto one_at_a_time = [](Asked request) { return make_gpipe(request, 1); };
  return {
      {{"model-parallel", "one microbatch in flight", "PipeDream-2BW paper, section 2"},
       {"m (p-1)(F+B)", "1"},
       {.make = one_at_a_time}},
      {{"data-parallel", "no pipeline: the whole model on each device of the width",
        "PipeDream, SOSP 2019, section 2.1"},
       {"the sum over the width", "1", "p = 1"},
       {.only_devices = 1, .make = one_at_a_time}},
      {{"gpipe", "all forwards, then all backwards, flush", "GPipe, arXiv 1811.06965"},
       {"(p-1)(F+B) a group", "min(m, g)"},
       {.options = {"group"},
        .drains_groups = true,
        .compared = PageComparison::always,
        .make = [](Asked request) { return make_gpipe(request, request.group); }}},
  };
}

Rows flush_rows() {
  return {
      {{"1f1b", "one forward, one backward, with flush",
        "PipeDream-2BW paper, section 3.2; DAPPLE; Megatron-LM"},
       {"(p-1)(F+B)", "min(m, p-d)"},
       {.aliases = {"flush", "pipedream-flush", "dapple"},
        .plain = true,
        .compared = PageComparison::always,
        .make = [](Asked request) { return make_one_forward_one_backward(request); }}},
      {{"1f1b-eager", "1f1b with forwards early enough to hide the latency of links",
        "On Optimizing the Communication of Model Parallelism, MLSys 2023"},
       {"(p-1)(F+B)", "min(m, 2(p-d)-1)"},
       {.make = [](Asked request) { return make_one_forward_one_backward(request, 2); }}},
      {{"bpipe",
        "1f1b with the activations of each pair of devices shared out evenly: what is too much for "
        "one goes to its partner and back",
        "BPipe (Kim et al.), ICML 2023"},
       {"(p-1)(F+B), 2 moves <= F+B", "min(m, p/2+1), hosted ones too", "p even"},
       {.evicts = true, .reject = reject_bpipe, .make = make_bpipe}},
      {{"interleaved", "1f1b over v chunks on each device, with flush",
        "Megatron-LM, arXiv 2104.04473, section 2.2"},
       {"(p-1)(F+B)/v, m >= p", "min(mv, 2(p-1-d)+(v-1)g+1)/v",
        "groups, the last too, of p microbatches or more"},
       {.replicas_per_device = 0,
        .options = {"chunks", "group"},
        .compared = PageComparison::always,
        .reject = reject_interleaved,
        .make = [](Asked request) { return make_interleaved(request, false); }}},
      {{"looped-bfs",
        "v chunks on each device, one after the other: all forwards, then all backwards",
        "Breadth-First Pipeline Parallelism (Lamy-Poirier), MLSys 2023"},
       {"(p-1)(F+B)/v, m >= p", "m"},
       {.replicas_per_device = 0,
        .options = {"chunks"},
        .compared = PageComparison::same_stages,
        .make = make_looped_bfs}},
  };
}

Rows sliced_rows() {
  const auto sequence_1f1b = [](Asked request) { return make_one_forward_one_backward(request); };
  return {
      {{"terapipe", "gpipe of slices of sequences, backwards in the reverse order of the forwards",
        "TeraPipe (Li et al.), ICML 2021, arXiv 2102.07988"},
       {"(p-1)(F+B)/n", "m"},
       {.options = {"slices"}, .whole = "gpipe", .make = make_terapipe}},
      {{"seq1f1b", "1f1b of slices of sequences: a microbatch's last slice goes back first",
        "Seq1F1B (Sun et al.), arXiv 2406.03488"},
       {"(p-1)(F+B)/n", "min(m, 1+(p-1-d)/n)"},
       {.options = {"slices"}, .whole = "1f1b", .make = sequence_1f1b}},
      {{"seq1f1b-i", "interleaved of slices of sequences, in groups of whole microbatches",
        "Seq1F1B (Sun et al.), arXiv 2406.03488"},
       {"(p-1)(F+B)/nv, mn >= p", "min(mnv, 2(p-1-d)+(v-1)g+n)/nv",
        "n divides p; groups as interleaved"},
       {.replicas_per_device = 0,
        .options = {"slices", "chunks"},
        .whole = "interleaved",
        .reject = reject_sliced_interleaved,
        .make = [](Asked request) { return make_interleaved(request, false); }}},
      {{"seq1f1b-zb", "zb-h1 of slices of sequences",
        "Seq1F1B (Sun et al.), arXiv 2406.03488; ZB-H1's rule on slices is ours"},
       {"(p-1)(F+I-W)/n, m >= p", "min(m, 1+(p-1)/n)"},
       {.options = {"slices"},
        .whole = "zb-h1",
        .make = [](Asked request) { return make_zero_bubble(request, 1); }}},
  };
}

Rows endless_rows() {
  return {
      {{"pipedream", "weight stashing: an update after each microbatch, never drains",
        "PipeDream, SOSP 2019; arXiv 1806.03377"},
       {"0 in steady state", "p-d; p-d weight versions",
        "m divisible by the replicas of each stage"},
       {.weights = WeightSemantics::stashed,
        .options = {"replicas", "vertical-sync"},
        .updates_together = false,
        .reject = reject_stashed,
        .make = make_stashed}},
      {{"2bw", "double-buffered weight updates, never drains",
        "PipeDream-2BW, arXiv 2006.09503, section 3.1"},
       {"0 in steady state", "p-d; 2 weights", "m >= max(p, p-1+extra)"},
       {.weights = WeightSemantics::delayed_by_one,
        .options = {"extra-in-flight"},
        .compared = PageComparison::always,
        .reject = reject_double_buffered,
        .make = make_double_buffered}},
      {{"paci", "1f1b that never drains: forward and backward each read the newest weights",
        "PACI, arXiv 2606.07881"},
       {"0 in steady state", "p-d; 1+ceil((p-1-d)/m) weights"},
       {.weights = WeightSemantics::latest, .updates_together = false, .make = make_latest}},
      {{"pipemare", "paci whose backwards read weights corrected for the time since their forwards",
        "PipeMare, arXiv 1910.05124"},
       {"0 in steady state", "p-d; 1+ceil((p-1-d)/m) weights, 1 corrected if d < p-1"},
       {.weights = WeightSemantics::latest,
        .options = {"correction-decay", "published-delays"},
        .updates_together = false,
        .reads_planes = true,
        .make = make_pipemare}},
      {{"timeprest",
        "m forwards, then all their backwards as one: forwards read what stage 0 has, backwards "
        "the newest",
        "TiMePReSt, arXiv 2410.14312"},
       {"0 in steady state, F = mB", "2(p-1-d)+m; 1+ceil(2(p-1)/m) weights", "m >= max(2, p-1)"},
       {.weights = WeightSemantics::latest,
        .options = {"single-backwards"},
        .updates_together = false,
        .reject = [](Asked request) { return reject_timeprest("timeprest", request); },
        .make = make_timeprest}},
      {{"timeprest-i",
        "timeprest whose backwards read the newest weights mixed with their forwards', by our own "
        "formula",
        "I-TiMePReSt, arXiv 2509.23241, whose formula is not public"},
       {"0 in steady state, F = mB", "2(p-1-d)+m; 1+ceil(2(p-1)/m) weights, 1 mixed if p > 1",
        "m >= max(2, p-1)"},
       {.weights = WeightSemantics::latest,
        .options = {"single-backwards"},
        .updates_together = false,
        .reads_planes = true,
        .own_definition = true,
        .reject = [](Asked request) { return reject_timeprest("timeprest-i", request); },
        .make = make_timeprest_i}},
  };
}

Rows predicting_rows() {
  return {
      {{"spectrain", "paci whose passes read weights predicted for one time in between",
        "SpecTrain, arXiv 1809.02839; its released code"},
       {"0 in steady state",
        "p-d; 1 of weights, 1+ceil((p-1-d)/m) predicted if d < p-1 or d > 1, 1 more if 1 < d < "
        "p-1"},
       {.weights = WeightSemantics::latest,
        .updates_together = false,
        .reads_planes = true,
        .make = make_spectrain}},
      {{"spectrain-v2",
        "pipedream whose passes read weights predicted for the time of the backward",
        "SpecTrain, README of its released code"},
       {"0 in steady state", "p-d; 1 of weights, 1+ceil((p-1-d)/m) predicted if d < p-1"},
       {.weights = WeightSemantics::stashed,
        .updates_together = false,
        .reads_planes = true,
        .make = make_spectrain_v2}},
      {{"pipeoptim", "paci whose forwards read weights predicted for the time of the backward",
        "PipeOptim, arXiv 2312.00839"},
       {"0 in steady state", "p-d; 1 of weights, 1+ceil((p-1-d)/m) predicted if d < p-1"},
       {.weights = WeightSemantics::latest,
        .updates_together = false,
        .reads_planes = true,
        .make = make_pipeoptim}},
      {{"xpipe", "spectrain with one prediction for all microbatches of an update",
        "XPipe, arXiv 1911.04610"},
       {"0 in steady state",
        "p-d; 1 of weights, 1+ceil((p-1-d)/m) predicted if hF > 0, 1 more if 0 < hB < hF"},
       {.weights = WeightSemantics::latest,
        .updates_together = false,
        .reads_planes = true,
        .make = make_xpipe}},
  };
}

Rows split_rows() {
  return {
      {{"zb-h1", "1f1b with weight gradients where it would wait, in the same activations",
        "Zero Bubble Pipeline Parallelism, arXiv 2401.10241, section 2"},
       {"(p-1)(F+I-W), m >= p", "min(m, p)"},
       {.compared = PageComparison::always,
        .make = [](Asked request) { return make_zero_bubble(request, 1); }}},
      {{"zb-h2", "zb-h1 with twice the forwards ahead: no bubble where F = I = W and m >= 2p-1",
        "Zero Bubble Pipeline Parallelism, arXiv 2401.10241, section 2"},
       {"(p-1)(F+I-2W), span", "min(m, 2p-1)"},
       {.make = [](Asked request) { return make_zero_bubble(request, 2); }}},
      {{"interleaved-zb", "interleaved with weight gradients where it would wait",
        "PyTorch, ScheduleInterleavedZeroBubble"},
       {"(p-1)(F+I-W)/v, m >= p", "min(mv, p-1+(v-1)g+1)/v",
        "groups, the last too, of p microbatches or more"},
       {.replicas_per_device = 0,
        .options = {"chunks", "group"},
        .compared = PageComparison::same_stages,
        .reject = reject_interleaved,
        .make = [](Asked request) { return make_interleaved(request, true); }}},
      {{"zbv",
        "two chunks a device in a V: no bubble where F = I = W and m >= 2p-1, in the activations "
        "of 1f1b",
        "Pipeline Parallelism with Controllable Memory, arXiv 2405.15362"},
       {"(p-1)(F-W), span, F = I", "min(m, p)"},
       {.replicas_per_device = 2, .compared = PageComparison::always, .make = make_zero_bubble_v}},
  };
}

Rows two_stage_rows() {
  return {
      {{"2bp-naive", "one microbatch in flight; the weight gradients of all of them as one",
        "2BP, arXiv 2405.18047"},
       {"m (p-1)(F+I)", "m"},
       {.make = [](Asked request) { return make_two_stage_1f1b(request, 0); }}},
      {{"2bp-gpipe", "gpipe with the weight gradients of all microbatches as one",
        "2BP, arXiv 2405.18047"},
       {"(p-1)(F+I)", "m"},
       {.make = make_two_stage_gpipe}},
      {{"2bp-1f1b-1",
        "1f1b of p microbatches; weight gradients where it would wait, the rest as one",
        "2BP, arXiv 2405.18047"},
       {"(p-1)(F+I-W), W <= F", "m", "m = p"},
       {.reject = [](Asked request) { return reject_two_stage_1f1b("2bp-1f1b-1", 1, request); },
        .make = [](Asked request) { return make_two_stage_1f1b(request, 1); }}},
      {{"2bp-1f1b-2",
        "1f1b of 2p microbatches; weight gradients where it would wait, the rest as one",
        "2BP, arXiv 2405.18047"},
       {"(p-1)(F+I-W), W <= F", "m", "m = 2p"},
       {.reject = [](Asked request) { return reject_two_stage_1f1b("2bp-1f1b-2", 2, request); },
        .make = [](Asked request) { return make_two_stage_1f1b(request, 1); }}},
  };
}

Rows two_way_rows() {
  return {
      {{"hanayo", "waves: down the devices and back up, w times, whole backwards",
        "Hanayo, SC 2023, arXiv 2308.15762; the order is our own"},
       {"none published", "p, m = p; else below 2p"},
       {.replicas_per_device = 0,
        .options = {"waves"},
        .reject = reject_hanayo,
        .make = make_hanayo}},
      {{"chimera", "pipelines both ways over copies of the model; gradients of copies are summed",
        "Chimera, SC 2021, arXiv 2107.06925"},
       {"2p/k-2 slots, F = B = 1", "p/2+1 ... p, k = 2", "p and m multiples of the directions k"},
       {.replicas_per_device = 2,
        .options = {"directions"},
        .replicas_per_stage = 2,
        .reject = reject_chimera,
        .make = make_chimera}},
      {{"dualpipe",
        "two copies of the model, a direction each: forward and backward of microbatches that meet "
        "are one unit, X",
        "DeepSeek-V3, arXiv 2412.19437, section 3.2.1"},
       {"(p/2-1)(X+B-3W)", "p+1", "p and m even, m >= 2p"},
       {.replicas_per_device = 2,
        .replicas_per_stage = 2,
        .reject = reject_dual_pipe,
        .make = make_dual_pipe}},
      {{"dualpipev",
        "dualpipe folded into a V: forward and backward of microbatches that meet are one unit, X",
        "DeepSeek, DualPipeV"},
       {"(p-1)(X+B-3W)/2", "p+1/2", "m >= 2p"},
       {.replicas_per_device = 2, .reject = reject_dual_pipe_v, .make = make_dual_pipe_v}},
  };
}

/// Built at the first call: tests ask before main() begins.
const Rows& registry() {
  static const Rows kRows = [] {
    Rows all;
    for (const Rows& rows :
         {baseline_rows(), flush_rows(), split_rows(), two_stage_rows(), two_way_rows(),
          sliced_rows(), automatic_rows(), endless_rows(), predicting_rows()}) {
      all.insert(all.end(), rows.begin(), rows.end());
    }
    return all;
  }();
  return kRows;
}

}  // namespace

std::span<const ScheduleTraits> schedules() { return registry(); }

}  // namespace tandem
