#include "tools/options/sweep_space.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/hash.h"
#include "core/schedule/options.h"
#include "core/schedule/schedule.h"
#include "tandem_build_info.h"
#include "tools/cli/json_output.h"
#include "tools/cli/split.h"
#include "tools/options/scenario_options.h"
#include "tools/options/schedule_options.h"

namespace tandem::tools {

namespace {

constexpr std::int64_t kMostOfARange = 100'000;

template <class... Args>
[[noreturn]] void reject(const std::string& option, fmt::format_string<Args...> why,
                         Args&&... args) {
  throw UsageError(
      fmt::format("tandem sweep: --{}: {}", option, fmt::format(why, std::forward<Args>(args)...)));
}

struct Range {
  std::int64_t first = 0, last = 0, step = 1;
  char grows = '+';
  std::string unit;
};

/// Takes the digits at the front of `text`; empty: there are none, or too many.
std::optional<std::int64_t> take_number(std::string_view& text) {
  std::int64_t number = 0;
  const bool digit = !text.empty() && text.front() >= '0' && text.front() <= '9';
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (!digit || error != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

/// Empty: it is none, but a value.
std::optional<Range> parse_range(std::string_view text) {
  const std::size_t dots = text.find("..");
  if (dots == std::string_view::npos) return std::nullopt;
  Range range;
  std::string_view first = text.substr(0, dots), rest = text.substr(dots + 2);
  const auto from = take_number(first), to = take_number(rest);
  if (!from || !to || !rest.starts_with(first)) return std::nullopt;
  range.first = *from;
  range.last = *to;
  range.unit = first;
  rest.remove_prefix(first.size());
  if (rest.empty()) return range;
  range.grows = rest.front();
  rest.remove_prefix(1);
  const auto step = take_number(rest);
  if ((range.grows != '+' && range.grows != '*') || !step || !rest.empty()) return std::nullopt;
  range.step = *step;
  return range;
}

void append_range(const std::string& option, const std::string& text, const Range& range,
                  std::vector<std::string>& values) {
  const bool times = range.grows == '*';
  if (range.last < range.first) reject(option, "the range {} is empty", text);
  if (range.step < (times ? 2 : 1) || (times && range.first == 0))
    reject(option, "the range {} does not grow", text);
  std::int64_t count = 0;
  for (std::int64_t value = range.first;;) {
    if (++count > kMostOfARange)
      reject(option, "the range {} has more than {} values", text, kMostOfARange);
    values.push_back(fmt::format("{}{}", value, range.unit));
    const std::int64_t left = times ? range.last / value : range.last - value;
    if (left < range.step) return;
    value = times ? value * range.step : value + range.step;
  }
}

std::vector<std::string> flag_values(const std::string& option, const std::string& text) {
  std::vector<std::string> values = values_of_list(option, text);
  for (const std::string& value : values) {
    if (value != "yes" && value != "no")
      reject(option, "expected yes, no or both, found \"{}\"", value);
  }
  return values;
}

/// A value that its option does not take is told of the configurations that have it.
Setting setting_on_axis(const SweepAxis& axis, const std::string& value) try {
  if (axis.name == "plan") return setting(&GivenOptions::plan, value);
  if (axis.flag && value == "no") return [](GivenOptions&) {};
  Setting set = *setting_of(OptionValue("simulate", axis.name, value));
  return [name = axis.name, set = std::move(set)](GivenOptions& given) {
    given.flags.insert(name);
    set(given);
  };
} catch (const UsageError& error) {
  return [error](GivenOptions&) { throw error; };
}

/// Empty: no file that can be read.
std::optional<std::uint64_t> hash_of_file(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  return hash_of_text(std::string(std::istreambuf_iterator<char>(file), {}));
}

}  // namespace

std::vector<std::string> values_of_list(const std::string& option, const std::string& text) {
  const char separator = text.find(';') == std::string::npos ? ',' : ';';
  std::vector<std::string> values;
  std::string_view list = text;
  if (separator == ';' && list.ends_with(';')) list.remove_suffix(1);
  for (const std::string_view one : split(list, {&separator, 1})) {
    const std::string value(one);
    if (value.empty())
      reject(option, "expected values separated by a {}, found \"{}\"",
             separator == ',' ? "comma" : "semicolon", text);
    if (const auto range = parse_range(value)) {
      append_range(option, value, *range, values);
    } else {
      values.push_back(value);
    }
  }
  std::set<std::string_view> seen;
  for (const std::string& value : values) {
    if (!seen.insert(value).second) reject(option, "{} is given twice", value);
  }
  return values;
}

SweepSpace::SweepSpace(const Options& options) {
  read_axes(options);
  take_device_costs();
  find_what_applies();
  enumerate();
  identity_.configurations = size();
  for (const SweepAxis& axis : axes_) {
    if (axis.values.size() > 1) identity_.axes.push_back(axis.name);
  }
  identity_.id = make_id(options);
}

void SweepSpace::read_axes(const Options& options) {
  for (const ScheduleOption& option : schedule_options()) {
    const std::string flag(option.flag);
    if (option.by_clock && options.has(flag))
      reject(flag, "the result would depend on the machine's speed: give --orders");
  }
  if (!options.words().empty()) add_axis("plan", options.words(), false);
  for (const std::string& name : options.given()) {
    if (!options.row(name).list) continue;
    const bool flag = options.row(name).argument.empty();
    const std::string text = options.text(name);
    add_axis(name, flag ? flag_values(name, text) : values_of_list(name, text), flag);
  }
}

void SweepSpace::add_axis(const std::string& name, std::vector<std::string> values, bool flag) {
  SweepAxis axis{.name = name, .values = std::move(values), .flag = flag};
  for (const std::string& value : axis.values)
    axis.settings.push_back(setting_on_axis(axis, value));
  axes_.push_back(std::move(axis));
}

const SweepAxis* SweepSpace::axis(const std::string& name) const {
  const auto found = std::ranges::find(axes_, name, &SweepAxis::name);
  return found == axes_.end() ? nullptr : &*found;
}

/// Schedules of one and of several stages a device do the same work then.
void SweepSpace::take_device_costs() {
  const SweepAxis* schedules = axis("schedule");
  if (schedules == nullptr || schedules->values.size() < 2 || axis("plan") != nullptr) return;
  for (const char* other : {"model", "cluster", "costs-per", "costs"}) {
    if (axis(other) != nullptr) return;
  }
  add_axis("costs-per", {"device"}, false);
}

void SweepSpace::find_what_applies() {
  applies_.resize(axes_.size());
  const SweepAxis* schedules = axis("schedule");
  if (schedules == nullptr) return;
  schedules_ = static_cast<std::size_t>(schedules - axes_.data());
  const std::vector<std::string> of_some = flags_of_some_schedules();
  std::set<std::string_view> names;
  for (const std::string& value : schedules->values) {
    const std::string_view name = find_schedule(value).name;
    if (!names.insert(name).second) reject("schedule", "names {} twice", name);
  }
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    if (std::ranges::find(of_some, axes_[i].name) == of_some.end()) continue;
    for (const std::string& value : schedules->values)
      applies_[i].push_back(takes(find_schedule(value), axes_[i].name));
    if (std::find(applies_[i].begin(), applies_[i].end(), true) == applies_[i].end())
      reject(axes_[i].name, "none of the schedules {} has this option",
             fmt::join(schedules->values, ", "));
  }
}

std::vector<std::size_t> SweepSpace::digits(std::size_t position) const {
  std::vector<std::size_t> digits(axes_.size());
  for (std::size_t i = axes_.size(); i-- > 0;) {
    digits[i] = position % axes_[i].values.size();
    position /= axes_[i].values.size();
  }
  return digits;
}

bool SweepSpace::applies(std::size_t axis, const std::vector<std::size_t>& digits) const {
  return applies_[axis].empty() || applies_[axis][digits[schedules_]];
}

void SweepSpace::enumerate() {
  std::size_t product = 1;
  for (const SweepAxis& axis : axes_) {
    product *= axis.values.size();
    if (product > kMostConfigurations)
      throw UsageError(fmt::format("tandem sweep: more than {} configurations: sweep them in parts",
                                   kMostConfigurations));
  }
  for (std::size_t position = 0; position < product; ++position) {
    const std::vector<std::size_t> at = digits(position);
    bool first = true;  // of those that differ only in what does not apply
    for (std::size_t i = 0; i < axes_.size(); ++i) first = first && (at[i] == 0 || applies(i, at));
    if (first) positions_.push_back(static_cast<std::uint32_t>(position));
  }
}

std::string SweepSpace::make_id(const Options& options) const {
  // One value does the same wherever it stands; the order of the others is that of the rows.
  std::map<std::string, std::string> fixed;
  Json swept = Json::array(), files = Json::array();
  for (const SweepAxis& axis : axes_) {
    if (axis.values.size() == 1) {
      fixed[axis.name] = axis.values.front();
    } else {
      swept.push_back({axis.name, axis.values});
    }
    if (axis.name != "plan" && options.row(axis.name).use != Options::Use::input) continue;
    for (const std::string& value : axis.values) {
      if (const auto hash = hash_of_file(value)) files.push_back({value, *hash});
    }
  }
  const Json all{build_info::kVersion, build_info::kRevision, fixed, swept, files};
  return fmt::format("{:016x}", hash_of_text(line_of(all)));
}

Json SweepSpace::configuration(std::size_t index) const {
  const std::vector<std::size_t> at = digits(positions_[index]);
  Json options = Json::object();
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    const std::string& value = axes_[i].values[at[i]];
    if (applies(i, at)) options[axes_[i].name] = axes_[i].flag ? Json(value == "yes") : Json(value);
  }
  return options;
}

/// What this thread knows of the request's cluster. Of one cluster alone: where clusters are the
/// innermost axis, nothing is kept.
static std::shared_ptr<ClusterMemo> memo_of(const ClusterRequest& request) {
  constexpr std::size_t kMostWays = 1 << 18;  // some 100 bytes each
  constexpr std::size_t kMostOps = 1 << 17;   // each thread keeps them
  thread_local std::shared_ptr<ClusterMemo> memo;
  if (!memo || memo->cluster() != request.cluster || memo->ways()->size() > kMostWays)
    memo = std::make_shared<ClusterMemo>(request.cluster, KnownSchedules(kMostOps));
  return memo;
}

SweepRun SweepSpace::run(std::size_t index) const {
  const std::vector<std::size_t> at = digits(positions_[index]);
  GivenOptions given{.command = "simulate"};
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    if (applies(i, at)) axes_[i].settings[at[i]](given);
  }
  SweepRun run{.request = scenario_request(given), .batches = given.batches};
  if (auto* request = std::get_if<ClusterRequest>(&run.request.source))
    request->memo = memo_of(*request);
  return run;
}

}  // namespace tandem::tools
