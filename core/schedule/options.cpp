#include "core/schedule/options.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/ascii.h"

namespace tandem {

namespace {

using Request = ScheduleRequest;

constexpr std::int64_t kMostDevices = 4096, kMostCount = 65'535;
constexpr std::int64_t kMostSearched = 1'000'000'000'000, kMostSeed = 9'000'000'000'000'000'000;

const std::array<ScheduleOption, 19> kOptionRows{{
    // Flag, argument, help; member, key, least, most, times, otherwise; use.
    {{"width", "W", "replicas of the whole pipeline (default 1)"},
     {&Request::width, "width", 1, kMostCount},
     {.of_all = true, .stands_in_plans = true}},
    {{"chunks", "V", "stages on each device (default 2)"},
     {&Request::chunks, "chunks", 1, kMostDevices, 1, 2},
     {}},
    {{"waves", "W", "passes down the devices and back (default 1)"},
     {&Request::chunks, "", 1, kMostDevices / 2, 2, 2},
     {}},
    {{"group", "G",
      "microbatches that run in a row on one chunk (default: the fewest that work); "
      "for gpipe: microbatches before the pipeline drains (default M)"},
     {&Request::group, "group", 0, kMostCount},
     {}},
    {{"extra-in-flight", "N", "microbatches in flight beyond the minimum on the first stage"},
     {&Request::extra_in_flight, "extra_in_flight", 0, kMostCount},
     {.stands_in_plans = true}},
    {{"replicas", "A-B-C", "replicas of each stage, such as 2-1-1"},
     {&Request::replicas, "replicas"},
     {}},
    {{"directions", "K", "pipelines; half run in each direction (default 2)"},
     {&Request::directions, "directions", 1, kMostDevices},
     {}},
    {{"vertical-sync", "", "a microbatch uses one version on all stages"},
     {&Request::vertical_sync, "vertical_sync"},
     {}},
    {{"correction-decay", "D",
      "what is left of an old change of the weights in the correction of newer ones after the time "
      "from forward to backward; 1: no correction (default 0.135)"},
     {&Request::correction_decay, "correction_decay", 0, 1},
     {}},
    {{"published-delays", "",
      "correct for the delays that the paper says, right for pipelines that do a forward and a "
      "backward of different microbatches in each tick; those of 1f1b are shorter"},
     {&Request::published_delays, "published_delays"},
     {}},
    {{"slices", "N",
      "how each sequence is cut: N slices as long as each other; by-work:N, with as many "
      "operations "
      "each; by-time, as many and as long as is fastest for the model; or the tokens of each, such "
      "as 512,256,256 (default 1: not cut)"},
     {&Request::slices, "slices"},
     {}},
    {{"single-backwards", "", "backwards one by one, and not those of an update as one op"},
     {&Request::single_backwards, "single_backwards"},
     {}},
    {{"activation-cap", "X",
      "microbatches whose activations a device may hold (default: any number; "
      "v-adaptive: P); search also takes one number for each device"},
     {&Request::activation_caps, "activation_cap"},
     {}},
    {{"seed", "N", "the same seed gives the same answer, also with --scenarios (default 1)"},
     {&Request::seed, "", 0, kMostSeed},
     {}},
    {{"orders", "N",
      "orders to try (default: as many as take a second; with more than a million ops, 5 s)"},
     {&Request::orders, "", 0, kMostSearched},
     {}},
    {{"time-limit", "T", "stop after this long, with the best so far"},
     {&Request::time_limit},
     {.by_clock = true}},
    {{"recompute", "KIND",
      "none|selective|full|stage, uniform:N or blocks:N: what backwards compute again: what is "
      "cheap in each layer; each block, from its input; the whole stage, by an op of its own; N "
      "blocks together; the first N of each stage"},
     {&Request::recompute, "recompute"},
     {.of_all = true, .stands_in_plans = true}},
    // Set by --clip, whose text says by how much, too.
    {{"", "", ""}, {&Request::global_norm, "global_norm"}, {.of_all = true}},
    {{"post-validation", "",
      "update before the norm is known; check in the next batch, and roll back where "
      "clipping was needed"},
     {&Request::post_validation, "post_validation"},
     {.of_all = true, .joins_plans = true}},
}};

template <class Value>
using Member = Value Request::*;

/// All numbers between `mark`s; empty: one is none.
template <class Number>
std::optional<std::vector<Number>> numbers_in(std::string_view text, char mark) {
  std::vector<Number> numbers;
  while (true) {
    const std::size_t end = std::min(text.find(mark), text.size());
    const auto number = number_in<Number>(text.substr(0, end));
    if (!number) return std::nullopt;
    numbers.push_back(*number);
    if (end == text.size()) return numbers;
    text.remove_prefix(end + 1);
  }
}

/// Sets a member from text; returns what was expected where that can't be.
class OptionParser {
 public:
  OptionParser(const ScheduleOption& option, std::string_view text, ScheduleRequest& request)
      : option_(option), text_(text), request_(request) {}

  template <class Whole>
  std::optional<std::string> operator()(Member<Whole> member) {
    const auto number = number_in<std::int64_t>(text_);
    if (!number || *number < option_.least || *number > option_.most)
      return fmt::format("an integer from {} to {}", option_.least, option_.most);
    request_.*member = static_cast<Whole>(*number * option_.times);
    return std::nullopt;
  }
  std::optional<std::string> operator()(Member<double> member) {
    const auto number = number_in<double>(text_);
    if (!number || !(*number >= static_cast<double>(option_.least)) ||
        *number > static_cast<double>(option_.most))
      return fmt::format("a number from {} to {}", option_.least, option_.most);
    request_.*member = *number;
    return std::nullopt;
  }
  std::optional<std::string> operator()(Member<bool> member) {
    if (text_ != "yes") return "no value";
    request_.*member = true;
    return std::nullopt;
  }
  std::optional<std::string> operator()(Member<Recompute> member) {
    const std::optional<Recompute> recompute = parse_recompute(text_);
    if (!recompute) return std::string(kRecomputeNames);
    request_.*member = *recompute;
    return std::nullopt;
  }
  std::optional<std::string> operator()(Member<Slicing> member) {
    std::optional<Slicing> slicing = parse_slicing(text_);
    if (!slicing) return std::string(kSlicingNames);
    request_.*member = std::move(*slicing);
    return std::nullopt;
  }
  std::optional<std::string> operator()(Member<std::vector<std::uint16_t>> member) {
    auto counts = numbers_in<std::uint16_t>(text_, '-');
    if (!counts || std::ranges::find(*counts, 0) != counts->end()) return "counts such as 2-1-1";
    request_.*member = std::move(*counts);
    return std::nullopt;
  }
  std::optional<std::string> operator()(Member<std::vector<double>> member) {
    auto numbers = numbers_in<double>(text_, ',');
    const auto bad = [](double number) { return !std::isfinite(number) || number < 0.0; };
    if (!numbers || std::ranges::any_of(*numbers, bad))
      return "one number, or one for each device, such as 4,3.5,3";
    request_.*member = std::move(*numbers);
    return std::nullopt;
  }
  std::optional<std::string> operator()(Member<std::optional<Duration>> member) {
    const std::optional<Duration> time = parse_duration(std::string(text_));
    if (!time) return "a time with its unit (ns, us, ms, s), such as 1.5ms";
    request_.*member = time;
    return std::nullopt;
  }

 private:
  const ScheduleOption& option_;
  const std::string_view text_;
  ScheduleRequest& request_;
};

struct OptionPrinter {
  const Request& request;
  std::int64_t times;

  template <class Whole>
  std::string operator()(Member<Whole> member) const {
    return fmt::format("{}", request.*member / times);
  }
  std::string operator()(Member<std::optional<std::int64_t>> member) const {
    return request.*member ? fmt::format("{}", *(request.*member)) : std::string();
  }
  std::string operator()(Member<double> member) const { return fmt::format("{}", request.*member); }
  std::string operator()(Member<bool> member) const { return request.*member ? "yes" : "no"; }
  std::string operator()(Member<Recompute> member) const { return name(request.*member); }
  std::string operator()(Member<Slicing> member) const { return name(request.*member); }
  std::string operator()(Member<std::vector<std::uint16_t>> member) const {
    return fmt::format("{}", fmt::join(request.*member, "-"));
  }
  std::string operator()(Member<std::vector<double>> member) const {
    return fmt::format("{}", fmt::join(request.*member, ","));
  }
  std::string operator()(Member<std::optional<Duration>> member) const {
    return request.*member ? fmt::format("{}ns", (request.*member)->count()) : std::string();
  }
};

/// Whether the schedule takes this option, or another one that sets the same member.
bool serves(const ScheduleTraits& traits, const ScheduleOption& option) {
  return option_of(traits, option.member) != nullptr;
}

}  // namespace

std::span<const ScheduleOption> schedule_options() { return kOptionRows; }

bool takes(const ScheduleTraits& traits, std::string_view flag) {
  return std::ranges::find(traits.options, flag) != traits.options.end();
}

bool takes(const ScheduleTraits& traits, const ScheduleOption& option) {
  return option.of_all || takes(traits, option.flag);
}

const ScheduleOption* option_of(const ScheduleTraits& traits, OptionMember member) {
  const auto found = std::ranges::find_if(kOptionRows, [&](const ScheduleOption& option) {
    return option.member == member && takes(traits, option);
  });
  return found == kOptionRows.end() ? nullptr : &*found;
}

bool is_unset(const ScheduleOption& option, const ScheduleRequest& request) {
  static const ScheduleRequest kNothing;
  return std::visit([&](auto member) { return request.*member == kNothing.*member; },
                    option.member);
}

std::optional<std::string> parse_option(const ScheduleOption& option, std::string_view text,
                                        ScheduleRequest& request) {
  return std::visit(OptionParser(option, text, request), option.member);
}

void copy_option(const ScheduleOption& option, const ScheduleRequest& from, ScheduleRequest& to) {
  std::visit([&](auto member) { to.*member = from.*member; }, option.member);
}

std::string option_text(const ScheduleOption& option, const ScheduleRequest& request) {
  return std::visit(OptionPrinter{request, option.times}, option.member);
}

const ScheduleOption* option_not_taken(const ScheduleTraits& traits,
                                       const ScheduleRequest& request) {
  const auto found = std::ranges::find_if(kOptionRows, [&](const ScheduleOption& option) {
    return !is_unset(option, request) && !serves(traits, option);
  });
  return found == kOptionRows.end() ? nullptr : &*found;
}

void fit_options(const ScheduleTraits& traits, ScheduleRequest& request) {
  static const ScheduleRequest kNothing;
  for (const ScheduleOption& option : kOptionRows) {
    if (!serves(traits, option))
      std::visit([&](auto member) { request.*member = kNothing.*member; }, option.member);
    if (option.otherwise && takes(traits, option) && is_unset(option, request))
      request.*std::get<Member<std::uint16_t>>(option.member) = *option.otherwise;
  }
}

}  // namespace tandem
