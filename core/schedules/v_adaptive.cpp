// V schedules for any cap of activations (Pipeline Parallelism with Controllable Memory, arXiv
// 2405.15362, section 3 and appendix A): building blocks whose legs run at one slope on the first
// devices and at a flatter one on the others. Of those that fill the cap, the best at the times of
// the stages. At unit times it waits 3p − 1 − 3M + max(3p, p − 1 + 2(1 + ⌊(M+1)/2⌋)) at a cap of M
// chunks, p ≤ M ≤ 2p, as its authors' does (tests/simulator/automatic_test.cpp).

#include "core/base/check.h"
#include "core/base/progress.h"
#include "core/schedules/all.h"
#include "core/schedules/building_block.h"
#include "core/schedules/common.h"

namespace tandem {

namespace {

/// A block's slots on the first device, modulo the period, and how many slots its downward legs
/// take from device to device, up to one and behind it. Upward legs always take one.
struct Shape {
  std::array<std::int64_t, kVLegs> first{};
  std::int64_t steep = 1, flat = 1;
  std::int64_t bend = 0;  // devices behind the first that are reached steeply
};

/// Empty: two ops of a device would meet.
std::optional<Block> block_of(const Shape& shape, std::int64_t devices) {
  constexpr auto kPeriod = static_cast<std::int64_t>(kBlockPeriod);
  Block block{shape.first};  // modulo the period
  for (std::int64_t device = 1; device < devices; ++device) {
    const std::int64_t down = device <= shape.bend ? shape.steep : shape.flat;
    BlockRow row = block.back();
    unsigned taken = 0;
    for (std::size_t leg = 0; leg < kVLegs; ++leg) {
      row[leg] = (row[leg] + (is_down(static_cast<VOp>(leg)) ? down : kPeriod - 1)) % kPeriod;
      if ((taken >> row[leg] & 1u) != 0) return std::nullopt;
      taken |= 1u << row[leg];
    }
    block.push_back(row);
  }
  std::int64_t slot = -1;
  for (std::size_t leg = 0; leg < kVLegs; ++leg) {
    for (std::size_t i = 0; i < block.size(); ++i) {
      std::int64_t& at = block[is_down(static_cast<VOp>(leg)) ? i : block.size() - 1 - i][leg];
      slot += 1 + ((at - slot - 1) % kPeriod + kPeriod) % kPeriod;
      at = slot;
    }
  }
  return block;
}

/// Visits the shapes, all of which bend at the last device.
template <class Visit>
void each_shape(std::int64_t devices, const Visit& visit) {
  constexpr auto kPeriod = static_cast<std::int64_t>(kBlockPeriod);
  for (std::int64_t second = 1; second < kPeriod; ++second) {
    for (std::int64_t third = 1; third < kPeriod; ++third) {
      for (std::int64_t fourth = 1; fourth < kPeriod; ++fourth) {
        if (second == third || third == fourth || second == fourth) continue;
        for (std::int64_t steep = 1; steep < kPeriod; ++steep) {
          for (std::int64_t flat = 1; flat <= steep; ++flat)
            visit(Shape{{0, second, third, fourth}, steep, flat, devices - 1});
        }
      }
    }
  }
}

/// Its blocks from the one that holds most: steep for fewer and fewer devices. Until `visit` says
/// that it is enough.
template <class Visit>
void each_bend(Shape shape, std::int64_t devices, const Visit& visit) {
  const std::int64_t least = shape.steep == shape.flat ? shape.bend : 1;
  if (shape.steep != shape.flat) --shape.bend;  // all steep: that is another shape
  for (; shape.bend >= least; --shape.bend) {
    const std::optional<Block> block = block_of(shape, devices);
    if (block && visit(*block)) return;
  }
}

/// Activations of chunks that the fullest device holds; no more microbatches than decide whether
/// they are more than those of 1F1B.
std::int32_t peak_of(const Block& block, std::int32_t microbatches) {
  const auto deciding = static_cast<std::int32_t>(2 * block.size() + 1);
  return highest_peak(repeated(block, std::min(microbatches, deciding)));
}

/// In activations of chunks. More than those of 1F1B gain nothing.
std::int32_t cap_of(const ScheduleRequest& request) {
  const double p = request.devices;
  return static_cast<std::int32_t>(2.0 * std::min(request.activation_cap(0).value_or(p), p));
}

/// Its ends are reordered or rewritten; the latter may fail. Either is better for some.
std::optional<Schedule> order_of(const Block& block, const ScheduleRequest& request,
                                 bool rewrites) {
  const std::int32_t m = request.microbatches, cap = cap_of(request);
  std::optional<VGrid> grid =
      rewrites ? rewritten(block, m, cap) : reordered(repeated(block, m), m, cap);
  if (!grid) return std::nullopt;
  return schedule_of_grid(request, *grid);
}

/// Of a long batch the span is what shorter ones tell: each further p microbatches take as long as
/// the last.
std::optional<Duration> span_of(const Block& block, const ScheduleRequest& request, bool rewrites) {
  const auto span = [&](std::int32_t microbatches) -> std::optional<Duration> {
    ScheduleRequest some = request;
    some.microbatches = microbatches;
    const std::optional<Schedule> order = order_of(block, some, rewrites);
    if (!order) return std::nullopt;
    return span_of(*order, some);
  };
  const std::int32_t p = request.devices, enough = 4 * p, m = request.microbatches;
  if (m <= enough) return span(m);
  const std::optional<Duration> all = span(enough), fewer = span(enough - p);
  if (!all || !fewer) return std::nullopt;
  return *all + (*all - *fewer) * (m - enough) / p;
}

}  // namespace

std::optional<std::string> reject_v_adaptive(const ScheduleRequest& request) {
  constexpr std::uint16_t kMostDevices = 64;
  if (request.devices > kMostDevices) {
    return fmt::format("v-adaptive tries all building blocks for at most {} devices, found {}",
                       kMostDevices, request.devices);
  }
  const std::int32_t cap = cap_of(request);
  std::int32_t least = 2 * request.devices;
  each_shape(request.devices, [&](const Shape& shape) {
    if (least <= cap) return;
    each_bend(shape, request.devices, [&](const Block& block) {
      least = std::min(least, peak_of(block, request.microbatches));
      return least <= cap;
    });
  });
  if (least <= cap) return std::nullopt;
  return fmt::format(
      "v-adaptive can't hold less than {} activations on {} devices, found a cap of {}",
      least / 2.0, request.devices, request.activation_caps.front());
}

/// As measured: of each building block as many devices as it may bend at.
std::int64_t effort_of_v_adaptive(const ScheduleRequest& request) {
  constexpr std::int64_t kOfABend = 1024;
  return kOfABend * request.devices * request.devices;
}

Schedule make_v_adaptive(const ScheduleRequest& request) {
  constexpr int kTried = 3;  // of a shape: those that fill the cap wait least
  struct Choice {
    Block block;
    bool rewrites = false;
    Duration span{};
  };
  std::optional<Choice> best;
  const Activity progress("trying building blocks");
  each_shape(request.devices, [&](const Shape& shape) {
    int tried = 0;
    each_bend(shape, request.devices, [&](const Block& block) {
      keep_going();
      if (peak_of(block, request.microbatches) > cap_of(request)) return false;
      for (const bool rewrites : {false, true}) {
        const std::optional<Duration> span = span_of(block, request, rewrites);
        if (span && (!best || *span < best->span)) best = Choice{block, rewrites, *span};
      }
      return ++tried == kTried;
    });
  });
  TANDEM_CHECK(best.has_value(), cap_of(request));  // reject_v_adaptive() saw to it
  // What can be rewritten for fewer microbatches might not be for all.
  std::optional<Schedule> order = order_of(best->block, request, best->rewrites);
  return order ? std::move(*order) : *order_of(best->block, request, false);
}

}  // namespace tandem
