#pragma once
// The formats of other programs that are read: a row each. Whoever takes a model or a cluster takes
// every format that has a row here, told by its content.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "core/import/graph_file.h"
#include "core/import/megatron_arguments.h"
#include "core/import/models.h"
#include "core/import/nccl_tests.h"
#include "core/model/cluster.h"
#include "core/schedule/schedule.h"

namespace tandem {

// What a format holds, and how it is read. `file` is for messages. All throw InputError with every
// diagnostic.
using ReadSchedule = Schedule (*)(std::string_view text, std::string_view file);
using ReadModel = NotedModel (*)(const std::string& file, std::string text);
/// `gpu`: the device that its GPUs are; null: what the file says. Throws UsageError where a device
/// is needed and nobody names it.
using ReadCluster = ClusterSpec (*)(const std::string& file, std::string_view text,
                                    const DeviceSpec* gpu);
/// Layers as `tensor` devices that share each see them.
using ReadGraph = PiperGraph (*)(const std::string& file, std::string text, std::int32_t tensor);
using ReadLog = NcclTestsLog (*)(std::string_view text, std::string_view file);

struct Importer {
  std::string_view name;  // of import --from
  std::string_view help;  // what it is there
  std::variant<ReadSchedule, ReadModel, ReadCluster, ReadGraph, ReadLog> read;
  bool (*detects)(std::string_view text) = nullptr;  // null: it is never told by its content
  bool by_tensor_degree = false;                     // of a graph: it has layers at several
  /// Of a model: how it was trained there; null: the format does not say.
  MegatronRun (*run)(const std::string& file, std::string_view text) = nullptr;

  template <class Read>
  bool gives() const {
    return std::holds_alternative<Read>(read);
  }
};

/// In the order in which their content is asked for.
std::span<const Importer> importers();
/// REQUIRES: one of those.
const Importer& find_importer(std::string_view name);

/// Whose format a text is, of those that hold this; null: of none, so that it should be ours.
template <class Read>
const Importer* importer_of(std::string_view text) {
  for (const Importer& one : importers()) {
    if (one.gives<Read>() && one.detects != nullptr && one.detects(text)) return &one;
  }
  return nullptr;
}

}  // namespace tandem
