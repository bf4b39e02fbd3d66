#pragma once
// Plans on a cluster, in words and as a table.

#include <string>
#include <vector>

#include "planner/cluster/batch_search.h"

namespace tandem::tools {

/// Of each device used, nothing that is made again counted.
double model_flops_per_s(const ClusterCandidate& of);

/// "2bw, 1 x 2 x 4 with microbatches 8 x 2".
std::string shape_text(const ClusterCandidate& of);

/// "Fastest: 2bw, tensor 1 x depth 4 x width 2 on 8 of 8 devices: ...".
std::string best_in_words(const ClusterQuestion& question, const ClusterCandidate& best);

/// The answer in sentences. REQUIRES: there is one.
std::vector<std::string> answer_in_words(const ClusterQuestion& question,
                                         const ClusterAnswer& answer);

/// "needs 5.4 GiB on the fullest device and leaves at least 3.1 GiB of what each may use", or that
/// it does not fit.
std::string memory_text(const ClusterCandidate& of);

/// What with_fewer_made_again() found is to the best plan.
std::string fewer_made_again_in_words(const ClusterCandidate& best, const ClusterCandidate& fewer);

/// The best plan of each batch, a line each, and why one was chosen. REQUIRES: one has a plan.
std::string batches_text(const ClusterQuestion& question, const BatchAnswer& found);

/// The best plan of each schedule, a line each, and why the others have none. REQUIRES: an answer.
std::string schedules_table(const ClusterAnswer& answer, Objective objective);

}  // namespace tandem::tools
