#pragma once
// Programs and prices that several tests need: every schedule over a grid of requests, and random
// costs from a seed.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/lower/lower.h"
#include "core/program/cost.h"
#include "core/schedule/options.h"
#include "core/schedule/schedule.h"
#include "tests/support/sanitizers.h"

namespace tandem::testing {

/// A schedule asked for.
struct Pipeline {
  std::string_view schedule;
  ScheduleRequest request;

  /// With what each option says that is given: "gpipe_p4_m8_group2_recompute_full".
  std::string name() const {
    std::string text = fmt::format("{}_p{}_m{}", schedule, request.devices, request.microbatches);
    for (const ScheduleOption& option : schedule_options()) {
      const bool taken = takes(find_schedule(schedule), option);
      if (!taken || is_unset(option, request)) continue;
      const bool flag = std::holds_alternative<bool ScheduleRequest::*>(option.member);
      text += fmt::format("_{}{}", option.flag.empty() ? option.key : option.flag,
                          flag ? std::string() : option_text(option, request));
    }
    if (request.costs) text += "_costs";
    if (request.tied_embeddings) text += "_tied";
    return text;
  }
};

inline ScheduleRequest request_for(int devices, std::int32_t microbatches) {
  return {
      .devices = static_cast<std::uint16_t>(devices), .microbatches = microbatches, .replicas = {}};
}

inline Pipeline pipeline(std::string_view schedule, int devices, std::int32_t microbatches,
                         std::int32_t extra_in_flight = 0) {
  return {schedule,
          {.devices = static_cast<std::uint16_t>(devices),
           .microbatches = microbatches,
           .extra_in_flight = extra_in_flight,
           .replicas = {}}};
}

inline Schedule schedule_of(const Pipeline& wanted) {
  return make_schedule(find_schedule(wanted.schedule), wanted.request);
}

inline Program program_of(const Pipeline& wanted, TransferLanes lanes = TransferLanes::shared) {
  return lower(schedule_of(wanted), lanes);
}

/// The names of the registry: one test each, which walks the grid itself.
inline std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const ScheduleTraits& traits : schedules()) names.emplace_back(traits.name);
  return names;
}

/// A schedule's name as the name of a test.
inline std::string test_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string text = info.param;
  for (char& letter : text) {
    if (letter == '-') letter = '_';
  }
  return text;
}

inline bool is_served(const Pipeline& wanted) {
  return !reason_against(find_schedule(wanted.schedule), wanted.request);
}

/// Costs that differ from stage to stage and from kind to kind.
inline OrderCosts uneven_costs(std::size_t stages) {
  OrderCosts costs{.stages = {}, .transfer = Duration(2)};
  for (std::size_t stage = 0; stage < stages; ++stage) {
    const auto spread = static_cast<std::int64_t>(stage * 5 % 7);
    costs.stages.push_back({.forward = Duration(10 + spread),
                            .backward_input = Duration(13 - spread),
                            .backward_weight = Duration(5 + 2 * spread)});
  }
  return costs;
}

/// Values of an option beside the one that stands where it is not given, by what holds it.
class OptionValues {
 public:
  /// `base`: of the option's schedule, for p devices, with its defaults.
  OptionValues(const ScheduleOption& option, const Pipeline& base) : option_(option), base_(base) {}

  /// Of a count that is there by itself the first two above it, of one that is not as many as there
  /// are devices and one less or more; of those the schedule takes.
  template <class Whole>
  std::vector<Pipeline> operator()(Whole ScheduleRequest::*member) const {
    const std::int64_t now = base_.request.*member / option_.times, p = base_.request.devices;
    std::vector<Pipeline> all;
    for (const std::int64_t count : {now > 0 ? now + 1 : p - 1, now > 0 ? now + 2 : p + 1}) {
      Pipeline one = with(member, static_cast<Whole>(count * option_.times));
      if (count == now || count < option_.least || count > option_.most || !is_served(one))
        continue;
      all.push_back(std::move(one));
      if (now > 0) break;
    }
    return all;
  }
  std::vector<Pipeline> operator()(double ScheduleRequest::*member) const {
    return {with(member, 0.5)};
  }
  /// Another seed is another search, and takes as long.
  std::vector<Pipeline> operator()(std::int64_t ScheduleRequest::*) const { return {}; }
  /// Bounds on an effort; see as_defaults().
  std::vector<Pipeline> operator()(std::optional<std::int64_t> ScheduleRequest::*) const {
    return {};
  }
  std::vector<Pipeline> operator()(std::optional<Duration> ScheduleRequest::*) const { return {}; }
  std::vector<Pipeline> operator()(bool ScheduleRequest::*member) const {
    return {with(member, true)};
  }
  std::vector<Pipeline> operator()(Recompute ScheduleRequest::*member) const {
    return {with(member, Recompute::full), with(member, Recompute::stage)};
  }
  std::vector<Pipeline> operator()(Slicing ScheduleRequest::*member) const {
    return {with(member, Slicing{Slicing::Kind::equal, 2}),
            with(member, Slicing{Slicing::Kind::equal, 3})};
  }
  std::vector<Pipeline> operator()(std::vector<double> ScheduleRequest::*member) const {
    return {with(member, {(base_.request.devices + 1) / 2.0})};
  }
  std::vector<Pipeline> operator()(std::vector<std::uint16_t> ScheduleRequest::*member) const {
    std::vector<Pipeline> all;
    for (const std::vector<std::uint16_t>& counts : {std::vector<std::uint16_t>{2, 1},
                                                     {2, 1, 1},
                                                     {2, 2},
                                                     {3, 1},
                                                     {1, 2, 1},
                                                     {1, 1, 3},
                                                     {2, 3}})
      all.push_back(with(member, counts));
    return all;
  }

 private:
  template <class Value>
  Pipeline with(Value ScheduleRequest::*member, const Value& value) const {
    Pipeline one = base_;
    one.request.*member = value;
    return one;
  }

  const ScheduleOption& option_;
  const Pipeline& base_;
};

/// The schedule's defaults; a search is a short one.
inline Pipeline as_defaults(const ScheduleTraits& traits, int p, std::int32_t m) {
  constexpr std::int64_t kShort = 200;
  Pipeline base = pipeline(traits.name, p, m);
  fit_options(traits, base.request);
  for (const ScheduleOption& option : schedule_options()) {
    const auto* bound = std::get_if<std::optional<std::int64_t> ScheduleRequest::*>(&option.member);
    if (bound != nullptr && takes(traits, option)) base.request.** bound = kShort;
  }
  return base;
}

/// A schedule for p devices and m microbatches in each way that its own options allow: each option
/// alone, and flags with each of them.
inline std::vector<Pipeline> variants_of(const ScheduleTraits& traits, int p, std::int32_t m) {
  const Pipeline base = as_defaults(traits, p, m);
  std::vector<Pipeline> variants{base};
  if (traits.orders_by_costs) {
    variants.push_back(base);
    variants.back().request.costs = uneven_costs(stage_count(traits, base.request));
  }
  std::vector<bool ScheduleRequest::*> flags;
  for (const ScheduleOption& option : schedule_options()) {
    if (option.of_all || !takes(traits, option)) continue;
    if (const auto* flag = std::get_if<bool ScheduleRequest::*>(&option.member)) {
      flags.push_back(*flag);
      continue;
    }
    const std::vector<Pipeline> more = std::visit(OptionValues(option, base), option.member);
    variants.insert(variants.end(), more.begin(), more.end());
  }
  for (const auto flag : flags) {
    for (std::size_t i = 0, count = variants.size(); i < count; ++i) {
      variants.push_back(variants[i]);
      variants.back().request.*flag = true;
    }
  }
  return variants;
}

inline const std::vector<int> kOptions{0, 1, 2, 4, 5, 7, 8, 14, 24, 31}, kSomeOptions{0, 7, 31};

/// Every request of the grid that the schedule accepts: its own options; recomputation, tied
/// embeddings, width, the global norm and post-validation, alone and together; with a sanitizer
/// none, some and all of these, of schedules that are ordered by costs each fourth, of those that
/// search long each sixteenth. With `nth` only each nth of the whole grid, sanitizer or not.
inline std::vector<Pipeline> every_pipeline(std::string_view schedule,
                                            const std::vector<int>& devices,
                                            const std::vector<std::int32_t>& microbatches,
                                            std::size_t nth = 1) {
  std::vector<Pipeline> all;
  std::size_t served = 0;
  const bool is_sample = kSanitized && nth == 1;
  const ScheduleTraits& row = find_schedule(schedule);
  if (is_sample && row.orders_by_costs) nth = row.effort != nullptr ? 16 : 4;
  for (const int p : devices) {
    for (const std::int32_t m : microbatches) {
      for (const Pipeline& variant : variants_of(row, p, m)) {
        for (const int bits : is_sample ? kSomeOptions : kOptions) {
          Pipeline one = variant;
          if ((bits & 1) != 0) one.request.recompute = Recompute::stage;
          if ((bits & 2) != 0) one.request.tied_embeddings = true;
          if ((bits & 4) != 0) one.request.width = 2;
          if ((bits & 8) != 0) one.request.global_norm = true;
          if ((bits & 16) != 0) one.request.post_validation = true;
          if (is_served(one) && served++ % nth == 0) all.push_back(one);
        }
      }
    }
  }
  return all;
}

/// How random prices spread.
enum class Spread {
  wide,        // 0 … 1000, transfers and updates too
  near_equal,  // 1000 … 1010, small transfers: where periods of several batches come from
  tiny,        // 0 … 2: many ties, many zeros
};

/// A price is a function of seed and key alone, so that an oracle without a program pays the same.
inline CostModel random_prices(std::uint64_t seed, Spread spread) {
  return [seed, spread](const CostKey& key) -> Duration {
    std::mt19937_64 random(seed * 1'000'003 + index(key.kind) * 100'003 +
                           index(key.replica) * 1009 + index(key.target) +
                           (key.overlapped ? 50'021 : 0) + (key.span - 1u) * 70'001);
    const auto below = [&](std::uint64_t bound) {
      return Duration(static_cast<std::int64_t>(random() % bound));
    };
    if (spread == Spread::wide) return below(1001);
    if (spread == Spread::tiny) return below(3);
    return is_compute(key.kind) ? Duration(1000) + below(11) : below(200);
  };
}

inline CostTable random_costs(const Program& program, std::uint64_t seed, Spread spread) {
  return price(program, random_prices(seed, spread));
}

/// Prices by kind alone.
struct PlainCosts {
  std::int64_t forward = 1, backward = 2, transfer = 0, recompute = 0, update = 0, reduce = 0,
               norm = 0, validate = 0;
  std::optional<std::int64_t> backward_weight = {};  // of backward; half of it by default
  std::optional<std::int64_t> overlapped = {};  // a forward and a backward; their sum by default
  std::optional<std::int64_t> move = {};        // of a stash; that of any transfer by default
};

inline CostModel plain_prices(const PlainCosts& costs) {
  return [costs](const CostKey& key) -> Duration {
    if (settles_step(key.kind)) return Duration(costs.validate);
    const std::int64_t weight = costs.backward_weight.value_or(costs.backward / 2);
    switch (traits(key.kind).price) {
      case Price::forward:
        return Duration(costs.forward);
      case Price::recompute:
        return Duration(costs.recompute);
      case Price::backward:
        if (!key.overlapped || !costs.overlapped) return Duration(costs.backward);
        return Duration(*costs.overlapped - costs.forward);
      case Price::backward_input:
        return Duration(costs.backward - weight);
      case Price::backward_weight:
        return key.span * Duration(weight);
      case Price::update:
        return Duration(costs.update);
      case Price::transfer:
        return Duration(costs.transfer);
      case Price::stash:
        return Duration(costs.move.value_or(costs.transfer));
      case Price::tied_sum:
      case Price::replica_sum:
        return Duration(costs.reduce);
      case Price::norm:
        return Duration(costs.norm);
    }
    return {};
  };
}

inline CostTable plain_costs(const Program& program, const PlainCosts& costs) {
  return price(program, plain_prices(costs));
}

}  // namespace tandem::testing
