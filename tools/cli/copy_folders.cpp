#include "tools/cli/copy_folders.h"

#include <exception>
#include <list>
#include <utility>

#include <fmt/format.h>
#include <poll.h>

#include "tools/cli/child_process.h"
#include "tools/cli/notices.h"
#include "tools/cli/terminal.h"

namespace tandem::tools {

namespace {

/// Waits for at most ten seconds.
bool ends_well(ChildProcess& child) {
  constexpr int kMilliseconds = 10'000;
  pollfd end{child.end(), POLLIN, 0};
  return ::poll(&end, 1, kMilliseconds) == 1 && child.status() == 0;
}

}  // namespace

CopyFolders::CopyFolders(const std::vector<std::string>& hosts, std::string ssh)
    : ssh_(std::move(ssh)) {
  // Of two names one host may be told: each has its own.
  for (const std::string& host : hosts) {
    if (!elsewhere_.contains(host))
      elsewhere_[host] = fmt::format("{}-{}", here_.path(), elsewhere_.size());
  }
}

CopyFolders::~CopyFolders() {
  try {
    std::list<std::pair<std::string, ChildProcess>> removals;  // all at once
    for (const auto& [host, folder] : elsewhere_) {
      removals.emplace_back(
          std::piecewise_construct, std::forward_as_tuple(host),
          std::forward_as_tuple(ChildSetup{.command = {ssh_, host, "rm -rf " + shell_word(folder)},
                                           .environment = environment_with({}),
                                           .output = ChildSetup::Output::on_stderr,
                                           .input = ""}));
    }
    for (auto& [host, removal] : removals) {
      if (ends_well(removal)) continue;
      print_note(fmt::format("{} may be left in the memory of {}", elsewhere_.at(host), host));
    }
  } catch (const std::exception& error) {
    print_note(fmt::format("copies may be left in the memory of other hosts: {}", error.what()));
  }
}

const std::string& CopyFolders::of(const std::string& host) const {
  const auto found = elsewhere_.find(host);
  return found == elsewhere_.end() ? here_.path() : found->second;
}

}  // namespace tandem::tools
