#pragma once
// Schedule files changed at random: what a person may get wrong in one, and what may be right all
// the same.

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tandem::testing {

/// The lines of a schedule in our notation: what stands before a device's ops, and the ops.
class ScheduleText {
 public:
  explicit ScheduleText(std::string_view text) {
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      const std::string_view line = text.substr(at, end - at);
      at = end + 1;
      const std::size_t bar = line.find('|');
      if (bar == std::string_view::npos) {
        head_.push_back(words_of(line));
      } else {
        lines_.push_back({std::string(line.substr(0, bar)), words_of(line.substr(bar + 1))});
      }
    }
  }

  std::string text() const {
    std::string all;
    for (const std::vector<std::string>& words : head_)
      all += fmt::format("{}\n", fmt::join(words, " "));
    for (const auto& [device, ops] : lines_)
      all += fmt::format("{}| {}\n", device, fmt::join(ops, " "));
    return all;
  }

  /// Swaps neighbours or any two ops of a device, moves one, drops one, doubles one, or changes a
  /// number of it or of what stands before the devices.
  void mutate(std::mt19937_64& random) {
    const auto below = [&random](std::size_t bound) { return random() % bound; };
    if (below(16) == 0) {
      std::vector<std::string>& words = head_[below(head_.size())];
      return change_number(words[below(words.size())], random);
    }
    std::vector<std::string>& ops = lines_[below(lines_.size())].ops;
    if (ops.size() < 2) return;
    const std::size_t at = below(ops.size()), other = below(ops.size());
    switch (below(8)) {
      case 0:
      case 1:
      case 2:
        return std::swap(ops[at], ops[(at + 1) % ops.size()]);
      case 3:
        return std::swap(ops[at], ops[other]);
      case 4:
      case 5: {
        const std::string moved = ops[at];
        ops.erase(ops.begin() + static_cast<std::ptrdiff_t>(at));
        ops.insert(ops.begin() + static_cast<std::ptrdiff_t>(below(ops.size() + 1)), moved);
        return;
      }
      case 6:
        if (below(2) == 0) {
          ops.erase(ops.begin() + static_cast<std::ptrdiff_t>(at));
        } else {
          ops.insert(ops.begin() + static_cast<std::ptrdiff_t>(other), ops[at]);
        }
        return;
      default:
        change_number(ops[at], random);
    }
  }

 private:
  struct Line {
    std::string device;
    std::vector<std::string> ops;
  };

  static std::vector<std::string> words_of(std::string_view text) {
    std::vector<std::string> words;
    std::string word;
    for (const char letter : text) {
      if (letter != ' ') {
        word += letter;
      } else if (!word.empty()) {
        words.push_back(std::exchange(word, {}));
      }
    }
    if (!word.empty()) words.push_back(word);
    return words;
  }

  /// One of an op's numbers becomes one less or more, or goes a few up; a staleness may appear.
  static void change_number(std::string& op, std::mt19937_64& random) {
    std::vector<std::size_t> digits;
    for (std::size_t i = 0; i < op.size(); ++i) {
      const bool first = i == 0 || std::isdigit(static_cast<unsigned char>(op[i - 1])) == 0;
      if (first && std::isdigit(static_cast<unsigned char>(op[i])) != 0) digits.push_back(i);
    }
    if (digits.empty() || random() % 8 == 0) {
      op += "~1";
      return;
    }
    const std::size_t from = digits[random() % digits.size()];
    const std::size_t to = std::min(op.find_first_not_of("0123456789", from), op.size());
    const long long number = std::stoll(op.substr(from, std::min<std::size_t>(to - from, 18)));
    const int changes[] = {-1, 1, 1, 2, 3, 4};
    op.replace(from, to - from, std::to_string(std::max(0LL, number + changes[random() % 6])));
  }

  std::vector<std::vector<std::string>> head_;
  std::vector<Line> lines_;
};

}  // namespace tandem::testing
