#include "core/schedules/all.h"

#include <utility>
#include <vector>

namespace tandem {

namespace {

std::optional<std::string> accept(const ScheduleRequest&) { return std::nullopt; }

using Rows = std::vector<ScheduleTraits>;

Rows trained_rows() {
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

Rows probe_rows() {
  return {
      {.name = "probe-replicated",
       .aliases = {},
       .summary = "probe: PipeDream's replicated stages in round robin",
       .source = "PipeDream, SOSP 2019 (1F1B-RR)",
       .weights = WeightSemantics::stashed,
       .stages_per_device = 1,
       .trainable = false,
       .constraints = "m divisible by the replicas of each part",
       .bubble = "0 in steady state",
       .activations = "rounds behind + 1",
       .options = {"replicas"},
       .updates_together = false,
       .reject = reject_replicated_probe,
       .make = make_replicated_probe},
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
       .reject = reject_bidirectional_probe,
       .make = make_bidirectional_probe},
  };
}

/// Built at the first call: tests ask before main() begins.
const Rows& registry() {
  static const Rows kRows = [] {
    Rows rows = trained_rows(), probes = probe_rows();
    for (ScheduleTraits& row : probes) rows.push_back(std::move(row));
    return rows;
  }();
  return kRows;
}

}  // namespace

std::span<const ScheduleTraits> schedules() { return registry(); }

}  // namespace tandem
