#pragma once
// The layout in which a model's forwards are run, as options say it.

#include <vector>

#include "core/model/model.h"
#include "tools/cli/options.h"

namespace tandem::tools {

/// --depth.
void add_depth_option(Options& options);

/// The layers of each device: as many devices as --depth says, else as there are processors and the
/// model has layers; cut so that the one with the most multiplications has as few as can be.
std::vector<LayerRange> stages_of(const Options& options, const ModelSpec& model);

}  // namespace tandem::tools
