// tandem export: what starts a plan in another engine.

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/export/exporters.h"
#include "core/files/plan_cluster.h"
#include "core/files/profile_file.h"
#include "core/files/read.h"
#include "core/model/catalog.h"
#include "core/model/node_order.h"
#include "core/text/files.h"
#include "core/text/output_place.h"
#include "planner/cluster/plan_of_cluster.h"
#include "planner/search/fit_search.h"
#include "planner/study/prepared_plan.h"
#include "tools/cli/interrupt.h"
#include "tools/cli/json_output.h"
#include "tools/cli/options.h"
#include "tools/cli/split.h"
#include "tools/commands/command.h"
#include "tools/print/words.h"

namespace tandem::tools {

namespace {

constexpr std::chrono::seconds kSearchTime(10);  // for the nearest plan, at most

std::vector<std::string> names_of(std::span<const Exporter> all) {
  std::vector<std::string> names;
  for (const Exporter& one : all) names.emplace_back(one.name);
  return names;
}

struct ReadPlan {
  Plan plan;
  Schedule schedule;
};

ReadPlan read(const std::string& path) {
  Plan plan = read_plan(path);
  if (plan.cluster) {
    check_schedule_options(path, plan);
    Schedule schedule = make_schedule(plan);
    return {std::move(plan), std::move(schedule)};
  }
  PreparedPlan prepared = prepare_plan(path, std::move(plan));
  return {std::move(prepared.plan), std::move(prepared.schedule)};
}

/// Of a plan's file, with what of it can't be done there.
class Export {
 public:
  Export(const std::string& path, const Exporter& to) : path_(path), to_(to), read_(read(path)) {}

  std::string text() const {
    const std::vector<ExportObstacle> obstacles = to_.obstacles(exported());
    if (obstacles.empty()) return to_.text(exported());
    std::string why = fmt::format("{}: {} can't run this plan", path_, to_.name);
    for (const ExportObstacle& one : obstacles) why += "\n  " + one.reason;
    throw InputError(why + "\n" + nearest(obstacles));
  }

 private:
  const Plan& plan() const { return read_.plan; }
  ExportedPlan exported() const { return {plan(), read_.schedule, path_}; }

  /// What to do instead.
  std::string nearest(const std::vector<ExportObstacle>& obstacles) const {
    const auto without_remedy = [](const ExportObstacle& one) { return one.values.empty(); };
    if (std::ranges::any_of(obstacles, without_remedy)) return "no option of tandem plan helps";
    if (!plan().cluster) return of_profile(obstacles);
    const std::optional<ClusterCandidate> found = search(obstacles);
    if (!found) {
      return fmt::format("no plan of this shape that {} can run was found; of any shape: {}",
                         to_.name, command(obstacles, nullptr));
    }
    return fmt::format("the nearest plan that it can run is {}, {:.4g} s a step ({:+.1f} %): {}",
                       found->plan.schedule, found->period_s,
                       100 * (found->period_s / plan().predicted.period_s - 1),
                       command(obstacles, &*found));
  }

  std::string of_profile(const std::vector<ExportObstacle>& obstacles) const {
    std::string text = fmt::format("tandem plan --profile {} --devices {} --global-batch {}",
                                   plan().profile.empty() ? "FILE" : plan().profile,
                                   plan().request.devices * plan().request.width, batch_of(plan()));
    for (const ExportObstacle& one : obstacles) {
      if (one.flag != "schedule" && one.flag != "optimizer" && one.flag != "delay-correction")
        return "no plan of a profile does: tandem plan --cluster has more options";
      text += fmt::format(" --{} {}", one.flag, fmt::join(one.values, ","));
    }
    return "plans that it can run: " + text + " --output " + output();
  }

  /// The fastest of this shape, but for the obstacles, that has none.
  std::optional<ClusterCandidate> search(const std::vector<ExportObstacle>& obstacles) const {
    std::shared_ptr<const TensorProfiles> measured;
    if (!plan().profile.empty()) {
      measured = std::make_shared<const TensorProfiles>(
          read_tensor_profiles(profile_path_of(path_, plan())));
    }
    ClusterQuestion question = question_like(plan(), std::move(measured));
    question.base.cut = StageCut::blocks;
    for (const ExportObstacle& one : obstacles) change(one, question);
    const InterruptGuard guard(OnInterrupt::ends_by_itself);
    const auto end = std::chrono::steady_clock::now() + kSearchTime;
    const ClusterAnswer answer = find_cluster_plans(question, [&] {
      return guard.token().stop_requested() || std::chrono::steady_clock::now() > end;
    });
    const auto can_be_run = [&](const ClusterCandidate& one) {
      const Plan made = plan_for_file(one, 0.0);
      return to_.obstacles({made, make_schedule(made), path_}).empty();
    };
    const auto found = std::ranges::find_if(answer.ranked, can_be_run);
    return found == answer.ranked.end() ? std::nullopt : std::optional(*found);
  }

  static void change(const ExportObstacle& one, ClusterQuestion& question) {
    Plan& plan = question.base.plan;
    if (one.flag == "schedule") question.schedules = one.values;
    if (one.flag == "schedule") plan.schedule = one.values.front();
    if (one.flag == "recompute") question.recompute = parse_recompute(one.values.front());
    if (one.flag == "device-order") question.order = DeviceOrder::replicas_first;
    if (one.flag == "dtype") question.base.assumptions.format = NumberFormat::bf16;
    if (one.flag == "optimizer") plan.optimizer.kind = OptimizerKind::adamw;
    if (one.flag == "delay-correction") plan.optimizer.correction = DelayCorrection::none;
  }

  /// Of the plan found; null: of any shape without the obstacles.
  std::string command(const std::vector<ExportObstacle>& obstacles,
                      const ClusterCandidate* found) const {
    const PlanCluster& on = *plan().cluster;
    const CatalogModel* known = find_model(plan().model.name);
    std::string text = fmt::format(
        "tandem plan --model {} --cluster {} --global-batch {} --dtype {} --cut blocks",
        known != nullptr ? plan().model.name : "FILE", on.name, batch_of(plan()),
        name(found != nullptr ? found->request.assumptions.format : on.assumptions.format));
    if (known != nullptr && known->model.sequence != plan().model.sequence)
      text += fmt::format(" --sequence {}", plan().model.sequence);
    if (on.contention) text += " --contention";
    if (found == nullptr) {
      for (const ExportObstacle& one : obstacles) {
        if (one.flag != "cut" && one.flag != "dtype")
          text += fmt::format(" --{} {}", one.flag, fmt::join(one.values, ","));
      }
      return text;
    }
    const Plan& near = found->plan;
    text += fmt::format(
        " --schedule {} --tensor {} --depth {} --width {} --microbatch-size {} --recompute {} "
        "--zero "
        "{} --device-order {}",
        near.schedule, found->request.assumptions.tensor, near.request.devices, near.request.width,
        near.microbatch_size, name(near.request.recompute),
        found->request.assumptions.sharded_optimizer ? 1 : 0, name(found->request.order));
    if (near.optimizer.kind != OptimizerKind::adamw)
      text += fmt::format(" --optimizer {}", name(near.optimizer.kind));
    if (const auto nodes = unequal_nodes(found->request.cluster->spec()); !nodes.empty())
      text += fmt::format(" --node-order {}", fmt::join(nodes, ","));
    return text + fmt::format(" --output {}", output());
  }

  /// "folder/plan-megatron.json".
  std::string output() const {
    const std::filesystem::path path(path_);
    return (path.parent_path() / fmt::format("{}-{}.json", path.stem().string(), to_.name))
        .string();
  }

  const std::string path_;
  const Exporter& to_;
  const ReadPlan read_;
};

}  // namespace

Options options_of_export() {
  std::vector<std::string> described;
  for (const Exporter& one : exporters())
    described.push_back(fmt::format("{}: {}", one.name, one.help));
  Options options(
      "export", "PLAN --to ENGINE [--output FILE]",
      "Writes what starts a plan in another engine. A plan that the engine can't run is "
      "refused with the reasons, and the nearest one that it can run is named.");
  options.words("PLAN", 1, 1);
  options.value("to", "ENGINE", fmt::format("{}", fmt::join(described, "; ")))
      .output("output", "FILE", "where to write it (default: standard output)");
  return options;
}

int run_export(const Options& options) {
  if (!options.has("to")) refuse(options, "--to is missing");
  const Exporter& to = find_exporter(options.choice("to", names_of(exporters())));
  const std::string output = options.text("output"), path = options.words()[0];
  if (!output.empty()) check_can_write(output);
  const std::string text = Export(path, to).text();
  if (!output.empty()) write_file(output, text);
  if (options.has("json")) {
    print_result(
        "export",
        {{"plan", path}, {"to", to.name}, {"output", output.empty() ? Json() : Json(output)}},
        Json::object(), {{"text", text}});
  } else if (output.empty()) {
    fmt::print("{}", text);
  }
  return 0;
}

}  // namespace tandem::tools
