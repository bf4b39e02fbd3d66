#include "tools/benchmarks/training_task.h"

#include <algorithm>

#include "core/lower/lower.h"
#include "core/schedule/schedule.h"
#include "tools/cli/notices.h"

namespace tandem::benchmarks {

double flops_of_token(const ModelSpec& model) {
  return 6.0 * static_cast<double>(parameter_count(model)) +
         12.0 * model.blocks * model.sequence * model.width;
}

TrainingRun train(Trainer& trainer, const TrainingTask& task, const Way& way, int steps) {
  cpu::set_products({.precision = way.precision});
  const Program program = lower(make_schedule(
      find_schedule("1f1b"),
      {.devices = 1, .microbatches = way.microbatches, .replicas = {}, .width = way.width}));
  const std::int32_t size = task.batch / (way.width * way.microbatches);
  const Data data(task.model, size, task.seed);
  TrainingRun run;
  Duration last{};
  TrainingSetup<float> setup;
  setup.stage = {.model = task.model,
                 .microbatch_size = size,
                 .optimizer = task.optimizer,
                 .seed = task.seed,
                 .data = &data};
  setup.stage.storage = way.storage;
  setup.layers = {{0, static_cast<std::int32_t>(layers_of(task.model).size())}};
  setup.slots = count_slots(program);
  setup.batches = steps;
  setup.keep_timeline = false;
  setup.on_step = [&](const StepReport& step) {
    run.losses.push_back(step.loss);
    run.seconds.push_back(to_seconds(step.since_start - last));
    last = step.since_start;
  };
  setup.on_stuck = tools::print_last_error;
  setup.on_notice = tools::print_note;
  trainer.train(program, setup);
  return run;
}

double best_step(const TrainingRun& run) {
  return *std::min_element(run.seconds.begin() + 1, run.seconds.end());
}

}  // namespace tandem::benchmarks
