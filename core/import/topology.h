#pragma once
// Clusters as other programs describe them: `nvidia-smi topo -m`, NCCL's topology XML
// (NCCL_TOPO_DUMP_FILE), ASTRA-sim's network yml (analytical backend). FORMATS.md,
// "Clusters", says what each leaves open and what is assumed.

#include <string>
#include <string_view>

#include "core/model/cluster.h"

namespace tandem {

/// A device of the catalogue by its name, or by the name that the driver has for it. Throws
/// UsageError.
const DeviceSpec& gpu_of_name(std::string_view name);

/// A text of ours, or of another program that has an importer (core/import/importers.h). `gpu`: the
/// device that its GPUs are; null: what the file says. Throws InputError with every diagnostic
/// found, and UsageError where a device is needed and nobody names it, or one is named for a file
/// of ours, which says itself.
ClusterSpec parse_any_cluster(const std::string& file, std::string text, const DeviceSpec* gpu);

}  // namespace tandem
