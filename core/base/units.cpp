#include "core/base/units.h"

#include <array>
#include <cmath>
#include <span>

#include <fmt/format.h>

#include "core/base/ascii.h"

namespace tandem {
namespace {

struct Unit {
  std::string_view name;
  std::int64_t size;
};

constexpr std::array<Unit, 4> kTimeUnits{
    {{"ns", 1}, {"us", 1'000}, {"ms", 1'000'000}, {"s", 1'000'000'000}}};

constexpr std::int64_t kKibi = 1024, kMebi = kKibi * kKibi, kGibi = kMebi * kKibi,
                       kTebi = kGibi * kKibi;
constexpr std::array<Unit, 9> kByteUnits = {{{"B", 1},
                                             {"KiB", kKibi},
                                             {"MiB", kMebi},
                                             {"GiB", kGibi},
                                             {"TiB", kTebi},
                                             {"KB", 1'000},
                                             {"MB", 1'000'000},
                                             {"GB", 1'000'000'000},
                                             {"TB", 1'000'000'000'000}}};
constexpr std::size_t kBinaryUnits = 5;

/// Sizes in bits a second, so that bit rates stay whole numbers.
constexpr std::array<Unit, 10> kRateUnits = {{{"Kb/s", 1'000},
                                              {"Mb/s", 1'000'000},
                                              {"Gb/s", 1'000'000'000},
                                              {"B/s", 8},
                                              {"KB/s", 8'000},
                                              {"MB/s", 8'000'000},
                                              {"GB/s", 8'000'000'000},
                                              {"KiB/s", 8 * kKibi},
                                              {"MiB/s", 8 * kMebi},
                                              {"GiB/s", 8 * kGibi}}};

/// A decimal number, as its digits.
struct Decimal {
  std::string digits;
  std::int64_t whole_digits = 0;  // before the point: negative, or more than there are, if need be
};

struct Quantity {
  Decimal number;
  std::string_view number_text;
  std::int64_t unit_size = 0;
};

/// Digits from `position` on, which moves past them.
std::string_view take_digits(std::string_view text, std::size_t& position) {
  const std::size_t first = position;
  while (position < text.size() && is_digit(text[position])) ++position;
  return text.substr(first, position - first);
}

/// "e-3" at `position`, if there: the position moves past it. False when it is malformed or absurd.
bool take_exponent(std::string_view text, std::size_t& position, std::int64_t& exponent) {
  if (position >= text.size() || (text[position] != 'e' && text[position] != 'E')) return true;
  ++position;
  bool negative = false;
  if (position < text.size() && (text[position] == '-' || text[position] == '+')) {
    negative = text[position] == '-';
    ++position;
  }
  const std::string_view digits = take_digits(text, position);
  constexpr std::size_t kMostDigits = 4;
  if (digits.empty() || digits.size() > kMostDigits) return false;
  std::from_chars(digits.data(), digits.data() + digits.size(), exponent);
  if (negative) exponent = -exponent;
  return true;
}

std::optional<Quantity> parse_quantity(std::string_view text, std::span<const Unit> units) {
  Quantity quantity;
  std::size_t position = 0;
  quantity.number.digits = take_digits(text, position);
  quantity.number.whole_digits = static_cast<std::int64_t>(quantity.number.digits.size());
  if (position < text.size() && text[position] == '.') {
    ++position;
    const std::string_view fraction = take_digits(text, position);
    if (fraction.empty()) return std::nullopt;
    quantity.number.digits += fraction;
  }
  std::int64_t exponent = 0;
  if (quantity.number.digits.empty() || !take_exponent(text, position, exponent))
    return std::nullopt;
  quantity.number.whole_digits += exponent;
  quantity.number_text = text.substr(0, position);
  while (position < text.size() && text[position] == ' ') ++position;
  for (const Unit& unit : units) {
    if (unit.name == text.substr(position)) {
      quantity.unit_size = unit.size;
      return quantity;
    }
  }
  return std::nullopt;
}

/// number · unit_size, rounded once, halves up; exact however many digits. Empty: beyond int64.
std::optional<std::int64_t> rounded_product(const Decimal& number, std::int64_t unit_size) {
  const auto digit_at = [&number](std::int64_t place) {
    const bool inside = place >= 0 && place < static_cast<std::int64_t>(number.digits.size());
    return inside ? std::int64_t{number.digits[static_cast<std::size_t>(place)] - '0'} : 0;
  };
  std::int64_t total = 0;
  for (std::int64_t place = 0; place < number.whole_digits; ++place) {
    if (__builtin_mul_overflow(total, std::int64_t{10}, &total) ||
        __builtin_add_overflow(total, digit_at(place), &total)) {
      return std::nullopt;
    }
  }
  if (__builtin_mul_overflow(total, unit_size, &total)) return std::nullopt;

  // The product of the fraction and the unit, by hand from the last digit: what is carried out of
  // the first digit is whole, and the first digit decides the rounding.
  std::int64_t carried = 0, first_digit = 0;
  const auto end = static_cast<std::int64_t>(number.digits.size());
  for (std::int64_t place = end - 1; place >= number.whole_digits; --place) {
    const std::int64_t product = digit_at(place) * unit_size + carried;
    first_digit = product % 10;
    carried = product / 10;
  }
  if (first_digit >= 5) ++carried;
  if (__builtin_add_overflow(total, carried, &total)) return std::nullopt;
  return total;
}

std::optional<std::int64_t> parse_integer(std::string_view text, std::span<const Unit> units) {
  const std::optional<Quantity> quantity = parse_quantity(text, units);
  if (!quantity) return std::nullopt;
  return rounded_product(quantity->number, quantity->unit_size);
}

/// |value| as unsigned, so that the smallest integer has one too.
std::uint64_t magnitude(std::int64_t value) {
  return value < 0 ? ~static_cast<std::uint64_t>(value) + 1 : static_cast<std::uint64_t>(value);
}

/// Rounded to four significant digits, but never coarser than `coarsest`.
std::uint64_t round_to_four_digits(std::uint64_t value, std::uint64_t coarsest) {
  std::uint64_t step = 1;
  while (value / step >= 10'000 && step < coarsest) step *= 10;
  return (value + step / 2) / step * step;
}

}  // namespace

std::optional<Duration> parse_duration(std::string_view text) {
  const std::optional<std::int64_t> nanoseconds = parse_integer(text, kTimeUnits);
  if (!nanoseconds) return std::nullopt;
  return Duration{*nanoseconds};
}

std::optional<Bytes> parse_bytes(std::string_view text) { return parse_integer(text, kByteUnits); }

std::optional<double> parse_rate(std::string_view text) {
  const std::optional<Quantity> quantity = parse_quantity(text, kRateUnits);
  if (!quantity) return std::nullopt;
  const auto value = number_in<double>(quantity->number_text);
  if (!value) return std::nullopt;
  constexpr double kBitsPerByte = 8.0;
  const double rate = *value * (static_cast<double>(quantity->unit_size) / kBitsPerByte);
  if (!std::isfinite(rate)) return std::nullopt;
  return rate;
}

std::optional<double> parse_percent(std::string_view text) {
  if (!text.ends_with('%')) return std::nullopt;
  text.remove_suffix(1);
  const auto percent = number_in<double>(text);
  if (!percent || !std::isfinite(*percent) || *percent < 0.0) return std::nullopt;
  return *percent / 100.0;
}

std::string print_duration(Duration duration) {
  const auto second = static_cast<std::uint64_t>(kTimeUnits.back().size);
  const std::uint64_t value = round_to_four_digits(magnitude(duration.count()), second);
  std::size_t unit = kTimeUnits.size() - 1;
  while (unit > 0 && value < static_cast<std::uint64_t>(kTimeUnits[unit].size)) --unit;
  const auto size = static_cast<std::uint64_t>(kTimeUnits[unit].size);
  std::string fraction = fmt::format("{}", size + value % size).substr(1);
  fraction.erase(fraction.find_last_not_of('0') + 1);
  return fmt::format("{}{}{}{} {}", duration.count() < 0 ? "-" : "", value / size,
                     fraction.empty() ? "" : ".", fraction, kTimeUnits[unit].name);
}

std::string print_bytes(Bytes bytes) {
  const std::uint64_t value = magnitude(bytes);
  const char* sign = bytes < 0 ? "-" : "";
  const auto kibi = static_cast<std::uint64_t>(kKibi);
  if (value < kibi) return fmt::format("{}{} B", sign, value);
  for (std::size_t unit = 1;; ++unit) {
    const auto size = static_cast<std::uint64_t>(kByteUnits[unit].size);
    std::uint64_t whole = value / size;
    std::uint64_t tenths = (value % size * 10 + size / 2) / size;
    if (tenths == 10) {
      ++whole;
      tenths = 0;
    }
    if (whole < kibi || unit + 1 == kBinaryUnits)
      return fmt::format("{}{}.{} {}", sign, whole, tenths, kByteUnits[unit].name);
  }
}

double to_seconds(Duration duration) { return static_cast<double>(duration.count()) / 1e9; }

}  // namespace tandem
