#include "core/schedules/search/order_search.h"

#include <numeric>
#include <set>
#include <utility>

#include "core/schedules/all.h"
#include "core/schedules/search/order_clock.h"
#include "core/schedules/search/order_tree.h"

namespace tandem {

namespace {

struct NamedOrder {
  std::string name;
  FoundOrder order;
};

bool keeps_cap(const OrderProblem& problem, const Words& words) {
  for (std::size_t j = 0; j < words.size(); ++j) {
    if (!is_possible(problem, j, words[j])) return false;
  }
  return true;
}

/// The ways to ask a row for such an order: the caps to try, where it takes one.
std::vector<ScheduleRequest> requests_for(const ScheduleTraits& row,
                                          const ScheduleRequest& request) {
  ScheduleRequest plain = request;
  plain.activation_caps.clear();
  plain.tied_embeddings = false;
  std::vector<ScheduleRequest> all;
  const bool takes_cap =
      std::find(row.options.begin(), row.options.end(), "activation-cap") != row.options.end();
  const std::set<double> caps(request.activation_caps.begin(), request.activation_caps.end());
  if (!takes_cap || caps.empty()) return {plain};
  for (const double cap : caps) {
    all.push_back(plain);
    all.back().activation_caps = {cap};
  }
  return all;
}

/// The named schedules that run these stages as they are, and keep the cap.
void add_named_orders(const OrderProblem& problem, const ScheduleRequest& request,
                      std::vector<NamedOrder>& all) {
  OrderClock clock(problem);
  for (const ScheduleTraits& row : schedules()) {
    if (row.make == make_search || row.weights != WeightSemantics::vanilla ||
        row.replicas_per_device != 1 || row.replicas_per_stage != 1)
      continue;
    for (const ScheduleRequest& one : requests_for(row, request)) {
      if (!all.empty()) keep_going();  // one there is, however soon it is to end
      if (reason_against(row, one)) continue;
      const std::optional<Words> words = words_of(row.make(one));
      if (!words || !keeps_cap(problem, *words)) continue;
      all.push_back({std::string(row.name), {*words, clock.makespan(*words)}});
    }
  }
}

/// The same with whole backwards as halves, which send their gradients earlier. False: stopped.
bool better_by_halves(const OrderProblem& problem, const std::vector<NamedOrder>& all,
                      const SearchControl& control, FoundOrder& best) {
  OrderClock clock(problem);
  for (const NamedOrder& one : all) {
    if (control.stop && control.stop()) return false;
    Words halves = split(one.order.words);
    const std::int64_t makespan = clock.makespan(halves);
    if (makespan < best.makespan) best = {std::move(halves), makespan};
  }
  return true;
}

/// No order takes less than the busiest device computes.
std::int64_t longest_work(const OrderProblem& problem) {
  std::int64_t longest = 0;
  for (const OrderProblem::Device& device : problem.devices) {
    const std::int64_t each =
        std::accumulate(device.times.begin(), device.times.end(), std::int64_t{0});
    longest = std::max(longest, each * problem.microbatches + device.after);
  }
  return longest;
}

/// One microbatch at a time: possible within any cap.
FoundOrder one_by_one(const OrderProblem& problem) {
  Word word;
  for (std::int32_t k = 0; k < problem.microbatches; ++k)
    word.insert(word.end(), {Letter::forward, Letter::input, Letter::weight});
  Words words(problem.devices.size(), word);
  const std::int64_t makespan = OrderClock(problem).makespan(words);
  return {std::move(words), makespan};
}

/// So few ops that the tree is searched to its end, whatever that takes.
bool is_small(const OrderProblem& problem) {
  constexpr std::size_t kDevices = 3;
  constexpr std::int32_t kMicrobatches = 6;
  return problem.devices.size() <= kDevices && problem.microbatches <= kMicrobatches;
}

std::size_t ops_of(const OrderProblem& problem) {
  return kLetters * problem.devices.size() * static_cast<std::size_t>(problem.microbatches);
}

/// About a second's on one core, however large an order is.
std::int64_t orders_of(const ScheduleRequest& request, std::size_t ops) {
  if (request.orders) return *request.orders;
  constexpr std::int64_t kOps = 200'000'000, kMost = 300'000;
  return std::min(kMost, kOps / static_cast<std::int64_t>(ops));
}

/// Orders looked at in a few milliseconds.
std::int64_t looks_between_questions(const OrderProblem& problem) {
  constexpr std::int64_t kMost = 256, kOps = 1'000'000;
  return std::clamp(kOps / static_cast<std::int64_t>(ops_of(problem)), std::int64_t{1}, kMost);
}

/// From the fastest named order on. Returns whether it is proved that none is faster.
bool better(const OrderProblem& problem, const ScheduleRequest& request, OrderBound& bound,
            SearchMeter& meter, FoundOrder& best) {
  const auto settled = [&] { return best.makespan <= bound.of_all(); };
  if (settled()) return true;
  const std::size_t ops = ops_of(problem);
  const std::int64_t all = meter.left();
  // A beam looks at two or three times its width of begun orders at each of its levels.
  constexpr std::size_t kWidest = 256, kLargestTree = 2000;
  const std::size_t widest = std::min(kWidest, static_cast<std::size_t>(all / 5) / (3 * ops));
  for (std::size_t width = 1; width <= widest && !meter.stopped(); width *= 4) {
    search_beam(problem, bound, width, meter, best);
    if (settled()) return true;
  }
  if (ops <= kLargestTree) {
    const std::int64_t left = meter.left();
    const std::int64_t share =
        is_small(problem) ? std::numeric_limits<std::int64_t>::max() : left / 10;
    meter.allow(share);
    if (search_tree(problem, bound, meter, best)) return true;
    meter.allow(left - (share - meter.left()));
  }
  improve(problem, bound.of_all(), static_cast<std::uint64_t>(request.seed), meter, best);
  return settled();
}

}  // namespace

double SearchedOrder::gap() const {
  return makespan.count() == 0 ? 0.0 : 1.0 - to_seconds(bound) / to_seconds(makespan);
}

double SearchedOrder::gain() const {
  if (named.empty() || named_makespan.count() == 0) return 0.0;
  return 1.0 - to_seconds(makespan) / to_seconds(named_makespan);
}

SearchedOrder search_order(const ScheduleRequest& request, const SearchControl& control) {
  const OrderProblem problem = order_problem(request);
  SearchedOrder result;
  FoundOrder best = one_by_one(problem);
  const FoundOrder* named = nullptr;
  std::vector<NamedOrder> all;
  std::optional<OrderBound> bound;
  try {
    const StopWhen stop(control.stop);
    add_named_orders(problem, request, all);
    bound.emplace(problem);
  } catch (const EndedEarly&) {
    result.stopped = true;
  }
  for (const NamedOrder& one : all) {
    if (named != nullptr && one.order.makespan >= named->makespan) continue;
    named = &one.order;
    result.named = one.name;
    result.named_makespan = Duration(named->makespan);
  }
  result.stopped = result.stopped || !better_by_halves(problem, all, control, best);
  SearchMeter meter(orders_of(request, ops_of(problem)), looks_between_questions(problem), control);
  const std::int64_t least = bound ? bound->of_all() : longest_work(problem);
  meter.now.best = Duration(best.makespan);
  meter.now.bound = Duration(least);
  const bool proved = bound && !result.stopped ? better(problem, request, *bound, meter, best)
                                               : best.makespan == least;
  if (named != nullptr && named->makespan <= best.makespan) best = *named;
  result.schedule = schedule_of(request, best.words);
  result.schedule.name = "search";
  result.makespan = Duration(best.makespan);
  result.bound = proved ? result.makespan : Duration(least);
  result.orders = meter.now.orders;
  result.stopped = result.stopped || meter.stopped();
  return result;
}

std::int64_t effort_of_search(const ScheduleRequest& request) {
  constexpr std::int64_t kOpsInTheTime = 200;
  const std::int64_t ops = std::int64_t{kLetters} * request.devices * request.microbatches;
  return orders_of(request, static_cast<std::size_t>(ops)) * ops / kOpsInTheTime;
}

Schedule make_search(const ScheduleRequest& request) { return search_order(request).schedule; }

}  // namespace tandem
