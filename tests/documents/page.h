#pragma once
// Runs what a page shows, in a folder that looks like the root of the checkout, and holds what is
// printed against what is shown.

#include <filesystem>
#include <string>
#include <vector>

namespace tandem::testing {

struct PageResult {
  std::vector<std::string> failures;     // of commands and blocks: "README.md:12: error: ..."
  std::vector<std::string> differences;  // of what is shown from what was printed, the same way
  std::vector<std::string> left_out;     // blocks that need published data, where there are none
  std::string text;                      // the page, with outputs as they were printed
};

/// Runs the page's blocks in their order, in one folder: a later block finds the files of an
/// earlier one in build/. `tandem` is the binary that commands call by its name.
PageResult run_page(const std::string& path, const std::string& page,
                    const std::filesystem::path& tandem);

}  // namespace tandem::testing
