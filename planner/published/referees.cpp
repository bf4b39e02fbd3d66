#include "planner/published/referees.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/text/count_text.h"
#include "planner/cluster/set_beside.h"
#include "planner/published/cluster_facts.h"
#include "planner/published/pipedream.h"
#include "planner/published/piper.h"
#include "planner/published/terapipe.h"
#include "planner/published/two_bw.h"

namespace tandem {

namespace {

constexpr std::int64_t kMostRoundCells = 1 << 16;  // microbatches x devices of PipeDream's own form

/// What a form is, beside its schedule and the model.
struct FormRequest {
  std::string what;
  std::string_view schedule;
  std::uint16_t depth = 1, width = 1;
  std::int32_t microbatch_size = 1, tensor = 1;
  Recompute recompute = Recompute::none;
  StageCut cut = StageCut::balanced;
  std::vector<LayerRange> stages = {};
  std::vector<std::uint16_t> replicas = {};
  Slicing slices = {};
  std::int64_t global_batch = 0;  // 0: the question's
  bool untied = false;
};

ClusterCandidate simulated(const ClusterQuestion& question, const FormRequest& form) {
  ClusterShape shape;
  shape.schedule = &find_schedule(form.schedule);
  shape.frame.tensor = form.tensor;
  shape.frame.depth = form.depth;
  shape.frame.width = form.width;
  shape.frame.microbatch_size = form.microbatch_size;
  shape.frame.recompute = form.recompute;
  ClusterRequest request = question.base;
  request.plan = plan_of(question, shape);
  request.plan.stages = form.stages;
  request.plan.request.replicas = form.replicas;
  request.plan.request.slices = form.slices;
  request.assumptions = assumptions_of(question, shape.frame);
  request.cut = form.cut;
  request.depth = form.depth;
  request.width = form.width;
  request.microbatches = std::nullopt;
  request.global_batch = form.global_batch > 0 ? form.global_batch : question.global_batch;
  if (form.untied) request.plan.model.tied = false;
  return simulated_on_cluster(std::move(request), question.contention);
}

/// Of forms that fit the faster, else the one that lacks less.
bool better_form(const SimulatedForm& a, const SimulatedForm& b) {
  const auto rank = [](const SimulatedForm& form) {
    return std::pair(form.fits() ? 0 : -form.made.least_room, form.step_s);
  };
  return rank(a) < rank(b);
}

/// Of two plans the one whose best form is better.
void keep_better(std::optional<PublishedPlan>& best, PublishedPlan plan) {
  const bool is_better = plan.best() != nullptr && (!best || best->best() == nullptr ||
                                                    better_form(*plan.best(), *best->best()));
  if (!best || is_better) best = std::move(plan);
}

/// Simulates a form; where it does not fit, with whole stages made again.
void add_form(const ClusterQuestion& question, FormRequest form, PublishedPlan& plan) {
  try {
    ClusterCandidate made = simulated(question, form);
    if (made.least_room < 0 && form.recompute == Recompute::none) {
      form.recompute = Recompute::stage;
      ClusterCandidate again = simulated(question, form);
      if (again.least_room >= 0) {
        form.what += ", its stages made again, as it does not fit otherwise";
        made = std::move(again);
      }
    }
    const double samples = static_cast<double>(*made.request.global_batch);
    const double step_s = made.period_s * static_cast<double>(question.global_batch) / samples;
    plan.forms.push_back(
        {std::move(form.what), std::move(made), step_s, form.replicas.empty(), form.untied});
  } catch (const InputError& error) {
    plan.not_simulated.push_back(fmt::format("{}: {}", form.what, error.what()));
  }
}

/// Of a pipeline that never drains, where weights may be delayed and a batch is long enough for it.
std::string_view schedule_of(const ClusterQuestion& question, std::int64_t depth,
                             std::int64_t microbatches) {
  return question.vanilla_only || depth == 1 || microbatches < depth ? "1f1b" : "2bw";
}

/// "3-3-2".
std::string replicas_text(const PipeDreamPlan& plan) {
  std::vector<std::int32_t> replicas;
  for (const PipeDreamStage& stage : plan.stages) replicas.push_back(stage.replicas);
  return fmt::format("{}", fmt::join(replicas, "-"));
}

std::vector<LayerRange> ranges_of(const PipeDreamPlan& plan) {
  std::vector<LayerRange> stages;
  for (const PipeDreamStage& stage : plan.stages)
    stages.push_back({static_cast<std::int32_t>(stage.layers.front()),
                      static_cast<std::int32_t>(stage.layers.back() + 1)});
  return stages;
}

/// As PipeDream trains: of as many whole rounds of all stages as are nearest to a batch.
void add_own_form(const ClusterQuestion& question, const PipeDreamPlan& found, std::int32_t size,
                  PublishedPlan& plan) {
  FormRequest form{.what =
                       "as it trains: an update after each round of a stage's replicas, at "
                       "weights of another age on each stage",
                   .schedule = "pipedream",
                   .microbatch_size = size,
                   .cut = StageCut::given,
                   .stages = ranges_of(found)};
  std::int64_t devices = 0, rounds = 1;
  for (const PipeDreamStage& stage : found.stages) {
    form.replicas.push_back(static_cast<std::uint16_t>(stage.replicas));
    devices += stage.replicas;
    rounds = std::lcm(rounds, stage.replicas);
  }
  if (rounds * devices > kMostRoundCells) {
    plan.not_simulated.push_back(fmt::format(
        "{}: the rounds of its stages end together only every {} microbatches", form.what, rounds));
    return;
  }
  form.depth = static_cast<std::uint16_t>(devices);
  const std::int64_t microbatches = question.global_batch / size;
  form.global_batch = std::max<std::int64_t>(1, microbatches / rounds) * rounds * size;
  if (form.global_batch != question.global_batch)
    form.what += fmt::format(", of {} samples, its time scaled", form.global_batch);
  form.untied = has_tied_ends(question.base.plan.model);
  if (form.untied) form.what += ", its embeddings untied, as replicated stages can't share them";
  add_form(question, std::move(form), plan);
}

/// As it trains, and with an update a batch, which it does not have: as it stands where all stages
/// have equally many replicas, else in the same number of stages.
void add_pipedream_forms(const ClusterQuestion& question, const PipeDreamPlan& found,
                         std::int32_t size, PublishedPlan& plan) {
  const std::int64_t microbatches = question.global_batch / size;
  const auto depth = static_cast<std::int64_t>(found.stages.size());
  const std::int64_t first = found.stages.front().replicas;
  const bool even = std::ranges::all_of(
      found.stages, [&](const PipeDreamStage& stage) { return stage.replicas == first; });
  if (!question.vanilla_only && depth > 1) add_own_form(question, found, size, plan);
  std::int64_t width = even ? first : std::max<std::int64_t>(1, question.devices() / depth);
  while (microbatches % width != 0) --width;
  FormRequest form{.what = {},
                   .schedule = schedule_of(question, depth, microbatches / width),
                   .depth = static_cast<std::uint16_t>(depth),
                   .width = static_cast<std::uint16_t>(width),
                   .microbatch_size = size};
  if (even && width == first) {
    form.what = "its stages and replicas, with one update a batch";
    form.cut = StageCut::given;
    form.stages = ranges_of(found);
  } else {
    form.what = fmt::format(
        "with one update a batch, as near as equal replicas come: as many stages, each {} times",
        width);
  }
  add_form(question, std::move(form), plan);
}

std::optional<PublishedPlan> pipedream_on_cluster(const ClusterQuestion& question) {
  ClusterFacts facts(question);
  std::optional<PipeDreamPlan> best;
  std::int32_t best_size = 0;
  double promised_s = 0.0;
  for (const std::int32_t size : facts.microbatch_sizes()) {
    const std::int64_t microbatches = question.global_batch / size;
    auto found = plan_pipedream({.graph = facts.graph(size),
                                 .levels = facts.levels(),
                                 .memory_bytes = static_cast<double>(facts.memory()),
                                 .state_share = facts.state_share()});
    if (!found || std::ranges::any_of(found->stages, [&](const PipeDreamStage& stage) {
          return stage.replicas > microbatches;
        }))
      continue;
    const double step_s = found->bottleneck_s * static_cast<double>(microbatches);
    if (best && step_s >= promised_s) continue;
    best = std::move(found);
    best_size = size;
    promised_s = step_s;
  }
  if (!best) return std::nullopt;
  PublishedPlan plan{.layout = fmt::format("{} of {} devices, microbatches of {}",
                                           counted(std::ssize(best->stages), "stage"),
                                           replicas_text(*best), best_size),
                     .promised_s = promised_s,
                     .promise = fmt::format("{:.4g} ms a microbatch at its slowest stage or link",
                                            1e3 * best->bottleneck_s),
                     .forms = {},
                     .not_simulated = {}};
  add_pipedream_forms(question, *best, best_size, plan);
  return plan;
}

std::optional<PublishedPlan> two_bw_on_cluster(const ClusterQuestion& question) {
  ClusterFacts facts(question);
  const std::optional<TwoBwPlan> found = plan_two_bw(facts.two_bw());
  if (!found) return std::nullopt;
  const bool again = found->execution == TwoBwExecution::recomputed;
  const std::string_view execution = found->depth > 1 ? name(found->execution)
                                     : again          ? "with recomputation"
                                                      : "without recomputation";
  PublishedPlan plan{
      .layout = fmt::format("depth {} x width {}, microbatches {} x {}, {}", found->depth,
                            found->width, found->microbatch_size, found->microbatches, execution),
      .promised_s = found->step_s,
      .promise = fmt::format("{:.4g} ms a microbatch, no bubble",
                             1e3 * found->step_s / static_cast<double>(found->microbatches)),
      .forms = {},
      .not_simulated = {}};
  const bool unpipelined = found->execution == TwoBwExecution::unpipelined;
  add_form(question,
           {.what = "its plan",
            .schedule = unpipelined ? "model-parallel"
                                    : schedule_of(question, found->depth, found->microbatches),
            .depth = static_cast<std::uint16_t>(found->depth),
            .width = static_cast<std::uint16_t>(found->width),
            .microbatch_size = found->microbatch_size,
            .recompute =
                found->execution == TwoBwExecution::recomputed ? Recompute::stage : Recompute::none,
            .cut = StageCut::even},
           plan);
  return plan;
}

/// "2x1, 23 of 1x2 made again": tensor degrees and widths of its stages.
std::string stages_text(const PiperPlan& plan) {
  std::vector<std::string> runs;
  for (std::size_t from = 0, to = 0; from < plan.stages.size(); from = to) {
    const PiperStage& stage = plan.stages[from];
    const auto like = [&](const PiperStage& other) {
      return std::tuple(other.tensor, other.width, other.recomputed) ==
             std::tuple(stage.tensor, stage.width, stage.recomputed);
    };
    while (to < plan.stages.size() && like(plan.stages[to])) ++to;
    runs.push_back(fmt::format("{}{}x{}{}", to - from > 1 ? fmt::format("{} of ", to - from) : "",
                               stage.tensor, stage.width, stage.recomputed ? " made again" : ""));
  }
  return fmt::format("{}", fmt::join(runs, ", "));
}

/// As it stands where all stages have one width, tensor degree and recomputation. Else the core has
/// no schedule for it: it is as many stages, each of the degree that most devices have.
void add_piper_form(const ClusterQuestion& question, const PiperPlan& found,
                    const std::vector<std::int32_t>& begins, std::int32_t size,
                    PublishedPlan& plan) {
  const PiperStage& first = found.stages.front();
  const bool even = std::ranges::all_of(found.stages, [&](const PiperStage& stage) {
    return std::tuple(stage.width, stage.tensor, stage.recomputed) ==
           std::tuple(first.width, first.tensor, first.recomputed);
  });
  const auto depth = static_cast<std::int64_t>(found.stages.size());
  const std::int64_t microbatches = question.global_batch / size;
  std::map<std::int32_t, std::int64_t> devices;  // by tensor degree
  bool again = false;
  for (const PiperStage& stage : found.stages) {
    devices[stage.tensor] += std::int64_t{stage.width} * stage.tensor;
    again = again || stage.recomputed;
  }
  const std::int32_t most =
      std::ranges::max_element(devices, {}, [](const auto& of) { return of.second; })->first;
  const std::int32_t tensor = even ? first.tensor : most;
  std::int64_t width =
      even ? first.width : std::max<std::int64_t>(1, question.devices() / depth / tensor);
  while (microbatches % width != 0) --width;
  FormRequest form{.what = {},
                   .schedule = schedule_of(question, depth, microbatches / width),
                   .depth = static_cast<std::uint16_t>(depth),
                   .width = static_cast<std::uint16_t>(width),
                   .microbatch_size = size,
                   .tensor = tensor,
                   .recompute = again ? Recompute::full : Recompute::none};
  if (even && width == first.width) {
    form.what = "its plan";
    form.cut = StageCut::given;
    for (const PiperStage& stage : found.stages)
      form.stages.push_back({begins[stage.first], begins[stage.last]});
  } else {
    form.what = fmt::format(
        "as near as equal stages come: as many, each {} times, of tensor degree {}", width, tensor);
  }
  add_form(question, std::move(form), plan);
}

/// For one microbatch size, which Piper is told.
std::optional<PublishedPlan> piper_of_size(const ClusterQuestion& question,
                                           const ClusterFacts& facts, std::int32_t size) {
  const auto found = plan_piper(facts.piper(size));
  if (!found) return std::nullopt;
  const auto microbatches = static_cast<double>(question.global_batch / size);
  PublishedPlan plan{
      .layout = fmt::format("{}, tensor x width {}, microbatches of {}",
                            counted(std::ssize(found->stages), "stage"), stages_text(*found), size),
      .promised_s = found->load_s * microbatches,
      .promise = fmt::format("{:.4g} ms a microbatch at its busiest stage, no bubble",
                             1e3 * found->load_s),
      .forms = {},
      .not_simulated = {}};
  add_piper_form(question, *found, facts.piper_layers(), size, plan);
  return plan;
}

/// Of the sizes of a microbatch the one whose plan turns out best.
std::optional<PublishedPlan> piper_on_cluster(const ClusterQuestion& question) {
  const ClusterFacts facts(question);
  std::optional<PublishedPlan> best;
  for (const std::int32_t size : facts.microbatch_sizes()) {
    auto plan = piper_of_size(question, facts, size);
    if (plan) keep_better(best, std::move(*plan));
  }
  return best;
}

PublishedPlan terapipe_form(const ClusterQuestion& question, const TeraPipePlan& found) {
  const auto count = std::ssize(found.slices.lengths);
  const double step_s = to_seconds(found.slices.value);
  PublishedPlan plan{
      .layout = fmt::format("tensor {} x depth {} x width {}, microbatches {} x {}, {}",
                            found.tensor, found.depth, found.width, found.microbatch_size,
                            found.microbatches, counted(count, "slice")),
      .promised_s = step_s,
      .promise = fmt::format("{:.4g} ms a microbatch; sums and updates are not counted",
                             1e3 * step_s / static_cast<double>(found.microbatches)),
      .forms = {},
      .not_simulated = {}};
  add_form(question,
           {.what = "its plan",
            .schedule = count > 1 ? "terapipe" : "gpipe",
            .depth = static_cast<std::uint16_t>(found.depth),
            .width = static_cast<std::uint16_t>(found.width),
            .microbatch_size = found.microbatch_size,
            .tensor = found.tensor,
            .cut = StageCut::even,
            .slices = count > 1 ? found.slices.slicing() : Slicing{}},
           plan);
  return plan;
}

/// Of a layout, the first of the sizes of a microbatch that fits; of layouts, which TeraPipe is
/// told, the one whose plan turns out best.
std::optional<PublishedPlan> terapipe_on_cluster(const ClusterQuestion& question) {
  const ClusterFacts facts(question);
  std::optional<PublishedPlan> best;
  for (const TeraPipeLayout& layout : plan_terapipe(facts.terapipe())) {
    for (const TeraPipePlan& found : layout) {
      PublishedPlan plan = terapipe_form(question, found);
      const bool fits = plan.best() != nullptr && plan.best()->fits();
      keep_better(best, std::move(plan));
      if (fits) break;
    }
  }
  return best;
}

constexpr std::array<PublishedPlanner, 4> kPublishedPlanners{{
    {.name = "pipedream",
     .help = "SOSP 2019: stages with a number of replicas each",
     .plan = pipedream_on_cluster},
    {.name = "2bw",
     .help = "arXiv 2006.09503: width, depth, microbatch size and recomputation",
     .plan = two_bw_on_cluster},
    {.name = "piper",
     .help = "NeurIPS 2021: stages, each of its own width, tensor degree and recomputation",
     .plan = piper_on_cluster},
    {.name = "terapipe",
     .help = "ICML 2021: microbatch size, and slices of sequences by their times",
     .plan = terapipe_on_cluster},
}};

}  // namespace

const SimulatedForm* PublishedPlan::best() const {
  const SimulatedForm* best = nullptr;
  for (const SimulatedForm& form : forms) {
    if (form.one_update_a_batch && (best == nullptr || better_form(form, *best))) best = &form;
  }
  return best;
}

std::span<const PublishedPlanner> published_planners() { return kPublishedPlanners; }

const PublishedPlanner& find_published_planner(std::string_view name) {
  const auto found = std::ranges::find(kPublishedPlanners, name, &PublishedPlanner::name);
  if (found != kPublishedPlanners.end()) return *found;
  std::vector<std::string_view> names;
  for (const PublishedPlanner& one : kPublishedPlanners) names.push_back(one.name);
  throw UsageError(fmt::format("there is no published planner \"{}\": expected {}", name,
                               fmt::join(names, ", ")));
}

}  // namespace tandem
