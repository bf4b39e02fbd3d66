// ASTRA-sim's network yml, of its analytical backend: one entry a dimension, innermost first.
//
//   topology: [ Ring, Switch ]     # Ring, FullyConnected, Switch
//   npus_count: [ 4, 2 ]
//   bandwidth: [ 200.0, 50.0 ]     # 2^30 bytes a second, one way
//   latency: [ 50.0, 500.0 ]       # ns of a link; a way through a switch has two
//
// Four such lines are all there is: a library for YAML would bring anchors and tags that can be
// wrong.

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

#include "core/base/ascii.h"
#include "core/base/error.h"
#include "core/import/topology_parts.h"
#include "core/model/catalog.h"
#include "core/notation/notation_words.h"
#include "core/text/count_text.h"
#include "core/text/csv.h"
#include "core/text/json_document.h"

namespace tandem {
namespace {

constexpr double kGigabyte = 1073741824.0;  // ASTRA-sim's GB, in bw_GBps_to_Bpns()
constexpr std::size_t kMostTopologyDimensions = 8;
constexpr std::int64_t kMostFullyConnected = 256;
constexpr double kMostBandwidth = 1e9, kLeastBandwidth = 1e-6, kMostLatency = 1e12;
constexpr double kRoomInRouter = 4.0;  // never the bottleneck

enum class TopologyBlock : std::uint8_t { ring, fully_connected, switch_ };
constexpr std::array<std::pair<std::string_view, TopologyBlock>, 3> kBlocks{
    {{"Ring", TopologyBlock::ring},
     {"FullyConnected", TopologyBlock::fully_connected},
     {"Switch", TopologyBlock::switch_}}};

struct Dimension {
  TopologyBlock block = TopologyBlock::ring;
  std::int32_t npus = 2;
  LinkSpec link;
};

class Network {
 public:
  Network(std::string_view text, std::string_view file) : in_(text, file) {
    in_.each_line([this] { read_line(); });
    for (std::size_t key = 0; key < kKeys.size(); ++key) {
      if (!lists_[key]) in_.diagnose_whole_text(fmt::format("no {}", kKeys[key]));
    }
    in_.finish();
    read_dimensions();
    in_.finish();
  }

  const std::vector<Dimension>& dimensions() const { return dimensions_; }

 private:
  static constexpr std::array<std::string_view, 4> kKeys{"topology", "npus_count", "bandwidth",
                                                         "latency"};
  struct List {
    WordPlace key;
    std::vector<WordPlace> items;
  };

  /// "key: [ a, b ]  # what it is".
  void read_line() {
    std::string_view line = in_.line();
    for (std::size_t at = line.find('#'); at != std::string_view::npos;
         at = line.find('#', at + 1)) {
      if (at == 0 || line[at - 1] == ' ' || line[at - 1] == '\t') line = line.substr(0, at);
    }
    line = trimmed(line);
    if (line.empty() || line == "---") return;
    const std::size_t colon = line.find(':');
    const std::string_view key = trimmed(line.substr(0, colon));
    const auto known = std::find(kKeys.begin(), kKeys.end(), key);
    if (colon == std::string_view::npos || known == kKeys.end()) {
      in_.fail(key, fmt::format("expected topology:, npus_count:, bandwidth: or latency:, found "
                                "\"{}\"{}",
                                shown(key), did_you_mean(key, {kKeys.begin(), kKeys.end()})));
    }
    std::optional<List>& list = lists_[static_cast<std::size_t>(known - kKeys.begin())];
    if (list) in_.fail(key, fmt::format("a second {}", key));
    list = List{in_.place_of(key), {}};
    std::string_view value = trimmed(line.substr(colon + 1));
    if (value.size() < 2 || value.front() != '[' || value.back() != ']')
      in_.fail(value, "expected a list in brackets on this line, such as [ Ring, Switch ]");
    split_cells(value.substr(1, value.size() - 2), ',', [&](std::string_view cell) {
      const std::string_view item = unquoted(cell);
      if (item.empty()) in_.fail(item, "expected an entry of the list");
      list->items.push_back(in_.place_of(item));
    });
  }

  static std::string_view unquoted(std::string_view text) {
    const bool quoted = text.size() >= 2 && text.front() == text.back() &&
                        (text.front() == '"' || text.front() == '\'');
    return quoted ? text.substr(1, text.size() - 2) : text;
  }

  void read_dimensions() {
    const std::size_t count = lists_[0]->items.size();
    for (std::size_t key = 1; key < kKeys.size(); ++key) {
      if (lists_[key]->items.size() == count) continue;
      in_.diagnose(lists_[key]->key,
                   fmt::format("{} has {}, topology {}", kKeys[key],
                               counted(lists_[key]->items.size(), "entry"), count));
    }
    if (count > kMostTopologyDimensions) {
      in_.diagnose(lists_[0]->key, fmt::format("{} dimensions: expected at most {}", count,
                                               kMostTopologyDimensions));
    }
    in_.finish();
    double all = 1;
    for (std::size_t i = 0; i < count; ++i) {
      Dimension dimension;
      dimension.block = block_of(lists_[0]->items[i]);
      const WordPlace& npus = lists_[1]->items[i];
      const bool pairs = dimension.block == TopologyBlock::fully_connected;
      const std::int64_t most =
          pairs ? kMostFullyConnected : static_cast<std::int64_t>(kMostClusterDevices);
      dimension.npus = static_cast<std::int32_t>(number<std::int64_t>(npus, 2, most));
      all *= dimension.npus;
      if (all > static_cast<double>(kMostClusterDevices)) {
        in_.diagnose(npus, fmt::format("more than {} NPUs in all", kMostClusterDevices));
        all = 1;
      }
      dimension.link = {
          .name = std::string(lists_[0]->items[i].word),
          .bytes_per_s = kGigabyte * number(lists_[2]->items[i], kLeastBandwidth, kMostBandwidth),
          .latency = Duration(std::llround(number(lists_[3]->items[i], 0.0, kMostLatency)))};
      dimensions_.push_back(std::move(dimension));
    }
  }

  TopologyBlock block_of(const WordPlace& item) {
    std::vector<std::string> names;
    for (const auto& [name, block] : kBlocks) {
      if (name == item.word) return block;
      names.emplace_back(name);
    }
    in_.diagnose(item, fmt::format("expected Ring, FullyConnected or Switch, found \"{}\"{}",
                                   shown(item.word), did_you_mean(item.word, names)));
    return TopologyBlock::ring;
  }

  template <class Number>
  Number number(const WordPlace& item, Number least, Number most) {
    const auto value = number_in<Number>(item.word);
    if (value && *value >= least && *value <= most) return *value;
    in_.diagnose(item, fmt::format("expected {} from {} to {}, found \"{}\"",
                                   std::is_integral_v<Number> ? "an integer" : "a number", least,
                                   most, shown(item.word)));
    return least;
  }

  WordReader in_;
  std::array<std::optional<List>, kKeys.size()> lists_;
  std::vector<Dimension> dimensions_;
};

/// The links of a dimension between all of `member`, by so many switches if it has any.
void join(GroupSpec& group, const Dimension& dimension, std::size_t member, std::int32_t switches) {
  const auto link = [&](std::optional<std::int32_t> from, MemberRef to) {
    group.joints.push_back(
        {.from = {.member = member, .which = from}, .to = to, .link = dimension.link});
  };
  const std::int32_t count = dimension.npus;
  if (dimension.block == TopologyBlock::switch_) {
    const std::size_t hub = group.members.size();
    group.members.push_back({.name = "switch", .count = switches});
    // Each block's routers, all of one dimension's, go to a switch each.
    if (switches == 1) return link(std::nullopt, {.member = hub});
    for (std::int32_t i = 0; i < count; ++i) link(i, {.member = hub});
    return;
  }
  for (std::int32_t i = 0; i < count; ++i) {
    if (dimension.block == TopologyBlock::ring) {
      if (i + 1 < count || count > 2) link(i, {.member = member, .which = (i + 1) % count});
      continue;
    }
    for (std::int32_t j = i + 1; j < count; ++j) link(i, {.member = member, .which = j});
  }
}

/// What an NPU's router could ever pass on at once.
double router_rate(const std::vector<Dimension>& dimensions) {
  double rate = 0.0;
  for (const Dimension& one : dimensions)
    rate += one.link.bytes_per_s * (one.block == TopologyBlock::fully_connected ? one.npus - 1 : 2);
  return kRoomInRouter * rate;
}

/// A line that holds `start` behind nothing but blanks.
bool has_line(std::string_view text, std::string_view start) {
  for (std::size_t at = text.find(start); at != std::string_view::npos;
       at = text.find(start, at + 1)) {
    const std::size_t before = text.find_last_not_of(" \t", at == 0 ? 0 : at - 1);
    if (at == 0 || before == std::string_view::npos || text[before] == '\n') return true;
  }
  return false;
}

}  // namespace

bool is_astra_sim(std::string_view text) {
  return is_plain_text(text) && (has_line(text, "topology:") || has_line(text, "npus_count:"));
}

ClusterSpec parse_astra_sim(const std::string& file, std::string_view text, const DeviceSpec* gpu) {
  const Network network(text, file);
  if (gpu == nullptr) ask_for_gpu(file, "ASTRA-sim names no GPU model");
  const std::vector<Dimension>& dimensions = network.dimensions();
  ClusterSpec spec{.name = cluster_name(file), .devices = {}, .groups = {}};
  const std::size_t device = add_device(spec, *gpu);
  // NPUs pass on what others send, which devices don't: each has a router beside it.
  const bool routers = dimensions.size() > 1 || dimensions.front().block == TopologyBlock::ring;
  std::int32_t inner = 1;
  for (std::size_t level = 0; level < dimensions.size(); ++level) {
    const Dimension& dimension = dimensions[level];
    GroupSpec group{.name = fmt::format("dimension_{}", level), .members = {}, .joints = {}};
    std::size_t member = 0;
    if (level > 0) {
      group.members.push_back({.name = "block", .group = level - 1, .count = dimension.npus});
    } else {
      group.members.push_back({.name = "npu", .device = device, .count = dimension.npus});
      if (routers) {
        member = 1;
        group.members.push_back({.name = "router", .count = dimension.npus});
        group.joints.push_back(
            {.from = {.member = 0},
             .to = {.member = 1},
             .link = {.name = "router", .bytes_per_s = router_rate(dimensions), .latency = {}}});
      }
    }
    join(group, dimension, member, inner);
    if (routers) group.port = member;
    group.source = "ASTRA-sim network yml; GB of 2^30 bytes, the latency of each link";
    inner *= dimension.npus;
    spec.groups.push_back(std::move(group));
  }
  spec.root = spec.groups.size() - 1;
  check_cluster(file, spec);
  return spec;
}

}  // namespace tandem
