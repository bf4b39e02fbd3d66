#include "core/files/cluster_file.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/files/constants_files.h"
#include "core/files/read.h"
#include "core/model/link_shapes.h"
#include "core/text/files.h"
#include "core/text/json_text.h"

namespace tandem {
namespace {

constexpr std::int64_t kClusterFileVersion = 1;
constexpr std::int32_t kMostMembers = 65'536;
constexpr std::size_t kLongestName = 64;  // of many links each has several names in its own
constexpr std::size_t kMostNames = 4096;  // names are compared with one another
constexpr std::size_t kMostGroupLinks = 65'536;
constexpr std::size_t kMostDimensions = 16;  // of a torus

/// The elements; diagnoses more than `most`, and reads none.
std::vector<JsonReader> bounded(const JsonReader& reader, std::size_t most) {
  std::vector<JsonReader> all = reader.array();
  if (all.size() <= most) return all;
  reader.diagnose(fmt::format("{} entries: expected at most {}", all.size(), most));
  return {};
}

template <class Rows>
std::optional<std::size_t> find_name(const Rows& rows, std::string_view name) {
  const auto found = std::ranges::find(rows, name, &Rows::value_type::name);
  if (found == rows.end()) return std::nullopt;
  return static_cast<std::size_t>(found - rows.begin());
}

/// A name that none of `rows` has.
template <class Rows>
std::string new_name(const JsonReader& reader, const Rows& rows) {
  std::string name = reader.line();
  if (reader.absent() || reader.kind() != JsonKind::string) return name;
  if (name.empty() || name.size() > kLongestName ||
      name.find_first_of("[] ") != std::string::npos) {
    reader.expected(
        fmt::format("a name of at most {} bytes, without brackets and spaces", kLongestName));
  } else if (find_name(rows, name)) {
    reader.diagnose(fmt::format("a second \"{}\"", name));
  }
  return name;
}

/// Those given, the rest as of any device.
Calibration read_typical(const JsonReader& reader) {
  Calibration typical = kTypicalConstants;
  if (!reader.absent()) read_constants(reader, typical, ConstantsGiven::some);
  return typical;
}

DeviceSpec read_device(const JsonReader& reader, const std::vector<DeviceSpec>& before) {
  DeviceSpec device;
  if (!reader.object({"name", "fp32_flops_per_s", "tf32_flops_per_s", "fp16_flops_per_s",
                      "bf16_flops_per_s", "fp8_flops_per_s", "memory_bytes", "memory_bytes_per_s",
                      "multiprocessors", "typical", "usd_per_hour", "source"})) {
    return device;
  }
  device.name = new_name(reader["name"], before);
  bool computes = false;
  for (std::size_t format = 0; format < kNumberFormats; ++format) {
    const JsonReader peak =
        reader.optional(fmt::format("{}_flops_per_s", name(static_cast<NumberFormat>(format))));
    if (peak.absent()) continue;
    device.flops_per_s[format] = peak.number(kLeastRate);
    computes = true;
  }
  if (!computes) reader.diagnose("expected a peak, such as \"fp16_flops_per_s\", found none");
  device.memory_bytes = reader["memory_bytes"].bytes();
  device.memory_bytes_per_s = reader["memory_bytes_per_s"].number(kLeastRate);
  if (reader.has("multiprocessors"))
    device.multiprocessors = reader["multiprocessors"].integer<std::int32_t>(1, kMostMembers);
  device.typical = read_typical(reader.optional("typical"));
  if (reader.has("usd_per_hour")) device.usd_per_hour = reader["usd_per_hour"].number(0.0);
  if (reader.has("source")) device.source = reader["source"].string();
  return device;
}

LinkSpec read_link_figures(const JsonReader& reader) {
  LinkSpec link{.name = "link"};
  if (reader.has("name")) link.name = reader["name"].line();
  if (link.name.size() > kLongestName)
    reader["name"].expected(fmt::format("a name of at most {} bytes", kLongestName));
  link.bytes_per_s = reader["bytes_per_s_one_way"].number(kLeastRate);
  link.latency = reader["latency_ns"].duration();
  return link;
}

template <class Row>
std::vector<std::string> names_of(const std::vector<Row>& rows) {
  std::vector<std::string> names;
  for (const Row& row : rows) names.push_back(row.name);
  return names;
}

/// "gpu" or "gpu[3]".
MemberRef read_ref(const JsonReader& reader, const std::vector<ClusterMember>& members) {
  MemberRef ref;
  const std::string text = reader.string();
  if (reader.absent() || reader.kind() != JsonKind::string) return ref;
  const std::size_t bracket = text.find('[');
  const std::string member = text.substr(0, bracket);
  const auto found = find_name(members, member);
  if (!found) {
    reader.diagnose(
        fmt::format("no member \"{}\"{}", member, did_you_mean(member, names_of(members))));
    return ref;
  }
  ref.member = *found;
  if (bracket == std::string::npos) return ref;
  std::int32_t which = -1;
  const char* end = text.data() + text.size();
  const auto [after, error] = std::from_chars(text.data() + bracket + 1, end, which);
  const std::int32_t count = members[*found].count;
  if (error != std::errc{} || after + 1 != end || *after != ']' || which < 0 || which >= count) {
    reader.expected(
        fmt::format("\"{0}\", or one of \"{0}[0]\" to \"{0}[{1}]\"", member, count - 1));
    return ref;
  }
  ref.which = which;
  return ref;
}

class GroupReader {
 public:
  GroupReader(ClusterSpec& spec, UseCatalog use) : spec_(spec), use_(use) {}

  void read(const JsonReader& reader, std::size_t index) {
    // Looking up a node of the catalogue may move spec_.groups.
    GroupSpec group{.name = spec_.groups[index].name, .members = {}, .joints = {}};
    const JsonReader members = reader["members"];
    for (const JsonReader& member : bounded(members, kMostNames))
      group.members.push_back(read_member(member, group));
    const std::size_t before = reader.diagnostics();
    if (reader.has("links") && !group.members.empty()) {
      for (const JsonReader& links : bounded(reader["links"], kMostGroupLinks))
        read_links(links, group);
    }
    if (reader.has("port") && !group.members.empty() && reader.diagnostics() == before)
      group.port = read_whole_member(reader["port"], group);
    if (const JsonReader network = reader.optional("network");
        !network.absent() && network.object({"name", "bytes_per_s_one_way", "latency_ns"})) {
      group.network = read_link_figures(network);
    }
    if (reader.has("source")) group.source = reader["source"].string();
    spec_.groups[index] = std::move(group);
  }

 private:
  ClusterMember read_member(const JsonReader& reader, const GroupSpec& group) {
    ClusterMember member;
    if (!reader.object({"name", "device", "group", "count"})) return member;
    member.name = new_name(reader["name"], group.members);
    if (reader.has("count")) member.count = reader["count"].integer<std::int32_t>(1, kMostMembers);
    const JsonReader device = reader.optional("device"), inner = reader.optional("group");
    if (!device.absent() && !inner.absent()) inner.expected("no \"device\" besides");
    if (!device.absent())
      member.device = look_up(device, "device", spec_.devices, &Catalog::devices, add_device);
    if (!inner.absent())
      member.group = look_up(inner, "group", spec_.groups, &Catalog::nodes, add_node);
    return member;
  }

  /// Among `own`, else among the catalogue's, of which `add` puts one into the spec.
  template <class Row>
  std::optional<std::size_t> look_up(const JsonReader& reader, std::string_view what,
                                     const std::vector<Row>& own, std::vector<Row> Catalog::*known,
                                     std::size_t (*add)(ClusterSpec&, const Row&)) {
    const std::string name = reader.string();
    if (const auto found = find_name(own, name)) return found;
    std::vector<std::string> names = names_of(own);
    if (use_ == UseCatalog::yes) {
      const std::vector<Row>& rows = catalog().*known;
      if (const auto found = find_name(rows, name)) return add(spec_, rows[*found]);
      for (const Row& one : rows) names.push_back(one.name);
    }
    if (reader.kind() == JsonKind::string)
      reader.diagnose(fmt::format("no {} \"{}\"{}", what, name, did_you_mean(name, names)));
    return std::nullopt;
  }

  /// A link, or all those of a shape.
  static void read_links(const JsonReader& reader, GroupSpec& group) {
    if (!reader.object(
            {"between", "every_two", "torus", "name", "bytes_per_s_one_way", "latency_ns"})) {
      return;
    }
    const LinkSpec link = read_link_figures(reader);
    const JsonReader every_two = reader.optional("every_two"), torus = reader.optional("torus");
    const bool between = reader.has("between");
    if (int{between} + int{!every_two.absent()} + int{!torus.absent()} > 1) {
      reader.diagnose("expected one of \"between\", \"every_two\" and \"torus\", found several");
    } else if (!every_two.absent()) {
      if (const auto member = read_whole_member(every_two, group)) {
        const std::int64_t count = group.members[*member].count;
        append(reader, group, count * (count - 1) / 2,
               [&] { return links_of_every_two(*member, static_cast<std::int32_t>(count), link); });
      }
    } else if (!torus.absent()) {
      read_torus(reader, torus, group, link);
    } else {
      read_between(reader["between"], group, link);
    }
  }

  /// `count` links, which are made only if they are not too many.
  template <class Make>
  static void append(const JsonReader& reader, GroupSpec& group, std::int64_t count, Make made) {
    if (count > static_cast<std::int64_t>(kMostGroupLinks - group.joints.size())) {
      reader.diagnose(
          fmt::format("{} links more: expected at most {} of a group", count, kMostGroupLinks));
      return;
    }
    for (JointSpec& joint : made()) group.joints.push_back(std::move(joint));
  }

  static void read_between(const JsonReader& between, GroupSpec& group, const LinkSpec& link) {
    const std::vector<JsonReader> ends = between.array();
    if (ends.size() != 2) {
      if (between.kind() == JsonKind::array) between.expected("two members");
      return;
    }
    const MemberRef from = read_ref(ends[0], group.members);
    const MemberRef to = read_ref(ends[1], group.members);
    append(between, group, 1, [&] { return std::vector<JointSpec>{{from, to, link}}; });
  }

  static void read_torus(const JsonReader& reader, const JsonReader& torus, GroupSpec& group,
                         const LinkSpec& link) {
    if (!torus.object({"of", "shape"})) return;
    const auto member = read_whole_member(torus["of"], group);
    const JsonReader shape = torus["shape"];
    std::vector<std::int32_t> lengths;
    std::int64_t count = 1;
    for (const JsonReader& length : bounded(shape, kMostDimensions)) {
      lengths.push_back(length.integer<std::int32_t>(1, kMostMembers));
      count = std::min<std::int64_t>(count * lengths.back(), kMostMembers + 1);
    }
    if (!member) return;
    if (count != group.members[*member].count) {
      shape.expected(fmt::format("lengths whose product is the count of \"{}\", {}",
                                 group.members[*member].name, group.members[*member].count));
      return;
    }
    append(reader, group, count * static_cast<std::int64_t>(lengths.size()),
           [&] { return links_of_torus(*member, lengths, link); });
  }

  /// Empty, and diagnosed: there is none, or it is one of several.
  static std::optional<std::size_t> read_whole_member(const JsonReader& reader,
                                                      const GroupSpec& group) {
    const std::size_t before = reader.diagnostics();
    const MemberRef ref = read_ref(reader, group.members);
    if (ref.which) reader.expected("a member, all of it");
    if (reader.diagnostics() != before) return std::nullopt;
    return ref.member;
  }

  ClusterSpec& spec_;
  const UseCatalog use_;
};

using Json = nlohmann::ordered_json;

Json link_json(const LinkSpec& link) {
  return {{"name", link.name},
          {"bytes_per_s_one_way", link.bytes_per_s},
          {"latency_ns", link.latency.count()}};
}

}  // namespace

std::string text_of(const GroupSpec& group, const MemberRef& ref) {
  const std::string& member = group.members[ref.member].name;
  return ref.which ? fmt::format("{}[{}]", member, *ref.which) : member;
}

Json device_json(const DeviceSpec& device) {
  Json json{{"name", device.name}};
  for (std::size_t format = 0; format < kNumberFormats; ++format) {
    if (device.flops_per_s[format] == 0.0) continue;
    json[fmt::format("{}_flops_per_s", name(static_cast<NumberFormat>(format)))] =
        device.flops_per_s[format];
  }
  json["memory_bytes"] = device.memory_bytes;
  json["memory_bytes_per_s"] = device.memory_bytes_per_s;
  if (device.multiprocessors > 0) json["multiprocessors"] = device.multiprocessors;
  for (const CalibrationConstant& constant : kCalibrationConstants) {
    const double typical = device.typical.value_or(kTypicalConstants).*constant.member;
    if (typical != kTypicalConstants.*constant.member)
      json["typical"][std::string(constant.key)] = typical;
  }
  if (device.usd_per_hour) json["usd_per_hour"] = *device.usd_per_hour;
  if (!device.source.empty()) json["source"] = device.source;
  return json;
}

Json group_json(const GroupSpec& group, const ClusterSpec& spec) {
  Json members = Json::array(), links = Json::array();
  for (const ClusterMember& member : group.members) {
    Json row{{"name", member.name}};
    if (member.device) row["device"] = spec.devices[*member.device].name;
    if (member.group) row["group"] = spec.groups[*member.group].name;
    row["count"] = member.count;
    members.push_back(std::move(row));
  }
  for (const JointSpec& joint : group.joints) {
    Json row{{"between", {text_of(group, joint.from), text_of(group, joint.to)}}};
    row.update(link_json(joint.link));
    links.push_back(std::move(row));
  }
  Json json{{"name", group.name}, {"members", std::move(members)}, {"links", std::move(links)}};
  if (group.port) json["port"] = group.members[*group.port].name;
  if (group.network) json["network"] = link_json(*group.network);
  if (!group.source.empty()) json["source"] = group.source;
  return json;
}

std::vector<DeviceSpec> read_devices(const JsonReader& devices) {
  std::vector<DeviceSpec> all;
  for (const JsonReader& device : bounded(devices, kMostNames))
    all.push_back(read_device(device, all));
  return all;
}

std::vector<JsonReader> read_groups(const JsonReader& groups, ClusterSpec& spec, UseCatalog use) {
  const std::vector<JsonReader> readers = bounded(groups, kMostNames);
  for (const JsonReader& reader : readers) {
    GroupSpec group;
    if (reader.object({"name", "members", "links", "port", "network", "source"}))
      group.name = new_name(reader["name"], spec.groups);
    spec.groups.push_back(std::move(group));
  }
  GroupReader reader(spec, use);
  for (std::size_t i = 0; i < readers.size(); ++i) {
    if (readers[i].kind() == JsonKind::object) reader.read(readers[i], i);
  }
  return readers;
}

ClusterSpec read_cluster_object(const JsonReader& reader) {
  ClusterSpec spec;
  if (!reader.object({"version", "name", "devices", "groups", "root"})) return spec;
  const std::size_t before = reader.diagnostics();
  read_version(reader, kClusterFileVersion);
  if (reader.has("name")) spec.name = reader["name"].line();
  if (reader.has("devices")) spec.devices = read_devices(reader["devices"]);
  const std::vector<JsonReader> groups = read_groups(reader["groups"], spec, UseCatalog::yes);
  const JsonReader outermost = reader["root"];
  const std::string name = outermost.string();
  const auto found = find_name(spec.groups, name);
  if (found) spec.root = *found;
  if (!found && outermost.kind() == JsonKind::string)
    outermost.diagnose(fmt::format("no group \"{}\"", name));
  if (reader.diagnostics() != before) return spec;
  if (const auto problem = problem_of(spec)) {
    const bool own = problem->group < groups.size();
    (own ? groups[problem->group] : reader)
        .diagnose(
            fmt::format("group \"{}\" {}", spec.groups[problem->group].name, problem->message));
  }
  return spec;
}

ClusterSpec parse_cluster(const std::string& file, std::string text) {
  JsonFile json(file, std::move(text));
  ClusterSpec spec = read_cluster_object(json.root());
  json.finish();
  return spec;
}

Json cluster_json(const ClusterSpec& cluster) {
  Json devices = Json::array(), groups = Json::array();
  for (const DeviceSpec& device : cluster.devices) devices.push_back(device_json(device));
  for (const GroupSpec& group : cluster.groups) groups.push_back(group_json(group, cluster));
  return {{"version", kClusterFileVersion},
          {"name", cluster.name},
          {"devices", std::move(devices)},
          {"groups", std::move(groups)},
          {"root", cluster.groups[cluster.root].name}};
}

std::string cluster_text(const ClusterSpec& cluster) { return json_text(cluster_json(cluster)); }

ClusterSpec read_cluster(const std::string& path) {
  return parse_cluster(path, read_file(path, kLargestJson));
}

}  // namespace tandem
