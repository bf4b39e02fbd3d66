#include "planner/alternatives.h"

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <tuple>

#include <fmt/format.h>

#include "core/lower.h"
#include "planner/candidates.h"
#include "planner/stage_memory.h"

namespace tandem {

namespace {

constexpr std::int32_t kMostMicrobatches = 65'535;

/// One bit a kind of change, the mildest first.
enum Change : unsigned {
  kCut = 1,
  kExtra = 2,
  kRecompute = 4,
  kMicrobatch = 8,
  kSchedule = 16,
  kDepth = 32,
};

unsigned changed(const Plan& from, const Plan& to) {
  unsigned changes = 0;
  if (to.depth != from.depth) changes |= kDepth;
  if (to.schedule != from.schedule) changes |= kSchedule;
  if (to.microbatch_size != from.microbatch_size) changes |= kMicrobatch;
  if (to.recompute != from.recompute) changes |= kRecompute;
  if (to.schedule == from.schedule && to.extra_in_flight != from.extra_in_flight) changes |= kExtra;
  // More stages have another cut anyway.
  if (to.depth == from.depth && to.stages != from.stages) changes |= kCut;
  return changes;
}

std::vector<std::string> describe_changes(unsigned changes, const Plan& to) {
  std::vector<std::string> texts;
  if ((changes & kDepth) != 0) texts.push_back(fmt::format("{} stages", to.depth));
  if ((changes & kSchedule) != 0) texts.push_back(fmt::format("schedule {}", to.schedule));
  if ((changes & kMicrobatch) != 0) {
    texts.push_back(fmt::format("microbatches {} x {}", to.microbatch_size, to.microbatches));
  }
  if ((changes & kRecompute) != 0) texts.emplace_back("recompute full");
  if ((changes & kExtra) != 0) texts.emplace_back("no extra in flight");
  if ((changes & kCut) != 0) texts.emplace_back("another cut");
  return texts;
}

/// Each combination of changes but for the cut; `from` itself among them.
std::vector<Plan> combinations(const Plan& from) {
  std::vector<Plan> all{from};
  const auto vary = [&all](auto change) {
    std::vector<Plan> more;
    for (const Plan& plan : all) change(plan, more);
    all.insert(all.end(), more.begin(), more.end());
  };
  if (from.extra_in_flight > 0) {
    vary([](Plan plan, std::vector<Plan>& more) {
      plan.extra_in_flight = 0;
      more.push_back(std::move(plan));
    });
  }
  if (from.recompute == Recompute::none) {
    vary([](Plan plan, std::vector<Plan>& more) {
      plan.recompute = Recompute::full;
      more.push_back(std::move(plan));
    });
  }
  vary([](const Plan& plan, std::vector<Plan>& more) {
    for (std::int32_t size = plan.microbatch_size - 1; size >= 1; --size) {
      const std::int64_t samples = std::int64_t{plan.microbatch_size} * plan.microbatches;
      if (plan.microbatch_size % size != 0 || samples / size > kMostMicrobatches) continue;
      more.push_back(plan);
      more.back().microbatch_size = size;
      more.back().microbatches = static_cast<std::int32_t>(samples / size);
    }
  });
  vary([](const Plan& plan, std::vector<Plan>& more) {
    for (const ScheduleTraits& row : schedules()) {
      if (!row.trainable || row.stages_per_device != 1 || row.name == plan.schedule) continue;
      // Less memory is no reason to train something else.
      const WeightSemantics wanted = find_schedule(plan.schedule).weights;
      if (row.weights != WeightSemantics::vanilla && row.weights != wanted) continue;
      more.push_back(plan);
      more.back().schedule = row.name;
      more.back().extra_in_flight = 0;
    }
  });
  const std::size_t layers = layers_of(from.model).size();
  vary([layers](const Plan& plan, std::vector<Plan>& more) {
    const std::size_t most = std::min(layers, std::size_t{2} * plan.depth);
    for (std::size_t depth = plan.depth + std::size_t{1}; depth <= most; ++depth) {
      if (depth > kMostPlannedDevices) break;
      more.push_back(plan);
      more.back().depth = static_cast<std::uint16_t>(depth);
    }
  });
  return all;
}

/// The plan with its own cut if that fits, else with the one of least memory, if that does.
std::optional<Alternative> fit(Plan plan, std::size_t own_depth, Bytes limit, RangeBytes& bytes) {
  if (std::int64_t{plan.depth} * plan.microbatches > kMostPlannedCells) return std::nullopt;
  const ScheduleTraits& traits = find_schedule(plan.schedule);
  if (plan.depth != own_depth || !traits.orders_by_costs) plan.order_costs.reset();
  if (reason_against(traits, schedule_request(plan))) return std::nullopt;
  const Program program = lower(make_schedule(plan));
  const SlotCounts slots = count_slots(program);
  for (const bool own_cut : {true, false}) {
    if (own_cut && plan.depth != own_depth) continue;
    if (!own_cut) plan.stages = least_memory_cut(slots, plan, bytes);
    const auto memory = device_memory(program, slots, plan, bytes);
    if (memory_miss(memory, limit)) continue;
    Alternative found;
    plan.predicted = {};
    for (const MemoryByClass& of : memory) {
      plan.predicted.peak_bytes.push_back(of.total());
      found.peak_bytes = std::max(found.peak_bytes, of.total());
    }
    found.plan = std::move(plan);
    return found;
  }
  return std::nullopt;
}

auto mildness(const Alternative& alternative) {
  return std::tuple(-alternative.plan.microbatch_size, alternative.plan.depth,
                    -alternative.peak_bytes);
}

}  // namespace

std::vector<Alternative> nearest_fits(const Plan& plan, Bytes limit) {
  if (plan.own_schedule != nullptr) return {};
  RangeBytes bytes(plan.model, plan.optimizer);
  std::map<int, std::vector<Plan>> by_changes;  // how many, besides the cut
  for (Plan& one : combinations(plan)) {
    by_changes[std::popcount(changed(plan, one))].push_back(std::move(one));
  }
  std::map<unsigned, Alternative> found;
  int fewest = 1 << 10;
  for (const auto& [changes, plans] : by_changes) {
    if (changes > fewest) break;
    for (const Plan& one : plans) {
      auto alternative = fit(one, plan.stages.size(), limit, bytes);
      if (!alternative) continue;
      const unsigned kinds = changed(plan, alternative->plan);
      fewest = std::min(fewest, std::popcount(kinds));
      const auto [place, first] = found.try_emplace(kinds, *alternative);
      if (!first && mildness(*alternative) < mildness(place->second)) place->second = *alternative;
    }
  }
  std::vector<Alternative> nearest;
  for (auto& [kinds, alternative] : found) {
    if (std::popcount(kinds) != fewest || kinds == 0) continue;
    alternative.changes = describe_changes(kinds, alternative.plan);
    nearest.push_back(std::move(alternative));
  }
  return nearest;
}

}  // namespace tandem
