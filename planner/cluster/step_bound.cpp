#include "planner/cluster/step_bound.h"

#include <algorithm>
#include <limits>

#include "core/base/error.h"
#include "simulator/cost/cluster_costs.h"
#include "simulator/cost/layer_times.h"

namespace tandem {

namespace {

/// Rounding of nanoseconds, many of which are added.
constexpr double kJustBelow = 1.0 - 1e-6;

std::int64_t shards(const ClusterFrame& frame) { return frame.sharded_optimizer ? frame.width : 1; }

double between(const std::vector<double>& sums, std::size_t first, std::size_t last) {
  return sums[last] - sums[first];
}

/// Stages that are each as long as a limit allows, from the front; no further than they get.
struct FilledStages {
  bool all = false;      // layers are in one
  double busiest = 0.0;  // of them
  double next = 0.0;     // the least of one that goes a layer further
};
template <class Takes>
FilledStages fill(std::size_t layers, std::size_t stages, double limit, Takes takes) {
  FilledStages filled{.next = std::numeric_limits<double>::infinity()};
  std::size_t first = 0, before = 0;
  for (std::size_t stage = 0; stage < stages && first < layers; ++stage) {
    // Most stages are as long as the one before.
    std::size_t end = std::min(first + before, layers);
    while (end > first && takes(first, end) > limit) --end;
    if (end == first + before)
      while (end < layers && takes(first, end + 1) <= limit) ++end;
    if (end > first) filled.busiest = std::max(filled.busiest, takes(first, end));
    if (end < layers) filled.next = std::min(filled.next, takes(first, end + 1));
    if (end == first) return filled;
    before = end - first;
    first = end;
  }
  filled.all = first == layers;
  return filled;
}

/// The least X for which layers can be cut into `stages` that each take at most X, but for
/// rounding: by bisection from one of what stages can take to another. `takes` grows with a range
/// and with what is before it.
template <class Takes>
double least_busiest(std::size_t layers, std::size_t stages, Takes takes) {
  double low = 0.0, high = takes(0, layers);
  while (high - low > 1e-9 * high) {
    const double middle = low + (high - low) / 2;
    const FilledStages filled = fill(layers, stages, middle, takes);
    // With less than `next` all stages end where they do.
    (filled.all ? high : low) = filled.all ? filled.busiest : filled.next;
  }
  return std::min(low, high);
}

/// The most `what` of layers in a row whose `limited` is at most `limit`.
double most_within(const std::vector<double>& what, const std::vector<double>& limited,
                   double limit) {
  double most = 0.0;
  for (std::size_t first = 0, end = 0; first + 1 < limited.size(); ++first) {
    while (end + 1 < limited.size() && between(limited, first, end + 1) <= limit) ++end;
    most = std::max(most, between(what, first, std::max(first, end)));
  }
  return most;
}

/// Passes through a model that takes `fastest`, a second, of who takes `own` for its layers: given
/// whatever it does best, since others may do the rest.
double most_speed(const std::vector<double>& fastest, const std::vector<double>& own) {
  double best = 0.0;
  for (std::size_t layer = 0; layer + 1 < own.size(); ++layer) {
    const double takes = between(own, layer, layer + 1);
    if (takes > 0.0) best = std::max(best, between(fastest, layer, layer + 1) / takes);
  }
  return best / std::max(fastest.back(), 1e-12);
}

}  // namespace

StepBound::StepBound(const ClusterQuestion& question, std::shared_ptr<ClusterWays> ways)
    : question_(question), ways_(std::move(ways)) {}

const StepBound::Work& StepBound::work(const ClusterFrame& frame) {
  const Key key(frame.tensor, frame.microbatch_size, frame.slices, frame.recompute);
  const auto [place, unknown] = known_.try_emplace(key);
  if (unknown) place->second = make_work(frame);
  return place->second;
}

/// Adds those of a slice; of updates there is one, whatever the slices.
void StepBound::add_layers(const LayerTimes& times, Work& work) {
  StageTimes all;
  const bool first = work.first_whole.empty();
  if (first) work.first_whole = work.first_inputs = {0.0};
  for (std::int32_t layer = 0; layer < times.layers(); ++layer) {
    for (const StageTimes& one : times.each_of({layer, layer + 1})) {
      for (const auto time : kOpTimes) all.*time += one.*time;
    }
    const auto end = static_cast<std::size_t>(layer) + 1;
    work.whole[end] += to_seconds(all.forward + all.backward);
    work.inputs[end] += to_seconds(all.forward + all.backward_input);
    work.halves[end] += to_seconds(all.forward + all.backward_input + all.backward_weight);
    work.updates[end] = to_seconds(all.update);
    if (!first) continue;
    work.first_whole.push_back(work.whole[end]);
    work.first_inputs.push_back(work.inputs[end]);
  }
}

StepBound::Work StepBound::make_work(const ClusterFrame& frame) const {
  const Cluster& cluster = ways_->cluster();
  const auto tensor = static_cast<std::size_t>(frame.tensor);
  const AnalyticAssumptions assumptions = assumptions_of(question_, frame);
  Plan plan = question_.base.plan;
  plan.microbatch_size = frame.microbatch_size;
  plan.request.recompute = fewest_made_again(frame.recompute);
  plan.request.slices.count = frame.slices;
  std::vector<SequencePart> parts = sequence_parts(plan.request.slices, plan.model);
  if (parts.empty()) parts.emplace_back();
  const ClusterLayout layout(ways_, 1, 1, DeviceOrder::replicas_first, tensor);
  const auto count = static_cast<std::int32_t>(layers_of(plan.model).size());
  std::map<std::pair<std::size_t, const DeviceSpec*>, Work> kinds;
  std::vector<const Work*> of_groups;
  const std::int64_t groups = static_cast<std::int64_t>(cluster.size()) / frame.tensor;
  for (std::int64_t group = 0; group < groups; ++group) {
    const DeviceId first = id_at<DeviceId>(static_cast<std::size_t>(group) * tensor);
    const auto [kind, unknown] = kinds.try_emplace({cluster.node_kind(first), &cluster[first]});
    Work& alone = kind->second;
    if (unknown) {
      for (Sums* sums : {&alone.whole, &alone.halves, &alone.inputs, &alone.updates})
        sums->assign(static_cast<std::size_t>(count) + 1, 0.0);
      for (const SequencePart part : parts)
        add_layers(layers_alone(plan, layout, assumptions, first, part), alone);
    }
    of_groups.push_back(&alone);
  }
  const Sums& fastest = (*std::ranges::min_element(of_groups, {}, [](const Work* of) {
                          return of->whole.back();
                        }))->whole;
  std::map<const Work*, double> known;
  const auto unlike =
      std::ranges::find_if(of_groups, [&](const Work* of) { return of != of_groups.front(); });
  Work work = *of_groups.front();
  work.alike = unlike - of_groups.begin();
  for (const Work* of : of_groups) {
    const auto [place, fresh] = known.try_emplace(of);
    if (fresh) place->second = most_speed(fastest, of->whole);
    work.speeds.push_back(place->second);
  }
  return work;
}

/// Each device of a plan is as slow as the slowest that stands for it in any pipeline.
double StepBound::passes_per_s(const ClusterFrame& frame, DeviceOrder order) {
  const Work& done = work(frame);
  if (frame.groups() <= done.alike) return frame.depth * done.speeds.front();
  const auto tensor = static_cast<std::size_t>(frame.tensor);
  const ClusterLayout layout(ways_, frame.width, frame.depth, order, tensor);
  double all = 0.0;
  for (const DeviceId device : all_ids<DeviceId>(frame.depth)) {
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t replica = 0; replica < frame.width; ++replica)
      least = std::min(least, done.speeds[index(layout.at(device, replica)) / tensor]);
    all += least;
  }
  return all;
}

double StepBound::of(const ClusterFrame& frame) {
  const Work& done = work(frame);
  const double rate = question_.order ? passes_per_s(frame, *question_.order)
                                      : std::max(passes_per_s(frame, DeviceOrder::replicas_first),
                                                 passes_per_s(frame, DeviceOrder::stages_first));
  double seconds = frame.microbatches / rate;
  if (frame.groups() <= done.alike)
    seconds += done.updates.back() / static_cast<double>(shards(frame)) / frame.depth;
  return seconds * kJustBelow;
}

double StepBound::busiest(const ClusterFrame& frame, std::size_t stages, bool halves) {
  const Key key(frame.tensor, frame.microbatch_size, frame.slices, frame.recompute);
  const auto [place, unknown] =
      busiest_.try_emplace({key, stages, frame.microbatches, shards(frame), halves});
  if (!unknown) return place->second;
  const Work& done = work(frame);
  const Sums& all = halves ? done.halves : done.whole;
  return place->second =
             least_busiest(all.size() - 1, stages, [&](std::size_t first, std::size_t last) {
               return frame.microbatches * between(all, first, last) +
                      between(done.updates, first, last) / static_cast<double>(shards(frame));
             });
}

double StepBound::one_stage_a_device(const ClusterFrame& frame, const ScheduleSketch& of) {
  const double computes = busiest(frame, frame.depth, of.halves);
  if (!of.flushes || !of.whole || frame.slices > 1) return computes;
  const Work& done = work(frame);
  return std::max(
      computes,
      least_busiest(done.whole.size() - 1, frame.depth, [&](std::size_t first, std::size_t last) {
        return frame.microbatches * between(done.whole, first, last) + done.whole[first];
      }));
}

double StepBound::waiting(const ClusterFrame& frame, const ScheduleSketch& of, std::size_t stages,
                          Cut cut) {
  const Work& done = work(frame);
  const Sums& passes = of.halves ? done.inputs : done.whole;
  const Sums& first_slice = of.halves ? done.first_inputs : done.first_whole;
  // What a stage takes at most.
  double most = passes.back(), most_of_first = first_slice.back();
  if (cut == Cut::balanced) {
    const double limit = busiest(frame, stages, of.halves) / frame.microbatches * (1.0 + 1e-6);
    const Sums& all = of.halves ? done.halves : done.whole;
    most = most_within(passes, all, limit);
    most_of_first = most_within(first_slice, all, limit);
  }
  // Stage d is the first of device d. It has a layer at least of each stage before; what the stages
  // from it on can't take, too.
  double before = 0.0, mean = 0.0;
  for (std::size_t device = 0; device < frame.depth; ++device) {
    before = std::max(first_slice[device],
                      first_slice.back() - static_cast<double>(stages - device) * most_of_first);
    mean += before / frame.depth;
  }
  const double all = frame.microbatches * passes.back();
  const double others = static_cast<double>(stages - stages / frame.depth) * most;
  const double last_device = all - frame.microbatches * others + before;
  const double last_stage = std::max(between(passes, passes.size() - 2, passes.size() - 1),
                                     passes.back() - static_cast<double>(stages - 1) * most);
  return std::max({all / frame.depth + mean, last_device,
                   first_slice.back() + (frame.microbatches - 1) * last_stage});
}

double StepBound::of(const ClusterShape& shape, Cut cut) {
  const ClusterFrame& frame = shape.frame;
  const double any = of(frame);
  if (frame.groups() > work(frame).alike) return any;
  const ScheduleSketch& of_row = sketches_.of(*shape.schedule);
  const std::uint16_t fixed = shape.schedule->replicas_per_device;
  const std::size_t stages = std::size_t{frame.depth} * (fixed == 0 ? shape.chunks : fixed);
  const Work& done = work(frame);
  double bound = stages == frame.depth
                     ? one_stage_a_device(frame, of_row)
                     : (frame.microbatches * (of_row.halves ? done.halves : done.whole).back() +
                        done.updates.back() / static_cast<double>(shards(frame))) /
                           frame.depth;
  if (of_row.flushes && (of_row.whole || of_row.halves))
    bound = std::max(bound, waiting(frame, of_row, stages, cut));
  return std::max(any, bound * kJustBelow);
}

}  // namespace tandem
