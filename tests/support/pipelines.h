#pragma once
// Programs and prices that several tests need: every schedule over a grid of requests, and random
// costs from a seed.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/lower/lower.h"
#include "core/program/cost.h"
#include "core/schedule/schedule.h"
#include "tests/support/sanitizers.h"

namespace tandem::testing {

/// A schedule asked for.
struct Pipeline {
  std::string_view schedule;
  ScheduleRequest request;

  std::string name() const {
    std::string text = fmt::format("{}_p{}_m{}", schedule, request.devices, request.microbatches);
    if (request.extra_in_flight > 0) text += fmt::format("_extra{}", request.extra_in_flight);
    if (!request.replicas.empty()) text += fmt::format("_r{}", fmt::join(request.replicas, "_"));
    if (request.chunks > 1) text += fmt::format("_v{}", request.chunks);
    if (request.group > 0) text += fmt::format("_g{}", request.group);
    if (request.directions != 2) text += fmt::format("_k{}", request.directions);
    if (request.vertical_sync) text += "_sync";
    if (!request.activation_caps.empty())
      text += fmt::format("_cap{}", fmt::join(request.activation_caps, "_"));
    if (request.costs) text += "_costs";
    if (request.recompute == Recompute::full) text += "_recompute";
    if (request.tied_embeddings) text += "_tied";
    if (request.global_norm) text += request.post_validation ? "_validated" : "_norm";
    if (request.width > 1) text += fmt::format("_width{}", request.width);
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

/// A schedule for p devices and m microbatches in each way that its own options allow.
inline std::vector<Pipeline> variants_of(const ScheduleTraits& traits, int p, std::int32_t m) {
  const auto takes = [&](std::string_view option) {
    return std::count(traits.options.begin(), traits.options.end(), option) > 0;
  };
  std::vector<Pipeline> variants{pipeline(traits.name, p, m)};
  const auto vary = [&](auto change) {
    variants.push_back(variants.front());
    change(variants.back().request);
  };
  if (takes("extra-in-flight") && p > 1) {
    vary([&](ScheduleRequest& request) { request.extra_in_flight = p - 1; });
  }
  if (takes("waves")) {
    variants.front().request.chunks = 2;
    vary([](ScheduleRequest& request) { request.chunks = 4; });
  }
  if (takes("chunks")) {
    variants.front().request.chunks = 2;
    vary([](ScheduleRequest& request) { request.chunks = 3; });
  }
  if (takes("group")) {
    vary([&](ScheduleRequest& request) { request.group = p + 1; });
  }
  // A short search is one too.
  if (takes("orders")) variants.front().request.orders = 200;
  if (takes("activation-cap")) {
    vary([&](ScheduleRequest& request) { request.activation_caps = {(p + 1) / 2.0}; });
  }
  if (traits.orders_by_costs) {
    vary([&](ScheduleRequest& request) {
      request.costs = uneven_costs(stage_count(traits, request));
    });
  }
  if (takes("replicas")) {
    for (const std::vector<std::uint16_t>& replicas : {std::vector<std::uint16_t>{2, 1},
                                                       {2, 1, 1},
                                                       {2, 2},
                                                       {3, 1},
                                                       {1, 2, 1},
                                                       {1, 1, 3},
                                                       {2, 3}}) {
      vary([&](ScheduleRequest& request) { request.replicas = replicas; });
    }
  }
  if (takes("directions") && p % 4 == 0) {
    vary([](ScheduleRequest& request) { request.directions = 4; });
  }
  if (takes("vertical-sync")) {
    for (std::size_t i = 0, count = variants.size(); i < count; ++i) {
      variants.push_back(variants[i]);
      variants.back().request.vertical_sync = true;
    }
  }
  return variants;
}

inline const std::vector<int> kOptions{0, 1, 2, 4, 5, 7, 8, 14, 24, 31}, kSomeOptions{0, 7, 31};

/// Every request of the grid that the schedule accepts: its own options; recomputation, tied
/// embeddings, width, the global norm and post-validation, alone and together; with a sanitizer
/// none, some and all of these. With `nth` only each nth of the whole grid, sanitizer or not.
inline std::vector<Pipeline> every_pipeline(std::string_view schedule,
                                            const std::vector<int>& devices,
                                            const std::vector<std::int32_t>& microbatches,
                                            std::size_t nth = 1) {
  std::vector<Pipeline> all;
  std::size_t served = 0;
  for (const int p : devices) {
    for (const std::int32_t m : microbatches) {
      for (const Pipeline& variant : variants_of(find_schedule(schedule), p, m)) {
        for (const int bits : kSanitized && nth == 1 ? kSomeOptions : kOptions) {
          Pipeline one = variant;
          if ((bits & 1) != 0) one.request.recompute = Recompute::full;
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
    switch (key.kind) {
      case OpKind::forward:
        return Duration(costs.forward);
      case OpKind::recompute:
        return Duration(costs.recompute);
      case OpKind::backward:
        if (!key.overlapped || !costs.overlapped) return Duration(costs.backward);
        return Duration(*costs.overlapped - costs.forward);
      case OpKind::backward_input:
        return Duration(costs.backward - costs.backward_weight.value_or(costs.backward / 2));
      case OpKind::backward_weight:
        return key.span * Duration(costs.backward_weight.value_or(costs.backward / 2));
      case OpKind::send_activation:
      case OpKind::send_gradient:
        return Duration(costs.transfer);
      case OpKind::evict:
      case OpKind::load:
        return Duration(costs.move.value_or(costs.transfer));
      case OpKind::reduce_tied:
      case OpKind::reduce_gradient:
        return Duration(costs.reduce);
      case OpKind::reduce_norm:
        return Duration(costs.norm);
      case OpKind::update:
        return Duration(costs.update);
      case OpKind::validate:
        return Duration(costs.validate);
    }
    return {};
  };
}

inline CostTable plain_costs(const Program& program, const PlainCosts& costs) {
  return price(program, plain_prices(costs));
}

}  // namespace tandem::testing
