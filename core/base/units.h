#pragma once
// Durations, byte counts, rates and shares: parsed from and printed for people.
// Everywhere in tandem time is int64 nanoseconds: exact, associative, 292 years of range.

#include <chrono>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tandem {

/// Time, and moments from a run's start.
using Duration = std::chrono::nanoseconds;  // 2ms and 18us convert, as of std::chrono_literals
using Bytes = std::int64_t;

/// "18.522ms", "2 us", "1s" → nanoseconds, rounded once to the nearest. Empty when there is no
/// unit, the number is malformed, negative, or beyond 292 years. Units: ns us ms s.
std::optional<Duration> parse_duration(std::string_view text);

/// "16GiB", "32 KB", "512 B" → bytes, rounded to the nearest. Units: B KiB MiB GiB TiB KB MB GB TB.
std::optional<Bytes> parse_bytes(std::string_view text);

/// "100Gb/s", "12.5 GB/s" → bytes per second. Units: Kb/s Mb/s Gb/s KB/s MB/s GB/s KiB/s MiB/s
/// GiB/s B/s.
std::optional<double> parse_rate(std::string_view text);

/// "5%", "0.5%" → 0.05, 0.005. Empty when there is no sign, or no number from 0 on.
std::optional<double> parse_percent(std::string_view text);

/// Four significant digits with the largest fitting unit: "2.1 ms", "999 ns".
std::string print_duration(Duration duration);

/// "57.0 GiB", "512 B".
std::string print_bytes(Bytes bytes);

/// Seconds as a double, for JSON keys that end in _s.
double to_seconds(Duration duration);

/// Division that rounds down, for what stands before a beginning: −1 of 4 belongs to group −1.
/// REQUIRES: b > 0.
template <std::signed_integral Integer>
constexpr Integer floor_div(Integer a, Integer b) {
  return a / b - (a % b < 0 ? 1 : 0);
}

}  // namespace tandem
