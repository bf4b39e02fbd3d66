// Any text as a duration, size, rate and misspelt word; any integer printed and parsed again.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/units.h"

namespace tandem {
namespace {

bool is_near(std::int64_t printed, std::int64_t value, double tolerance) {
  const double difference = static_cast<double>(printed) - static_cast<double>(value);
  return std::abs(difference) <= tolerance * static_cast<double>(value) + 1.0;
}

/// What was printed for people means what was printed, to the digits printed.
void check_printing(std::int64_t value) {
  const std::string duration = print_duration(Duration{value});
  const std::string bytes = print_bytes(value);
  constexpr std::int64_t kRoundsWithinInt64 = std::numeric_limits<std::int64_t>::max() / 2;
  if (value < 0 || value > kRoundsWithinInt64) return;
  constexpr double kHalfOfTheFourthDigit = 0.5e-3, kHalfOfATenth = 0.05;
  const std::optional<Duration> duration_again = parse_duration(duration);
  TANDEM_CHECK(duration_again && is_near(duration_again->count(), value, kHalfOfTheFourthDigit),
               duration, value);
  const std::optional<Bytes> bytes_again = parse_bytes(bytes);
  TANDEM_CHECK(bytes_again && is_near(*bytes_again, value, kHalfOfATenth), bytes, value);
}

void check_parsing(const std::string& text) {
  const std::optional<Duration> duration = parse_duration(text);
  TANDEM_CHECK(!duration || duration->count() >= 0, text);
  if (duration) check_printing(duration->count());
  const std::optional<Bytes> bytes = parse_bytes(text);
  TANDEM_CHECK(!bytes || *bytes >= 0, text);
  if (bytes) check_printing(*bytes);
  const std::optional<double> rate = parse_rate(text);
  TANDEM_CHECK(!rate || (std::isfinite(*rate) && *rate >= 0.0), text);
}

void check_suggestion(const std::string& word) {
  const std::vector<std::string> names{"forward", "backward", "backward-input", "2bw", "x", ""};
  const std::string nearest = nearest_word(word, names);
  TANDEM_CHECK(did_you_mean(word, names).empty() == nearest.empty(), word);
}

}  // namespace
}  // namespace tandem

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(data, data + size);
  tandem::check_parsing(text);
  tandem::check_suggestion(text);
  std::int64_t value = 0;
  if (size >= sizeof(value)) {
    std::memcpy(&value, data, sizeof(value));
    tandem::check_printing(value);
  }
  return 0;
}
