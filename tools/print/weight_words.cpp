#include "tools/print/weight_words.h"

#include <fmt/format.h>

namespace tandem::tools {

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
