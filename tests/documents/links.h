#pragma once
// Links within the documents: each leads to a file, and where it names one, to a heading.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::testing {

/// As GitHub names a heading in a link: lower case, words joined by "-", the rest left out.
std::string anchor_of(std::string_view heading);

/// Links of a page below `root` that lead nowhere: "core/README.md:7: error: ...".
std::vector<std::string> broken_links(const std::string& path, std::string_view page,
                                      const std::filesystem::path& root);

}  // namespace tandem::testing
