#include "simulator/compiled/compiled_program.h"

#include <algorithm>

#include "core/base/check.h"

namespace tandem {

namespace {

using Time = std::int64_t;

/// The loop. Restricted: a price is no value.
template <class Step>
void run_steps(std::span<const Step> steps, Time* __restrict values, const Time* __restrict costs) {
  for (const Step& step : steps)
    values[step.out] = std::max(values[step.first], values[step.second]) + costs[step.cost];
}

template <class Step, class Watch>
void run_watched(std::span<const Step> steps, const Watch* watch, Time* __restrict values,
                 const Time* __restrict costs, Time* __restrict exposed) {
  for (const Step& step : steps) {
    const Time free = values[step.first], awaited = values[step.second];
    exposed[watch->device] += std::min(std::max(awaited - free, Time{0}), costs[watch->cost]);
    values[step.out] = std::max(free, awaited) + costs[step.cost];
    ++watch;
  }
}

}  // namespace

std::size_t CompiledProgram::steps() const {
  return std::visit([](const auto& code) { return code.steps.size(); }, code_);
}

std::vector<std::int64_t> CompiledProgram::costs(const CostTable& table) const {
  std::vector<std::int64_t> costs;
  costs.reserve(prices_);
  for (const Duration time : table) costs.push_back(time.count());
  costs.push_back(0);
  TANDEM_CHECK(costs.size() == prices_, costs.size(), prices_);
  return costs;
}

void CompiledProgram::copy_state(std::span<std::int64_t> values, std::size_t tables) const {
  for (const Copy& copy : copies_) {
    std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(copy.from * tables), tables,
                values.begin() + static_cast<std::ptrdiff_t>(copy.to * tables));
  }
}

void CompiledProgram::run_body(std::span<std::int64_t> values,
                               std::span<const std::int64_t> costs) const {
  TANDEM_CHECK(values.size() == values_ && costs.size() == prices_, values.size(), costs.size());
  std::visit(
      [&](const auto& code) { run_steps(std::span(code.steps), values.data(), costs.data()); },
      code_);
  copy_state(values, 1);
}

void CompiledProgram::run_body(std::span<std::int64_t> values, std::span<const std::int64_t> costs,
                               std::span<std::int64_t> exposed, std::int64_t end) const {
  TANDEM_CHECK(values.size() == values_ && costs.size() == prices_, values.size(), costs.size());
  TANDEM_CHECK(exposed.size() == devices_, exposed.size(), devices_);
  TANDEM_CHECK(end == kNoEnd || can_switch_off_, end);
  const auto run = [&](const auto& code) {
    const std::span steps(code.steps);
    std::size_t from = 0;
    const auto run_all_until = [&](std::size_t to) {
      run_watched(steps.subspan(from, to - from), code.watches.data() + from, values.data(),
                  costs.data(), exposed.data());
      from = to;
    };
    auto late = end == kNoEnd ? late_.end() : late_.begin();
    // A step that is switched off leaves its lane as it was, also the one at `to`.
    const auto run_until = [&](std::size_t to) {
      for (; late != late_.end() && late->step <= to; ++late) {
        if (late->offset < end) continue;
        run_all_until(late->step);
        values[steps[from].out] = values[steps[from].first];
        ++from;
      }
      if (from < to) run_all_until(to);
    };
    for (const Waiter& waiter : waiters_) {
      run_until(waiter.step);
      if (from == waiter.step) add_exposed(waiter, values, costs, exposed);
    }
    run_until(steps.size());
  };
  std::visit(run, code_);
  copy_state(values, 1);
}

void CompiledProgram::add_exposed(const Waiter& waiter, std::span<const std::int64_t> values,
                                  std::span<const std::int64_t> costs,
                                  std::span<std::int64_t> exposed) const {
  const std::span candidates(candidates_.data() + waiter.first_candidate, waiter.candidates);
  const Time free = values[waiter.free];
  Time start = free, longest = 0;
  for (const Candidate& one : candidates) start = std::max(start, values[one.awaited]);
  if (start == free) return;
  for (const Candidate& one : candidates) {
    if (values[one.awaited] == start) longest = std::max(longest, costs[one.cost]);
  }
  exposed[waiter.device] += std::min(start - free, longest);
}

}  // namespace tandem
