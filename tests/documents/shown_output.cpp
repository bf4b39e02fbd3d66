#include "tests/documents/shown_output.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <regex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace tandem::testing {
namespace {

constexpr std::string_view kLeftOut = "…";

std::string without_end(std::string line) {
  line.erase(line.find_last_not_of(" \t\r") + 1);
  return line;
}

Lines without_ends(Lines lines) {
  for (std::string& line : lines) line = without_end(std::move(line));
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

/// `shown` may leave out characters.
bool same_line(std::string_view shown, std::string_view printed) {
  const std::size_t gap = shown.find(kLeftOut);
  if (gap == std::string_view::npos || shown == printed) return shown == printed;
  if (!printed.starts_with(shown.substr(0, gap))) return false;
  const std::string_view rest = shown.substr(gap + kLeftOut.size());
  for (std::size_t at = gap; at <= printed.size(); ++at) {
    if (same_line(rest, printed.substr(at))) return true;
  }
  return false;
}

struct Line {
  bool operator()(const std::string& shown, const std::string& printed) const {
    return numbers == Numbers::exact ? same_line(shown, printed)
                                     : same_line(shape_of(shown), shape_of(printed));
  }
  Numbers numbers;
};

/// The lines between what is left out: one part more than there are gaps, empty ones too.
std::vector<Lines> parts_of(const Lines& shown) {
  std::vector<Lines> parts(1);
  for (const std::string& line : shown) {
    if (line == kLeftOut) {
      parts.emplace_back();
    } else {
      parts.back().push_back(line);
    }
  }
  return parts;
}

/// How well each part may stand where: the most over all places of the parts in their order.
class Places {
 public:
  Places(const std::vector<Lines>& parts, const Lines& printed) : parts_(parts), printed_(printed) {
    const std::size_t ends = printed.size() + 1;
    best_.assign(parts.size(), std::vector<Cell>(ends));
    for (std::size_t part = 0; part < parts.size(); ++part) {
      for (std::size_t first = 0; first < ends; ++first) try_at(part, first);
    }
  }

  /// The first line of each part; empty where the printed lines are too few.
  std::vector<std::size_t> firsts() const {
    std::size_t first = printed_.size() - std::min(printed_.size(), parts_.back().size());
    if (parts_.size() == 1) first = 0;
    std::vector<std::size_t> found(parts_.size());
    for (std::size_t part = parts_.size(); part-- > 0;) {
      if (best_[part][first].score < 0) return {};
      found[part] = first;
      first = best_[part][first].before;
    }
    return found;
  }

 private:
  struct Cell {
    std::ptrdiff_t score = -1;  // none
    std::size_t before = 0;     // where the part before it begins
  };

  std::ptrdiff_t likeness(std::size_t part, std::size_t first) const {
    std::ptrdiff_t score = 0;
    for (std::size_t i = 0; i < parts_[part].size(); ++i) {
      const std::string &shown = parts_[part][i], &line = printed_[first + i];
      const std::size_t word = std::min(shown.find_first_of(" 0123456789"), shown.size());
      score += (shown == line ? 4 : 0) + (shape_of(shown) == shape_of(line) ? 2 : 0) +
               (word > 0 && line.starts_with(shown.substr(0, word)) ? 1 : 0);
    }
    return score;
  }

  void try_at(std::size_t part, std::size_t first) {
    if (first + parts_[part].size() > printed_.size() || (part == 0 && first > 0)) return;
    Cell& cell = best_[part][first];
    if (part == 0) cell.score = 0;
    for (std::size_t before = 0; part > 0 && before <= first; ++before) {
      const Cell& last = best_[part - 1][before];
      if (last.score > cell.score && before + parts_[part - 1].size() <= first)
        cell = {last.score, before};
    }
    if (cell.score >= 0) cell.score += likeness(part, first);
  }

  const std::vector<Lines>& parts_;
  const Lines& printed_;
  std::vector<std::vector<Cell>> best_;
};

}  // namespace

std::string shape_of(const std::string& line) {
  static const std::regex kNumber(R"([+-]?\d+([.,]\d+)*(e[+-]?\d+)?)"),
      kTime(R"(# ?(ns|us|ms|s)\b)"), kBytes(R"(# ?(B|KiB|MiB|GiB)\b)"), kGap(R"([ ]+)"),
      kRule(R"(--+)");
  std::string shape = std::regex_replace(line, kNumber, "#");
  shape = std::regex_replace(shape, kTime, "# T");
  shape = std::regex_replace(shape, kBytes, "# M");
  return std::regex_replace(std::regex_replace(shape, kRule, "-"), kGap, " ");
}

std::string difference(const Lines& page, const Lines& output, Numbers numbers) {
  const Lines shown = without_ends(page), printed = without_ends(output);
  const std::vector<Lines> parts = parts_of(shown);
  const Line same{numbers};
  const auto stands_at = [&](const Lines& part, std::size_t first) {
    return std::equal(part.begin(), part.end(),
                      printed.begin() + static_cast<std::ptrdiff_t>(first), same);
  };
  const auto report = [&](const std::string& line, std::size_t from) {
    return fmt::format("shown:   {}\nprinted: {}", line,
                       from < printed.size() ? printed[from] : "nothing more");
  };
  std::size_t from = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Lines& part = parts[i];
    const auto fits = [&](std::size_t first) { return first + part.size() <= printed.size(); };
    std::size_t first = from;
    if (i > 0 && i + 1 == parts.size()) {  // the last part ends the output
      if (!fits(from)) return report(part.front(), printed.size());
      first = printed.size() - part.size();
    } else if (i > 0) {
      while (fits(first) && !stands_at(part, first)) ++first;
      if (!fits(first)) return report(part.front(), from);
    }
    for (std::size_t line = 0; line < part.size(); ++line) {
      if (first + line >= printed.size() || !same(part[line], printed[first + line]))
        return report(part[line], first + line);
    }
    from = first + part.size();
  }
  return parts.size() > 1 || from == printed.size() ? "" : report("nothing more", from);
}

Lines rewritten(const Lines& shown, const Lines& output, Numbers numbers) {
  if (difference(shown, output, numbers).empty()) return shown;
  const Lines printed = without_ends(output);
  const std::vector<Lines> parts = parts_of(without_ends(shown));
  if (parts.size() == 1) return printed;
  const std::vector<std::size_t> firsts = Places(parts, printed).firsts();
  if (firsts.empty()) return printed;
  Lines lines;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) lines.emplace_back(kLeftOut);
    const auto first = printed.begin() + static_cast<std::ptrdiff_t>(firsts[i]);
    lines.insert(lines.end(), first, first + static_cast<std::ptrdiff_t>(parts[i].size()));
  }
  return lines;
}

}  // namespace tandem::testing
