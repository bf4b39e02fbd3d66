#include "traces/compare.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "core/program/title.h"
#include "core/text/count_text.h"

namespace tandem {
namespace {

/// What a record is compared as: the same for both sides of a run.
struct Key {
  OpKind kind;
  DeviceId device, peer;
  ReplicaId replica;
  std::int64_t microbatch;
  friend auto operator<=>(const Key&, const Key&) = default;
};

Key key_of(const TimelineRecord& record) {
  return {record.kind, record.device, record.peer, record.replica, record.microbatch};
}

TimelineRecords sorted_ops(const TimelineRecords& records) {
  TimelineRecords ops;
  std::ranges::copy_if(records, std::back_inserter(ops), [](const TimelineRecord& one) {
    // A transfer is one op on two lanes: that of its stage's device counts.
    return !is_transfer(one.kind) || one.lane == own_lane(one.kind);
  });
  std::ranges::sort(ops, {}, [](const TimelineRecord& one) {
    return std::tuple(key_of(one), one.start, one.end);
  });
  return ops;
}

Duration start_of(const TimelineRecords& records) {
  if (records.empty()) return {};
  return std::ranges::min(records, {}, &TimelineRecord::start).start;
}

Duration makespan_of(const TimelineRecords& records) {
  if (records.empty()) return {};
  return std::ranges::max(records, {}, &TimelineRecord::end).end - start_of(records);
}

/// A file may claim anything: sums stop at 292 years.
void add(Duration& sum, Duration duration) {
  sum = duration > Duration::max() - sum ? Duration::max() : sum + duration;
}

/// When each batch's last update ended.
std::map<std::int64_t, Duration> completions_of(const TimelineRecords& records) {
  std::map<std::int64_t, Duration> completions;
  for (const TimelineRecord& record : records) {
    if (!makes_version(record.kind)) continue;
    const auto [found, fresh] = completions.try_emplace(record.batch, record.end);
    if (!fresh) found->second = std::max(found->second, record.end);
  }
  return completions;
}

/// Returns the moments from which on all counts.
Compared compare_steps(const TimelineRecords& simulated, const TimelineRecords& measured,
                       Comparison& result) {
  const auto left = completions_of(simulated), right = completions_of(measured);
  const Compared start{start_of(simulated), start_of(measured)};
  Compared before = start, warm = start;
  for (std::int64_t batch = 0; left.contains(batch) && right.contains(batch); ++batch) {
    const Compared now{left.at(batch), right.at(batch)};
    result.steps.push_back({now.simulated - before.simulated, now.measured - before.measured});
    before = now;
    if (batch < result.warm_up_batches) warm = now;
  }
  result.batches = std::ssize(result.steps);
  const std::int64_t rest = result.batches - result.warm_up_batches;
  if (rest < 1) return start;
  result.left_out = result.warm_up_batches;
  result.step = {(before.simulated - warm.simulated) / rest,
                 (before.measured - warm.measured) / rest};
  return warm;
}

void compare_devices(const TimelineRecords& simulated, const TimelineRecords& measured,
                     const Compared& from, Comparison& result) {
  std::map<DeviceId, Compared> busy;
  const auto add_side = [&](const TimelineRecords& records, Duration Compared::*side) {
    for (const TimelineRecord& record : records) {
      Compared& sum = busy[record.device];
      if (record.lane != LaneKind::compute || record.end <= from.*side) continue;
      add(sum.*side, record.end - std::max(record.start, from.*side));
    }
  };
  add_side(simulated, &Compared::simulated);
  add_side(measured, &Compared::measured);
  for (const auto& [device, sum] : busy) {
    const Compared bubble{result.counted.simulated - sum.simulated,
                          result.counted.measured - sum.measured};
    result.devices.push_back({device, sum, bubble});
  }
}

/// Pairs equal keys; what finds no partner is a difference.
std::vector<OpComparison> match(const TimelineRecords& simulated, const TimelineRecords& measured,
                                Comparison& result) {
  const TimelineRecords left = sorted_ops(simulated), right = sorted_ops(measured);
  std::vector<OpComparison> pairs;
  auto a = left.begin(), b = right.begin();
  while (a != left.end() || b != right.end()) {
    if (b == right.end() || (a != left.end() && key_of(*a) < key_of(*b)))
      result.only_simulated.push_back(*a++);
    else if (a == left.end() || key_of(*b) < key_of(*a))
      result.only_measured.push_back(*b++);
    else
      pairs.push_back({*a++, *b++});
  }
  return pairs;
}

Duration error_of(const OpComparison& op) { return std::chrono::abs(op.duration().difference()); }

/// The smallest value that `share` of the values do not exceed. REQUIRES: `sorted` is not empty.
Duration percentile(const std::vector<Duration>& sorted, double share) {
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::max<std::size_t>(rank, 1) - 1];
}

void compare_kinds(const std::vector<OpComparison>& pairs, Comparison& result) {
  std::map<OpKind, std::vector<const OpComparison*>> by_kind;
  for (const OpComparison& pair : pairs) by_kind[pair.simulated.kind].push_back(&pair);
  for (const auto& [kind, ops] : by_kind) {
    KindComparison row{.kind = kind, .count = std::ssize(ops)};
    std::vector<Duration> errors;
    for (const OpComparison* op : ops) {
      add(row.total.simulated, op->duration().simulated);
      add(row.total.measured, op->duration().measured);
      errors.push_back(error_of(*op));
    }
    std::ranges::sort(errors);
    row.mean = {row.total.simulated / row.count, row.total.measured / row.count};
    row.median_error = percentile(errors, 0.5);
    row.percentile_95_error = percentile(errors, 0.95);
    result.kinds.push_back(row);
  }
}

}  // namespace

std::optional<double> Compared::error_percent() const {
  if (measured == Duration::zero()) {
    if (simulated == Duration::zero()) return 0.0;
    return std::nullopt;
  }
  return 100.0 * static_cast<double>(difference().count()) / static_cast<double>(measured.count());
}

Comparison compare(const TimelineRecords& simulated, const TimelineRecords& measured,
                   const CompareOptions& options) {
  Comparison result;
  result.makespan = {makespan_of(simulated), makespan_of(measured)};
  result.warm_up_batches = std::max<std::int64_t>(options.warm_up_batches, 0);
  const Compared from = compare_steps(simulated, measured, result);
  result.counted = {start_of(simulated) + result.makespan.simulated - from.simulated,
                    start_of(measured) + result.makespan.measured - from.measured};
  compare_devices(simulated, measured, from, result);
  std::vector<OpComparison> pairs = match(simulated, measured, result);
  result.matched = std::ssize(pairs);
  std::erase_if(pairs,
                [&](const OpComparison& pair) { return pair.simulated.batch < result.left_out; });
  compare_kinds(pairs, result);
  std::ranges::sort(pairs, [](const OpComparison& a, const OpComparison& b) {
    return std::tuple(error_of(b), key_of(a.simulated), a.simulated.start) <
           std::tuple(error_of(a), key_of(b.simulated), b.simulated.start);
  });
  while (!pairs.empty() && (pairs.size() > options.worst || error_of(pairs.back()) == Duration{}))
    pairs.pop_back();
  result.worst = std::move(pairs);
  return result;
}

// ---- For people ----

namespace {

constexpr std::size_t kUnmatchedShown = 5;

using Cells = std::vector<std::string>;

/// Columns as wide as their widest cell: the first to the left, numbers to the right.
std::string table(const std::vector<Cells>& rows) {
  std::vector<std::size_t> widths;
  for (const Cells& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Cells& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      text += i == 0 ? fmt::format("{:<{}}", row[i], widths[i])
                     : fmt::format("  {:>{}}", row[i], widths[i]);
    }
    text += "\n";
  }
  return text;
}

/// With its sign: print_duration() knows only lengths.
std::string signed_duration(Duration duration) {
  return duration < Duration::zero() ? "-" + print_duration(-duration)
                                     : "+" + print_duration(duration);
}

std::string percent(const Compared& value) {
  const auto error = value.error_percent();
  return error ? fmt::format("{:+.1f} %", *error) : "-";
}

Cells row_of(std::string title, const Compared& value) {
  return {std::move(title), print_duration(value.simulated), print_duration(value.measured),
          percent(value)};
}

std::string describe(const TimelineRecord& record) {
  std::string text = fmt::format("{} {}, stage {}, device {}", words(name(record.kind)),
                                 record.microbatch, index(record.replica), index(record.device));
  if (record.peer != record.device) text += fmt::format(" to {}", index(record.peer));
  return text;
}

/// ", without the first batch".
std::string left_out(const Comparison& comparison) {
  if (comparison.left_out == 0) return "";
  if (comparison.left_out == 1) return ", without the first batch";
  return fmt::format(", without the first {} batches", comparison.left_out);
}

std::string whole_table(const Comparison& comparison) {
  std::vector<Cells> rows{{"", "simulated", "measured", "error"}};
  rows.push_back(row_of("makespan", comparison.makespan));
  if (comparison.step) {
    rows.push_back(row_of("time per step" + left_out(comparison), *comparison.step));
  }
  return table(rows);
}

std::string device_table(const Comparison& comparison) {
  std::vector<Cells> rows{
      {"device", "busy: simulated", "measured", "error", "bubble: simulated", "measured"}};
  const auto share = [](Duration part, Duration whole) {
    return whole == Duration::zero()
               ? std::string("-")
               : fmt::format("{:.1f} %", 100.0 * to_seconds(part) / to_seconds(whole));
  };
  for (const DeviceComparison& row : comparison.devices) {
    Cells cells = row_of(std::to_string(index(row.device)), row.busy);
    cells.push_back(share(row.bubble.simulated, comparison.counted.simulated));
    cells.push_back(share(row.bubble.measured, comparison.counted.measured));
    rows.push_back(std::move(cells));
  }
  return table(rows);
}

std::string kind_table(const Comparison& comparison) {
  std::vector<Cells> rows{{"op", "count", "mean: simulated", "measured", "error",
                           "|error| of an op: median", "95th percentile"}};
  for (const KindComparison& row : comparison.kinds) {
    rows.push_back({words(name(row.kind)), std::to_string(row.count),
                    print_duration(row.mean.simulated), print_duration(row.mean.measured),
                    percent(row.mean), print_duration(row.median_error),
                    print_duration(row.percentile_95_error)});
  }
  return table(rows);
}

std::string worst_table(const Comparison& comparison) {
  std::vector<Cells> rows{{"largest differences", "simulated", "measured", "difference"}};
  for (const OpComparison& op : comparison.worst) {
    const Compared duration = op.duration();
    rows.push_back({describe(op.simulated), print_duration(duration.simulated),
                    print_duration(duration.measured), signed_duration(duration.difference())});
  }
  return table(rows);
}

std::string unmatched(const TimelineRecords& records, const std::string& where) {
  if (records.empty()) return "";
  std::string text = fmt::format("\nonly in the {}: {}\n", where, counted(records.size(), "op"));
  for (std::size_t i = 0; i < std::min(records.size(), kUnmatchedShown); ++i)
    text += "  " + describe(records[i]) + "\n";
  if (records.size() > kUnmatchedShown) text += "  …\n";
  return text;
}

}  // namespace

std::string print_comparison(const Comparison& comparison) {
  std::string text = whole_table(comparison);
  text += fmt::format("{} on both sides, {}\n", counted(comparison.matched, "op"),
                      counted(comparison.batches, "batch"));
  if (const std::string less = left_out(comparison); !less.empty())
    text += "devices and ops" + less + ":\n";
  if (!comparison.devices.empty()) text += "\n" + device_table(comparison);
  if (!comparison.kinds.empty()) text += "\n" + kind_table(comparison);
  if (!comparison.worst.empty()) text += "\n" + worst_table(comparison);
  text += unmatched(comparison.only_simulated, "simulation");
  text += unmatched(comparison.only_measured, "measurement");
  return text;
}

}  // namespace tandem
