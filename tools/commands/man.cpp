// tandem man [COMMAND]: manual pages.

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/text/files.h"
#include "tools/cli/completion.h"
#include "tools/cli/json_output.h"
#include "tools/cli/manual.h"
#include "tools/cli/options.h"
#include "tools/commands/command.h"

namespace tandem::tools {

namespace {

struct Page {
  std::string file, text;
};

std::vector<Page> all_pages() {
  std::vector<Page> pages{{"tandem.1", manual_page()}};
  for (const Command& command : commands()) {
    if (command.run != nullptr) pages.push_back({page_name(command) + ".1", manual_page(command)});
  }
  return pages;
}

Page page_of(const std::vector<std::string>& words) {
  if (words.empty()) return {"tandem.1", manual_page()};
  const std::string name = fmt::format("{}", fmt::join(words, " "));
  for (const Command& command : commands()) {
    if (command.run != nullptr && command.name == name)
      return {page_name(command) + ".1", manual_page(command)};
  }
  throw UsageError(fmt::format("tandem man: unknown command \"{}\"{}", name,
                               did_you_mean(name, command_names())));
}

void write_pages(const std::vector<Page>& pages, const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    throw DeviceError(
        fmt::format("{}: cannot make this folder: {}", folder.string(), error.message()));
  for (const Page& page : pages) write_file(folder / page.file, page.text);
}

}  // namespace

Options options_of_man() {
  Options options("man", "[COMMAND] [--output FOLDER]",
                  "Prints the manual page of tandem, or of a command; man -l - shows it. "
                  "Where tandem is installed, man tandem finds them.");
  options.words("COMMAND", 0, 2).first_word(command_names());
  options.output("output", "FOLDER", "write all pages into this folder");
  return options;
}

int run_man(const Options& options) {
  if (options.has("output") && !options.words().empty())
    throw UsageError("tandem man: --output writes all pages: it takes no COMMAND");
  const std::vector<Page> pages =
      options.has("output") ? all_pages() : std::vector<Page>{page_of(options.words())};
  if (options.has("output")) write_pages(pages, options.text("output"));
  if (options.has("json")) {
    Json rows = Json::array();
    for (const Page& page : pages) rows.push_back({{"file", page.file}, {"text", page.text}});
    print_result("man",
                 {{"command", fmt::format("{}", fmt::join(options.words(), " "))},
                  {"output", options.text("output")}},
                 Json::object(), {{"pages", std::move(rows)}});
  } else if (!options.has("output")) {
    fmt::print("{}", pages.front().text);
  }
  return 0;
}

}  // namespace tandem::tools
