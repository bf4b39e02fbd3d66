#include "planner/cluster/cluster_search.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/progress.h"
#include "core/schedule/options.h"
#include "planner/cluster/least_memory.h"
#include "planner/cluster/nearest_miss.h"
#include "planner/cluster/pace_bound.h"
#include "planner/cluster/step_bound.h"

namespace tandem {

namespace {

constexpr double kIdeal = 1.0 - 1e-5;  // of a value: so near to its bound nothing is to be gained
constexpr std::size_t kExactlyRanked = 10;
constexpr double kNever = std::numeric_limits<double>::infinity();

/// 0, 1, 2, 4 … up to twice the links: more in flight gains nothing.
std::vector<std::int32_t> extras_of(const ClusterShape& shape) {
  std::vector<std::int32_t> extras{0};
  if (option_of(*shape.schedule, &ScheduleRequest::extra_in_flight) == nullptr) return extras;
  for (std::int32_t extra = 1; extra <= 2 * (shape.frame.depth - 1); extra *= 2)
    extras.push_back(extra);
  return extras;
}

class ClusterSearch {
 public:
  ClusterSearch(const ClusterQuestion& question, const std::function<bool()>& stop,
                double elsewhere)
      : question_(question),
        stop_(stop),
        elsewhere_(elsewhere),
        memo_(question.base.cluster),
        space_(question),
        bounds_(question, memo_.ways()),
        memory_(question),
        paces_(question, memo_.ways()),
        most_memory_(most_usable(question)),
        prices_(*question.base.cluster) {
    check_prices();
    for (const ScheduleTraits* row : space_.schedules()) outcomes_[row].schedule = row;
    const Cluster& cluster = *question.base.cluster;
    for (std::size_t device = 0; device < cluster.size(); ++device) {
      const Bytes memory = cluster[id_at<DeviceId>(device)].memory_bytes;
      equal_memory_ = equal_memory_ && memory == cluster[DeviceId{}].memory_bytes;
    }
  }

  ClusterAnswer run() {
    answer_.rejected = space_.rejected();
    answer_.frames = space_.frames().size();
    open_frames();
    const Activity progress("searching plans");
    while (least_open() < (1.0 - question_.gap) * std::min(least(), elsewhere_)) {
      if (stop_ && stop_()) {
        answer_.interrupted = true;
        break;
      }
      progress.say([this] { return words(); });
      if (bound_of_frames() <= bound_of_shapes()) {
        const OpenFrame next = frames_.back();
        frames_.pop_back();
        expand(space_.frames()[next.frame], next.bound);
      } else {
        const OpenShape next = shapes_.top();
        shapes_.pop();
        evaluate(next.shape, next.bound);
      }
      progress.step();
    }
    finish();
    return std::move(answer_);
  }

 private:
  /// A frame whose schedules are not looked at yet.
  struct OpenFrame {
    double bound = 0.0;
    std::size_t frame = 0;  // of two alike the first
    friend auto operator<=>(const OpenFrame&, const OpenFrame&) = default;
  };
  struct OpenShape {
    double bound = 0.0;
    std::size_t order = 0;  // of two alike the first
    ClusterShape shape;
    friend bool operator<(const OpenShape& a, const OpenShape& b) {
      return std::tuple(a.bound, a.order) > std::tuple(b.bound, b.order);  // the least on top
    }
  };
  double bound_of_frames() const { return frames_.empty() ? kNever : frames_.back().bound; }
  double bound_of_shapes() const { return shapes_.empty() ? kNever : shapes_.top().bound; }
  double least_open() const { return std::min(bound_of_frames(), bound_of_shapes()); }

  /// A price for as many devices as a plan may use.
  void check_prices() const {
    if (question_.objective != Objective::cost) return;
    if (prices_.usd_per_s(static_cast<std::size_t>(question_.devices()))) return;
    throw InputError(
        fmt::format("{} has no price, so that nobody knows what a plan costs; give its device "
                    "\"usd_per_hour\" in a cluster file",
                    prices_.unpriced()->name));
  }

  double least() const { return answer_.ranked.empty() ? kNever : answer_.ranked.front().value; }

  std::string words() const {
    return fmt::format("searching plans: {} simulated, the best {}", answer_.simulated,
                       answer_.ranked.empty()
                           ? "does not fit yet"
                           : fmt::format("takes {:.4g} s", answer_.ranked.front().period_s));
  }

  void open_frames() {
    std::map<std::int32_t, std::string> unpriced;  // tensor degrees
    for (std::size_t frame = 0; frame < space_.frames().size(); ++frame) {
      const ClusterFrame& of = space_.frames()[frame];
      if (unpriced.contains(of.tensor)) continue;
      try {
        frames_.push_back({value_of(of, bounds_.of(of), 0.0), frame});
      } catch (const InputError& error) {
        unpriced[of.tensor] = error.what();
        answer_.rejected.push_back(
            {RejectCause::not_measured, fmt::format("tensor degree {}", of.tensor), error.what()});
      }
    }
    std::ranges::sort(frames_, std::greater<>());
  }

  bool surely_too_large(const ClusterShape& shape) {
    return memory_.of(shape) > static_cast<double>(most_memory_);
  }

  /// What the objective counts of a plan that takes so long; of so many bytes on the fullest
  /// device.
  double value_of(const ClusterFrame& frame, double seconds, double bytes) const {
    switch (question_.objective) {
      case Objective::throughput:
        return seconds;
      case Objective::memory:
        return bytes;
      case Objective::cost:
        return seconds * prices_.usd_per_s(devices_of(frame)).value();
    }
    return seconds;
  }
  double bound_of(const ClusterShape& shape, StepBound::Cut cut) {
    if (question_.objective == Objective::memory) return memory_.of(shape);
    return value_of(shape.frame, std::max(bounds_.of(shape, cut), paces_.of(shape)), 0.0);
  }
  static std::size_t devices_of(const ClusterFrame& frame) {
    return static_cast<std::size_t>(frame.groups() * frame.tensor);
  }

  void expand(const ClusterFrame& frame, double bound) {
    std::vector<Rejected> refused;
    for (const ClusterShape& shape : space_.shapes(frame, refused)) open(shape, bound);
    answer_.rejected.insert(answer_.rejected.end(), refused.begin(), refused.end());
  }

  /// Whose bound is no less than `least`.
  void open(const ClusterShape& shape, double least) {
    const auto cut = cut_ == StageCut::balanced ? StepBound::Cut::balanced : StepBound::Cut::any;
    const double bound = std::max(least, bound_of(shape, cut));
    if (bound == kNever) return leave_out(shape);
    shapes_.push({bound, order_++, shape});
    if (shape.frame.recompute.kind != Recompute::Kind::uniform) return;
    // What keeps less computes as long: it waits for this one, unless it is bounded by memory.
    const bool by_memory =
        question_.objective == Objective::memory || paces_.of(shape) > bounds_.of(shape, cut);
    if (by_memory) open_keeping_less(shape);
  }
  void open_keeping_less(const ClusterShape& shape) {
    // Weights and what is made of them stay.
    if (memory_.lasting(shape) > static_cast<double>(most_memory_) * shape.frame.depth) return;
    const auto less = space_.keeping_less(shape);
    if (less && opened_.insert(*less).second) open(*less, 0.0);
  }

  void leave_out(const ClusterShape& shape) {
    ++outcomes_[shape.schedule].too_large;
    misses_.push_back({memory_.of(shape), shape});
    open_keeping_less(shape);
  }

  void evaluate(const ClusterShape& shape, double bound) {
    ++answer_.shapes;
    ScheduleOutcome& outcome = outcomes_[shape.schedule];
    if (surely_too_large(shape) || sharded_is_too_large(shape)) {
      leave_out(shape);
      return;
    }
    std::optional<ClusterCandidate> best;
    // That depends on the order where devices have unequal memory.
    bool too_large = false, ever_too_large = false, slow_in_any_order = false;
    for (const DeviceOrder order : orders(shape)) {
      if ((too_large && equal_memory_) || slow_in_any_order) break;
      for (const std::int32_t extra : extras_of(shape)) {
        Attempt one = attempt(shape, order, extra);
        slow_in_any_order = one.slow_in_any_order;
        too_large = one.too_large;
        ever_too_large = ever_too_large || too_large;
        if (too_large) break;  // more in flight needs no less
        if (!one.found) continue;
        const bool ideal = one.found->value * kIdeal <= bound;
        if (!best || better(*one.found, *best)) best = std::move(one.found);
        if (ideal) break;
      }
    }
    // Memory has a say in the cut where a device has one stage: elsewhere what keeps less is alike.
    if (ever_too_large || shape.schedule->replicas_per_device == 1) open_keeping_less(shape);
    if (!best && too_large) {
      misses_.push_back({memory_.of(shape), shape});
      if (shape.frame.sharded_optimizer) too_large_.insert(unsharded(shape));
      // Where a device has one stage, no cut fits.
      if (cut_ == StageCut::balanced && shape.schedule->replicas_per_device == 1 &&
          !shape.schedule->evicts)
        return;
    }
    might_be_better(bound_of(shape, StepBound::Cut::any), shape);
    if (!best) return;
    if (!outcome.best || better(*best, *outcome.best)) outcome.best = best;
    auto& ranked = answer_.ranked;
    // That fits as it is: to make more blocks again together changes nothing.
    const bool in_vain = std::ranges::any_of(ranked, [&](const ClusterCandidate& one) {
      return one.value == best->value && differ_in_recomputation(one, *best);
    });
    if (in_vain) return;
    ranked.insert(std::upper_bound(ranked.begin(), ranked.end(), *best, better), std::move(*best));
  }

  /// A shape but for the sharding of the optimizer.
  using Unsharded = std::tuple<const ScheduleTraits*, std::uint16_t, std::int32_t, std::uint16_t,
                               std::uint16_t, std::int32_t, std::int32_t, Recompute>;
  static Unsharded unsharded(const ClusterShape& shape) {
    const ClusterFrame& frame = shape.frame;
    return {shape.schedule, shape.chunks, frame.tensor,          frame.depth,
            frame.width,    frame.slices, frame.microbatch_size, frame.recompute};
  }
  bool sharded_is_too_large(const ClusterShape& shape) const {
    return !shape.frame.sharded_optimizer && too_large_.contains(unsharded(shape));
  }

  void might_be_better(double any_cut, const ClusterShape& shape) {
    if (answer_.any_cut > 0.0 && any_cut >= answer_.any_cut) return;
    answer_.any_cut = any_cut;
    answer_.any_cut_of = describe(shape);
  }

  std::vector<DeviceOrder> orders(const ClusterShape& shape) const {
    if (question_.order) return {*question_.order};
    if (shape.frame.width == 1 || shape.frame.depth == 1) return {DeviceOrder::replicas_first};
    return {DeviceOrder::replicas_first, DeviceOrder::stages_first};
  }

  /// What became of one program: found, or too large, or neither: too slow to be of interest, so
  /// that nobody counted its memory to the byte, or refused.
  struct Attempt {
    std::optional<ClusterCandidate> found = {};
    bool too_large = false;
    bool slow_in_any_order = false;  // too slow, and so in any order of devices
  };

  /// Whether a plan as fast might be the best of its schedule, or one of the first.
  bool interests(const ClusterFrame& frame, double seconds, const ScheduleOutcome& of) const {
    const double least = value_of(frame, seconds, 0.0);
    return !of.best || least <= of.best->value || answer_.ranked.size() < kExactlyRanked ||
           least <= answer_.ranked[kExactlyRanked - 1].value;
  }

  PeriodQuestion asked_of(const LoweredSchedule& lowered, const Plan& plan, const ClusterLayout& on,
                          const AnalyticAssumptions& assumptions, const StageCosts& costs) const {
    return {lowered,
            plan,
            on,
            assumptions,
            costs,
            question_.base.blocking_transfers,
            question_.contention};
  }

  /// Of the plan's schedule, which has stages by it. Empty: its schedule must be made for that, and
  /// it has none.
  std::optional<ScheduleOutline> outlined(Plan& plan, const ClusterLayout& on,
                                          const AnalyticAssumptions& assumptions) {
    if (cut_ != StageCut::balanced && cut_ != StageCut::blocks) return std::nullopt;
    auto outline = outlines_.of(find_schedule(plan.schedule), plan.request);
    if (outline) cut_outline(plan, *outline, on, assumptions, cut_, cuts_);
    return outline;
  }

  /// `costs`: the plan's, if it has stages.
  std::shared_ptr<const LoweredSchedule> schedule_of(Plan& plan, const ClusterLayout& on,
                                                     const AnalyticAssumptions& assumptions,
                                                     const std::optional<StageCosts>& costs) {
    if (!find_schedule(plan.schedule).orders_by_costs) return memo_.schedules().of(plan);
    return std::make_shared<const LoweredSchedule>(
        costs ? schedule_by_costs(plan, *costs) : schedule_on_cluster(plan, on, assumptions, cut_));
  }

  Attempt attempt(const ClusterShape& shape, DeviceOrder order, std::int32_t extra) {
    Plan plan = plan_of(question_, shape);
    plan.request.extra_in_flight = extra;
    const ClusterFrame& frame = shape.frame;
    const ClusterLayout& on =
        *memo_.layout(frame.width, frame.depth, order, static_cast<std::size_t>(frame.tensor));
    try {
      return attempt(shape, std::move(plan), on, order);
    } catch (const InputError& error) {
      answer_.rejected.push_back({RejectCause::schedule, describe(shape), error.what()});
      ++outcomes_[shape.schedule].refused;
      return {};
    }
  }

  Attempt attempt(const ClusterShape& shape, Plan plan, const ClusterLayout& on,
                  DeviceOrder order) {
    ScheduleOutcome& outcome = outcomes_[shape.schedule];
    const AnalyticAssumptions assumptions = assumptions_of(question_, shape.frame);
    const auto interests = [&](double s) { return this->interests(shape.frame, s, outcome); };
    const auto outline = outlined(plan, on, assumptions);
    const auto least_s = [&](const Plan& cut, const StageCosts& costs) {
      return outline ? least_period_s(*outline, cut, costs, question_.contention) : 0.0;
    };
    std::optional<StageCosts> costs;
    if (outline) {
      // Cheaper than all of it.
      const Placement& placement = outline->placement();
      if (!interests(least_s(plan, computation_costs(plan, placement, on, assumptions))))
        return {.slow_in_any_order = on.alike_groups()};
      if (shape.schedule->orders_by_costs) {
        costs = cluster_costs(plan, placement, on, assumptions);
        if (!interests(least_s(plan, *costs))) return {};
      }
    }
    const auto lowered = schedule_of(plan, on, assumptions, costs);
    const bool has_stages = outline || shape.schedule->orders_by_costs;
    std::optional<FoundPeriod> period;
    const auto wanted = [&](const Plan& cut, const StageCosts& of) {
      period = FoundPeriod{.seconds = least_s(cut, of)};
      if (interests(period->seconds))
        period = period_of_interest(asked_of(*lowered, cut, on, assumptions, of), interests);
      answer_.simulated += period->simulated ? 1 : 0;
      outcome.simulated += period->simulated ? 1 : 0;
      return interests(period->seconds);
    };
    auto prices = prices_if_it_fits(plan, *lowered, on, assumptions, bytes_,
                                    has_stages ? StageCut::given : cut_, wanted);
    if (prices && question_.contention) {  // dearer than to count memory
      period = contended_period(asked_of(*lowered, prices->plan, on, assumptions, prices->costs));
      ++answer_.contended;
    }
    if (prices) return {candidate(shape, std::move(*prices), *period, order)};
    const bool too_slow = period && !interests(period->seconds);
    outcome.too_large += too_slow ? 0 : 1;
    return {.found = std::nullopt, .too_large = !too_slow};
  }

  ClusterCandidate candidate(const ClusterShape& shape, ClusterPrices made,
                             const FoundPeriod& period, DeviceOrder order) const {
    ClusterRequest request = request_of(question_, shape);
    request.plan.request.extra_in_flight = made.plan.request.extra_in_flight;
    request.order = order;
    ClusterCandidate one = candidate_of(std::move(request), std::move(made), period);
    if (const auto price = prices_.usd_per_s(one.devices)) one.usd = period.seconds * *price;
    one.value = value_of(shape.frame, period.seconds, static_cast<double>(one.peak_bytes));
    return one;
  }

  /// What is open is no better than its bound; what fits may be better in another cut.
  void finish() {
    if (answer_.ranked.empty() && !answer_.interrupted && elsewhere_ == kNever)
      answer_.nearest = nearest_miss(question_, std::move(misses_));
    answer_.bound = std::min(least(), least_open());
    std::map<const ScheduleTraits*, double> still_open;
    for (; !shapes_.empty(); shapes_.pop()) {
      const OpenShape& one = shapes_.top();
      still_open.try_emplace(one.shape.schedule, one.bound);  // the least comes first
      if (!surely_too_large(one.shape))
        might_be_better(bound_of(one.shape, StepBound::Cut::any), one.shape);
    }
    const double frames = bound_of_frames();
    if (frames < answer_.any_cut || answer_.any_cut == 0.0) {
      answer_.any_cut = std::min(frames, least());
      answer_.any_cut_of.clear();
    }
    for (auto& [row, outcome] : outcomes_) {
      const auto own = still_open.find(row);
      const double open = std::min(frames, own == still_open.end() ? kNever : own->second);
      outcome.bound = open == kNever ? 0.0 : open;
    }
    for (const ScheduleTraits* row : space_.schedules())
      answer_.schedules.push_back(std::move(outcomes_.at(row)));
  }

  const ClusterQuestion& question_;
  const StageCut cut_ = question_.base.cut;
  const std::function<bool()>& stop_;
  const double elsewhere_;
  ClusterMemo memo_;
  ScheduleOutlines outlines_;
  KnownCuts cuts_;
  KnownBytes bytes_;
  const ClusterSpace space_;
  StepBound bounds_;
  LeastMemory memory_;
  PaceBound paces_;
  const Bytes most_memory_;  // that a plan may fill of any device
  const DevicePrices prices_;
  std::vector<OpenFrame> frames_;  // the one of the least bound last
  std::priority_queue<OpenShape> shapes_;
  std::size_t order_ = 0;     // of the next shape
  bool equal_memory_ = true;  // all devices have as much
  std::map<const ScheduleTraits*, ScheduleOutcome> outcomes_;
  std::set<Unsharded> too_large_;  // even with a sharded optimizer
  std::set<ClusterShape> opened_;  // of those that keep less
  std::vector<MemoryMissOfShape> misses_;
  ClusterAnswer answer_;
};

}  // namespace

ClusterAnswer find_in_node_order(const ClusterQuestion& question, const std::function<bool()>& stop,
                                 double elsewhere) {
  return ClusterSearch(question, stop, elsewhere).run();
}

}  // namespace tandem
