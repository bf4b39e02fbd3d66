#include "tools/print/training_log.h"

#include <utility>

#include "tools/cli/json_output.h"
#include "tools/cli/machine.h"

namespace tandem::tools {

TrainingLog::TrainingLog(std::string path) : file_(std::move(path)) { file_.keep(0); }

void TrainingLog::write(const StepRecord& record) {
  Json line{{"step", record.step}, {"loss", record.loss}};
  if (record.validation_loss) line["validation_loss"] = *record.validation_loss;
  line["gradient_norm"] = record.gradient_norm;
  if (record.skipped) line["skipped"] = true;
  if (record.rolled_back) line["rolled_back"] = true;
  line["learning_rate"] = record.learning_rate;
  line["tokens_per_s"] = record.tokens_per_s;
  line["step_s"] = record.step_s;
  if (record.predicted_step_s) line["predicted_step_s"] = *record.predicted_step_s;
  line["foreign_cpu"] = record.others.foreign;
  line["stolen_cpu"] = record.others.stolen;
  line["time"] = utc_now();
  file_.write(line.dump() + "\n");
}

}  // namespace tandem::tools
