#pragma once
// How long a page may be: a stranger reads it at once.

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::testing {

struct PageLimits {
  std::size_t root_words = 700;
  std::size_t root_columns = 100;
  std::size_t task_words = 800;
  std::size_t folder_words = 1500;
};

/// Words as wc counts them, blocks included.
std::size_t words_of(std::string_view page);

/// Pages by path, from the root: README.md is the root's, a/README.md a folder's; task pages are
/// those that `tasks` names, and other pages have no limit.
std::vector<std::string> too_long(const std::map<std::string, std::string>& pages,
                                  const std::vector<std::string>& tasks,
                                  const PageLimits& limits = {});

}  // namespace tandem::testing
