#include "tools/print/objective_words.h"

#include <array>

#include <fmt/format.h>

#include "tools/print/words.h"

namespace tandem::tools {

namespace {

struct ObjectiveWords {
  std::string_view best, better, worse;
};
constexpr std::array<ObjectiveWords, kObjectives> kWords{{
    {"Fastest", "faster", "slower"},
    {"Least memory", "smaller", "larger"},
    {"Cheapest", "cheaper", "dearer"},
}};
const ObjectiveWords& words_of(Objective objective) {
  return kWords[static_cast<std::size_t>(objective)];
}

}  // namespace

std::string_view best_word(Objective objective) { return words_of(objective).best; }
std::string_view better_word(Objective objective) { return words_of(objective).better; }
std::string_view worse_word(Objective objective) { return words_of(objective).worse; }

std::string value_text(Objective objective, double value) {
  switch (objective) {
    case Objective::throughput:
      return fmt::format("{:.4g} s a step", value);
    case Objective::memory:
      return fmt::format("{} on the fullest device", print_bytes(static_cast<Bytes>(value)));
    case Objective::cost:
      return fmt::format("${:.4g} a step", value);
  }
  return {};
}

}  // namespace tandem::tools
