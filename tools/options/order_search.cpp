#include "tools/options/order_search.h"

#include <charconv>
#include <chrono>
#include <cmath>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/progress.h"
#include "core/schedule/user_schedule.h"
#include "tools/cli/interrupt.h"

namespace tandem::tools {

namespace {

using Clock = std::chrono::steady_clock;

std::vector<double> parse_caps(const std::string& text) {
  std::vector<double> caps;
  for (const char *at = text.data(), *end = at + text.size(); at <= end; ++at) {
    double cap = 0.0;
    const auto [after, error] = std::from_chars(at, end, cap);
    if (error != std::errc{} || !std::isfinite(cap) || cap < 0.0 ||
        (after != end && *after != ',')) {
      throw UsageError(fmt::format(
          "--activation-cap: expected one number, or one for each device, such as 4,3.5,3, found "
          "\"{}\"",
          text));
    }
    caps.push_back(cap);
    at = after;
  }
  return caps;
}

void check_halves(const StageCosts& costs) {
  for (const PartId part : ids(costs.parts)) {
    const StageTimes& times = costs.parts[part];
    const Duration halves = times.backward_input + times.backward_weight;
    if (times.backward == halves) continue;
    throw InputError(
        fmt::format("search needs a whole backward that takes as long as its two halves: stage {} "
                    "takes {} for a whole one and {} for its halves",
                    index(part), print_duration(times.backward), print_duration(halves)));
  }
}

/// As asked for. Where no effort is: an order of more than a million ops takes too long to look at
/// for the usual effort to be a second's.
std::optional<Duration> limit_of(const Options& options, const ScheduleRequest& request) {
  constexpr Duration kUsual = std::chrono::seconds(5);
  constexpr std::int64_t kOps = 1'000'000;
  if (options.has("time-limit")) return options.duration("time-limit");
  const bool large = std::int64_t{3} * request.devices * request.microbatches > kOps;
  return large && !request.search.orders ? std::optional(kUsual) : std::nullopt;
}

std::string progress_text(const SearchProgress& now) {
  return fmt::format("search: {} orders, best {}, none below {}", now.orders,
                     print_duration(now.best), print_duration(now.bound));
}

}  // namespace

void add_search_options(Options& options) {
  options.value("seed", "N", "search, --scenarios: the same seed gives the same answer (default 1)")
      .value("orders", "N",
             "search: how many orders to try at most (default: about a second's; more than a "
             "million ops end after 5 s)")
      .value("time-limit", "T", "search: stop after this long, with the best so far");
}

void read_search_options(const Options& options, ScheduleRequest& request) {
  if (options.has("activation-cap")) {
    const std::vector<double> caps = parse_caps(options.text("activation-cap"));
    if (caps.size() == 1) {
      request.activation_cap = caps.front();
    } else {
      request.activation_caps = caps;
    }
  }
  constexpr std::int64_t kMost = 1'000'000'000'000;
  request.search.seed = static_cast<std::uint64_t>(options.integer("seed", 0, kMost, 1));
  if (options.has("orders")) request.search.orders = options.integer("orders", 0, kMost, 0);
}

bool is_search(const ScheduleTraits& traits) { return traits.name == "search"; }

OrderSearch search_with_progress(const Options& options, const ScheduleTraits& traits,
                                 const ScheduleRequest& request, const StageCosts& costs) {
  if (const auto reason = reason_against(traits, request)) throw InputError(*reason);
  check_halves(costs);
  const std::optional<Duration> limit = limit_of(options, request);
  const Clock::time_point start = Clock::now();
  const InterruptGuard interrupt(OnInterrupt::ends_by_itself);
  OrderSearch search{.found = {}, .seed = request.search.seed};
  {
    const Activity line("search");
    const SearchControl control{
        .stop =
            [&] {
              return interrupt.token().stop_requested() ||
                     (limit && Clock::now() - start >= *limit);
            },
        .progress =
            [&](const SearchProgress& now) { line.say([&] { return progress_text(now); }); }};
    search.found = search_order(request, control);
  }
  search.found.schedule = completed(std::move(search.found.schedule), request);
  search.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  search.interrupted = search.found.stopped && interrupt.token().stop_requested();
  return search;
}

std::string search_text(const OrderSearch& search) {
  const SearchedOrder& found = search.found;
  std::string text = fmt::format("search: {}", print_duration(found.makespan));
  if (found.named.empty()) {
    text += "; no named schedule of one stage a device keeps the cap\n";
  } else if (found.is_named()) {
    text += fmt::format(", as fast as {}, the fastest named schedule of one stage a device\n",
                        found.named);
  } else {
    text += fmt::format(
        ", {:.2f} % less than {}, the fastest named schedule of one stage a device ({})\n",
        100.0 * found.gain(), found.named, print_duration(found.named_makespan));
  }
  text += found.optimal()
              ? "proved: no order of these stages takes less\n"
              : fmt::format("proved: no order of these stages takes less than {}, {:.2f} % below\n",
                            print_duration(found.bound), 100.0 * found.gap());
  text += fmt::format("{} orders tried in {:.2f} s, seed {}{}\n", found.orders, search.seconds,
                      search.seed, found.stopped ? "; stopped, the best so far" : "");
  return text;
}

Json search_json(const OrderSearch& search) {
  const SearchedOrder& found = search.found;
  Json named = nullptr, named_makespan = nullptr;
  if (!found.named.empty()) {
    named = found.named;
    named_makespan = to_seconds(found.named_makespan);
  }
  return {{"makespan_s", to_seconds(found.makespan)},
          {"bound_s", to_seconds(found.bound)},
          {"gap", found.gap()},
          {"optimal", found.optimal()},
          {"fastest_named", named},
          {"fastest_named_makespan_s", named_makespan},
          {"gain", found.gain()},
          {"is_named", found.is_named()},
          {"orders", found.orders},
          {"seed", search.seed},
          {"seconds", search.seconds},
          {"stopped", found.stopped},
          {"interrupted", search.interrupted}};
}

int search_exit_code(const OrderSearch& search) {
  if (!search.interrupted) return static_cast<int>(ExitCode::done);
  fmt::print(stderr, "error: interrupted after {} orders: this is the best so far\n",
             search.found.orders);
  return static_cast<int>(ExitCode::interrupted);
}

}  // namespace tandem::tools
