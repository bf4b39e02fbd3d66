#include "tests/documents/links.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <filesystem>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "tests/documents/blocks.h"

namespace tandem::testing {
namespace {

namespace fs = std::filesystem;

/// Line by line; blocks are empty lines.
std::vector<std::string> prose_of(std::string_view page) {
  std::vector<std::string> lines = lines_of_page(page);
  bool in_block = false;
  for (std::string& line : lines) {
    const bool fence = line.starts_with("```");
    if (fence) in_block = !in_block;
    if (fence || in_block) line.clear();
  }
  return lines;
}

bool has_heading(std::string_view page, std::string_view anchor) {
  for (const std::string& line : prose_of(page)) {
    if (line.starts_with('#') && anchor_of(line) == anchor) return true;
  }
  return false;
}

}  // namespace

std::string anchor_of(std::string_view heading) {
  std::string anchor;
  heading.remove_prefix(std::min(heading.find_first_not_of("# "), heading.size()));
  for (const char letter : heading) {
    const auto code = static_cast<unsigned char>(letter);
    if (letter == ' ') {
      anchor += '-';
    } else if (letter == '-' || letter == '_' || code >= 0x80 || std::isalnum(code) != 0) {
      anchor += static_cast<char>(std::tolower(code));
    }
  }
  return anchor;
}

std::vector<std::string> broken_links(const std::string& path, std::string_view page,
                                      const fs::path& root) {
  static const std::regex kLink(R"(\]\(([^)\s]+)\))");
  std::vector<std::string> broken;
  std::ptrdiff_t number = 0;
  for (const std::string& line : prose_of(page)) {
    ++number;
    for (std::sregex_iterator at(line.begin(), line.end(), kLink), end; at != end; ++at) {
      const std::string link = (*at)[1];
      if (link.find("://") != std::string::npos) continue;
      const std::size_t hash = std::min(link.find('#'), link.size());
      const fs::path target =
          hash == 0 ? root / path : (root / path).parent_path() / link.substr(0, hash);
      const auto fault = [&](std::string_view what) {
        broken.push_back(fmt::format("{}:{}: error: {} {}", path, number, link, what));
      };
      if (hash > 0 && !fs::exists(target)) {
        fault("is not there");
      } else if (hash < link.size() &&
                 !has_heading(hash == 0 ? std::string(page) : read_page(target),
                              link.substr(hash + 1))) {
        fault("names no heading there");
      }
    }
  }
  return broken;
}

}  // namespace tandem::testing
