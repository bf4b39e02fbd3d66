#pragma once
// The log of a training run: JSON Lines, one object a step (tools/schemas/train-log.json).

#include <cstdint>
#include <optional>
#include <string>

#include "core/text/output_place.h"
#include "tools/cli/processor_use.h"

namespace tandem::tools {

/// What is known of one step. What is absent is left out of its line.
struct StepRecord {
  std::int64_t step = 0;  // counted from 1
  double loss = 0.0;      // mean over the batch
  std::optional<double> validation_loss = {};
  double gradient_norm = 0.0;  // before clipping
  bool skipped = false;        // it was not finite, and the weights were kept
  bool rolled_back = false;    // the update was made again when the norm was known
  double learning_rate = 0.0;  // of the update that ends the step
  double tokens_per_s = 0.0, step_s = 0.0;
  std::optional<double> predicted_step_s = {};
  ProcessorUse others = {};  // by whom else the machine was used meanwhile
};

/// Each line reaches the file whole, as soon as it is written: what was logged stays readable
/// however the run ends.
class TrainingLog {
 public:
  /// Replaces the file. Throws DeviceError when it can't be written or another process writes it,
  /// as write() does.
  explicit TrainingLog(std::string path);
  void write(const StepRecord& record);

 private:
  GrowingFile file_;
};

}  // namespace tandem::tools
