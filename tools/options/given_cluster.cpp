// --cluster: nodes of the catalogue by their name, or a file.

#include <algorithm>
#include <filesystem>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/files/read.h"
#include "core/import/topology.h"
#include "core/model/catalog.h"
#include "core/model/node_order.h"
#include "core/text/files.h"
#include "tools/cli/file_cache.h"
#include "tools/cli/split.h"
#include "tools/options/cluster_options.h"

namespace tandem::tools {

namespace {

/// "4" "x" FILE: the joints between its copies nobody has said.
void refuse_copies_of_file(const std::string& name) {
  const std::size_t digits = name.find_first_not_of("0123456789");
  if (digits == 0 || digits == std::string::npos || name[digits] != 'x') return;
  const std::string file = name.substr(digits + 1);
  std::error_code unreadable;
  if (std::filesystem::exists(name, unreadable) ||
      !std::filesystem::is_regular_file(file, unreadable)) {
    return;
  }
  throw UsageError(fmt::format(
      "cluster {}: a number of nodes is for those of the catalogue; file {} describes one node and "
      "no network between several: tandem import writes it as cluster.json, where you can add them",
      name, file));
}

std::string cluster_text_at(const std::string& path) { return read_file(path, kLargestJson); }

Cluster made_cluster(const GivenOptions& given) {
  if (!given.has("cluster"))
    refuse(given, "--cluster is missing: nodes of the catalogue, such as 4xDGX-H100, or a file");
  const std::string& name = given.cluster;
  refuse_copies_of_file(name);
  const bool by_name = !is_file_name(name) || find_node(name) != nullptr;
  if (by_name && given.has("gpu"))
    refuse(given, "--gpu is for a --cluster file that names no GPU model");
  const DeviceSpec* gpu = given.has("gpu") ? &gpu_of_name(given.gpu) : nullptr;
  ClusterSpec spec = by_name ? cluster_of_nodes(name)
                             : parse_any_cluster(name, read_cached<cluster_text_at>(name), gpu);
  if (given.memory) {
    for (DeviceSpec& device : spec.devices) device.memory_bytes = *given.memory;
  }
  if (given.has("node-order")) {
    const std::vector<std::string_view> names = split(given.node_order, ",");
    spec = in_node_order(spec, {names.begin(), names.end()});
  }
  return Cluster(spec);
}

}  // namespace

bool is_file_name(const std::string& name) {
  std::error_code unreadable;
  return name.find('/') != std::string::npos || name.ends_with(".json") ||
         std::filesystem::exists(name, unreadable);
}

std::shared_ptr<const Cluster> cluster_of(const GivenOptions& given) {
  using Given = std::tuple<std::string, std::string, std::optional<Bytes>, std::string>;
  constexpr std::size_t kMostKept = 4;  // of a sweep's configurations; those of 10,000 devices
                                        // take megabytes
  static std::mutex mutex;
  static std::list<std::pair<Given, std::shared_ptr<const Cluster>>> known;
  const Given wanted(given.cluster, given.gpu, given.memory, given.node_order);
  const std::scoped_lock lock(mutex);
  const auto found = std::ranges::find(known, wanted, &decltype(known)::value_type::first);
  if (found != known.end()) return found->second;
  known.emplace_front(wanted, std::make_shared<const Cluster>(made_cluster(given)));
  if (known.size() > kMostKept) known.pop_back();
  return known.front().second;
}

}  // namespace tandem::tools
