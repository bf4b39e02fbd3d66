#include "tools/print/marginal_words.h"

#include <string_view>

#include <fmt/format.h>

#include "planner/search/explain.h"
#include "tools/print/cluster_plan_words.h"
#include "tools/print/objective_words.h"
#include "tools/print/words.h"

namespace tandem::tools {

std::vector<std::string> loss_in_words(const ClusterAnswer& answer) {
  const ClusterCandidate& best = answer.ranked.front();
  const StepParts of_best = parts_of_step(best);
  std::vector<std::string> lines;
  lines.push_back(fmt::format("The best computes {} of a step on its busiest device, and waits {}.",
                              print_duration(as_duration(of_best.computes_s)),
                              print_duration(as_duration(of_best.waits_s))));
  if (answer.ranked.size() == 1) return lines;
  const StepParts of_next = parts_of_step(answer.ranked[1]);
  lines.push_back(
      fmt::format("The next, {}, computes {}, and waits {}.", shape_text(answer.ranked[1]),
                  print_difference(as_duration(of_next.computes_s - of_best.computes_s)),
                  print_difference(as_duration(of_next.waits_s - of_best.waits_s))));
  return lines;
}

std::string gains_text(const ClusterQuestion& question, const ClusterCandidate& best,
                       const std::vector<MarginalGain>& gains) {
  std::string text = "The best plan where the cluster has 1 % more of one thing:\n";
  for (const MarginalGain& gain : gains) {
    const bool any_amount = gain.times == kAnyAmount;
    text += fmt::format("{:<20} {:<28} {:>+8.2f} %  {}{}{}\n",
                        any_amount ? "any amount of memory" : name(gain.supply),
                        value_text(question.objective, gain.best.value),
                        100 * (gain.best.value / best.value - 1),
                        same_shape(gain.best, best) ? "the same plan" : shape_text(gain.best),
                        any_amount ? ", needs " + print_bytes(gain.best.peak_bytes) : "",
                        gain.proved ? "" : ", stopped early");
  }
  if (question.base.assumptions.measured)
    text += "Layers' times are measured: more compute or memory rate does not change them here.\n";
  return text;
}

}  // namespace tandem::tools
