#include "tools/commands/plan_beside.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <memory>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/files/read.h"
#include "core/text/count_text.h"
#include "planner/study/prepared_plan.h"
#include "tools/cli/split.h"
#include "tools/commands/plan_on_cluster.h"
#include "tools/options/cluster_options.h"
#include "tools/options/cluster_question.h"
#include "tools/print/cluster_plan_words.h"
#include "tools/print/words.h"

namespace tandem::tools {

namespace {

/// What a configuration may say, beside the options of its schedule.
constexpr std::array<std::string_view, 9> kShape{"schedule",        "tensor", "sequence-parallel",
                                                 "depth",           "zero",   "device-order",
                                                 "microbatch-size", "cut",    "stages"};

bool is_of_a_schedule(std::string_view flag) {
  return std::ranges::any_of(schedule_options(), [&](const ScheduleOption& option) {
    return !option.flag.empty() && option.flag == flag;
  });
}

/// "tensor=8,stages=0-12,12-26" as "tensor=8" and "stages=0-12,12-26": what begins with a digit
/// goes on with the value before.
std::vector<std::string> settings_in(std::string_view text) {
  std::vector<std::string> settings;
  for (const std::string_view part : split(text, ",")) {
    const bool goes_on = !part.empty() && std::isdigit(static_cast<unsigned char>(part[0])) != 0;
    if (goes_on && !settings.empty())
      settings.back().append(",").append(part);
    else
      settings.emplace_back(part);
  }
  return settings;
}

void set_one(const Options& options, const std::string& setting, GivenOptions& given) {
  const auto [flag, value] = halved(setting, '=');
  if (std::ranges::find(kShape, flag) == kShape.end() && !is_of_a_schedule(flag)) {
    options["beside"].reject(
        fmt::format("a plan file, or options of simulate such as "
                    "schedule=1f1b,tensor=8,depth=4, of which \"{}\" is none",
                    flag));
  }
  if (value.empty() && setting.find('=') != std::string::npos)
    options["beside"].reject(fmt::format("a value behind {}=", flag));
  const OptionValue said(options.command(), std::string(flag), std::string(value));
  if (!given.flags.emplace(flag).second) options["beside"].reject(fmt::format("{} once", flag));
  (*setting_of(said))(given);
}

ClusterRequest request_of_text(const Options& options, const ClusterQuestion& question,
                               const std::string& text) {
  std::vector<std::string_view> read{"model", "cluster"};
  for (const char* flag : kGivenForAllPlans) {
    if (std::string_view(flag) != "cut") read.emplace_back(flag);
  }
  GivenOptions given = given_options(options, read);
  std::erase_if(given.flags, [&](const std::string& flag) {
    return std::ranges::find(read, flag) == read.end();
  });
  for (const std::string& setting : settings_in(text)) set_one(options, setting, given);
  if (!given.has("cut") && !given.has("stages")) given.cut = question.base.cut;
  if (!given.has("schedule"))
    options["beside"].reject(fmt::format("schedule=NAME in \"{}\"", text));
  const bool deep = given.has("depth") || given.has("stages") || given.has("replicas");
  if (!deep) options["beside"].reject(fmt::format("depth=D in \"{}\"", text));
  ClusterRequest request = cluster_request(given, find_schedule(given.schedule));
  request.microbatches = std::nullopt;
  request.global_batch = question.global_batch;
  return request;
}

/// Text has "=", which a file's name has where it is one.
bool is_plan_file(const std::string& given) {
  return given.find('=') == std::string::npos || given.ends_with(".json");
}

/// One line each that takes less; then what brings nothing.
std::string changes_text(const SetBeside& one) {
  constexpr double kWorthALine = 1e-3;  // of a step
  std::string text;
  std::vector<std::string_view> useless;
  for (const FreedPlan& of : one.changes) {
    if (!of.best || of.best->period_s > (1.0 - kWorthALine) * one.made.period_s) {
      useless.push_back(name(of.freedom));
      continue;
    }
    const ClusterCandidate& best = *of.best;
    text += fmt::format("  {:<20} {:>10} {:>+8.1f} %  {}, recompute {}{}{}\n", name(of.freedom),
                        fmt::format("{:.4g} s", best.period_s),
                        100.0 * (best.period_s / one.made.period_s - 1.0), shape_text(best),
                        name(best.plan.request.recompute),
                        best.request.assumptions.sharded_optimizer ? ", ZeRO-1" : "",
                        of.proved ? "" : ", stopped early");
  }
  if (!text.empty())
    text.insert(0, "The best with one thing anew, weights no older than its own:\n");
  if (!useless.empty()) text += fmt::format("Nothing faster by {}.\n", fmt::join(useless, ", "));
  return text;
}

}  // namespace

std::vector<SetBeside> set_beside_of(const Options& options, const ClusterQuestion& question) {
  std::vector<SetBeside> all;
  const std::string named = options.text("beside");
  for (const std::string_view part : split(named, ";")) {
    const std::string given(part);
    ClusterRequest request = is_plan_file(given) ? request_like(question, read_plan(given))
                                                 : request_of_text(options, question, given);
    ClusterCandidate made = simulated_on_cluster(std::move(request), question.contention);
    made.value = made.period_s;
    all.push_back({given, std::move(made)});
  }
  return all;
}

Json beside_json(const Options& options, const std::vector<SetBeside>& all,
                 const ClusterAnswer& answer) {
  const auto change = [&](const FreedPlan& of) -> Json {
    return {{"free", name(of.freedom)},
            {"best", of.best ? candidate_json(options, *of.best) : Json()},
            {"proved", of.proved}};
  };
  return array_of(all, [&](const SetBeside& one) -> Json {
    return {{"given", one.given},
            {"plan", candidate_json(options, one.made)},
            {"fits", one.fits()},
            {"excess_bytes", one.fits() ? 0 : -one.made.least_room},
            {"over_best", one.made.period_s / answer.ranked.front().period_s},
            {"known_faster", known_faster(answer, one.made)},
            {"changes", array_of(one.changes, change)}};
  });
}

std::string beside_text(const ClusterAnswer& answer, const SetBeside& one) {
  const ClusterCandidate& best = answer.ranked.front();
  const double times = one.made.period_s / best.period_s;
  std::string text = fmt::format("{}: {:.4g} s a step, {:.4g} times the best's; {}.\n", one.given,
                                 one.made.period_s, times, memory_text(one.made));
  const std::size_t faster = known_faster(answer, one.made);
  if (faster > 0) {
    text += fmt::format("Of {} that were simulated and fit, {} faster{}.\n",
                        counted(answer.ranked.size(), "shape"),
                        faster == 1 ? "1 is" : fmt::format("{} are", faster),
                        answer.bound < one.made.period_s ? "; more may be" : "");
  } else {
    text += one.fits() ? "No shape that was simulated and fits is faster.\n"
                       : "No shape that fits is known to be faster.\n";
  }
  if (best.weights != WeightSemantics::vanilla && one.made.weights == WeightSemantics::vanilla) {
    text += fmt::format(
        "The best trains with weights that are {}, this one does not: --semantics "
        "vanilla leaves such plans out.\n",
        short_name(best.weights));
  }
  return text + changes_text(one);
}

}  // namespace tandem::tools
