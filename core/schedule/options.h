#pragma once
// The options of schedules, a row each: the command line, plan files, the refusal of what a
// schedule does not take, help and `schedule --list` all read these rows.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/base/units.h"
#include "core/schedule/schedule.h"

namespace tandem {

/// Where a request holds an option's value; the type says how the value is written.
using OptionMember =
    std::variant<std::uint16_t ScheduleRequest::*, std::int32_t ScheduleRequest::*,
                 std::int64_t ScheduleRequest::*, std::optional<std::int64_t> ScheduleRequest::*,
                 bool ScheduleRequest::*, double ScheduleRequest::*, Recompute ScheduleRequest::*,
                 Slicing ScheduleRequest::*,
                 std::vector<std::uint16_t> ScheduleRequest::*,  // counts: 2-1-1
                 std::vector<double> ScheduleRequest::*,         // numbers: 4,3.5,3
                 std::optional<Duration> ScheduleRequest::*>;

/// What the command line and help call an option.
struct OptionWords {
  std::string_view flag;      // on the command line, without "--"; empty: another option sets it
  std::string_view argument;  // what help calls its value; empty: it has none
  std::string_view help;      // without the schedules that take it, which stand before it
};

/// What a request and files hold of it.
struct OptionValue {
  OptionMember member;
  std::string_view key = {};         // of JSON; empty: neither plans nor results hold it
  std::int64_t least = 0, most = 0;  // of numbers
  std::int64_t times = 1;            // the member holds so many times the number
  /// What the member holds where the schedule takes the option and it is not given; else as in any
  /// request.
  std::optional<std::uint16_t> otherwise = {};
};

/// Who takes it, and what it does to plans.
struct OptionUse {
  bool of_all = false;           // every schedule takes it
  bool stands_in_plans = false;  // even where it says nothing
  bool joins_plans = false;      // is given beside a plan, too, and then holds as if it said so
  bool by_clock = false;         // what it makes depends on the speed of the machine
};

/// A row: all that the command line, files and help know of an option. What it means is known to
/// the schedules that read its member.
struct ScheduleOption : OptionWords, OptionValue, OptionUse {};

/// In the order in which they are listed and written.
std::span<const ScheduleOption> schedule_options();

/// Whether the schedule takes what stands on the command line as `--flag`.
bool takes(const ScheduleTraits& traits, std::string_view flag);
bool takes(const ScheduleTraits& traits, const ScheduleOption& option);

/// The option by which the schedule is told what the request holds there; null: by none.
const ScheduleOption* option_of(const ScheduleTraits& traits, OptionMember member);

/// Whether the request holds what it holds where nothing is asked for.
bool is_unset(const ScheduleOption& option, const ScheduleRequest& request);

/// The option as text says it: "4", "2-1-1", "1.5s", "full"; a flag's text is "yes". Returns what
/// would have been right where the text is not ("an integer from 1 to 4096"), and changes nothing.
std::optional<std::string> parse_option(const ScheduleOption& option, std::string_view text,
                                        ScheduleRequest& request);

void copy_option(const ScheduleOption& option, const ScheduleRequest& from, ScheduleRequest& to);

/// What parse_option() takes for what the request holds: "4", "2-1-1", "1500000000ns"; of a flag
/// "yes" or "no". Empty: a list without an entry, a number or a time that is not set.
std::string option_text(const ScheduleOption& option, const ScheduleRequest& request);

/// The first option that the request sets and the schedule does not take; null: none.
const ScheduleOption* option_not_taken(const ScheduleTraits& traits,
                                       const ScheduleRequest& request);

/// Makes a request for one schedule one for another: what this one does not take is unset, and what
/// it takes and is not set has its default.
void fit_options(const ScheduleTraits& traits, ScheduleRequest& request);

}  // namespace tandem
