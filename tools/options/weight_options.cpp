#include "tools/options/weight_options.h"

#include <fmt/format.h>

namespace tandem::tools {

void add_semantics_option(Options& options) {
  options.value("semantics", "KIND",
                "any|vanilla: vanilla leaves out delayed and stashed weights, such as those of 2bw "
                "and pipedream (default any)");
}

bool vanilla_only(const Options& options) {
  return options.choice("semantics", {"any", "vanilla"}) == "vanilla";
}

void check_semantics(const Options& options, std::string_view schedule, WeightSemantics weights) {
  if (weights == WeightSemantics::vanilla || !vanilla_only(options)) return;
  throw InputError(
      fmt::format("schedule {}: its weights are {}, and only vanilla ones were asked for", schedule,
                  name(weights)));
}

std::optional<WeightSemantics> semantics_named(std::string_view wanted) {
  for (const WeightSemantics one :
       {WeightSemantics::vanilla, WeightSemantics::delayed_by_one, WeightSemantics::stashed}) {
    if (name(one) == wanted) return one;
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
      return "";
    case WeightSemantics::delayed_by_one:
      return "delayed weights: each update uses the gradient at the weights before the newest "
             "(--semantics vanilla leaves it out)\n";
    case WeightSemantics::stashed:
      return "stashed weights: each stage updates by gradients at weights of another age "
             "(--semantics vanilla leaves it out)\n";
  }
  return "";
}

}  // namespace tandem::tools
