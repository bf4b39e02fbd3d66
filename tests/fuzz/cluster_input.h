#pragma once
// Any text as a cluster of another program's: one that our format brings back equal, with a way
// between any two devices, or diagnostics, never a crash.

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/files/read.h"
#include "core/import/importers.h"
#include "core/model/catalog.h"
#include "core/text/json_position.h"

namespace tandem {

/// `format`: of import --from.
inline void check_cluster_input(const char* format, const std::string& text, const char* device) {
  importer_of<ReadCluster>(text);
  ClusterSpec spec;
  try {
    spec = std::get<ReadCluster>(find_importer(format).read)("f", text, find_device(device));
  } catch (const InputError& error) {
    TANDEM_CHECK(!error.diagnostics().empty() && error.diagnostics().size() <= 101);
    for (const Diagnostic& diagnostic : error.diagnostics()) {
      const std::string message = diagnostic.to_string();
      TANDEM_CHECK(message.starts_with("f:"), message);
    }
    return;
  }
  const Cluster cluster(spec);
  const auto last = id_at<DeviceId>(cluster.size() - 1);
  const Route route = cluster.route(DeviceId{}, last);
  TANDEM_CHECK(route.links.empty() == (cluster.size() == 1), cluster.size());
  TANDEM_CHECK(route.bytes_per_s > 0.0, route.bytes_per_s);
  const std::string written = cluster_text(spec);
  TANDEM_CHECK(parse_cluster("again", written) == spec, written);
}

}  // namespace tandem
