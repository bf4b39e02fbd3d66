#pragma once
// The period of a plan on a cluster, and times that are sooner known to be no longer than it.

#include <functional>

#include "planner/cluster/cluster_plan.h"
#include "planner/cluster/cluster_setup.h"

namespace tandem {

/// A plan with its stages and prices, whose period is asked. All of it must outlive the question.
struct PeriodQuestion {
  const LoweredSchedule& lowered;
  const Plan& plan;
  const ClusterLayout& layout;
  const AnalyticAssumptions& assumptions;
  const StageCosts& costs;
  bool blocking_transfers = false;
  bool contention = false;  // transfers and sums share links through time
};

/// How far a plan was followed.
struct FoundPeriod {
  double seconds = 0.0;    // the period, or a time that it is not below
  bool simulated = false;  // without contention
  bool contended = false;  // with it
  bool exact = true;       // or a mean, as no repetition was seen
};

/// Mean seconds of a batch of an endless run, as simulate() has it; unless a bound below it, which
/// takes no program, is of no interest: then that bound. With contention it is only bounded, by a
/// simulation at least_costs(). That is not the one which the question without contention asks for:
/// there the sums of all stages share links all the time, so that a run in which they don't meet
/// may be faster with contention than without.
FoundPeriod period_of_interest(const PeriodQuestion& question,
                               const std::function<bool(double seconds)>& interests);

/// A time that the period of no schedule of this outline is below, of a plan with its stages at
/// these prices; with contention too, or without.
double least_period_s(const ScheduleOutline& outline, const Plan& plan, const StageCosts& costs,
                      bool contention);

/// With contention, as simulate_contended() has it.
FoundPeriod contended_period(const PeriodQuestion& question);
FoundPeriod contended_period(const ClusterSetup& setup);

/// What the plan's transfers and sums share. `program`: the plan's, however its transfers are.
Network network_of(const ClusterSetup& setup, const Program& program);

}  // namespace tandem
