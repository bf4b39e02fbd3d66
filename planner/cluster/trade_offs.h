#pragma once
// What less memory, or fewer devices, would cost: the best plans within them.

#include <functional>
#include <vector>

#include "core/base/units.h"
#include "planner/cluster/cluster_search.h"

namespace tandem {

/// The question where no device may be filled with more than `most` bytes, its reserve beside them.
ClusterQuestion with_memory_of(ClusterQuestion question, Bytes most);

/// The best plans within less and less memory of a device: after `best` each has at most nine
/// tenths of the one before. The last one is followed by none that fits. `stop` ends it with those
/// so far. Throws as find_cluster_plans().
std::vector<ClusterCandidate> plans_by_memory(const ClusterQuestion& question,
                                              const ClusterCandidate& best,
                                              const std::function<bool()>& stop = {});

/// The best plans on half of the devices, a quarter …, after `best`, which may use all; none where
/// nothing fits, and those that use no fewer devices than the one before are left out.
std::vector<ClusterCandidate> plans_by_devices(const ClusterQuestion& question,
                                               const ClusterCandidate& best,
                                               const std::function<bool()>& stop = {});

}  // namespace tandem
