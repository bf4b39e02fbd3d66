#pragma once
// A plan file made ready: its schedule, program, prices and memory — the same for check, simulate
// and train.

#include <optional>
#include <string>
#include <vector>

#include "core/files/profile_file.h"
#include "core/memory/memory.h"
#include "core/memory/storage.h"
#include "core/model/plan.h"
#include "core/program/program.h"
#include "simulator/cost/stage_costs.h"

namespace tandem {

struct PreparedPlan {
  Plan plan;
  Schedule schedule;
  Program program;
  SlotCounts slots;
  Table<ReplicaId, StageBytes> bytes;
  Storage storage = Storage::f32;
};

/// Lowers the plan of the file at `path`. `global_norm`: whether updates wait for the norm of all
/// gradients, in place of what the plan says. `post_validation`: whether they do so later, whatever
/// it says. `storage`: of what it is to be trained in. Throws InputError at its place in the file
/// when the schedule is unknown or can't serve the plan, or when the program would be absurdly
/// large.
PreparedPlan prepare_plan(const std::string& path, Plan plan, std::optional<bool> global_norm = {},
                          bool post_validation = false, Storage storage = Storage::f32);

/// Throws InputError at its place in the file where the plan's schedule is unknown or has not the
/// options that the plan gives it.
void check_schedule_options(const std::string& path, const Plan& plan);

/// Where the plan's own profile is, or `given` where that is not empty. Throws InputError when
/// there is none.
std::string profile_path_of(const std::string& plan_path, const Plan& plan,
                            const std::string& given = {});

/// The algorithms of products that the plan's own profile has, which is of GPUs; none where the
/// plan names none, or it is not there any more.
std::vector<ProductAlgorithm> product_algorithms_of(const std::string& plan_path, const Plan& plan);

/// Prices of the plan's ops. With a `link_rate` (bytes/s) a transfer takes, beside its measured
/// hand-over, the time that its bytes need on such a link.
StageCosts costs_of(const Plan& plan, const Profile& profile, std::optional<double> link_rate);

Table<DeviceId, MemoryByClass> planned_memory(const PreparedPlan& prepared);

}  // namespace tandem
