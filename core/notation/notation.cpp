#include "core/notation/notation.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "core/base/check.h"

namespace tandem {

namespace {

bool is_plain(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
}

std::string print_name(const std::string& name) {
  if (!name.empty() && std::all_of(name.begin(), name.end(), is_plain)) return name;
  std::string text = "\"";
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      text += {'\\', c};
    } else if (byte < 0x20 || byte == 0x7f) {
      text += fmt::format("\\x{:02x}", byte);
    } else {
      text += c;
    }
  }
  return text + "\"";
}

/// The staleness that all ops that read weights have in common; empty: there are none, or it
/// differs.
std::optional<std::uint16_t> common_staleness(std::span<const std::vector<Op>> orders) {
  std::optional<std::uint16_t> common;
  for (const std::vector<Op>& order : orders) {
    for (const Op& op : order) {
      if (!reads_weights(op.kind)) continue;
      if (common.value_or(op.staleness) != op.staleness) return std::nullopt;
      common = op.staleness;
    }
  }
  return common;
}

class Printer {
 public:
  Printer(const Schedule& schedule, const TextSink& out)
      : schedule_(schedule), placement_(schedule.placement), out_(out) {
    TANDEM_CHECK(placement_.stage.size() == placement_.replicas());
    TANDEM_CHECK(schedule.order.size() == placement_.devices);
    replicas_on_.resize(placement_.devices);
  }

  void print() {
    print_header();
    const std::size_t digits = fmt::formatted_size("{}", placement_.devices - 1);
    for (const ReplicaId replica : ids(placement_.device))
      replicas_on_[placement_.device[replica]].push_back(replica);
    for (const DeviceId device : ids(schedule_.order)) {
      const std::vector<Op>& order = schedule_.order[device];
      staleness_ = common_staleness({&order, 1}).value_or(default_staleness_);
      text_ += fmt::format("{:>{}}", index(device), digits);
      if (staleness_ != default_staleness_) text_ += fmt::format(" ~{}", staleness_);
      text_ += " |";
      for (const Op& op : order) {
        print_op(op, replicas_on_[device]);
        if (text_.size() >= kPiece) flush();
      }
      text_ += '\n';
      flush();
    }
  }

 private:
  static constexpr std::size_t kPiece = 1 << 16;

  void flush() {
    out_(text_);
    text_.clear();
  }

  void print_header() {
    text_ = fmt::format("# {}  devices {}  microbatches {}", print_name(schedule_.name),
                        placement_.devices, schedule_.microbatches);
    if (schedule_.width != 1) text_ += fmt::format("  width {}", schedule_.width);
    default_staleness_ = common_staleness(schedule_.order.rows()).value_or(0);
    if (default_staleness_ != 0) text_ += fmt::format("  staleness {}", default_staleness_);
    if (schedule_.reads_newest) text_ += "  reads newest";
    text_ += '\n';
    if (!counts_up(placement_.device) || placement_.replicas() != placement_.devices)
      print_list("stages", placement_.device);
    if (!counts_up(placement_.stage)) print_list("replicas", placement_.stage);
    print_edges();
    if (!schedule_.readings.empty()) {
      text_ += "# readings";
      for (const Reading& one : schedule_.readings)
        text_ += fmt::format(" {}:{}:{}:{}{}", one.forward_horizon, one.backward_horizon, one.delay,
                             one.kept, one.shares_prediction ? ":shared" : "");
      text_ += '\n';
    }
    for (const std::vector<StageId>& group : placement_.tied) {
      for (const StageId stage : group)
        text_ += fmt::format("{}{}", stage == group.front() ? "# tied " : "+", index(stage));
      text_ += '\n';
    }
    if (!placement_.partner.empty()) print_list("partners", placement_.partner);
  }

  template <class Key, class Id>
  static bool counts_up(const Table<Key, Id>& table) {
    std::size_t next = 0;
    return std::all_of(table.begin(), table.end(), [&](Id id) { return index(id) == next++; });
  }

  template <class Key, class Id>
  void print_list(std::string_view key, const Table<Key, Id>& table) {
    text_ += fmt::format("# {}", key);
    for (const Id id : table) text_ += fmt::format(" {}", index(id));
    text_ += '\n';
  }

  void print_edges() {
    std::vector<Placement::Edge> chain;
    for (std::size_t next = 1; next < placement_.replicas(); ++next)
      chain.push_back({id_at<ReplicaId>(next - 1), id_at<ReplicaId>(next)});
    if (placement_.edges == chain) return;
    text_ += "# edges";
    if (placement_.edges.empty()) text_ += " none";
    for (const Placement::Edge& edge : placement_.edges)
      text_ += fmt::format(" {}>{}", index(edge.from), index(edge.to));
    text_ += '\n';
  }

  void print_op(const Op& op, const std::vector<ReplicaId>& here) {
    const std::string_view letter = traits(op.kind).notation;
    TANDEM_CHECK(!letter.empty(), name(op.kind));
    text_ += ' ';
    if (here.size() != 1 || here[0] != op.replica) text_ += fmt::format("{}", index(op.replica));
    text_ += letter;
    const bool whole_batch = is_collective(op.kind) || is_optimizer(op.kind);
    if (!whole_batch || op.microbatch != schedule_.microbatches - 1)
      text_ += fmt::format("{}", op.microbatch);
    if (op.span != (whole_batch ? schedule_.microbatches : 1)) text_ += fmt::format("+{}", op.span);
    if (op.staleness != (reads_weights(op.kind) ? staleness_ : 0))
      text_ += fmt::format("~{}", op.staleness);
    if (op.group != 0) text_ += fmt::format("/{}", op.group);
  }

  const Schedule& schedule_;
  const Placement& placement_;
  const TextSink& out_;
  std::uint16_t default_staleness_ = 0, staleness_ = 0;
  Table<DeviceId, std::vector<ReplicaId>> replicas_on_;
  std::string text_;  // not sent yet
};

}  // namespace

void print_schedule(const Schedule& schedule, const TextSink& out) {
  Printer(schedule, out).print();
}

std::string marked_in_order(const Schedule& schedule, const Op& op) {
  const DeviceId device = schedule.placement.device[op.replica];
  const std::vector<Op>& order = schedule.order[device];
  const auto found = std::find(order.begin(), order.end(), op);
  if (found == order.end()) return {};
  const bool one_replica = schedule.placement.replicas_on(device).size() == 1;
  const auto first = found - order.begin() > 6 ? found - 6 : order.begin();
  const auto last = order.end() - found > 6 ? found + 6 : order.end();
  std::string line = fmt::format("  {} |", index(device)), marks(line.size(), ' ');
  for (auto each = first; each != last; ++each) {
    const std::string replica = one_replica ? "" : fmt::format("{}", index(each->replica));
    const std::string word =
        fmt::format(" {}{}{}", replica, traits(each->kind).notation, each->microbatch);
    line += word;
    marks +=
        each == found ? " " + std::string(word.size() - 1, '^') : std::string(word.size(), ' ');
  }
  marks.erase(marks.find_last_not_of(' ') + 1);
  return fmt::format("\n{}\n{}", line, marks);
}

}  // namespace tandem
