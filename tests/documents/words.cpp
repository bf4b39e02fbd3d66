#include "tests/documents/words.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "tests/documents/blocks.h"

namespace tandem::testing {
namespace {

std::size_t columns_of(std::string_view line) {
  return static_cast<std::size_t>(std::count_if(line.begin(), line.end(), [](char letter) {
    return (static_cast<unsigned char>(letter) & 0xC0U) != 0x80U;  // where a character begins
  }));
}

std::vector<std::string> wide_lines(const std::string& path, std::string_view page,
                                    std::size_t most) {
  std::vector<std::string> wide;
  std::ptrdiff_t number = 0;
  for (const std::string& line : lines_of_page(page)) {
    ++number;
    if (columns_of(line) > most)
      wide.push_back(fmt::format("{}:{}: error: line exceeds {} columns", path, number, most));
  }
  return wide;
}

}  // namespace

std::size_t words_of(std::string_view page) {
  std::istringstream words{std::string(page)};
  std::size_t count = 0;
  for (std::string word; words >> word;) ++count;
  return count;
}

std::vector<std::string> too_long(const std::map<std::string, std::string>& pages,
                                  const std::vector<std::string>& tasks, const PageLimits& limits) {
  std::vector<std::string> found;
  for (const auto& [path, page] : pages) {
    const std::size_t words = words_of(page);
    const auto expect_at_most = [&, &at = path](std::size_t most) {
      if (words > most)
        found.push_back(fmt::format("{}:1: error: {} words, at most {}", at, words, most));
    };
    if (path == "README.md") {
      expect_at_most(limits.root_words);
      const std::vector<std::string> wide = wide_lines(path, page, limits.root_columns);
      found.insert(found.end(), wide.begin(), wide.end());
    } else if (std::ranges::find(tasks, path) != tasks.end()) {
      expect_at_most(limits.task_words);
    } else if (path.ends_with("/README.md")) {
      expect_at_most(limits.folder_words);
    }
  }
  return found;
}

}  // namespace tandem::testing
