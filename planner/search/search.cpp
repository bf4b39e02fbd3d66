#include "planner/search/search.h"

#include <algorithm>
#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <variant>

#include "core/base/check.h"
#include "core/base/progress.h"
#include "core/lower/lower.h"
#include "planner/search/batch_work.h"
#include "planner/search/explain.h"
#include "planner/search/partition.h"
#include "planner/search/stage_memory.h"
#include "simulator/cost/fitted_slices.h"
#include "simulator/cost/measured_layers.h"
#include "simulator/simulate.h"

namespace tandem {

namespace {

/// Smaller is better.
auto rank(const Candidate& candidate) {
  const Plan& plan = candidate.plan;
  return std::tuple(candidate.period, plan.request.devices * plan.request.width,
                    candidate.peak_bytes, candidate.row, plan.request.chunks,
                    plan.request.recompute, -plan.microbatch_size, plan.request.extra_in_flight);
}

bool better(const Candidate& a, const Candidate& b) { return rank(a) < rank(b); }

struct Bounded {
  const Shape* shape = nullptr;
  Duration bound{};  // no plan of the shape has a shorter period, whatever its cut
};

class PlanSearch {
 public:
  explicit PlanSearch(const PlanRequest& request)
      : request_(request), bytes_(request.model, request.optimizer, request.storage) {}

  PlanResult run() {
    // Of another model: said at once, however little of the profile is of use.
    check_same_layers(request_.profile, request_.model);
    SearchSpace space = search_space(request_);
    result_.rejected = std::move(space.rejected);
    result_.shapes = space.shapes.size();
    std::vector<Bounded> all;
    const Activity progress("trying shapes of a plan", 2 * std::ssize(space.shapes));
    for (const Shape& shape : space.shapes) {
      progress.step();
      all.push_back(bounded(shape));
    }
    std::ranges::stable_sort(all, {}, &Bounded::bound);
    for (const Bounded& one : all) {
      progress.step();
      if (surely_worse(one))
        ++result_.pruned;
      else
        evaluate(*one.shape);
    }
    return std::move(result_);
  }

 private:
  const LayerTimes& times(std::int32_t microbatch_size, Recompute recompute,
                          const Slicing& slices) {
    const std::tuple key(microbatch_size, recompute, slices);
    auto found = times_.find(key);
    if (found == times_.end()) {
      const std::vector<SequencePart> parts = sequence_parts(slices, request_.model);
      auto measured =
          measured_layers(parts.empty() ? request_.profile : on_slices(request_.profile, parts),
                          request_.model, microbatch_size, recompute);
      found = times_.emplace(key, std::move(measured)).first;
    }
    return found->second;
  }

  const LayerTimes& times_of(const Plan& plan) {
    return times(plan.microbatch_size, plan.request.recompute, plan.request.slices);
  }

  static Duration slowest(const BatchWork& work, const LayerTimes& layer_times,
                          const std::vector<LayerRange>& cut, DeviceId* where = nullptr) {
    Duration most{};
    for (const DeviceId device : all_ids<DeviceId>(work.placement().devices)) {
      const Duration time = work.of(device, cut, layer_times);
      if (time > most && where != nullptr) *where = device;
      most = std::max(most, time);
    }
    return most;
  }

  static PartitionProblem by_time(const BatchWork& work, const LayerTimes& layer_times) {
    return {.layers = layer_times.layers(),
            .depth = static_cast<std::int32_t>(work.stages()),
            .cost = [&work, &layer_times](LayerRange range, std::size_t stage) {
              return work.of(id_at<ReplicaId>(stage), layer_times.of(range)).count();
            }};
  }

  static std::vector<LayerRange> fastest_cut(const BatchWork& work, const LayerTimes& layer_times) {
    auto cut = partition(by_time(work, layer_times));
    TANDEM_CHECK(cut.has_value(), work.stages(), layer_times.layers());
    return std::move(*cut);
  }

  /// The work of the busiest device if memory were no matter: in the fastest cut; where devices
  /// hold several stages, which another cut may balance better, if all worked alike.
  Bounded bounded(const Shape& shape) {
    const LayerTimes& layer_times = times(shape.microbatch_size, shape.recompute, shape.slices);
    const BatchWork work(make_schedule(plan_of(request_, shape, shape.extras.front())));
    const std::vector<LayerRange> cut = fastest_cut(work, layer_times);
    if (shape.chunks == 1) return {&shape, slowest(work, layer_times, cut)};
    Duration all{};
    for (const DeviceId device : all_ids<DeviceId>(shape.depth))
      all += work.of(device, cut, layer_times) / shape.depth;
    return {&shape, all};
  }

  static int devices_of(const Shape& shape) { return shape.depth * shape.width; }

  /// A plan whose bound is above the last period that will be ranked. What needs one device is
  /// always looked at, to compare with.
  bool surely_worse(const Bounded& one) const {
    if (request_.keep == 0 || result_.ranked.size() < request_.keep || devices_of(*one.shape) == 1)
      return false;
    return Period{one.bound, 1} > result_.ranked[request_.keep - 1].period;
  }

  void evaluate(const Shape& shape) {
    std::optional<Candidate> best;
    for (const std::int32_t extra : shape.extras) {
      std::variant<Candidate, TooLarge> outcome = attempt(shape, extra);
      if (auto* large = std::get_if<TooLarge>(&outcome)) {
        if (!best) {
          auto plan = std::make_shared<const Plan>(std::move(large->plan));
          result_.rejected.push_back({RejectCause::memory, describe(*plan), explain(large->miss),
                                      large->miss, std::move(plan)});
        }
        break;  // more in flight needs no less memory
      }
      auto& candidate = std::get<Candidate>(outcome);
      // More in flight can't beat the busiest stage's own pace, but within a limit it may need
      // another cut, as fast and smaller.
      const bool ideal = candidate.period == Period{candidate.slowest, 1};
      if (!best || better(candidate, *best)) best = std::move(candidate);
      if (ideal && !request_.memory) break;
    }
    if (!best) return;
    if (devices_of(shape) == 1 && (!result_.one_device || better(*best, *result_.one_device)))
      result_.one_device = best;
    const auto place =
        std::upper_bound(result_.ranked.begin(), result_.ranked.end(), *best, better);
    result_.ranked.insert(place, std::move(*best));
    if (request_.keep > 0 && result_.ranked.size() > request_.keep) result_.ranked.pop_back();
  }

  /// A plan in the cut of least memory, which misses that much.
  struct TooLarge {
    MemoryMiss miss;
    Plan plan;
  };

  std::variant<Candidate, TooLarge> attempt(const Shape& shape, std::int32_t extra) {
    Candidate candidate;
    Plan& plan = candidate.plan;
    plan = plan_of(request_, shape, extra);
    candidate.weights = weight_semantics(plan);
    if (shape.schedule != nullptr) candidate.row = shape.schedule - schedules().data();
    Schedule schedule = make_schedule(plan);
    const BatchWork work(schedule);
    const LayerTimes& layer_times = times_of(plan);
    plan.stages = fastest_cut(work, layer_times);
    if (shape.schedule != nullptr && shape.schedule->orders_by_costs) {
      plan.request.costs =
          order_costs(costs_from_profile(request_.profile, plan), plan.request.recompute);
      schedule = make_schedule(plan);
    }
    const Program program = lower(schedule);
    const SlotCounts slots = count_slots(program);
    candidate.memory = device_memory(program, slots, plan, bytes_);
    if (request_.memory && memory_miss(candidate.memory, *request_.memory)) {
      if (const auto miss = cut_to_fit(program, slots, work, plan))
        return TooLarge{*miss, std::move(plan)};
      candidate.memory = device_memory(program, slots, plan, bytes_);
    }
    candidate.slowest = slowest(work, layer_times, plan.stages, &candidate.slowest_device);
    predict(program, candidate);
    return candidate;
  }

  /// Sets the fastest cut that fits; where none does, what the least one misses. Where devices hold
  /// several stages, or stashes of others, only the cut whose largest stage is smallest is tried.
  std::optional<MemoryMiss> cut_to_fit(const Program& program, const SlotCounts& slots,
                                       const BatchWork& work, Plan& plan) {
    PartitionProblem problem = by_time(work, times_of(plan));
    problem.fits = [&](LayerRange range, std::size_t stage) {
      const StageBytes& bytes = bytes_.of(range, plan);
      return stage_total(slots.rows()[stage], bytes) <= *request_.memory;
    };
    const bool hosted_stashes = std::ranges::any_of(
        slots, [](const StageSlots& of) { return of[SlotKind::hosted_stash] > 0; });
    const bool several = stage_count(plan) > plan.request.devices || hosted_stashes;
    if (!several) {
      if (auto cut = partition(problem)) {
        plan.stages = std::move(*cut);
        return std::nullopt;
      }
    }
    plan.stages = least_memory_cut(slots, plan, bytes_);
    auto miss = memory_miss(device_memory(program, slots, plan, bytes_), *request_.memory);
    TANDEM_CHECK(miss.has_value() || several, describe(plan));
    return miss;
  }

  void predict(const Program& program, Candidate& candidate) {
    Plan& plan = candidate.plan;
    StageCosts costs = costs_from_profile(request_.profile, plan);
    const CostTable table = price(program, cost_model(program.placement(), std::move(costs)));
    const SimulationResult simulated = simulate(program, table, {.batches = 1});
    ++result_.simulated;
    candidate.period = {simulated.cycle, simulated.cycle_batches};
    plan.predicted.period_s = candidate.period.seconds();
    if (plan.predicted.period_s > 0.0)
      plan.predicted.samples_per_s = request_.global_batch / plan.predicted.period_s;
    for (const MemoryByClass& memory : candidate.memory) {
      plan.predicted.peak_bytes.push_back(memory.total());
      candidate.peak_bytes = std::max(candidate.peak_bytes, memory.total());
    }
  }

  const PlanRequest& request_;
  RangeBytes bytes_;
  std::map<std::tuple<std::int32_t, Recompute, Slicing>, LayerTimes> times_;
  PlanResult result_;
};

}  // namespace

std::strong_ordering operator<=>(const Period& a, const Period& b) {
  // Whole parts first: then the products are of remainders, and can't overflow.
  const std::int64_t a_whole = a.cycle.count() / a.batches, b_whole = b.cycle.count() / b.batches;
  if (a_whole != b_whole) return a_whole <=> b_whole;
  return a.cycle.count() % a.batches * b.batches <=> b.cycle.count() % b.batches * a.batches;
}

double Candidate::bubble() const {
  const double whole = period.seconds();
  return whole > 0.0 ? (whole - to_seconds(slowest)) / whole : 0.0;
}

PlanResult find_plans(const PlanRequest& request) { return PlanSearch(request).run(); }

}  // namespace tandem
