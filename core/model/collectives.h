#pragma once
// What all-reduces of a kind of machine cost, measured: six constants that tandem import fits to
// logs of nccl-tests (simulator/cost/collective_model.h says what they make of a message).

#include <cstdint>

namespace tandem {

/// Of an all-reduce; all above 0, but both between nodes 0 (unknown) where one was measured.
struct CollectiveConstants {
  double launch_s = 0.0;    // of a kernel by its host thread, and the least that a call takes
  double node_hop_s = 0.0;  // latency of a step from one node to another
  double simple_s = 0.0;    // what the protocol of full rate waits for before it is at it
  double low_latency_bytes_per_s = 0.0;    // of a message, by the protocol that waits for nothing
  double within_node_bytes_per_s = 0.0;    // into each device, and out of it at once
  double between_nodes_bytes_per_s = 0.0;  // out of a node, and into it, for each device there
  friend bool operator==(const CollectiveConstants&, const CollectiveConstants&) = default;
};

/// Who sums.
struct CollectiveGroup {
  std::int64_t devices = 1;
  std::int64_t nodes = 1;           // that they stand in
  std::int64_t least_per_node = 1;  // of them in the node that has fewest
  std::int64_t per_thread = 1;      // whose kernels one host thread launches, one by one
  friend bool operator==(const CollectiveGroup&, const CollectiveGroup&) = default;
};

}  // namespace tandem
