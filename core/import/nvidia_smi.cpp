// `nvidia-smi topo -m`: a table of how each GPU and NIC reaches each other one. It says how many
// NVLinks, but neither their rate nor that of PCIe, and no GPU's name unless `nvidia-smi -L` stands
// in the same text.

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "core/base/ascii.h"
#include "core/import/topology_parts.h"
#include "core/model/catalog.h"
#include "core/notation/notation_words.h"
#include "core/text/json_document.h"

namespace tandem {
namespace {

constexpr std::size_t kMostColumns = 256;
constexpr std::size_t kLongestWord = 64;

/// The more a way goes through, the higher.
enum class Way : std::uint8_t { itself, switch_, bridges, host_bridge, numa_node, host, nvlink };

constexpr std::array<std::pair<std::string_view, Way>, 7> kWays = {{{"X", Way::itself},
                                                                    {"PIX", Way::switch_},
                                                                    {"PXB", Way::bridges},
                                                                    {"PHB", Way::host_bridge},
                                                                    {"NODE", Way::numa_node},
                                                                    {"SYS", Way::host},
                                                                    {"SOC", Way::host}}};
/// What joins those that reach one another by a way; the last joins what no way is known of.
constexpr std::array<std::string_view, 7> kJoints{"",          "pcie", "bridges", "host_bridge",
                                                  "numa_node", "host", "host"};
constexpr std::size_t kUnknownLevel = 6;

struct Cell {
  Way way = Way::itself;
  std::int32_t nvlinks = 0;
  WordPlace place;
};

/// Without the escapes that underline the header.
std::string without_escapes(std::string_view text) {
  std::string plain;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '\033') {
      plain += text[at];
      continue;
    }
    if (at + 1 < text.size() && text[at + 1] == '[') ++at;
    while (at + 1 < text.size() && (text[at + 1] == ';' || is_digit(text[at + 1]))) ++at;
    if (at + 1 < text.size()) ++at;  // the letter that ends it
  }
  return plain;
}

bool is_gpu(std::string_view name) {
  if (!name.starts_with("GPU") || name.size() == 3) return false;
  name.remove_prefix(3);
  return WordReader::take_digits(name).size() > 0 && name.empty();
}

class LinkTable {
 public:
  LinkTable(std::string_view text, std::string_view file) : in_(text, file) {
    in_.each_line([this] { read_line(); });
    if (columns_.empty()) {
      in_.diagnose_whole_text("no line of names, such as \"GPU0 GPU1\", that begins the table");
    } else {
      check();
    }
    finish();
  }

  std::size_t size() const { return columns_.size(); }
  bool gpu(std::size_t column) const { return is_gpu(columns_[column].word); }
  std::string_view name(std::size_t column) const { return columns_[column].word; }
  /// Null: the table has no such row.
  const Cell* cell(std::size_t row, std::size_t column) const {
    const auto& cells = rows_[row];
    return cells.empty() ? nullptr : &cells[column];
  }
  const std::vector<std::pair<WordPlace, std::string_view>>& names() const { return names_; }

  void diagnose(const WordPlace& at, std::string message) { in_.diagnose(at, std::move(message)); }
  /// Throws what was diagnosed.
  void finish() { in_.finish(); }

 private:
  void read_line() {
    const std::string_view first = in_.next_word();
    if (first == "GPU") return read_name();
    if (columns_.empty()) {
      if (first == "GPU0") read_header(first);
      return;
    }
    const auto row = std::ranges::find(columns_, first, &WordPlace::word);
    if (row != columns_.end()) read_row(static_cast<std::size_t>(row - columns_.begin()), first);
  }

  /// "GPU 0: NVIDIA H100 80GB HBM3 (UUID: …)".
  void read_name() {
    if (!in_.next_word().ends_with(':')) return;
    std::string_view name = in_.rest();
    name = name.substr(0, name.find(" (UUID"));
    if (!name.empty()) names_.emplace_back(in_.place_of(name), name);
  }

  void read_header(std::string_view first) {
    for (std::string_view word = first; !word.empty() && word != "CPU"; word = in_.next_word()) {
      if (word == "X") in_.fail(first, "the line of names is missing before this row");
      if (columns_.size() == kMostColumns || word.size() > kLongestWord) {
        in_.fail(word, fmt::format("expected at most {} columns, of names of {} bytes",
                                   kMostColumns, kLongestWord));
      }
      if (std::ranges::find(columns_, word, &WordPlace::word) != columns_.end())
        in_.diagnose(word, fmt::format("a second column {}", word));
      columns_.push_back(in_.place_of(word));
      rows_.emplace_back();
    }
  }

  void read_row(std::size_t row, std::string_view first) {
    if (!rows_[row].empty()) in_.fail(first, fmt::format("a second row {}", first));
    std::vector<Cell>& cells = rows_[row];
    cells.resize(columns_.size());
    for (std::size_t column = 0; column < columns_.size(); ++column) {
      const std::string_view word = in_.next_word();
      if (word.empty()) {
        in_.fail(first,
                 fmt::format("row {} ends after {} of {} columns", first, column, columns_.size()));
      }
      cells[column] = read_cell(word);
    }
  }

  Cell read_cell(std::string_view word) {
    Cell cell{.place = in_.place_of(word)};
    if (word.starts_with("NV") && word.size() > 2) {
      cell.way = Way::nvlink;
      cell.nvlinks =
          static_cast<std::int32_t>(in_.number(word.substr(2), "a number of NVLinks", 1, 1000));
      return cell;
    }
    std::vector<std::string> known;
    for (const auto& [code, way] : kWays) {
      if (code == word) {
        cell.way = way;
        return cell;
      }
      known.emplace_back(code);
    }
    in_.fail(word,
             fmt::format("expected X, NV1, NV2, …, PIX, PXB, PHB, NODE or SYS, found \"{}\"{}",
                         shown(word), did_you_mean(word, known)));
  }

  void check() {
    for (std::size_t row = 0; row < size(); ++row) {
      if (rows_[row].empty()) {
        if (gpu(row))
          diagnose(columns_[row], fmt::format("no row {}: the table is cut off", name(row)));
        continue;
      }
      if (!in_.has_diagnostic()) check_row(row);
    }
  }

  void check_row(std::size_t row) {
    for (std::size_t column = 0; column < size(); ++column) {
      const Cell& here = rows_[row][column];
      if ((here.way == Way::itself) != (row == column)) {
        diagnose(here.place, row == column ? "expected X, of a row's own column"
                                           : "X is for a row's own column");
      } else if (here.way == Way::nvlink && !(gpu(row) && gpu(column))) {
        diagnose(here.place, fmt::format("NVLinks between {} and {}: only GPUs have them",
                                         name(row), name(column)));
      }
      if (column >= row || rows_[column].empty()) continue;
      const Cell& back = rows_[column][row];
      if (back.way == here.way && back.nvlinks == here.nvlinks) continue;
      diagnose(here.place,
               fmt::format("{} reaches {} by {}, but {} reaches {} by {}", name(row), name(column),
                           here.place.word, name(column), name(row), back.place.word));
    }
  }

  WordReader in_;
  std::vector<WordPlace> columns_;
  std::vector<std::vector<Cell>> rows_;  // empty: not there
  std::vector<std::pair<WordPlace, std::string_view>> names_;
};

const DeviceSpec& device_of(LinkTable& table, const std::string& file, const DeviceSpec* gpu) {
  if (gpu != nullptr) return *gpu;
  if (table.names().empty()) ask_for_gpu(file, "nvidia-smi topo -m names no GPU");
  const std::string_view first = table.names().front().second;
  for (const auto& [place, name] : table.names()) {
    if (gpu_of_driver(name) == nullptr)
      table.diagnose(
          place, fmt::format("the catalogue has no \"{}\": name a device with --gpu", shown(name)));
    else if (name != first)
      table.diagnose(place, fmt::format("GPUs of several kinds, \"{}\" and \"{}\"", shown(first),
                                        shown(name)));
  }
  table.finish();
  return *find_device(gpu_of_driver(first)->device);
}

class NodeOfTable {
 public:
  NodeOfTable(LinkTable& table, const GpuLinks& gpu, const DeviceSpec& device)
      : table_(table), gpu_(gpu) {
    for (std::size_t i = 0; i < table.size(); ++i)
      tops_.push_back(
          {table.gpu(i) ? builder_.add("gpu", &device) : builder_.add("nic"), table.gpu(i)});
    leaves_.resize(table.size());
    std::iota(leaves_.begin(), leaves_.end(), std::size_t{0});
    add_nvlinks();
    add_switches();
    table.finish();
  }

  ClusterSpec finish(const std::string& file) {
    if (builder_.has("nic")) outermost_ = "nic";
    if (!outermost_.empty()) builder_.set_port(outermost_);
    return builder_.finish(
        file,
        fmt::format("nvidia-smi topo -m; NVLinks and PCIe x16 by the data sheet of {}, {:.4g} "
                    "GB/s between sockets assumed",
                    gpu_.device, socket() / 1e9));
  }

 private:
  struct Top {
    NodeBuilder::Vertex vertex;
    bool gpu = false;
  };

  /// Between the sockets of hosts of the GPU's time: Skylake, Zen 2, Sapphire Rapids (NCCL,
  /// src/graph/topo.h).
  double socket() const {
    if (gpu_.pcie_bytes_per_s < 20e9) return 10e9;
    return gpu_.pcie_bytes_per_s < 40e9 ? 16e9 : 22e9;
  }

  const Cell& cell(std::size_t a, std::size_t b) const { return *table_.cell(a, b); }

  void add_nvlinks() {
    std::vector<std::size_t> gpus;
    for (std::size_t i = 0; i < table_.size(); ++i) {
      if (table_.gpu(i)) gpus.push_back(i);
    }
    if (gpus.size() < 2) return;
    const std::int32_t each = cell(gpus[0], gpus[1]).nvlinks;
    bool alike = each > 0;
    for (const std::size_t a : gpus) {
      for (const std::size_t b : gpus) alike = alike && (a == b || cell(a, b).nvlinks == each);
    }
    // All the links of each GPU lead to one place: switches.
    const auto others = static_cast<std::int32_t>(gpus.size()) - 1;
    if (alike && each <= gpu_.nvlinks && each * others > gpu_.nvlinks) {
      const NodeBuilder::Vertex hub = builder_.add("nvswitch");
      for (const std::size_t a : gpus)
        builder_.join(tops_[a].vertex, hub, nvlinks(gpu_, each, kNvLinkLatency / 2));
      return;
    }
    for (const std::size_t a : gpus) add_direct_nvlinks(a, gpus);
  }

  void add_direct_nvlinks(std::size_t a, const std::vector<std::size_t>& gpus) {
    std::int32_t all = 0;
    for (const std::size_t b : gpus) {
      const Cell& one = cell(a, b);
      all += one.nvlinks;
      if (one.nvlinks > 0 && all > gpu_.nvlinks) {
        return table_.diagnose(
            one.place, fmt::format("{} NVLinks of {} up to here: a {} has {}", all, table_.name(a),
                                   gpu_.device, gpu_.nvlinks));
      }
      if (b > a && one.nvlinks > 0)
        builder_.join(tops_[a].vertex, tops_[b].vertex, nvlinks(gpu_, one.nvlinks, kNvLinkLatency));
    }
  }

  /// Of rows of NICs, which may be missing, the one that is there; null: none is.
  const Cell* known(std::size_t a, std::size_t b) const {
    const Cell* one = table_.cell(a, b);
    return one != nullptr ? one : table_.cell(b, a);
  }

  /// What is known to lie between two columns; NVLinks hide it.
  std::size_t level(std::size_t a, std::size_t b) const {
    const Cell* one = known(a, b);
    return one == nullptr ? kUnknownLevel : static_cast<std::size_t>(one->way);
  }

  /// Level by level, joins what reaches one another there.
  void add_switches() {
    std::vector<std::size_t> set = leaves_;  // of each column, named by one of it
    for (std::size_t at = 1; at <= kUnknownLevel; ++at) {
      for (std::size_t a = 0; a < set.size(); ++a) {
        for (std::size_t b = 0; b < a; ++b) {
          if (level(a, b) > at || set[a] == set[b]) continue;
          std::replace(set.begin(), set.end(), std::size_t{set[a]}, std::size_t{set[b]});
        }
      }
      check_level(set, at);
      join_level(set, at);
    }
  }

  void check_level(const std::vector<std::size_t>& set, std::size_t at) {
    for (std::size_t a = 0; a < set.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        if (set[a] != set[b] || level(a, b) <= at || level(a, b) == kUnknownLevel) continue;
        const Cell& one = *known(a, b);
        table_.diagnose(one.place, fmt::format("{} reaches {} by {}, but others by less",
                                               table_.name(a), table_.name(b), one.place.word));
      }
    }
    table_.finish();
  }

  void join_level(const std::vector<std::size_t>& set, std::size_t at) {
    std::map<std::size_t, std::vector<std::size_t>> below;  // of each set, what tops it so far
    for (std::size_t i = 0; i < set.size(); ++i) {
      std::vector<std::size_t>& tops = below[set[i]];
      if (std::find(tops.begin(), tops.end(), leaves_[i]) == tops.end()) tops.push_back(leaves_[i]);
    }
    for (const auto& [name, tops] : below) {
      if (tops.size() < 2) continue;
      const Top joint{builder_.add(kJoints[at])};
      const bool sockets = at == static_cast<std::size_t>(Way::host);
      for (const std::size_t top : tops) {
        const Top& one = tops_[top];
        builder_.join(one.vertex, joint.vertex,
                      {.name = sockets ? "between sockets" : "PCIe x16",
                       .bytes_per_s = sockets ? std::min(socket(), gpu_.pcie_bytes_per_s)
                                              : gpu_.pcie_bytes_per_s,
                       .latency = one.gpu ? kPcieLatency : Duration{}});
      }
      for (std::size_t& leaf : leaves_) {
        if (std::find(tops.begin(), tops.end(), leaf) != tops.end()) leaf = tops_.size();
      }
      tops_.push_back(joint);
      outermost_ = kJoints[at];
    }
  }

  LinkTable& table_;
  const GpuLinks& gpu_;
  NodeBuilder builder_;
  std::vector<Top> tops_;            // columns, then what joins them
  std::vector<std::size_t> leaves_;  // of each column, the topmost so far
  std::string_view outermost_;       // joint
};

}  // namespace

// The names of the columns may be underlined, by escapes before them.
bool is_nvidia_smi(std::string_view text) {
  return is_plain_text(text) && !is_astra_sim(text) && text.find("GPU0") != std::string_view::npos;
}

ClusterSpec parse_nvidia_smi(const std::string& file, std::string_view text,
                             const DeviceSpec* gpu) {
  const std::string plain = without_escapes(text);
  LinkTable table(plain, file);
  const DeviceSpec& device = device_of(table, file, gpu);
  const GpuLinks* links = gpu_links(device.name);
  if (links == nullptr)
    throw UsageError(fmt::format("--gpu {}: not a GPU that nvidia-smi shows", device.name));
  return NodeOfTable(table, *links, device).finish(file);
}

}  // namespace tandem
