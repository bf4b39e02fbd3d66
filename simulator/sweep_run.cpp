#include "simulator/sweep_run.h"

#include <algorithm>

namespace tandem {

SweepRun::SweepRun(const Program& program, const Sweep& sweep, const CostTable& costs)
    : program_(&program),
      sweep_(&sweep),
      table_(&costs),
      costs_(sweep.costs(costs)),
      values_(sweep.values(), 0),
      exposed_(sweep.devices(), 0),
      tallies_(sweep.devices()),
      of_body_(sweep.devices()),
      body_(-std::int64_t{program.ramp()} - 1) {
  for (const CostId cost : ids(costs)) {
    const CostKey& key = program.cost_keys()[cost];
    const Duration time = costs[cost] * sweep.compute_counts()[index(cost)];
    DeviceTally& tally = of_body_[key.source];
    tally.busy += time;
    if (is_compute(key.kind) && key.kind != OpKind::recompute) tally.useful += time;
  }
}

bool SweepRun::whole(std::int64_t body, std::int64_t batches) const {
  return body >= 0 && body < batches - program_->ramp();
}

void SweepRun::run_to(std::int64_t last, std::int64_t batches, bool tally) {
  while (body_ < last) {
    if (whole(body_ + 1, batches)) {
      run_whole_body(tally);
      ++body_;
    } else {
      std::int64_t part = body_ + 1;
      while (part < last && !whole(part + 1, batches)) ++part;
      run_part(part, batches);
    }
  }
}

void SweepRun::run_whole_body(bool tally) {
  if (!tally) return sweep_->run_body(values_, costs_);
  std::fill(exposed_.begin(), exposed_.end(), 0);
  sweep_->run_body(values_, costs_, exposed_);
  for (const DeviceId device : ids(tallies_)) {
    DeviceTally& of = tallies_[device];
    of.busy += of_body_[device].busy;
    of.useful += of_body_[device].useful;
    of.exposed_communication += Duration(exposed_[index(device)]);
  }
  for (const Sweep::OwnOps& own : sweep_->own_ops()) {
    DeviceTally& of = tallies_[own.device];
    of.first_start =
        std::min(of.first_start, Duration(values_[own.first]) - (*table_)[own.first_cost]);
    of.last_end = std::max(of.last_end, Duration(values_[own.last]));
  }
}

void SweepRun::run_part(std::int64_t last, std::int64_t batches) {
  SimulatedMachine machine(*program_, *table_, sweep_->carried());
  machine.restore(body_, state(), std::move(tallies_));
  while (body_ < last) run_body(*program_, program_->order(), ++body_, batches, machine);
  std::vector<std::int64_t> state;
  state.reserve(sweep_->carried().size());
  machine.append_state(body_, state);
  std::copy(state.begin(), state.end(), values_.begin());
  tallies_ = machine.tallies();
}

void SweepRun::skip(std::int64_t cycles, std::int64_t bodies, Duration advance,
                    const DeviceTallies& per_cycle) {
  const Duration all = advance * cycles;
  for (std::size_t i = 0; i < sweep_->carried().size(); ++i) values_[i] += all.count();
  for (const DeviceId device : ids(tallies_)) {
    DeviceTally& of = tallies_[device];
    of.busy += per_cycle[device].busy * cycles;
    of.useful += per_cycle[device].useful * cycles;
    of.exposed_communication += per_cycle[device].exposed_communication * cycles;
    of.last_end += all;
  }
  body_ += cycles * bodies;
}

}  // namespace tandem
