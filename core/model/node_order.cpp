#include "core/model/node_order.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"

namespace tandem {

namespace {

bool holds_devices(const ClusterSpec& spec, const ClusterMember& member) {
  if (!member.group) return member.device.has_value();
  return std::ranges::any_of(spec.groups[*member.group].members,
                             [&](const ClusterMember& of) { return holds_devices(spec, of); });
}

const std::vector<ClusterMember>& root_members(const ClusterSpec& spec) {
  return spec.groups[spec.root].members;
}

/// Places of the root's members that hold devices.
std::vector<std::size_t> places_of_nodes(const ClusterSpec& spec) {
  std::vector<std::size_t> places;
  for (std::size_t place = 0; place < root_members(spec).size(); ++place) {
    if (holds_devices(spec, root_members(spec)[place])) places.push_back(place);
  }
  return places;
}

/// Members of a kind are alike, down to the links within them.
auto kind_of(const ClusterSpec& spec, std::size_t place) {
  const ClusterMember& member = root_members(spec)[place];
  return std::pair(member.device, member.group);
}

/// The first place of each kind, ascending.
std::vector<std::size_t> first_of_kinds(const ClusterSpec& spec) {
  std::vector<std::size_t> kinds;
  for (const std::size_t place : places_of_nodes(spec)) {
    const auto alike = [&](std::size_t one) { return kind_of(spec, one) == kind_of(spec, place); };
    if (std::ranges::none_of(kinds, alike)) kinds.push_back(place);
  }
  return kinds;
}

/// `from`: which of the root's members each place is to get.
ClusterSpec rearranged(ClusterSpec spec, const std::vector<std::size_t>& from) {
  GroupSpec& root = spec.groups[spec.root];
  std::vector<ClusterMember> members;
  std::vector<std::size_t> now(from.size());
  for (std::size_t place = 0; place < from.size(); ++place) {
    members.push_back(std::move(root.members[from[place]]));
    now[from[place]] = place;
  }
  root.members = std::move(members);
  for (JointSpec& joint : root.joints) {
    for (MemberRef* end : {&joint.from, &joint.to}) end->member = now[end->member];
  }
  if (root.port) root.port = now[*root.port];
  return spec;
}

/// `order`: of the members that hold devices; the others stay where they are.
ClusterSpec in_order(const ClusterSpec& spec, const std::vector<std::size_t>& order) {
  std::vector<std::size_t> from(root_members(spec).size());
  std::iota(from.begin(), from.end(), std::size_t{0});
  const std::vector<std::size_t> places = places_of_nodes(spec);
  for (std::size_t i = 0; i < places.size(); ++i) from[places[i]] = order[i];
  return rearranged(spec, from);
}

}  // namespace

std::vector<std::string> node_order(const ClusterSpec& spec) {
  std::vector<std::string> names;
  for (const std::size_t place : places_of_nodes(spec))
    names.push_back(root_members(spec)[place].name);
  return names;
}

std::vector<std::string> unequal_nodes(const ClusterSpec& spec) {
  return first_of_kinds(spec).size() > 1 ? node_order(spec) : std::vector<std::string>{};
}

ClusterSpec in_node_order(const ClusterSpec& spec, const std::vector<std::string>& names) {
  const std::vector<std::string> now = node_order(spec);
  if (!std::ranges::is_permutation(names, now)) {
    throw InputError(fmt::format("cluster {}: node order {}: expected {}, each once, in any order",
                                 spec.name, fmt::join(names, ","), fmt::join(now, ",")));
  }
  const std::vector<std::size_t> places = places_of_nodes(spec);
  std::vector<std::size_t> order;
  for (const std::string& name : names)
    order.push_back(places[static_cast<std::size_t>(std::ranges::find(now, name) - now.begin())]);
  return in_order(spec, order);
}

std::vector<ClusterSpec> node_orders(const ClusterSpec& spec) {
  const std::vector<std::size_t> places = places_of_nodes(spec);
  std::vector<std::size_t> kinds = first_of_kinds(spec);
  std::vector<ClusterSpec> all{spec};
  if (kinds.size() > kMostNodeKinds) return all;
  do {
    std::vector<std::size_t> order;
    for (const std::size_t first : kinds) {
      std::ranges::copy_if(places, std::back_inserter(order), [&](std::size_t place) {
        return kind_of(spec, place) == kind_of(spec, first);
      });
    }
    if (order != places) all.push_back(in_order(spec, order));
  } while (std::ranges::next_permutation(kinds).found);
  return all;
}

}  // namespace tandem
