// Two stages on two cores beside the simulated ideal of the same plan: what threads, hand-overs and
// the executor's own work cost. The profile that prices the ideal is measured just before.

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "core/base/check.h"
#include "core/lower/lower.h"
#include "core/memory/memory.h"
#include "core/model/plan.h"
#include "core/program/cost.h"
#include "executor/profile/profile.h"
#include "executor/train.h"
#include "planner/search/batch_work.h"
#include "planner/search/partition.h"
#include "simulator/cost/measured_layers.h"
#include "simulator/simulate.h"
#include "tools/benchmarks/benchmark.h"
#include "tools/cli/notices.h"

namespace tandem::benchmarks {

namespace {

constexpr std::int64_t kBatches = 8;
constexpr std::int64_t kFillingBatches = 2;  // the pipeline fills and caches warm up
constexpr std::int32_t kMicrobatches = 8;
constexpr double kMostOverIdeal = 1.03, kLeastInKernels = 0.97;

ModelSpec model() {
  return {.name = "bench",
          .blocks = 6,
          .width = 384,
          .heads = 6,
          .sequence = 256,
          .vocabulary = 256,
          .tied = true};
}

/// What is trained. Clipped runs are held against those without: the norm of all gradients is off
/// the critical path of 2bw, and before the update of the others.
struct Case {
  const char* schedule;
  bool clips = false;
};
constexpr Case kCases[] = {{"2bw"}, {"2bw", true}, {"1f1b"}, {"1f1b", true}, {"gpipe"}};

Plan plan_of(const Case& run, const Profile& profile) {
  Plan plan{.model = profile.model,
            .schedule = run.schedule,
            .request = {.devices = 2, .microbatches = kMicrobatches, .global_norm = run.clips}};
  const BatchWork work(make_schedule(find_schedule(run.schedule), schedule_request(plan)));
  const LayerTimes times =
      measured_layers(profile, plan.model, plan.microbatch_size, plan.request.recompute);
  const auto cut = partition(
      {.layers = times.layers(), .depth = 2, .cost = [&](LayerRange range, std::size_t stage) {
         return work.of(id_at<ReplicaId>(stage), times.of(range)).count();
       }});
  TANDEM_CHECK(cut.has_value());
  plan.stages = *cut;
  return plan;
}

/// What trained: seconds of each batch after the first ones, and the lowest share of that time that
/// a device spent inside kernels.
struct MeasuredTraining {
  std::vector<double> batch_s;
  double in_kernels = 1.0;
};

double share_in_kernels(const Program& program, const Timeline& timeline) {
  double least = 1.0;
  for (const DeviceId device : all_ids<DeviceId>(program.placement().devices)) {
    std::optional<Duration> first;
    Duration last{}, busy{};
    for (const Span& span : timeline.spans) {
      const Op& op = program[span.instruction].op;
      if (program.placement().device[op.replica] != device) continue;
      if (!is_compute(op.kind) && !makes_version(op.kind)) continue;
      // Whole bodies in the middle of the run: all that is issued there is on.
      if (span.body < kFillingBatches || span.body >= kBatches - 1) continue;
      first = std::min(first.value_or(span.start), span.start);
      last = std::max(last, span.end);
      busy += span.end - span.start;
    }
    TANDEM_CHECK(first.has_value());
    least = std::min(least, to_seconds(busy) / to_seconds(last - *first));
  }
  return least;
}

MeasuredTraining train(const Plan& plan, const Program& program) {
  const Data data(plan.model, plan.microbatch_size, 1);
  TrainingSetup<float> setup;
  setup.stage = {.model = plan.model,
                 .microbatch_size = plan.microbatch_size,
                 .optimizer = {},
                 .guard = {.clip = plan.request.global_norm ? ClipScope::global : ClipScope::none},
                 .seed = 1,
                 .data = &data};
  setup.layers = plan.stages;
  setup.slots = count_slots(program);
  setup.batches = kBatches;
  MeasuredTraining measured;
  Duration last{};
  setup.on_step = [&](const StepReport& step) {
    if (step.batch >= kFillingBatches)
      measured.batch_s.push_back(to_seconds(step.since_start - last));
    last = step.since_start;
  };
  setup.on_stuck = tools::print_last_error;
  const TrainingReport<float> report = train_on_cpu<float>(program, setup);
  measured.in_kernels = share_in_kernels(program, report.timelines.front());
  return measured;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

}  // namespace

std::vector<Section> bench_pipeline(const Settings& settings) {
  const Profile profile = measure_profile(
      {.model = model(), .microbatch_sizes = {1}, .busy_devices = 2, .on_progress = {}, .stop = {}},
      *make_cpu_trainer());
  std::vector<Plan> plans;
  std::vector<Program> programs;
  for (const Case& run : kCases) {
    plans.push_back(plan_of(run, profile));
    programs.push_back(
        lower(make_schedule(find_schedule(run.schedule), schedule_request(plans.back()))));
  }
  std::vector<MeasuredTraining> measured(plans.size());
  for (int repetition = 0; repetition < settings.repetitions; ++repetition) {
    for (std::size_t i = 0; i < plans.size(); ++i) {
      const MeasuredTraining run = train(plans[i], programs[i]);
      measured[i].batch_s.insert(measured[i].batch_s.end(), run.batch_s.begin(), run.batch_s.end());
      measured[i].in_kernels =
          repetition == 0 ? run.in_kernels : std::max(measured[i].in_kernels, run.in_kernels);
    }
  }
  Section section{.title = fmt::format("Two stages on two cores, {} microbatches of one sequence; "
                                       "6 layers, width 384, sequence 256",
                                       kMicrobatches),
                  .rows = {}};
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const double step_s = median(measured[i].batch_s);
    if (kCases[i].clips) {
      section.rows.push_back(
          {.what = fmt::format("{}, clipped step over unclipped", kCases[i].schedule),
           .value = step_s / median(measured[i - 1].batch_s),
           .unit = ""});
      continue;
    }
    const StageCosts costs = costs_from_profile(profile, plans[i]);
    const CostTable table = price(programs[i], cost_model(programs[i].placement(), costs));
    const double ideal_s = simulate(programs[i], table, {.batches = kBatches}).period_s();
    const std::string schedule = kCases[i].schedule;
    section.rows.push_back(
        {.what = schedule + ", simulated step", .value = ideal_s * 1e3, .unit = "ms"});
    section.rows.push_back({.what = schedule + ", measured step over it",
                            .value = step_s / ideal_s,
                            .unit = "",
                            .floor = kMostOverIdeal,
                            .at_most = true});
    section.rows.push_back({.what = schedule + ", share of time inside kernels",
                            .value = measured[i].in_kernels,
                            .unit = ""});
    if (schedule == "2bw") section.rows.back().floor = kLeastInKernels;
  }
  return {section};
}

}  // namespace tandem::benchmarks
