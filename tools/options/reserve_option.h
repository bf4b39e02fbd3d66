#pragma once
// --reserve: what of a device's memory no plan may fill.

#include "core/memory/reserve.h"
#include "tools/cli/options.h"

namespace tandem::tools {

/// On a cluster, whose bytes are worked out from shapes: what NVIDIA's driver, NCCL and PyTorch's
/// allocator take beside is seen to be one to several GiB of a device's 16 to 80. A plan's bytes
/// are allocated as they are counted, so there nothing is kept unless it is asked for.
inline constexpr Reserve kReserveOnCluster{.share = 0.06, .bytes = 0};

void add_reserve_option(Options& options);
/// `otherwise`: where it is not given. Throws UsageError.
Reserve reserve_of(const Options& options, Reserve otherwise = {});

}  // namespace tandem::tools
