#pragma once
// train(): a program and a model → trained weights. One thread a device, joined before it returns.
// A program of width w is run by w pipelines: device d of pipeline r is device r·devices + d.

#include <memory>

#include "executor/run/training_setup.h"

namespace tandem {

/// Trains on this machine's CPU. Throws DeviceError, naming device and instruction, when a slot, a
/// version or an input is not as the program promised; InputError when the program has what this
/// executor can't run (split backward), or decides on updates as it can't (executor/README.md,
/// "How it runs"). REQUIRES: `program` is one that verify() accepts
/// with `setup.slots`, or the errors above are to be seen.
template <class T>
TrainingReport<T> train_on_cpu(const Program& program, const TrainingSetup<T>& setup);

extern template TrainingReport<float> train_on_cpu(const Program&, const TrainingSetup<float>&);
extern template TrainingReport<double> train_on_cpu(const Program&, const TrainingSetup<double>&);

std::unique_ptr<Trainer> make_cpu_trainer();

}  // namespace tandem
