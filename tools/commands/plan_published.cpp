#include "tools/commands/plan_published.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "planner/published/referees.h"
#include "tools/cli/interrupt.h"
#include "tools/cli/json_output.h"
#include "tools/cli/split.h"
#include "tools/commands/plan_on_cluster.h"
#include "tools/options/cluster_question.h"
#include "tools/print/cluster_plan_words.h"
#include "tools/print/words.h"

namespace tandem::tools {

namespace {

/// A planner's answer; without one it finds nothing that fits.
struct Refereed {
  const PublishedPlanner* planner = nullptr;
  std::optional<PublishedPlan> plan = {};
};

std::vector<Refereed> planners_of(const Options& options) {
  const std::string names = options.text("planner");
  std::vector<Refereed> planners;
  for (const std::string_view name : split(names, ",")) {
    const PublishedPlanner& planner = find_published_planner(name);
    if (std::ranges::find(planners, &planner, &Refereed::planner) == planners.end())
      planners.push_back({.planner = &planner});
  }
  for (const char* flag : {"tensor", "depth", "width", "chunks", "zero", "recompute",
                           "device-order", "objective", "schedule", "explain"}) {
    if (options.has(flag))
      refuse(options, "--{} is not taken: published planners say it themselves, or have none",
             flag);
  }
  for (const char* flag : {"output", "report", "beside"}) {
    if (options.has(flag)) refuse(options, "--{} is not taken beside --planner", flag);
  }
  return planners;
}

std::string percent(double more) { return fmt::format("{:+.1f} %", 100.0 * more); }

/// What came of one, in lines, and how ours compares.
void print_refereed(const Options& options, const Refereed& of, const ClusterCandidate* ours) {
  if (!of.plan) {
    fmt::print("{}: finds no plan that its own model allows.\n\n", of.planner->name);
    return;
  }
  const PublishedPlan& plan = *of.plan;
  fmt::print("{}: {}.\nPromised by its own model: {:.4g} s a step, {}.\n", of.planner->name,
             plan.layout, plan.promised_s, plan.promise);
  for (const SimulatedForm& form : plan.forms) {
    fmt::print("Simulated exactly{}: {:.4g} s a step ({} of what was promised), {}; {}.\n",
               form.made.contention ? ", with contention" : "", form.step_s,
               percent(form.step_s / plan.promised_s - 1.0), form.what, memory_text(form.made));
  }
  for (const std::string& why : plan.not_simulated) fmt::print("Can't be simulated {}.\n", why);
  const SimulatedForm* best = plan.best();
  if (best != nullptr && !best->untied)
    fmt::print("To simulate it: {}\n",
               candidate_json(options, best->made)["command"].get<std::string>());
  if (best != nullptr && ours != nullptr) {
    const double share = ours->period_s / best->step_s;
    fmt::print("Ours takes {:.1f} % of its time{}.\n", 100.0 * share,
               best->fits() ? "" : ", and fits");
  }
  fmt::print("\n");
}

Json as_json(const Options& options, const Refereed& of) {
  if (!of.plan) return {{"planner", of.planner->name}, {"plan", nullptr}};
  Json forms = Json::array();
  for (const SimulatedForm& form : of.plan->forms) {
    Json simulated = candidate_json(options, form.made);
    if (form.untied) simulated["command"] = nullptr;
    forms.push_back({{"what", form.what},
                     {"fits", form.fits()},
                     {"step_s", form.step_s},
                     {"one_update_a_batch", form.one_update_a_batch},
                     {"untied", form.untied},
                     {"simulated", std::move(simulated)}});
  }
  const SimulatedForm* best = of.plan->best();
  return {{"planner", of.planner->name},
          {"plan",
           {{"layout", of.plan->layout},
            {"promised_s", of.plan->promised_s},
            {"promise", of.plan->promise},
            {"forms", std::move(forms)},
            {"not_simulated", of.plan->not_simulated},
            {"fastest", best == nullptr ? Json() : Json(best - of.plan->forms.data())}}}};
}

}  // namespace

std::string published_names() {
  std::vector<std::string> names;
  for (const PublishedPlanner& one : published_planners())
    names.push_back(fmt::format("{} ({})", one.name, one.help));
  return fmt::format("{}", fmt::join(names, ", "));
}

int run_published_planners(const Options& options) {
  std::vector<Refereed> planners = planners_of(options);
  ClusterQuestion question = cluster_question_of(options);
  const std::vector<std::int64_t> batches = batches_asked(options, question);
  if (batches.size() > 1) refuse(options, "--planner needs one --global-batch");
  question.global_batch = batches.front();
  for (Refereed& one : planners) one.plan = one.planner->plan(question);
  const InterruptGuard guard(OnInterrupt::ends_by_itself);
  const ClusterAnswer answer =
      find_cluster_plans(question, [&] { return guard.token().stop_requested(); });
  const ClusterCandidate* ours = answer.ranked.empty() ? nullptr : &answer.ranked.front();
  if (options.has("json")) {
    Json published = Json::array();
    for (const Refereed& one : planners) published.push_back(as_json(options, one));
    print_result("plan", cluster_config(options, question), cluster_assumptions(question),
                 {{"published", std::move(published)},
                  {"ours", ours == nullptr ? Json() : candidate_json(options, *ours)},
                  {"interrupted", answer.interrupted}});
    return 0;
  }
  for (const Refereed& one : planners) print_refereed(options, one, ours);
  fmt::print("{}{}\n",
             ours == nullptr ? "Ours: no plan fits." : "Ours. " + best_in_words(question, *ours),
             question.contention ? " With contention." : "");
  return 0;
}

}  // namespace tandem::tools
