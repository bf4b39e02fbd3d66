#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "core/base/ascii.h"
#include "core/notation/notation.h"
#include "core/notation/notation_words.h"
#include "core/notation/reading_words.h"

namespace tandem {

namespace {

constexpr std::uint32_t kMostNotationDevices = 4096;
constexpr std::uint32_t kMostNotationStages = 65535;
constexpr std::uint32_t kMostNotationMicrobatches = 1U << 20;
constexpr std::uint32_t kMostOffset = (1U << 24) - 1;
constexpr std::uint32_t kMost16 = std::numeric_limits<std::uint16_t>::max();

std::optional<OpKind> kind_of(char letter) {
  for (const OpTraits& row : kOpTraits) {
    if (row.notation.size() == 1 && row.notation[0] == letter) return row.kind;
  }
  return std::nullopt;
}

std::string letters() {
  std::string text;
  for (const OpTraits& row : kOpTraits) {
    if (!row.notation.empty()) text += fmt::format("{}{}", text.empty() ? "" : " ", row.notation);
  }
  return text;
}

/// What the header lines say, and the placement that follows from them.
class HeaderParser {
 public:
  HeaderParser(WordReader& in, Schedule& schedule) : in_(in), schedule_(schedule) {}

  /// The rest of a line behind its "#".
  void read_line() {
    if (!named_) {
      named_ = true;
      schedule_.name = in_.rest().starts_with('"') ? quoted_name() : plain_name();
    }
    while (!in_.at_end()) read_field();
  }

  /// Fills in what was left out, and diagnoses what does not fit together.
  void finish() {
    if (!named_) in_.diagnose_whole_text("no header line `# NAME devices N microbatches M`");
    for (const std::string_view needed : {"devices", "microbatches"}) {
      if (named_ && !given(needed))
        in_.diagnose_whole_text(fmt::format("the header lacks \"{}\"", needed));
    }
    if (in_.has_diagnostic()) return;
    Placement& placement = schedule_.placement;
    placement.devices = static_cast<std::uint16_t>(devices_);
    schedule_.order.resize(devices_);
    for (std::size_t d = 0; !given("stages") && d < devices_; ++d)
      placement.device.push_back(id_at<DeviceId>(d));
    const std::size_t replicas = placement.replicas();
    for (std::size_t s = 0; !given("replicas") && s < replicas; ++s)
      placement.stage.push_back(id_at<StageId>(s));
    for (std::size_t s = 1; !given("edges") && s < replicas; ++s)
      placement.edges.push_back({id_at<ReplicaId>(s - 1), id_at<ReplicaId>(s)});
    check_stages();
    check_edges();
    check_tied();
    if (given("readings")) check_readings(in_, schedule_);
    const std::size_t partners = placement.partner.size();
    if (given("partners") && partners != devices_)
      in_.diagnose_whole_text(fmt::format("{} partners for {} devices", partners, devices_));
  }

  std::uint16_t staleness() const { return staleness_; }

 private:
  static constexpr std::array<std::string_view, 11> kKeys{
      "devices", "microbatches", "width", "staleness", "reads",   "readings",
      "stages",  "replicas",     "edges", "tied",      "partners"};
  static constexpr std::string_view kOlderReplicas = "parts";  // what older files call "replicas"

  static std::size_t row(std::string_view key) {
    return static_cast<std::size_t>(std::find(kKeys.begin(), kKeys.end(), key) - kKeys.begin());
  }
  bool given(std::string_view key) const { return given_[row(key)]; }

  std::string plain_name() {
    const std::string_view word = in_.next_word();
    if (word.empty()) in_.fail(word, "expected the schedule's name");
    if (word.find_first_of("\"\\") != std::string_view::npos)
      in_.fail(word, "a name with quotes or backslashes stands in double quotes");
    std::string name;
    for (const char& byte : word) add(name, byte, {&byte, 1});
    return name;
  }

  /// A byte, written as `at`. Names stand within a line wherever they are written, as in plans.
  void add(std::string& name, char byte, std::string_view at) {
    if (end_of_line({&byte, 1}) != std::string_view::npos)
      in_.fail(at, "expected a name without line breaks and U+0000");
    name += byte;
  }

  std::string quoted_name() {
    const std::string_view text = in_.rest();
    std::string name;
    std::size_t at = 1;
    for (; at < text.size() && text[at] != '"'; ++at) {
      if (text[at] != '\\') {
        add(name, text[at], text.substr(at, 1));
        continue;
      }
      const std::string_view escape = text.substr(at, 4);
      unsigned byte = 0;
      if (escape.size() > 1 && (escape[1] == '"' || escape[1] == '\\')) {
        name += escape[1];
        at += 1;
      } else if (escape.size() == 4 && escape[1] == 'x' &&
                 std::from_chars(&escape[2], &escape[2] + 2, byte, 16).ptr == &escape[2] + 2) {
        add(name, static_cast<char>(byte), escape);
        at += 3;
      } else {
        in_.fail(escape.substr(0, 2), "expected \\\", \\\\ or \\xHH");
      }
    }
    if (at == text.size()) in_.fail(text, "a name without its closing quote");
    in_.skip(at + 1);
    return name;
  }

  void read_field() {
    const std::string_view key = in_.next_word();
    const std::size_t field = row(key == kOlderReplicas ? "replicas" : key);
    if (field == kKeys.size()) {
      in_.fail(key, fmt::format("unknown field \"{}\"{}", key,
                                did_you_mean(key, {kKeys.begin(), kKeys.end()})));
    }
    if (key != "tied" && given_[field]) in_.fail(key, fmt::format("\"{}\" is given twice", key));
    given_[field] = true;
    if (key == "devices") {
      devices_ = in_.number(in_.next_word(), "devices", 1, kMostNotationDevices);
    } else if (key == "microbatches") {
      schedule_.microbatches = static_cast<std::int32_t>(
          in_.number(in_.next_word(), "microbatches", 1, kMostNotationMicrobatches));
    } else if (key == "width") {
      schedule_.width =
          static_cast<std::uint16_t>(in_.number(in_.next_word(), "width", 1, kMost16));
    } else if (key == "staleness") {
      staleness_ = static_cast<std::uint16_t>(in_.number(in_.next_word(), key, 0, kMost16));
    } else if (key == "reads") {
      const std::string_view what = in_.next_word();
      if (what != "newest")
        in_.fail(what.empty() ? key : what, "\"reads\" is followed by \"newest\"");
      schedule_.reads_newest = true;
    } else {
      read_list(key);
    }
  }

  void read_list(std::string_view key) {
    if (devices_ == 0) in_.fail(key, "\"devices\" comes first");
    if (in_.at_end()) in_.fail(key, fmt::format("\"{}\" lists nothing", key));
    if (key == "edges" && in_.rest() == "none") return in_.skip(4);
    while (!in_.at_end()) {
      const std::string_view word = in_.next_word();
      if (key == "stages") {
        const std::uint32_t device = in_.number(word, "a device", 0, devices_ - 1);
        if (schedule_.placement.replicas() == kMostNotationStages)
          in_.fail(word, "more than 65535 stages");
        schedule_.placement.device.push_back(id_at<DeviceId>(device));
      } else if (key == "replicas" || key == kOlderReplicas) {
        replicas_key_ = key;
        schedule_.placement.stage.push_back(
            id_at<StageId>(in_.number(word, "a stage", 0, kMostNotationStages - 1)));
        stage_words_.push_back(in_.place_of(word));
      } else if (key == "partners") {
        const std::uint32_t device = in_.number(word, "a device", 0, devices_ - 1);
        if (schedule_.placement.partner.size() == devices_)
          in_.fail(word, fmt::format("more partners than the {} devices", devices_));
        schedule_.placement.partner.push_back(id_at<DeviceId>(device));
      } else if (key == "readings") {
        schedule_.readings.push_back(read_reading(in_, word));
      } else if (key == "edges") {
        read_edge(word);
      } else {
        read_tied(word);
      }
    }
  }

  void read_edge(std::string_view word) {
    const std::size_t middle = word.find('>');
    if (middle == std::string_view::npos)
      in_.fail(word, fmt::format("expected an edge, found \"{}\"", word), "such as 0>1");
    const Placement::Edge edge{
        id_at<ReplicaId>(in_.number(word.substr(0, middle), "a stage", 0, kMostNotationStages - 1)),
        id_at<ReplicaId>(
            in_.number(word.substr(middle + 1), "a stage", 0, kMostNotationStages - 1))};
    std::vector<Placement::Edge>& edges = schedule_.placement.edges;
    if (!edges.empty() && !(edges.back() < edge)) in_.fail(word, "edges must ascend");
    edges.push_back(edge);
    edge_words_.push_back(in_.place_of(word));
  }

  void read_tied(std::string_view whole) {
    std::vector<StageId> group;
    std::string_view word = whole;
    while (true) {
      const std::string_view digits = WordReader::take_digits(word);
      if (digits.empty() || (!word.empty() && word[0] != '+'))
        in_.fail(whole, fmt::format("expected tied stages, found \"{}\"", whole), "such as 0+3");
      group.push_back(id_at<StageId>(in_.number(digits, "a stage", 0, kMostNotationStages - 1)));
      if (word.empty()) break;
      word.remove_prefix(1);
    }
    if (group.size() < 2) in_.fail(whole, "a stage is tied to another", "such as 0+3");
    if (std::adjacent_find(group.begin(), group.end(), std::greater_equal<>()) != group.end())
      in_.fail(whole, "tied stages must ascend");
    schedule_.placement.tied.push_back(std::move(group));
    tied_words_.push_back(in_.place_of(whole));
  }

  void check_stages() {
    const Placement& placement = schedule_.placement;
    if (placement.stage.size() != placement.replicas()) {
      std::string message =
          fmt::format("\"{}\": expected the stages of {} replicas, found {}", replicas_key_,
                      placement.replicas(), placement.stage.size());
      return stage_words_.empty() ? in_.diagnose_whole_text(std::move(message))
                                  : in_.diagnose(stage_words_.back(), std::move(message));
    }
    std::vector<bool> has_replica(placement.stages(), false);
    for (const StageId stage : placement.stage) has_replica[index(stage)] = true;
    const auto lacking = std::find(has_replica.begin(), has_replica.end(), false);
    if (lacking == has_replica.end()) return;
    in_.diagnose(stage_words_.back(),
                 fmt::format("stage {} has no replica", lacking - has_replica.begin()));
  }

  void check_edges() {
    const Placement& placement = schedule_.placement;
    const std::size_t replicas = placement.replicas();
    std::vector<std::vector<std::size_t>> next(replicas);
    std::vector<std::size_t> incoming(replicas, 0), ready;
    for (std::size_t i = 0; i < placement.edges.size(); ++i) {
      const std::size_t from = index(placement.edges[i].from), to = index(placement.edges[i].to);
      if (std::max(from, to) < replicas) {
        next[from].push_back(to);
        ++incoming[to];
      } else {
        in_.diagnose(edge_words_[i], fmt::format("stage {} does not exist: there are {}",
                                                 std::max(from, to), replicas));
      }
    }
    for (std::size_t s = 0; s < replicas; ++s) {
      if (incoming[s] == 0) ready.push_back(s);
    }
    for (std::size_t i = 0; i < ready.size(); ++i) {
      for (const std::size_t to : next[ready[i]]) {
        if (--incoming[to] == 0) ready.push_back(to);
      }
    }
    if (ready.size() < replicas) in_.diagnose(edge_words_.back(), "the edges form a cycle");
  }

  void check_tied() {
    const std::size_t stages = schedule_.placement.stages();
    std::vector<bool> taken(stages, false);
    for (std::size_t i = 0; i < tied_words_.size(); ++i) {
      for (const StageId stage : schedule_.placement.tied[i]) {
        if (index(stage) >= stages) {
          in_.diagnose(tied_words_[i], fmt::format("stage {} does not exist", index(stage)));
        } else if (taken[index(stage)]) {
          in_.diagnose(tied_words_[i], fmt::format("stage {} is tied already", index(stage)));
        } else {
          taken[index(stage)] = true;
        }
      }
    }
  }

  WordReader& in_;
  Schedule& schedule_;
  bool named_ = false;
  std::array<bool, kKeys.size()> given_{};
  std::uint32_t devices_ = 0;
  std::uint16_t staleness_ = 0;
  std::string_view replicas_key_ = "replicas";  // as the text has it
  std::vector<WordPlace> stage_words_, edge_words_, tied_words_;
};

/// The lines of the devices, once the placement stands.
class OrderParser {
 public:
  OrderParser(WordReader& in, Schedule& schedule, std::uint16_t staleness)
      : in_(in),
        schedule_(schedule),
        staleness_(staleness),
        replicas_on_(schedule.placement.devices),
        given_(schedule.placement.devices, false) {
    const Placement& placement = schedule.placement;
    for (const ReplicaId replica : ids(placement.device))
      replicas_on_[placement.device[replica]].push_back(replica);
  }

  void read_line() {
    const std::string_view first = in_.next_word();
    if (first.starts_with('#')) in_.fail(first, "header lines come before the devices");
    const std::uint32_t device = in_.number(first, "a device", 0, schedule_.placement.devices - 1U);
    line_staleness_ = staleness_;
    if (in_.rest().starts_with('~')) {
      line_staleness_ = static_cast<std::uint16_t>(
          in_.number(in_.next_word().substr(1), "staleness", 0, kMost16));
    }
    if (!in_.rest().starts_with('|')) in_.fail(in_.next_word(), "expected `|` after the device");
    in_.skip(1);
    if (given_[device]) in_.fail(first, fmt::format("device {} has a line already", device));
    given_[device] = true;
    device_ = id_at<DeviceId>(device);
    while (!in_.at_end() && !in_.given_up()) {
      try {
        schedule_.order[device_].push_back(read_op(in_.next_word()));
      } catch (const BadWord&) {  // the next word may be good
      }
    }
  }

  void finish() {
    const auto lacking = std::find(given_.begin(), given_.end(), false);
    if (lacking == given_.end()) return;
    in_.diagnose_whole_text(fmt::format("device {} has no line", lacking - given_.begin()));
  }

 private:
  Op read_op(std::string_view whole) {
    std::string_view word = whole;
    const std::string_view replica = WordReader::take_digits(word);
    const std::optional<OpKind> kind = word.empty() ? std::nullopt : kind_of(word[0]);
    if (!kind) in_.fail(whole, fmt::format("\"{}\" is no op", whole), "letters: " + letters());
    word.remove_prefix(1);
    Op op{.kind = *kind, .replica = read_replica(replica, whole)};
    const bool whole_batch = is_collective(op.kind) || is_optimizer(op.kind);
    const std::string_view offset = WordReader::take_digits(word);
    if (!offset.empty()) {
      op.microbatch = static_cast<std::int32_t>(in_.number(offset, "an offset", 0, kMostOffset));
    } else if (whole_batch) {
      op.microbatch = schedule_.microbatches - 1;
    } else {
      in_.fail(whole, fmt::format("\"{}\" lacks the offset of its microbatch", whole));
    }
    std::int32_t span = whole_batch ? schedule_.microbatches : 1;
    op.staleness = reads_weights(op.kind) ? line_staleness_ : 0;
    read_suffix(word, '+', "a span", 1, kMost16, span);
    read_suffix(word, '~', "staleness", 0, kMost16, op.staleness);
    read_suffix(word, '/', "a group", 1, std::numeric_limits<std::uint8_t>::max(), op.group);
    if (!word.empty()) in_.fail(word, fmt::format("unexpected \"{}\" in \"{}\"", word, whole));
    if (span > static_cast<std::int32_t>(kMost16))
      in_.fail(whole, "a span is at most 65535 microbatches");
    if (span > op.microbatch % schedule_.microbatches + 1) {
      in_.fail(whole,
               fmt::format("a span of {} that ends with microbatch {} crosses a batch boundary",
                           span, op.microbatch));
    }
    op.span = static_cast<std::uint16_t>(span);
    return op;
  }

  ReplicaId read_replica(std::string_view digits, std::string_view whole) {
    const std::vector<ReplicaId>& here = replicas_on_[device_];
    if (digits.empty()) {
      if (here.size() == 1) return here[0];
      in_.fail(whole, fmt::format("\"{}\" lacks its stage: device {} has {} of them", whole,
                                  index(device_), here.size()));
    }
    const ReplicaId replica =
        id_at<ReplicaId>(in_.number(digits, "a stage", 0, kMostNotationStages - 1));
    if (!std::binary_search(here.begin(), here.end(), replica))
      in_.fail(digits, fmt::format("stage {} is not on device {}", index(replica), index(device_)));
    return replica;
  }

  template <class Value>
  void read_suffix(std::string_view& word, char mark, std::string_view what, std::uint32_t least,
                   std::uint32_t most, Value& value) {
    if (!word.starts_with(mark)) return;
    word.remove_prefix(1);
    value = static_cast<Value>(in_.number(WordReader::take_digits(word), what, least, most));
  }

  WordReader& in_;
  Schedule& schedule_;
  std::uint16_t staleness_, line_staleness_ = 0;
  DeviceId device_{};
  Table<DeviceId, std::vector<ReplicaId>> replicas_on_;
  std::vector<bool> given_;
};

}  // namespace

Schedule parse_schedule(std::string_view text, std::string_view file) {
  WordReader in(text, file);
  Schedule schedule;
  HeaderParser header(in, schedule);
  std::optional<OrderParser> order;
  // Ops are meant for a placement: without one every op would be a diagnostic.
  const auto end_header = [&] {
    header.finish();
    in.finish();
    order.emplace(in, schedule, header.staleness());
  };
  in.each_line([&] {
    if (in.at_end()) return;
    if (!order && in.rest().starts_with('#')) {
      in.skip(1);
      return header.read_line();
    }
    if (!order) end_header();
    order->read_line();
  });
  if (!order) end_header();
  order->finish();
  in.finish();
  return schedule;
}

}  // namespace tandem
