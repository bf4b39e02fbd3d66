#include "tools/cli/option_value.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/ascii.h"
#include "core/base/error.h"

namespace tandem::tools {

void OptionValue::reject(const std::string& expected, const std::string& after) const {
  throw UsageError(fmt::format("tandem {}: --{}: expected {}, found \"{}\"{}", command_, name_,
                               expected, text_, after));
}

std::int64_t OptionValue::integer(std::int64_t least, std::int64_t most) const {
  const auto value = number_in<std::int64_t>(text_);
  if (!value || *value < least || *value > most)
    reject(fmt::format("an integer from {} to {}", least, most));
  return *value;
}

double OptionValue::number(double least, double most) const {
  const auto value = number_in<double>(text_);
  if (!value || !(*value >= least && *value <= most))
    reject(fmt::format("a number from {} to {}", least, most));
  return *value;
}

Duration OptionValue::duration() const {
  return or_reject(parse_duration(text_), "a time with its unit (ns, us, ms, s), such as 1.5ms");
}

Bytes OptionValue::bytes() const {
  return or_reject(parse_bytes(text_),
                   "a size with its unit (B, KiB, MiB, GiB, KB, MB, GB), such as 16GiB");
}

double OptionValue::rate() const {
  const std::optional<double> value = parse_rate(text_);
  if (!value || *value <= 0.0) reject("a rate with its unit (Mb/s, Gb/s, GB/s), such as 1Gb/s");
  return *value;
}

std::string OptionValue::choice(const std::vector<std::string>& choices) const {
  if (std::ranges::find(choices, text_) == choices.end())
    reject(fmt::format("{}", fmt::join(choices, "|")), did_you_mean(text_, choices));
  return text_;
}

}  // namespace tandem::tools
