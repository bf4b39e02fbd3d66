#pragma once
// In which order a cluster's nodes are counted. Plans take devices from the first on, stage by
// stage, so where nodes are unequal it says which of them a plan uses, and for what.

#include <cstddef>
#include <string>
#include <vector>

#include "core/model/cluster.h"

namespace tandem {

/// Names of the root's members that hold devices, as they are counted.
std::vector<std::string> node_order(const ClusterSpec& spec);

/// The same where they are of several kinds, so that their order is of interest; else empty.
std::vector<std::string> unequal_nodes(const ClusterSpec& spec);

/// The same cluster, of whose root these members hold the first devices, the next, and so on.
/// Throws InputError where the names are not those of node_order(), each once.
ClusterSpec in_node_order(const ClusterSpec& spec, const std::vector<std::string>& names);

/// Kinds of members of which every order is looked at: 24 orders.
inline constexpr std::size_t kMostNodeKinds = 4;

/// The cluster as it is, then in every other order of its kinds of members, those of a kind side
/// by side as they stood. One where all are alike, or of more kinds than kMostNodeKinds.
std::vector<ClusterSpec> node_orders(const ClusterSpec& spec);

}  // namespace tandem
