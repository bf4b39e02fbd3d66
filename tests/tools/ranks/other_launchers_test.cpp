// Ranks that a launcher started which is not ours: a script plays it, and does nothing but wait. It
// tells nobody that a process stands still, and ends none.

#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/units.h"
#include "tests/support/processes.h"
#include "tests/support/sanitizers.h"
#include "tests/tools/tandem.h"

namespace tandem::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::Not;
using LauncherTime = std::chrono::steady_clock::time_point;

/// The process that runs the tandem of a rank, in that folder; 0: none is there.
pid_t process_of_rank(int rank, const std::filesystem::path& folder) {
  for (const pid_t process : all_processes()) {
    const std::filesystem::path of = folder_of_process(process);
    std::error_code ignored;
    if (std::filesystem::read_symlink(of / "cwd", ignored) != folder) continue;
    if (std::filesystem::read_symlink(of / "exe", ignored) != TANDEM_BINARY) continue;
    const std::string zero(1, '\0');  // between entries
    const std::string environment = zero + environment_of(process);
    if (environment.find(zero + fmt::format("RANK={}", rank) + zero) != std::string::npos)
      return process;
  }
  return 0;
}

class OtherLaunchers : public CommandLine {
 protected:
  void SetUp() override {
    write_plan();
    // As torchrun does. `limit` is what the second rank does first.
    write("starts",
          "export WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$1\n"
          "limit=$2; shift 2\n"
          "RANK=0 LOCAL_RANK=0 \"$@\" & first=$!\n"
          "(eval \"$limit\"; export RANK=1 LOCAL_RANK=1; exec \"$@\") & second=$!\n"
          "wait $first; echo \"rank 0 ended with $?\"\n"
          "wait $second; echo \"rank 1 ended with $?\"\n");
  }

  Ran start(const std::string& limit, const std::string& train, RunOptions options = {}) const {
    options.folder = folder();
    std::vector<std::string> command{"/bin/sh", "starts", std::to_string(port()), limit,
                                     TANDEM_BINARY};
    for (std::size_t at = 0; at < train.size();) {
      const std::size_t end = std::min(train.find(' ', at), train.size());
      command.push_back(train.substr(at, end - at));
      at = end + 1;
    }
    return run_command(command, options);
  }

  /// Stops a rank when `then`, and says how long all of them lived on.
  Ran start_and_stop(int rank, const std::function<bool(const Ran&)>& then, Duration& lived) const {
    pid_t victim = 0;
    LauncherTime stopped;
    RunOptions options;
    options.signal = 0;
    options.interrupt_when = [&](const Ran& so_far) {
      if (victim != 0 || !then(so_far)) return false;
      victim = process_of_rank(rank, folder());
      stopped = std::chrono::steady_clock::now();
      if (victim != 0) ::kill(victim, SIGSTOP);
      return false;
    };
    const Ran ran = start("", "train plan.json --steps 100000000", options);
    lived = std::chrono::steady_clock::now() - stopped;
    EXPECT_NE(victim, 0);
    EXPECT_THAT(ran.err, ContainsRegex(fmt::format("rank {} \\(host .*, process {}\\) is lost: it "
                                                   "stands still, stopped by a signal",
                                                   rank, victim)));
    return ran;
  }

 private:
  static std::uint16_t port() {
    static std::mt19937 random(static_cast<unsigned>(::getpid()));
    return static_cast<std::uint16_t>(20'000 + random() % 10'000);
  }
};

/// The control: nothing is done to them.
TEST_F(OtherLaunchers, TrainToTheEnd) {
  const Ran ran = start("", "train plan.json --steps 4");
  EXPECT_THAT(ran.out, AllOf(HasSubstr("rank 0 ended with 0"), HasSubstr("rank 1 ended with 0")))
      << ran.err;
}

TEST_F(OtherLaunchers, WhoStandsStillBeforeItHasJoinedIsNamedAndEnded) {
  for (const int rank : {0, 1}) {
    Duration lived{};
    const Ran ran = start_and_stop(rank, [](const Ran&) { return true; }, lived);
    EXPECT_THAT(ran.out, HasSubstr(fmt::format("rank {} ended with 1\n", 1 - rank))) << ran.err;
    EXPECT_THAT(ran.out, HasSubstr(fmt::format("rank {} ended with 137\n", rank))) << ran.err;
    EXPECT_LT(lived, kSanitized ? 20s : 5s) << ran.err;
  }
}

TEST_F(OtherLaunchers, WhoStandsStillAtWorkIsNamedWithWhatItDid) {
  for (const int rank : {0, 1}) {
    Duration lived{};
    const auto start = std::chrono::steady_clock::now();
    const auto at_work = [start](const Ran&) {
      return std::chrono::steady_clock::now() - start > (kSanitized ? 8s : 2s);
    };
    const Ran ran = start_and_stop(rank, at_work, lived);
    EXPECT_THAT(ran.err,
                ContainsRegex(fmt::format("it was last at device {}, .*microbatch", rank)));
    EXPECT_THAT(ran.out, HasSubstr(fmt::format("rank {} ended with 1\n", 1 - rank))) << ran.err;
    EXPECT_THAT(ran.out, HasSubstr(fmt::format("rank {} ended with 137\n", rank))) << ran.err;
    EXPECT_LT(lived, kSanitized ? 20s : 5s) << ran.err;
  }
}

/// A rank that no more memory is given to says so itself, and the other one names it.
TEST_F(OtherLaunchers, WhoRunsOutOfMemoryIsNamed) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer has an allocator of its own";
  const auto fails_from = [this](std::int64_t request, int steps) {
    return start(
        fmt::format("export LD_PRELOAD={} MEMORY_FAILS_FROM={}", TANDEM_FAILING_MEMORY, request),
        fmt::format("train plan.json --steps {}", steps));
  };
  // The control: all of it is given. Before the end of so few steps all have joined.
  const Ran all = fails_from(999'999'999, 4);
  constexpr std::string_view kMark = "requests: ";
  const std::size_t mark = all.err.rfind(kMark);
  ASSERT_NE(mark, std::string::npos) << all.err;
  EXPECT_THAT(all.out, HasSubstr("rank 1 ended with 0")) << all.err;
  const std::int64_t requests = std::stoll(all.err.substr(mark + kMark.size()));
  for (const std::int64_t part : {97, 100, 110}) {
    const Ran ran = fails_from(requests * part / 100, 400);
    EXPECT_THAT(ran.out, HasSubstr("rank 0 ended with 1\nrank 1 ended with 1\n")) << ran.err;
    EXPECT_THAT(ran.err,
                ContainsRegex("error: rank 1 \\(host .*, process [0-9]+\\): .*out of memory"))
        << part;
    EXPECT_THAT(ran.err, ContainsRegex("error: rank 1 \\(host .*, process [0-9]+\\)(:| is lost).*\n"
                                       ".*error: rank 1"))
        << part;
  }
}

}  // namespace
}  // namespace tandem::testing
