#pragma once
// What cluster.json and the catalogue have in common.

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/model/catalog.h"
#include "core/text/json_reader.h"

namespace tandem {

/// Diagnoses names that are there twice.
std::vector<DeviceSpec> read_devices(const JsonReader& devices);

enum class UseCatalog : bool { no, yes };

/// Appends to spec.groups and returns where each stands. Members' devices and groups are looked up
/// in `spec`, then in the catalogue, from which `spec` gets them.
std::vector<JsonReader> read_groups(const JsonReader& groups, ClusterSpec& spec, UseCatalog use);

nlohmann::ordered_json device_json(const DeviceSpec& device);
/// `spec`: what the group's members are of.
nlohmann::ordered_json group_json(const GroupSpec& group, const ClusterSpec& spec);
/// What cluster.json holds. Diagnostics go to the reader's file; the cluster returned is sound if
/// there was none.
ClusterSpec read_cluster_object(const JsonReader& reader);
nlohmann::ordered_json cluster_json(const ClusterSpec& cluster);
/// "gpu", or "gpu[3]" of a member that there are several of.
std::string text_of(const GroupSpec& group, const MemberRef& ref);

Catalog parse_catalog(const std::string& file, std::string text);

/// core/model/catalog.json, as it was built in.
std::string_view catalog_text();

}  // namespace tandem
