#include "core/import/nccl_tests.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "core/base/ascii.h"
#include "core/notation/notation_words.h"
#include "core/text/files.h"

namespace tandem {

namespace {

constexpr std::size_t kLargestLog = std::size_t{16} << 20;
constexpr std::uint32_t kMostGpus = 1 << 20;
constexpr Bytes kMostMessageBytes = Bytes{1} << 60;
constexpr double kShortestCollective = 1e-3, kLongestCollective = 86'400e6;  // microseconds
// size, count, type, redop; then time, algbw, busbw, error once or twice.
constexpr std::size_t kNamed = 4, kMeasured = 4;

bool is_number(std::string_view word) {
  return !word.empty() && word.find_first_not_of("0123456789") == std::string_view::npos;
}

/// The length of a mark such as "[1,0]<stdout>:" that `text` begins with; 0: it does not.
std::size_t mark_length(std::string_view text) {
  constexpr std::size_t kLongestMark = 40;
  const std::size_t end = text.substr(0, kLongestMark).find(">:");
  if (!text.starts_with('[') || end == std::string_view::npos) return 0;
  std::string_view inside = text.substr(1, end - 1);
  for (const char behind : {',', ']'}) {
    WordReader::take_digits(inside);
    if (!inside.starts_with(behind)) return 0;
    inside.remove_prefix(1);
  }
  return inside == "<stdout" || inside == "<stderr" ? end + 2 : 0;
}

std::string without_marks(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  while (!text.empty()) {
    while (const std::size_t length = mark_length(text)) text.remove_prefix(length);
    const std::size_t next = std::min(text.find('[', 1), text.size());
    plain += text.substr(0, next);
    text.remove_prefix(next);
  }
  return plain;
}

class NcclTestsParser {
 public:
  NcclTestsParser(const std::string& text, std::string_view file) : in_(text, file) {
    in_.each_line([this] { read_line(); });
  }

  NcclTestsLog log() {
    if (hosts_.empty())
      in_.diagnose_whole_text(
          R"(no devices: expected lines such as "#  Rank  0 … on HOST device")");
    if (log_.rows.empty())
      in_.diagnose_whole_text(
          "no measurements: expected lines of size, count, type, redop and times");
    if (!ended_) in_.diagnose_whole_text(R"(cut off: it does not end with "# Avg bus bandwidth")");
    in_.finish();
    return std::move(log_);
  }

 private:
  void read_line() {
    const std::string_view word = in_.next_word();
    if (word == "#") {
      read_comment();
    } else if (is_number(word)) {
      read_row(word);
    }
  }

  void read_comment() {
    const std::string_view first = in_.next_word();
    if (first == "nThread") return read_launches();
    if (first == "Rank") return read_rank();
    if (first == "Avg" && in_.next_word() == "bus") ended_ = true;
  }

  void read_launches() {
    if (launches_known_) in_.fail(in_.line(), "a second run: expected one in a log");
    launches_known_ = true;
    in_.next_word();
    const std::string_view key = in_.next_word();
    if (key != "nGpus") in_.fail(key, "expected nGpus");
    log_.group.per_thread = in_.number(in_.next_word(), "nGpus", 1, kMostGpus);
  }

  void read_rank() {
    while (!in_.at_end()) {
      if (in_.next_word() != "on") continue;
      const std::string_view host = in_.next_word();
      if (host.empty()) break;
      ++hosts_[std::string(host)];
      return;
    }
    in_.fail(in_.line(), R"(a rank without its host: expected "on HOST device")");
  }

  double number(std::string_view word, double least, double most, std::string_view what) {
    const auto value = number_in<double>(word);
    if (value && *value >= least && *value <= most) return *value;
    in_.fail(word, fmt::format("expected {}, found \"{}\"", what, word));
  }

  double rate(std::string_view word) {
    return number(word, 0.0, std::numeric_limits<double>::max(), "GB/s");
  }

  /// Time, algbw and busbw, of which the last two are rounded to hundredths.
  Duration measured(const std::string_view* words) {
    const double microseconds =
        number(words[0], kShortestCollective, kLongestCollective, "microseconds above 0");
    const double algorithm = rate(words[1]), bus = rate(words[2]);
    const auto devices = static_cast<double>(log_.group.devices);
    const double factor = 2.0 * (devices - 1.0) / devices;
    constexpr double kHalfStep = 0.00501, kRelative = 1e-4;
    if (!hosts_.empty() &&
        std::abs(bus - factor * algorithm) > kHalfStep * (1.0 + factor) + kRelative * bus) {
      in_.fail(words[2], fmt::format("busbw is not {:.4g} times algbw, as in an all-reduce of {} "
                                     "devices: is this a log of all_reduce_perf?",
                                     factor, log_.group.devices));
    }
    return Duration(std::llround(microseconds * 1e3));
  }

  void read_row(std::string_view size) {
    count_devices();
    std::vector<std::string_view> words{size};
    while (!in_.at_end()) words.push_back(in_.next_word());
    // Newer versions name a root behind the operation.
    const std::size_t times = kNamed + words.size() % kMeasured;
    const std::size_t sets = words.size() < times ? 0 : (words.size() - times) / kMeasured;
    const bool complete = times <= kNamed + 1 && (sets == 1 || sets == 2);
    if (!complete || !is_number(words[1])) {
      in_.fail(in_.line(),
               fmt::format("{} columns: expected size, count, type, redop, root, and time, algbw, "
                           "busbw, error once or twice",
                           words.size()));
    }
    NcclTestsRow row;
    row.bytes = number_in<Bytes>(size).value_or(kMostMessageBytes + 1);
    if (row.bytes > kMostMessageBytes) in_.fail(size, "expected at most 2^60 bytes");
    if (row.bytes == 0) return;
    row.out_of_place = measured(&words[times]);
    if (sets == 2) row.in_place = measured(&words[times + kMeasured]);
    log_.rows.push_back(row);
  }

  void count_devices() {
    if (log_.group.devices > 1 || hosts_.empty()) return;
    CollectiveGroup& group = log_.group;
    group.devices = 0;
    group.nodes = std::ssize(hosts_);
    group.least_per_node = kMostGpus;
    for (const auto& [host, devices] : hosts_) {
      group.devices += devices;
      group.least_per_node = std::min(group.least_per_node, devices);
    }
  }

  WordReader in_;
  NcclTestsLog log_;
  std::map<std::string, std::int64_t> hosts_;  // devices on each
  bool launches_known_ = false, ended_ = false;
};

}  // namespace

NcclTestsLog parse_nccl_tests(std::string_view text, std::string_view file) {
  const std::string plain = without_marks(text);
  return NcclTestsParser(plain, file).log();
}

NcclTestsLog read_nccl_tests(const std::string& path) {
  return parse_nccl_tests(read_file(path, kLargestLog), path);
}

}  // namespace tandem
