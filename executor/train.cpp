#include "executor/train.h"

#include <thread>
#include <utility>

#include "core/base/check.h"
#include "executor/cpu/backend.h"
#include "executor/run/training_run.h"

namespace tandem {

namespace {

class CpuTrainer : public Trainer {
 public:
  TrainingReport<float> train(const Program& program, const TrainingSetup<float>& setup) override {
    return train_on_cpu(program, setup);
  }
  Table<DeviceId, Bytes> planned_workspace(const Program& program,
                                           const StageSetup& /*stage*/) const override {
    return Table<DeviceId, Bytes>(program.placement().devices, 0);
  }
};

}  // namespace

template <class T>
TrainingReport<T> train_on_cpu(const Program& program, const TrainingSetup<T>& setup) {
  check_trainable(setup.stage.model);
  TANDEM_CHECK(setup.stage.storage == Storage::f32);
  using B = cpu::Backend<T>;
  // Waking a thread takes as long as a small op: where each device has a core, it looks for work
  // for a while before it sleeps.
  const std::size_t threads = std::size_t{program.placement().devices} * width_of(program);
  const Duration spin = threads <= std::thread::hardware_concurrency() ? cpu::kSpin : Duration{};
  return TrainingRun<B>(program, setup,
                        [spin](DeviceId, Wakeup& wakeup, std::stop_token stop) {
                          return std::make_unique<B>(wakeup, std::move(stop), spin);
                        })
      .run();
}

template TrainingReport<float> train_on_cpu(const Program&, const TrainingSetup<float>&);
template TrainingReport<double> train_on_cpu(const Program&, const TrainingSetup<double>&);

std::unique_ptr<Trainer> make_cpu_trainer() { return std::make_unique<CpuTrainer>(); }

}  // namespace tandem
