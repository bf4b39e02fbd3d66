#include "tools/print/words.h"

#include <fmt/format.h>

#include "executor/backends.h"
#include "planner/search/stage_memory.h"

namespace tandem::tools {

std::optional<WeightSemantics> semantics_named(std::string_view wanted) {
  for (std::size_t i = 0; i < kWeightSemantics; ++i) {
    if (const auto one = static_cast<WeightSemantics>(i); name(one) == wanted) return one;
  }
  return std::nullopt;
}

std::string_view short_name(WeightSemantics weights) {
  return weights == WeightSemantics::delayed_by_one ? "delayed" : name(weights);
}

std::string weights_mark(WeightSemantics weights) {
  return weights == WeightSemantics::vanilla ? ""
                                             : fmt::format(", {} weights", short_name(weights));
}

std::string_view weights_note(WeightSemantics weights) {
  switch (weights) {
    case WeightSemantics::vanilla:
      break;
    case WeightSemantics::delayed_by_one:
      return "delayed weights: each update uses the gradient at the weights before the newest "
             "(--semantics vanilla leaves it out)\n";
    case WeightSemantics::stashed:
      return "stashed weights: each stage updates by gradients at weights of another age "
             "(--semantics vanilla leaves it out)\n";
    case WeightSemantics::latest:
      return "latest weights: a backward reads newer weights than its forward did "
             "(--semantics vanilla leaves it out)\n";
  }
  return "";
}

std::vector<std::string> storage_warnings(Storage storage) {
  if (storage == Storage::f32) return {};
  return {
      fmt::format("--storage {0}: memory is counted for it, but times are those of the "
                  "profile, which measured f32; train the plan with --backend {1} "
                  "--storage {0}",
                  name(storage), backend_offering(storage).name)};
}

std::string fits_line(const Scenario& scenario) {
  const std::string by =
      scenario.figures ? fmt::format("goes by {} (--fits-by), and ", taker(scenario.figures->by))
                       : "";
  return fmt::format("\"fits\" {}keeps {} free for driver, libraries and gaps (--reserve)\n", by,
                     describe(scenario.reserve));
}

std::string_view taker(FitsBy by) {
  return by == FitsBy::framework ? "what a framework takes" : "what tandem's executor takes";
}

Json reserve_json(const Reserve& reserve) {
  return {{"share", reserve.share}, {"bytes", reserve.bytes}};
}

Json figures_json(const MemoryFigures& figures, DeviceId device) {
  return {{"framework_bytes", figures.framework[device]}, {"tandem_bytes", figures.tandem[device]}};
}

Json classes_json(const MemoryByClass& memory) {
  Json json =
      Json::object();  // a null one that runs out of memory as it becomes one can't be freed
  for (const ClassBytes& of : classes(memory)) json[fmt::format("{}_bytes", of.name)] = of.bytes;
  return json;
}

Json stages_json(const Plan& plan) {
  return array_of(plan.stages,
                  [](const LayerRange& range) -> Json { return {range.first, range.last}; });
}

}  // namespace tandem::tools
