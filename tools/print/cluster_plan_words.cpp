#include "tools/print/cluster_plan_words.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/model/node_order.h"
#include "core/text/count_text.h"
#include "tools/print/objective_words.h"
#include "tools/print/words.h"

namespace tandem::tools {

namespace {

std::string layout_text(const ClusterCandidate& of) {
  return fmt::format("{} x {} x {}", of.request.assumptions.tensor, of.plan.request.devices,
                     of.plan.request.width);
}

std::string name_with_options(const Plan& plan) {
  std::string name = schedule_in_table(plan.schedule);
  const ScheduleTraits& traits = find_schedule(plan.schedule);
  if (traits.replicas_per_device == 0) name += fmt::format(" v={}", plan.request.chunks);
  if (plan.request.slices.count > 1) name += fmt::format(" n={}", plan.request.slices.count);
  if (plan.request.extra_in_flight > 0) name += fmt::format(" +{}", plan.request.extra_in_flight);
  return name;
}

constexpr std::string_view kRow =
    "{:<18} {:<8} {:<12} {:>9} {:>9} {:>4} {:>8} {:>7} {:>9} {:>6} {:>9} {:>8}\n";

std::string candidate_row(const ClusterCandidate& of, double best) {
  const Plan& plan = of.plan;
  const double more = 100 * (of.value / best - 1);
  return fmt::format(kRow, name_with_options(plan), short_name(of.weights), layout_text(of),
                     fmt::format("{} x {}", plan.microbatch_size, plan.request.microbatches),
                     name(plan.request.recompute), of.request.assumptions.sharded_optimizer ? 1 : 0,
                     fmt::format("{:.4g} s", of.period_s),
                     of.value == best ? "" : fmt::format("{:+.1f} %", more),
                     fmt::format("{:.4g}", plan.predicted.samples_per_s),
                     fmt::format("{:.0f}", model_flops_per_s(of) / 1e12),
                     print_bytes(of.peak_bytes), of.usd ? fmt::format("${:.3g}", *of.usd) : "-");
}

/// Why a schedule is not the answer.
std::string why_not(const ScheduleOutcome& of, Objective objective, double best) {
  if (of.bound > 0.0) {
    return fmt::format("{} no layout has less than {} ({:+.1f} %)",
                       of.bound < best ? "Not looked at to the end:" : "Not simulated, as",
                       value_text(objective, of.bound), 100 * (of.bound / best - 1));
  }
  if (of.too_large > 0) return "Do not fit";
  return "Can't be laid out";
}

}  // namespace

std::string batches_text(const ClusterQuestion& question, const BatchAnswer& found) {
  constexpr std::string_view kBatchRow =
      "{:>9} {:>10} {:>9} {:>9} {:>9} {:>8} {:<18} {:<12} {:>12}\n";
  const bool of_time = question.objective == Objective::throughput;
  const double least = found.least_of_a_sample();
  const std::int64_t sequence = question.base.plan.model.sequence;
  std::string text = fmt::format(kBatchRow, "batch", "tokens", "a step", "samples/s", "US$",
                                 "of best", "schedule", "T x D x W", "microbatches");
  for (const BatchOutcome& one : found.batches) {
    const std::string tokens = fmt::format("{}", one.global_batch * sequence);
    if (one.answer.ranked.empty()) {
      text += fmt::format("{:>9} {:>10} none fits\n", one.global_batch, tokens);
      continue;
    }
    const ClusterCandidate& best = one.answer.ranked.front();
    text += fmt::format(
        kBatchRow, one.global_batch, tokens, fmt::format("{:.4g} s", best.period_s),
        fmt::format("{:.4g}", best.plan.predicted.samples_per_s),
        best.usd ? fmt::format("${:.3g}", *best.usd) : "-",
        fmt::format("{:.1f} %", 100 * least / one.value_of_a_sample()),
        name_with_options(best.plan), layout_text(best),
        fmt::format("{} x {}", best.plan.microbatch_size, best.plan.request.microbatches));
  }
  const BatchOutcome& chosen = found.batches[found.chosen];
  text += fmt::format("\nA batch of {} samples is the smallest with {:.0f} % of the {} or more.\n",
                      chosen.global_batch, 100 / (1 + kAsGoodABatch),
                      of_time ? "most samples a second" : "most samples a dollar");
  if (found.interrupted) text += "Stopped early: other batches were not looked at to the end.\n";
  return text;
}

std::string schedules_table(const ClusterAnswer& answer, Objective objective) {
  const double best = answer.ranked.front().value;
  std::string text = "The best of each schedule:\n";
  text +=
      fmt::format(kRow, "schedule", "weights", "T x D x W", "batch", "recompute", "ZeRO", "a step",
                  objective == Objective::memory ? "by memory"
                  : objective == Objective::cost ? "by cost"
                                                 : "",
                  "samples/s", "TFLOPs", "memory", "US$");
  std::vector<const ScheduleOutcome*> found;
  std::map<std::string, std::vector<std::string>> others;
  for (const ScheduleOutcome& of : answer.schedules) {
    if (of.best)
      found.push_back(&of);
    else
      others[why_not(of, objective, best)].push_back(schedule_in_table(of.schedule->name));
  }
  std::ranges::stable_sort(found, {}, [](const auto* of) { return of->best->value; });
  for (const ScheduleOutcome* of : found) text += candidate_row(*of->best, best);
  for (const auto& [why, names] : others)
    text += fmt::format("{}: {}.\n", why, fmt::join(names, ", "));
  return text;
}

std::string memory_text(const ClusterCandidate& of) {
  return of.least_room >= 0
             ? fmt::format(
                   "needs {} on the fullest device and leaves at least {} of what each may use",
                   print_bytes(of.peak_bytes), print_bytes(of.least_room))
             : fmt::format("does not fit: needs {} on the fullest device, and one lacks {}",
                           print_bytes(of.peak_bytes), print_bytes(-of.least_room));
}

std::string shape_text(const ClusterCandidate& of) {
  return fmt::format("{}, {} with microbatches {} x {}", name_with_options(of.plan),
                     layout_text(of), of.plan.microbatch_size, of.plan.request.microbatches);
}

double model_flops_per_s(const ClusterCandidate& of) {
  return model_flops(of.plan.model) * of.plan.predicted.samples_per_s /
         static_cast<double>(of.devices);
}

bool has_unequal_devices(const Cluster& cluster) {
  for (std::size_t device = 1; device < cluster.size(); ++device) {
    if (&cluster[id_at<DeviceId>(device)] != &cluster[DeviceId{}]) return true;
  }
  return false;
}

/// In which order devices are counted; empty: they are equal.
static std::string nodes_in_words(const ClusterQuestion& question, const ClusterCandidate& best) {
  const Cluster& cluster = *best.request.cluster;
  if (!has_unequal_devices(cluster)) return {};
  const std::size_t orders = node_orders(cluster.spec()).size();
  if (orders > 1 && !question.given_node_order) {
    return fmt::format(
        "Its devices are unequal, and counted in the order {} (--node-order), the best of {}.",
        fmt::join(node_order(cluster.spec()), ", "), orders);
  }
  return "Its devices are unequal, and counted in the cluster's order: in another order of its "
         "nodes there may be a better plan.";
}

std::string best_in_words(const ClusterQuestion& question, const ClusterCandidate& best) {
  // Of the devices that it uses, in the mean.
  const double peak =
      peak_flops_per_s(*best.request.cluster, best.devices, question.base.assumptions.format) /
      static_cast<double>(best.devices);
  return fmt::format(
      "{}: {}, tensor {} x depth {} x width {} on {} of {} devices: {:.4g} s a step, {:.4g} "
      "samples/s, {:.0f} TFLOP/s a device ({:.0f} % of its peak).",
      best_word(question.objective), name_with_options(best.plan), best.request.assumptions.tensor,
      best.plan.request.devices, best.plan.request.width, best.devices,
      question.base.cluster->size(), best.period_s, best.plan.predicted.samples_per_s,
      model_flops_per_s(best) / 1e12, 100 * model_flops_per_s(best) / peak);
}

std::vector<std::string> answer_in_words(const ClusterQuestion& question,
                                         const ClusterAnswer& answer) {
  const ClusterCandidate& best = answer.ranked.front();
  const std::string_view better = better_word(question.objective);
  std::vector<std::string> lines{best_in_words(question, best)};
  lines.push_back(fmt::format("It {}.", memory_text(best)));
  if (best.usd) {
    const double tokens =
        static_cast<double>(question.global_batch) * static_cast<double>(best.plan.model.sequence);
    lines.push_back(
        fmt::format("At its devices' prices a step costs ${:.4g}, a million tokens "
                    "${:.4g}.",
                    *best.usd, *best.usd / tokens * 1e6));
  }
  if (best.contention) {
    lines.push_back(fmt::format(
        "With contention: transfers and sums share links by max-min fair rates, all pipelines in "
        "step{}.",
        best.exact ? "" : "; no repetition was seen, and the time is a mean"));
  }
  if (answer.ranked.size() > 1) {
    const ClusterCandidate& next = answer.ranked[1];
    lines.push_back(fmt::format(
        "Next: {}, {}.", shape_text(next),
        next.value == best.value ? "as good"
                                 : fmt::format("{:.2f} % {}", 100 * (next.value / best.value - 1),
                                               worse_word(question.objective))));
  }
  if (const std::string nodes = nodes_in_words(question, best); !nodes.empty())
    lines.push_back(nodes);
  if (answer.interrupted) {
    lines.push_back(fmt::format("Stopped early: another plan may be up to {:.1f} % {}, {}.",
                                100 * (1 - answer.bound / best.value), better,
                                value_text(question.objective, answer.bound)));
  } else if (answer.bound < best.value) {
    lines.push_back(fmt::format("Proved: no plan of the space is more than {:.1f} % {} (--gap).",
                                100 * (1 - answer.bound / best.value), better));
  } else {
    lines.push_back(fmt::format(
        "Proved: no plan of the space is {}, by simulation of each whose bound is below it.",
        better));
  }
  lines.push_back(fmt::format(
      "With its layers cut into stages in any other way, no plan has less than {} ({:.1f} % "
      "less){}.",
      value_text(question.objective, answer.any_cut), 100 * (1 - answer.any_cut / best.value),
      answer.any_cut_of.empty()
          ? ""
          : fmt::format("; the least bound is that of {}", answer.any_cut_of)));
  if (best.weights != WeightSemantics::vanilla) {
    lines.push_back(
        fmt::format("Its weights are {}: --semantics vanilla excludes that.", name(best.weights)));
  }
  return lines;
}

std::string fewer_made_again_in_words(const ClusterCandidate& best, const ClusterCandidate& fewer) {
  const Recompute recompute = fewer.plan.request.recompute;
  return fmt::format(
      "Not searched: {}, which makes the first {} again of each stage, takes {:.4g} s ({:.1f} % "
      "less); --recompute {} searches with that.",
      shape_text(fewer), counted(recompute.count, "block"), fewer.period_s,
      100 * (1 - fewer.period_s / best.period_s), name(recompute));
}

}  // namespace tandem::tools
