#include "planner/search/explain.h"

#include <chrono>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "core/base/check.h"
#include "core/text/count_text.h"

namespace tandem {

Duration as_duration(double seconds) {
  return Duration(std::llround(seconds * static_cast<double>(std::nano::den)));
}

std::string print_difference(Duration difference) {
  if (difference.count() == 0) return "the same";
  return fmt::format("{} {}", print_duration(std::chrono::abs(difference)),
                     difference.count() < 0 ? "less" : "more");
}

namespace {

int devices_of(const Plan& plan) { return plan.request.devices * plan.request.width; }

/// What `other` loses against `best`: on its slowest device, and in that device's waiting.
std::string explain_loss(const Candidate& best, const Candidate& other) {
  const std::string name = describe(other.plan);
  if (other.period == best.period) {
    std::string tie = fmt::format("Next: {}, as fast", name);
    if (devices_of(other.plan) != devices_of(best.plan)) return tie + ", with more devices.";
    if (other.peak_bytes != best.peak_bytes) {
      return fmt::format("{}, with {} more on the fullest device.", tie,
                         print_bytes(other.peak_bytes - best.peak_bytes));
    }
    return tie + ", and no simpler.";
  }
  const double lost = other.period.seconds() - best.period.seconds();
  const Duration work = other.slowest - best.slowest;
  const Duration waiting = as_duration(lost) - work;
  return fmt::format(
      "Next: {}, {:.1f} % slower: {} a batch, its slowest device computes {}, and waits {}.", name,
      100.0 * lost / best.period.seconds(), print_difference(as_duration(lost)),
      print_difference(work), print_difference(waiting));
}

/// By which updates step.
std::string_view gradients_of(WeightSemantics weights) {
  switch (weights) {
    case WeightSemantics::vanilla:
      return "the gradient at the newest weights";
    case WeightSemantics::delayed_by_one:
      return "the gradient at the weights before the newest";
    case WeightSemantics::stashed:
      return "gradients at weights as many updates old as microbatches are in flight after the "
             "stage";
    case WeightSemantics::latest:
      return "gradients whose backwards read newer weights than their forwards did";
  }
  return {};
}

std::string within(const PlanRequest& request) {
  return request.memory ? fmt::format(" in {}", print_bytes(*request.memory)) : "";
}

}  // namespace

std::string explain(const MemoryMiss& miss) {
  return fmt::format("needs {} on device {}, {} too much (largest: {}, {})",
                     print_bytes(miss.needed), index(miss.device), print_bytes(miss.excess),
                     miss.largest, print_bytes(miss.largest_bytes));
}

std::vector<std::string> explain_choice(const PlanRequest& request, const PlanResult& result) {
  TANDEM_CHECK(!result.ranked.empty());
  const Candidate& best = result.ranked.front();
  std::vector<std::string> lines;
  lines.push_back(fmt::format(
      "Chosen: {}: {:.1f} samples/s, {} a batch; device {}, the slowest, computes {} of that and "
      "waits {:.1f} %.",
      describe(best.plan), best.plan.predicted.samples_per_s,
      print_duration(as_duration(best.period.seconds())), index(best.slowest_device),
      print_duration(best.slowest), 100.0 * best.bubble()));
  if (result.ranked.size() > 1) lines.push_back(explain_loss(best, result.ranked[1]));
  if (devices_of(best.plan) > 1 && request.user_schedule == nullptr) {
    lines.push_back(result.one_device
                        ? fmt::format("One device alone: {:.1f} samples/s; {} devices are {:.2f} "
                                      "times as fast.",
                                      result.one_device->plan.predicted.samples_per_s,
                                      devices_of(best.plan),
                                      result.one_device->period.seconds() / best.period.seconds())
                        : fmt::format("One device alone can't hold it{}.", within(request)));
  }
  if (best.weights != WeightSemantics::vanilla) {
    lines.push_back(
        fmt::format("Its weights are {}: each update uses {}. --semantics vanilla excludes that.",
                    name(best.weights), gradients_of(best.weights)));
  }
  return lines;
}

std::vector<RejectedGroup> group(const std::vector<Rejected>& rejected) {
  std::map<RejectCause, RejectedGroup> groups;
  for (const Rejected& one : rejected) {
    RejectedGroup& of = groups[one.cause];
    const bool nearer = one.miss && of.nearest.miss && one.miss->excess < of.nearest.miss->excess;
    if (of.count == 0 || nearer) of.nearest = one;
    of.cause = one.cause;
    ++of.count;
  }
  std::vector<RejectedGroup> list;
  for (const auto& [cause, of] : groups) list.push_back(of);
  return list;
}

std::string explain_infeasible(const PlanRequest& request, const PlanResult& result) {
  const std::vector<RejectedGroup> groups = group(result.rejected);
  for (const RejectedGroup& of : groups) {
    if (of.cause != RejectCause::memory) continue;
    return fmt::format("no plan fits{} a device: {} were tried; the nearest, {}, {}",
                       within(request), of.count, of.nearest.what, explain(*of.nearest.miss));
  }
  std::string text =
      fmt::format("no plan for {} and a global batch of {}", counted(request.devices, "device"),
                  counted(request.global_batch, "sample"));
  for (const RejectedGroup& of : groups) {
    text += fmt::format("{} {}: {}", text.find(':') == std::string::npos ? ":" : ";",
                        of.nearest.what, of.nearest.reason);
    if (of.count > 1) text += fmt::format(" (and {} more)", of.count - 1);
  }
  return text;
}

}  // namespace tandem
