#pragma once
// Any text as a model of another program's: one that our format brings back equal and that is
// priced or refused, or diagnostics, never a crash.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/files/read.h"
#include "core/import/models.h"
#include "core/model/catalog.h"
#include "simulator/cost/analytic.h"

namespace tandem {

inline void check_price(const ModelSpec& model) {
  const AnalyticAssumptions assumptions;
  const auto layers = static_cast<std::int32_t>(layers_of(model).size());
  try {
    const LayerTimes times = analytic_layers(model, 1, Recompute::none, OptimizerKind::adamw,
                                             *find_device("V100-SXM2-16GB"), assumptions);
    const StageTimes all = times.of({0, layers});
    // In one, the device's work may hide the host's of the other half.
    TANDEM_CHECK(all.backward <= all.backward_input + all.backward_weight + layers * Duration(1),
                 model.name);
    TANDEM_CHECK(all.backward >= std::max(all.backward_input, all.backward_weight), model.name);
    analytic_stage_bytes(model, {0, layers}, 1, OptimizerKind::adamw, Recompute::none, assumptions);
  } catch (const InputError&) {
    // Absurdly large, or a chain of linear maps.
  }
}

inline void check_model_input(const std::string& text) {
  ModelSpec model;
  try {
    model = parse_model("f", text);
  } catch (const InputError& error) {
    TANDEM_CHECK(!error.diagnostics().empty() && error.diagnostics().size() <= 101);
    return;
  }
  TANDEM_CHECK(parameter_count(model) > 0, model.name);
  TANDEM_CHECK(parse_model("again", model_text(model)) == model, model.name);
  check_price(model);
}

}  // namespace tandem
