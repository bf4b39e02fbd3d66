#include "simulator/cost/plain_costs.h"

#include <cmath>
#include <cstdint>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "core/base/check.h"
#include "core/base/error.h"

namespace tandem {

namespace {

StageTimes times_of_stage(const PlainTimes& given, std::size_t chunks) {
  TANDEM_CHECK(given.forward &&
               (given.backward || (given.backward_input && given.backward_weight)));
  StageTimes times;
  times.forward = *given.forward;
  if (given.backward) {
    times.backward = *given.backward;
    times.backward_input = times.backward / 2;
    times.backward_weight = times.backward - times.backward_input;
  } else {
    times.backward_input = *given.backward_input;
    times.backward_weight = *given.backward_weight;
    times.backward = times.backward_input + times.backward_weight;
  }
  times.recompute = given.recompute.value_or(times.forward);
  times.update = given.update.value_or(Duration{});
  times.reduce = given.reduce.value_or(Duration{});
  times.overlapped = given.overlapped;
  times.move = given.move;
  if (!given.of_device || chunks <= 1) return times;
  const auto shares = static_cast<std::int64_t>(chunks);
  for (Duration* time : {&times.forward, &times.backward, &times.backward_input,
                         &times.backward_weight, &times.recompute, &times.update, &times.reduce})
    *time /= shares;
  for (auto* time : {&times.overlapped, &times.move}) {
    if (*time) **time /= shares;
  }
  return times;
}

GivenCosts costs_from_file(const std::string& path, const StageCostFile& file, std::size_t stages,
                           std::size_t devices) {
  if (file.stages.size() != stages) {
    throw InputError(fmt::format("{}: the schedule has {} stages, the file has {} costs", path,
                                 stages, file.stages.size()));
  }
  if (!file.links.empty() && file.links.size() + 1 != devices) {
    throw InputError(fmt::format("{}: {} devices have {} links in a line, the file has {} costs",
                                 path, devices, devices - 1, file.links.size()));
  }
  GivenCosts given{
      .times = {.stages = {}, .transfer = file.transfer, .links = file.links, .norm = file.norm},
      .held = {}};
  for (const StageCostRow& row : file.stages) {
    given.times.stages.push_back({.forward = row.forward,
                                  .recompute = row.recompute,
                                  .backward = row.backward,
                                  .backward_input = row.backward_input,
                                  .backward_weight = row.backward_weight,
                                  .update = row.update,
                                  .reduce = file.reduce,
                                  .overlapped = row.overlapped,
                                  .move = row.move});
    const Bytes all = row.activation.value_or(0);
    given.held.push_back(
        {static_cast<double>(all), static_cast<double>(row.weight_gradient.value_or(all))});
    given.sized = given.sized || row.activation.has_value();
  }
  return given;
}

}  // namespace

GivenCosts given_costs(const PlainCosts& costs, std::size_t stages, std::size_t chunks,
                       std::size_t devices) {
  if (costs.file) return costs_from_file(costs.path, *costs.file, stages, devices);
  const PlainTimes& times = costs.times;
  GivenCosts given{.times = uniform_costs(stages, times_of_stage(times, chunks),
                                          times.transfer.value_or(Duration{})),
                   .held = Table<StageId, HeldActivation>(stages, {0.0, 0.0})};
  given.times.norm = times.norm.value_or(Duration{});
  if (!times.activation) return given;
  const auto bytes = static_cast<double>(*times.activation);
  const auto kept = static_cast<double>(times.weight_gradient.value_or(*times.activation));
  given.activation_after_input = bytes > 0 ? kept / bytes : 1.0;
  given.held = Table<StageId, HeldActivation>(stages, {bytes, kept});
  given.sized = true;
  return given;
}

void cut_into_slices(const Slicing& slicing, GivenCosts& costs) {
  if (slicing.count == 1) return;
  const bool given = slicing.kind == Slicing::Kind::given;
  if (!given && slicing.kind != Slicing::Kind::equal) {
    throw InputError(fmt::format(
        "slices {}: only a model says how long they are; give how many, or their lengths",
        name(slicing)));
  }
  std::vector<double> lengths(static_cast<std::size_t>(slicing.count), 1.0);
  if (given) lengths.assign(slicing.lengths.begin(), slicing.lengths.end());
  const double all = std::accumulate(lengths.begin(), lengths.end(), 0.0);
  double before = 0.0;
  for (const double length : lengths) {
    // Of whole nanoseconds: all slices together take what the microbatch takes.
    const auto share = [&, first = before, last = before + length](Duration time) {
      const auto up_to = [&](double end) {
        return std::llround(static_cast<double>(time.count()) * end / all);
      };
      return Duration(up_to(last) - up_to(first));
    };
    StageCosts slice = costs.times;
    for (StageTimes& times : slice.stages) {
      for (const auto time : kOpTimes) times.*time = share(times.*time);
    }
    slice.transfer = share(slice.transfer);
    for (Duration& link : slice.links) link = share(link);
    costs.times.slices.push_back(std::move(slice));
    costs.slices.push_back(length / all);
    before += length;
  }
}

OrderCosts order_costs(const GivenCosts& given, Recompute recompute) {
  OrderCosts costs = order_costs(given.times, recompute);
  for (const StageId stage : ids(costs.stages)) {
    const HeldActivation& held = given.held[stage];
    if (held.all > 0.0) costs.stages[stage].kept = held.after_input / held.all;
  }
  return costs;
}

}  // namespace tandem
