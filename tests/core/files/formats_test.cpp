// The examples of core/files/FORMATS.md are files that tandem reads.

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/files/constants_files.h"
#include "core/files/read.h"
#include "core/import/models.h"
#include "core/text/files.h"
#include "tests/support/source_folder.h"

namespace tandem {
namespace {

/// The first JSON block behind the heading of a file's format.
std::string example_of(const std::string& page, const std::string& file) {
  constexpr std::string_view kFence = "```json\n";
  const std::size_t heading = page.find("\n## " + file + ":");
  if (heading == std::string::npos) return {};
  const std::size_t fence = page.find(kFence, heading);
  if (fence == std::string::npos) return {};
  const std::size_t first = fence + kFence.size();
  return page.substr(first, page.find("```", first) - first);
}

std::string formats_page() {
  constexpr std::size_t kMost = 1'000'000;
  return read_file(testing::source_folder() / "core/files/FORMATS.md", kMost);
}

TEST(Formats, ExamplesAreRead) {
  const std::string page = formats_page();
  const std::vector<std::pair<std::string, std::function<void(const std::string&)>>> formats{
      {"model.json", [](const std::string& text) { parse_model("model.json", text); }},
      {"cluster.json", [](const std::string& text) { parse_cluster("cluster.json", text); }},
      {"plan.json", [](const std::string& text) { parse_plan("plan.json", text); }},
      {"profile.json", [](const std::string& text) { parse_profile("profile.json", text); }},
      {"costs.json", [](const std::string& text) { parse_costs("costs.json", text); }},
      {"collectives.json",
       [](const std::string& text) { parse_collectives("collectives.json", text); }},
      {"calibration.json", [](const std::string& text) { parse_calibration("c.json", text); }}};
  for (const auto& [file, parse] : formats) {
    const std::string example = example_of(page, file);
    EXPECT_FALSE(example.empty()) << file;
    EXPECT_NO_THROW(parse(example)) << file;
  }
}

TEST(Formats, ShowAPlanAsItIsWritten) {
  const std::string example = example_of(formats_page(), "plan.json");
  EXPECT_EQ(plan_text(parse_plan("plan.json", example)), example);
}

}  // namespace
}  // namespace tandem
