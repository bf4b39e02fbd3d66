#pragma once
// What options ask of the plans of a model on a cluster.

#include <array>
#include <cstdint>
#include <vector>

#include "planner/cluster/cluster_space.h"
#include "tools/cli/options.h"

namespace tandem::tools {

/// Options that hold for every plan: `simulate` takes them as they stand.
inline constexpr std::array kGivenForAllPlans{"gpu",
                                              "cut",
                                              "sequence",
                                              "dtype",
                                              "attention",
                                              "optimizer",
                                              "delay-correction",
                                              "memory",
                                              "reserve",
                                              "fits-by",
                                              "transfers",
                                              "clip",
                                              "product-fraction",
                                              "memory-fraction",
                                              "link-fraction",
                                              "collectives",
                                              "calibration",
                                              "profile"};

/// All but the batch. Throws UsageError where an option is given that belongs to a profile's plans.
ClusterQuestion cluster_question_of(const Options& options);
/// Those of --global-batch, ascending: one, LOW, 2 LOW ... up to HIGH, or by default some that
/// models are trained with.
std::vector<std::int64_t> batches_asked(const Options& options, const ClusterQuestion& question);

}  // namespace tandem::tools
