#pragma once
// The hosts of a group of ranks as a cluster, for simulations: what was measured of their links and
// processors.

#include <vector>

#include "core/base/units.h"
#include "core/model/cluster.h"
#include "executor/ranks/link_rates.h"

namespace tandem {

/// What a rank computes with, as achieved: it is a device.
struct RankDevice {
  double product_flops_per_s = 0.0;  // float32
  double memory_bytes_per_s = 0.0;
  Bytes memory_bytes = 0;  // of its host
};

/// A device a rank, in their order. A host is an address at which neighbouring ranks listen, and
/// shares its memory among them. Between ranks of a host lie two links to its bus, each as fast as
/// the slowest sends while all do; between hosts lie their links to the network, each as fast as
/// what its ranks send to other hosts, alone or together, whichever is more. `infos`: by rank.
ClusterSpec cluster_of(const std::vector<RankInfo>& infos, const std::vector<LinkRate>& links,
                       const std::vector<RankDevice>& devices);

}  // namespace tandem
