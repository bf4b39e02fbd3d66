#pragma once
// Training runs as `tandem train --backend cuda` makes them, on the machine of recorder.h.

#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <typeinfo>
#include <utility>

#include "core/base/error.h"
#include "executor/backends.h"
#include "tests/executor/cuda/recorded/recorder.h"
#include "tests/support/training.h"

namespace tandem::cuda::recorded {

/// What a run left, or how it ended.
struct RecordedRun {
  Recording recording;
  std::optional<TrainingReport<float>> report;  // none: it threw
  std::string error;
  bool is_device_error = false, is_absent_error = false;
};

using Change = std::function<void(TrainingSetup<float>&)>;

inline TrainingReport<float> train_on(const char* backend,
                                      const tandem::testing::TrainingCase& test,
                                      const Program& program, const Change& change = {}) {
  const Data data = tandem::testing::data_of(test);
  TrainingSetup<float> setup = tandem::testing::setup_of<float>(test, program, data);
  setup.watchdog = std::chrono::seconds(10);
  if (change) change(setup);
  return find_backend(backend).make()->train(program, setup);
}

inline RecordedRun run_recorded(const tandem::testing::TrainingCase& test, const Program& program,
                                MachineSetup machine, const Change& change = {}) {
  RecordedRun run;
  recorder().begin(std::move(machine));
  try {
    run.report = train_on("cuda", test, program, change);
  } catch (const DeviceError& error) {
    run.error = error.what();
    run.is_device_error = true;
  } catch (const AbsentError& error) {
    run.error = error.what();
    run.is_absent_error = true;
  } catch (const std::exception& error) {
    run.error = error.what();
  }
  run.recording = recorder().end();
  return run;
}

}  // namespace tandem::cuda::recorded
