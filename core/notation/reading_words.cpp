#include "core/notation/reading_words.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace tandem {

Reading read_reading(WordReader& in, std::string_view word) {
  constexpr double kMostUpdates = 65535.0;
  std::array<double, 4> numbers{};
  constexpr std::string_view kShared = ":shared";
  const bool shared = word.ends_with(kShared);
  std::string_view rest = word.substr(0, word.size() - (shared ? kShared.size() : 0));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::size_t end = rest.find(':');
    const bool last = i + 1 == numbers.size();
    if ((end == std::string_view::npos) != last)
      in.fail(word, fmt::format("expected what a stage reads, found \"{}\"", word),
              "such as 2:1:0:0");
    numbers[i] = in.real(rest.substr(0, end), last ? "what is kept" : "a number of updates",
                         last ? 1.0 : kMostUpdates);
    if (!last) rest.remove_prefix(end + 1);
  }
  const Reading reading{numbers[0], numbers[1], numbers[2], numbers[3], shared};
  if (!reading.is_possible()) {
    in.fail(word,
            "a stage predicts weights or corrects those of its backwards, not both, and predicts "
            "those of its backwards, or shares them, only with those of its forwards");
  }
  return reading;
}

void check_readings(WordReader& in, const Schedule& schedule) {
  const std::size_t stages = schedule.placement.stages();
  if (schedule.readings.size() != stages)
    in.diagnose_whole_text(
        fmt::format("{} readings for {} stages", schedule.readings.size(), stages));
  const bool corrects = std::ranges::any_of(schedule.readings, &Reading::corrects);
  if (corrects && !schedule.reads_newest)
    in.diagnose_whole_text(
        "readings correct weights, but a backward does not read the newest (reads newest)");
}

}  // namespace tandem
